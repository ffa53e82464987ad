// test_conv.c -- the causal convolution: its values against plain arithmetic, the gradients of the reference against
// central differences, and the vector forms against the reference. A sequence in pieces, and on the ranks of
// context parallelism, gives what a sequence in one piece gives. Documents do not see each other.
#include "unit/device/gradient_check.h"
#include "vec_check.h"

// ---- The reference

enum { BATCH = 2, SEQ = 7, COLS = 3, WIDTH = 4, ROWS = BATCH * SEQ };

static void values_are_those_of_a_sum(void **state)
{
    (void)state;
    const float x[] = {1, 2, 3, 4}, w[] = {0.5f, -1, 2}, bias[] = {10};
    const float want[] = {12, 13, 14.5f, 16};
    float y[4];
    kernel_causal_conv_args p = {.batch = 1,
                                 .cols = 1,
                                 .width = 3,
                                 .rows = kernel_tokens_from(4, 0),
                                 .x_stride = 1,
                                 .x = x,
                                 .w = w,
                                 .bias = bias,
                                 .y = y};
    run(K_CAUSAL_CONV, &p);
    for (int i = 0; i < 4; i++) assert_true(y[i] == want[i]);
    const float gated[] = {1, 2, 5, 2, 3, 1, -1, 4, 2}, alone[] = {1};
    p = (kernel_causal_conv_args){.batch = 1,
                                  .cols = 1,
                                  .width = 1,
                                  .rows = kernel_tokens_from(3, 0),
                                  .x_stride = 3,
                                  .x = gated,
                                  .w = alone,
                                  .y = y,
                                  .gated = true};
    run(K_CAUSAL_CONV, &p);
    assert_true(y[0] == 10 && y[1] == 6 && y[2] == -8);
}

typedef struct convolved {
    kernel_causal_conv_args forward;
    const float *weight;
} convolved;

static double conv_loss(void *op)
{
    convolved *l = op;
    run(K_CAUSAL_CONV, &l->forward);
    return weighted(l->forward.y, l->weight, l->forward.batch * l->forward.rows.seq * COLS);
}

static void check_gradients(kernel_tokens rows, bool gated, bool silu, bool with_bias)
{
    const int64_t cols = (gated ? 3 : 1) * COLS, count = BATCH * SEQ * cols;
    float *x = harness_random(count, 1), *w = harness_random(COLS * WIDTH, 2),
          *bias = harness_random(COLS, 3), *dy = harness_random(ROWS * COLS, 4),
          *y = harness_zeros(ROWS * COLS), *dx = harness_random(count, 5),
          *dw = harness_zeros(COLS * WIDTH), *dbias = harness_zeros(COLS);
    convolved l = {{.batch = BATCH,
                    .cols = COLS,
                    .width = WIDTH,
                    .rows = rows,
                    .x_stride = cols,
                    .x_batch = SEQ * cols,
                    .x = x,
                    .w = w,
                    .bias = with_bias ? bias : NULL,
                    .y = y,
                    .gated = gated,
                    .silu = silu},
                   dy};
    kernel_causal_conv_grad_args back = {
        .fwd = l.forward, .dy = dy, .dx = dx, .dw = dw, .dbias = with_bias ? dbias : NULL};
    run(K_CAUSAL_CONV_GRAD, &back);
    assert_gradient(&(claim){conv_loss, &l, x, dx, count});
    assert_gradient(&(claim){conv_loss, &l, w, dw, COLS * WIDTH});
    if (with_bias) assert_gradient(&(claim){conv_loss, &l, bias, dbias, COLS});
    free(x), free(w), free(bias), free(dy), free(y), free(dx), free(dw), free(dbias);
}

static const int32_t DOCUMENTS[ROWS] = {0, 0, 2, 2, 2, 5, 5, 0, 1, 1, 1, 1, 1, 6};

static void gradients(void **state)
{
    (void)state;
    kernel_tokens documents = kernel_tokens_from(SEQ, 0);
    documents.documents = DOCUMENTS;
    for (int i = 0; i < 4; i++) {
        check_gradients(kernel_tokens_from(SEQ, 0), i & 1, !(i & 1), i & 2);
        check_gradients(documents, i & 1, !(i & 1), i & 2);
        check_gradients((kernel_tokens){.seq = 4, .full_seq = SEQ, .chunk = 2, .start = {1, 5}},
                        i & 1, false, i & 2);
    }
}

// Sequences without what comes before a document give its rows.
static void documents_do_not_see_each_other(void **state)
{
    (void)state;
    float *x = harness_random(ROWS * COLS, 1), *w = harness_random(COLS * WIDTH, 2);
    float y[ROWS * COLS], alone[ROWS * COLS];
    kernel_causal_conv_args p = {.batch = 1,
                                 .cols = COLS,
                                 .width = WIDTH,
                                 .rows = kernel_tokens_from(ROWS, 0),
                                 .x_stride = COLS,
                                 .x = x,
                                 .w = w,
                                 .y = y};
    const int32_t documents[ROWS] = {0, 0, 0, 0, 0, 5, 5, 5, 5, 9, 9, 9, 12, 13};
    const int starts[] = {0, 5, 9, 12, 13, ROWS};
    p.rows.documents = documents;
    run(K_CAUSAL_CONV, &p);
    for (int i = 0; i < 5; i++) {
        p.rows = kernel_tokens_from(starts[i + 1] - starts[i], 0);
        p.x = x + starts[i] * COLS, p.y = alone + starts[i] * COLS;
        run(K_CAUSAL_CONV, &p);
    }
    assert_memory_equal(y, alone, sizeof y);
    free(x), free(w);
}

// A decoder finds earlier rows before those that it computes.
static void pieces_give_the_bits_of_the_whole(void **state)
{
    (void)state;
    float *x = harness_random(ROWS * COLS, 1), *w = harness_random(COLS * WIDTH, 2);
    float y[ROWS * COLS], pieces[ROWS * COLS];
    kernel_causal_conv_args p = {.batch = 1,
                                 .cols = COLS,
                                 .width = WIDTH,
                                 .rows = kernel_tokens_from(ROWS, 0),
                                 .x_stride = COLS,
                                 .x = x,
                                 .w = w,
                                 .y = y,
                                 .silu = true};
    run(K_CAUSAL_CONV, &p);
    for (int first = 0, count; first < ROWS; first += count) {
        count = first == 0 ? 5 : 1;
        p.rows = kernel_tokens_from(count, first), p.y = pieces + first * COLS;
        run(K_CAUSAL_CONV, &p);
    }
    assert_memory_equal(y, pieces, sizeof y);
    free(x), free(w);
}

// ---- The vector forms

typedef struct shape {
    int64_t batch, full_seq, cols, width;
    dtype type;
    bool gated, silu, bias, ranks, documents;
} shape;

static kernel_causal_conv_args describe_forward(space *s, const shape *h, const char *y)
{
    const int64_t part = h->full_seq / 4;
    kernel_tokens rows = kernel_tokens_from(h->full_seq, 0);
    if (h->ranks)
        rows = (kernel_tokens){
            .seq = 2 * part, .full_seq = h->full_seq, .chunk = part, .start = {part, 2 * part}};
    kernel_causal_conv_args p = {.batch = h->batch,
                                 .cols = h->cols,
                                 .width = h->width,
                                 .rows = rows,
                                 .x_stride = (h->gated ? 3 : 1) * h->cols,
                                 .gated = h->gated,
                                 .silu = h->silu,
                                 .type = h->type};
    p.x_batch = p.x_stride * h->full_seq;
    p.x = space_random(s, h->batch * p.x_batch, h->type, 1, NULL);
    p.w = space_random(s, h->cols * h->width, h->type, 1, NULL);
    if (h->bias) p.bias = space_random(s, h->cols, h->type, 1, NULL);
    if (h->documents) {
        int32_t *start = space_ids(s, h->batch * rows.seq, 5);
        for (int64_t r = 0; r < h->batch * rows.seq; r++) {
            const int64_t position = kernel_row_position(&rows, r);
            start[r] = start[r] < position ? (int32_t)position - start[r] : 0;
        }
        p.rows.documents = start;
    }
    if (y) p.y = space_random(s, h->batch * rows.seq * h->cols, h->type, 1, y);
    return p;
}

static kernel_call describe_conv(space *s, const void *args)
{
    return (kernel_call){.kind = K_CAUSAL_CONV, .u.causal_conv = describe_forward(s, args, "y")};
}

static kernel_call describe_grad(space *s, const void *args)
{
    const shape *h = args;
    kernel_call c = {.kind = K_CAUSAL_CONV_GRAD};
    kernel_causal_conv_grad_args *p = &c.u.causal_conv_grad;
    p->fwd = describe_forward(s, h, NULL);
    p->dy = space_random(s, h->batch * p->fwd.rows.seq * h->cols, h->type, 1, NULL);
    p->dx = space_random(s, h->batch * p->fwd.x_batch, h->type, 1, "dx");
    p->dw = space_random(s, h->cols * h->width, F32, 1, "dw");
    if (h->bias) p->dbias = space_random(s, h->cols, F32, 1, "dbias");
    p->accumulate_dw = h->gated, p->accumulate_dbias = !h->gated;
    return c;
}

static void vector_forms_equal_the_reference(void **state)
{
    (void)state;
    static const int64_t sizes[][4] = {{1, 1, 1, 2},   {2, 8, 5, 3},   {1, 64, 64, 4},
                                       {3, 20, 70, 8}, {1, 150, 9, 4}, {2, 132, 33, 2}};
    static const dtype types[] = {F32, BF16, F16};
    for (int i = 0; i < 6; i++)
        for (int v = 0; v < 3 * 16; v++) {
            const shape h = {sizes[i][0], sizes[i][1],   sizes[i][2],
                             sizes[i][3], types[v / 16], v & 1,
                             v % 4 == 2,  v & 4,         (v & 8) && sizes[i][1] >= 4,
                             v % 3 == 1};
            char text[96];
            snprintf(text, sizeof text, "[%ld x %ld, %ld] %ld taps %s variant %d", (long)h.batch,
                     (long)h.full_seq, (long)h.cols, (long)h.width, dtype_name(h.type), v % 16);
            check_kernel(describe_conv, &h, text);
            check_kernel(describe_grad, &h, text);
        }
}

static int open_both(void **state)
{
    gradient_open(state);
    return vec_open(state);
}

static int close_both(void **state)
{
    gradient_close(state);
    return vec_close(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_a_sum),
        cmocka_unit_test(gradients),
        cmocka_unit_test(documents_do_not_see_each_other),
        cmocka_unit_test(pieces_give_the_bits_of_the_whole),
        cmocka_unit_test(vector_forms_equal_the_reference),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
