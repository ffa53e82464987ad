// test_qk_norm.c -- the norms of queries and keys, per head, at full width and as layer norms: the gradients of the reference
// against central differences, and the vector forms against the reference. Ranks that add the sums of their
// heads get the norm of all heads.
#include "unit/device/gradient_check.h"
#include "vec_check.h"

// ---- The reference

enum { ROWS = 5, HEADS = 3, KV = 2, DIM = 6, COLS = (HEADS + 2 * KV) * DIM, COUNT = ROWS * COLS };

typedef struct normed {
    kernel_qk_norm_args forward;
    const float *weight;
} normed;

static double norm_loss(void *op)
{
    normed *l = op;
    run(K_QK_NORM, &l->forward);
    return weighted(l->forward.y, l->weight, COUNT);
}

static void check_gradients(bool full_width, bool unit_offset, bool gains, bool layer_norm)
{
    const bool wide = full_width || layer_norm;
    const int64_t q_cols = wide ? HEADS * DIM : DIM, k_cols = wide ? KV * DIM : DIM;
    float *x = harness_random(COUNT, 1), *y = harness_zeros(COUNT), *dy = harness_random(COUNT, 2);
    float *q_gain = harness_random(q_cols, 3), *k_gain = harness_random(k_cols, 4);
    float *dx = harness_random(COUNT, 2), *dq = harness_zeros(q_cols), *dk = harness_zeros(k_cols);
    float rstd[ROWS * (HEADS + KV)], mean[ROWS * (HEADS + KV)];
    normed l = {{.rows = ROWS,
                 .heads = HEADS,
                 .kv_heads = KV,
                 .head_dim = DIM,
                 .ranks = 1,
                 .x = x,
                 .q_gain = gains ? q_gain : NULL,
                 .k_gain = gains ? k_gain : NULL,
                 .y = y,
                 .rstd = rstd,
                 .mean = mean,
                 .eps = 1e-3f,
                 .full_width = full_width,
                 .layer_norm = layer_norm,
                 .unit_offset = unit_offset},
                dy};
    norm_loss(&l);
    kernel_qk_norm_args back = l.forward;
    back.dy = back.y = dx; // in place
    back.dq_gain = gains ? dq : NULL, back.dk_gain = gains ? dk : NULL;
    run(K_QK_NORM_GRAD, &back);
    assert_gradient(&(claim){norm_loss, &l, x, dx, COUNT});
    if (gains) assert_gradient(&(claim){norm_loss, &l, q_gain, dq, q_cols});
    if (gains) assert_gradient(&(claim){norm_loss, &l, k_gain, dk, k_cols});
    free(x), free(y), free(dy), free(q_gain), free(k_gain), free(dx), free(dq), free(dk);
}

static void gradients(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) check_gradients(i & 1, i & 2, i & 4, false);
    for (int i = 0; i < 8; i += 2) check_gradients(false, i & 2, i & 4, true);
}

// Values as PyTorch's rms_norm gives them: x = 1, 2, 3 and gain 1, 2, 4 at eps 0, rounded to six digits.
static void values_are_those_of_torch(void **state)
{
    (void)state;
    const float x[] = {1, 2, 3, -2, 0, 2, 7, 8, 9}, gain[] = {1, 2, 4};
    const float want[] = {0.462910f, 1.851640f, 5.554921f, -1.224745f, 0, 4.898979f, 7, 8, 9};
    const float offset[] = {0.925820f, 2.777460f, 6.943651f, -2.449490f, 0, 6.123724f, 7, 8, 9};
    float y[9], rstd[2];
    kernel_qk_norm_args p = {.rows = 1,
                             .heads = 1,
                             .kv_heads = 1,
                             .head_dim = 3,
                             .ranks = 1,
                             .x = x,
                             .q_gain = gain,
                             .k_gain = gain,
                             .y = y,
                             .rstd = rstd};
    run(K_QK_NORM, &p);
    for (int i = 0; i < 9; i++) assert_true(fabsf(y[i] - want[i]) < 2e-6f);
    p.unit_offset = true;
    run(K_QK_NORM, &p);
    for (int i = 0; i < 9; i++) assert_true(fabsf(y[i] - offset[i]) < 2e-6f);
}

// Values as PyTorch's layer_norm gives them, for two heads of queries with gains of their own.
static void layer_norms_are_those_of_torch(void **state)
{
    (void)state;
    const float x[] = {1, 2, 3, -2, 0, 5, 4, 4, 1, 7, 8, 9}, gain[] = {1, 2, 4, -1, 3, 0.5f};
    const float want[] = {-1.2247448f,
                          0,
                          4.89897919f,
                          1.01904929f,
                          -1.01904929f,
                          0.679366171f,
                          0.707106769f,
                          1.41421354f,
                          -5.65685415f,
                          7,
                          8,
                          9};
    float y[12], rstd[3], mean[3];
    const kernel_qk_norm_args p = {.rows = 1,
                                   .heads = 2,
                                   .kv_heads = 1,
                                   .head_dim = 3,
                                   .ranks = 1,
                                   .x = x,
                                   .q_gain = gain,
                                   .k_gain = gain,
                                   .y = y,
                                   .rstd = rstd,
                                   .mean = mean,
                                   .layer_norm = true};
    run(K_QK_NORM, &p);
    for (int i = 0; i < 12; i++) assert_true(fabsf(y[i] - want[i]) < 3e-6f);
}

// ---- Ranks with half of the heads each

enum { RANK_HEADS = 2, RANK_KV = 1, RANK_COLS = (RANK_HEADS + 2 * RANK_KV) * DIM };

// Copies rank `rank`'s columns of a row of 4 heads, 2 of keys and 2 of values out of it, or into it.
static void move_shard(float *full, float *shard, int rank, bool out)
{
    const int64_t first[] = {rank * RANK_HEADS * DIM, (4 + rank) * DIM, (6 + rank) * DIM},
                  cols[] = {RANK_HEADS * DIM, DIM, DIM};
    for (int r = 0; r < ROWS; r++)
        for (int i = 0, to = 0; i < 3; to += (int)cols[i++])
            for (int64_t c = 0; c < cols[i]; c++) {
                float *f = full + r * 2 * RANK_COLS + first[i] + c,
                      *s = shard + r * RANK_COLS + to + c;
                *(out ? s : f) = *(out ? f : s);
            }
}

// Runs `kind` on both ranks. y [rows, 2 * RANK_COLS] gets what they compute.
static void run_ranks(kernel_kind kind, float *x, float *dy, float *gain, float rstd[2][2 * ROWS],
                      float *y)
{
    float xs[2][ROWS * RANK_COLS], ys[2][ROWS * RANK_COLS], dys[2][ROWS * RANK_COLS];
    float sums[2][2 * ROWS];
    kernel_qk_norm_args p[2];
    for (int k = 0; k < 2; k++) {
        move_shard(x, xs[k], k, true);
        if (dy) move_shard(dy, dys[k], k, true);
        p[k] = (kernel_qk_norm_args){.rows = ROWS,
                                     .heads = RANK_HEADS,
                                     .kv_heads = RANK_KV,
                                     .head_dim = DIM,
                                     .ranks = 2,
                                     .x = xs[k],
                                     .dy = dy ? dys[k] : NULL,
                                     .q_gain = gain + k * RANK_HEADS * DIM,
                                     .k_gain = gain + (4 + k) * DIM,
                                     .y = ys[k],
                                     .rstd = rstd[k],
                                     .sums = sums[k],
                                     .full_width = true};
        run(K_QK_NORM_SUMS, &p[k]);
    }
    for (int i = 0; i < 2 * ROWS; i++) sums[0][i] = sums[1][i] = sums[0][i] + sums[1][i];
    for (int k = 0; k < 2; k++) {
        run(kind, &p[k]);
        move_shard(y, ys[k], k, false);
    }
}

static void ranks_that_add_their_sums_norm_all_heads(void **state)
{
    (void)state;
    enum { ALL = ROWS * 2 * RANK_COLS };
    float *x = harness_random(ALL, 1), *dy = harness_random(ALL, 2),
          *gain = harness_random(6 * DIM, 3);
    float want[ALL], got[ALL], rstd[2 * ROWS], rank_rstd[2][2 * ROWS];
    kernel_qk_norm_args p = {.rows = ROWS,
                             .heads = 4,
                             .kv_heads = 2,
                             .head_dim = DIM,
                             .ranks = 1,
                             .x = x,
                             .q_gain = gain,
                             .k_gain = gain + 4 * DIM,
                             .y = want,
                             .rstd = rstd,
                             .full_width = true};
    run(K_QK_NORM, &p);
    run_ranks(K_QK_NORM, x, NULL, gain, rank_rstd, got);
    for (int i = 0; i < ALL; i++) assert_true(fabsf(got[i] - want[i]) < 3e-6f);
    p.dy = dy;
    run(K_QK_NORM_GRAD, &p);
    run_ranks(K_QK_NORM_GRAD, x, dy, gain, rank_rstd, got);
    for (int i = 0; i < ALL; i++) assert_true(fabsf(got[i] - want[i]) < 3e-6f);
    free(x), free(dy), free(gain);
}

// ---- The vector forms

typedef struct shape {
    int64_t rows, heads, kv_heads, head_dim;
    dtype type;
    bool full_width, unit_offset, gains, shares, layer_norm;
} shape;

static kernel_qk_norm_args describe_common(space *s, const shape *h, bool gradient)
{
    const int64_t cols = (h->heads + 2 * h->kv_heads) * h->head_dim;
    kernel_qk_norm_args p = {.rows = h->rows,
                             .heads = h->heads,
                             .kv_heads = h->kv_heads,
                             .head_dim = h->head_dim,
                             .ranks = h->shares ? 3 : 1,
                             .eps = 1e-5f,
                             .full_width = h->full_width,
                             .layer_norm = h->layer_norm,
                             .unit_offset = h->unit_offset,
                             .type = h->type};
    const int64_t q = kernel_qk_norm_gains(&p, true), k = kernel_qk_norm_gains(&p, false);
    const int64_t groups = kernel_qk_norm_groups(&p);
    p.x = space_random(s, h->rows * cols, h->type, 1, NULL);
    if (h->gains) p.q_gain = space_random(s, q, h->type, 1, NULL);
    if (h->gains) p.k_gain = space_random(s, k, h->type, 1, NULL);
    p.rstd = space_random(s, h->rows * groups, F32, 1, gradient ? NULL : "rstd");
    if (h->layer_norm) p.mean = space_random(s, h->rows * groups, F32, 1, gradient ? NULL : "mean");
    p.y = space_random(s, h->rows * cols, h->type, 1, gradient ? "dx" : "y");
    if (gradient) p.dy = h->unit_offset ? p.y : space_random(s, h->rows * cols, h->type, 1, NULL);
    if (gradient && h->gains) {
        p.dq_gain = space_random(s, q, F32, 1, "dq_gain");
        p.dk_gain = space_random(s, k, F32, 1, "dk_gain");
        p.accumulate_dq_gain = h->unit_offset, p.accumulate_dk_gain = !h->unit_offset;
    }
    if (!h->shares) return p;
    p.sums = space_random(s, h->rows * groups, F32, 1, NULL);
    for (int64_t i = 0; i < h->rows * groups; i++) p.sums[i] = fabsf(p.sums[i]) + 9;
    return p;
}

static kernel_call describe_norm(space *s, const void *args)
{
    return (kernel_call){.kind = K_QK_NORM, .u.qk_norm = describe_common(s, args, false)};
}

static kernel_call describe_grad(space *s, const void *args)
{
    return (kernel_call){.kind = K_QK_NORM_GRAD, .u.qk_norm = describe_common(s, args, true)};
}

// The sums of the norm, and where there are gains those of its gradient. These may cancel each other out.
static kernel_call describe_sums(space *s, const void *args)
{
    const shape *h = args;
    kernel_call c = {.kind = K_QK_NORM_SUMS, .u.qk_norm = describe_common(s, h, h->gains)};
    kernel_qk_norm_args *p = &c.u.qk_norm;
    p->sums = space_random(s, h->rows * kernel_qk_norm_groups(p), F32, 1, "sums");
    return c;
}

static void check_form(const shape *h)
{
    char text[96];
    snprintf(text, sizeof text, "[%ld x %ld, %ld, %ld] %s", (long)h->rows, (long)h->heads,
             (long)h->kv_heads, (long)h->head_dim, dtype_name(h->type));
    check_kernel(describe_norm, h, text);
    check_kernel(describe_grad, h, text);
    if (!h->layer_norm) check_kernel(describe_sums, h, text);
}

static void vector_forms_equal_the_reference(void **state)
{
    (void)state;
    static const int64_t sizes[][4] = {{1, 1, 1, 1},   {3, 2, 1, 7},    {17, 4, 2, 16},
                                       {41, 3, 3, 33}, {130, 6, 2, 64}, {700, 2, 1, 8}};
    static const dtype types[] = {F32, BF16, F16};
    for (int i = 0; i < 6; i++)
        for (int v = 0; v < 3 * 16; v++)
            check_form(&(shape){sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], types[v / 16],
                                v & 1, v & 2, v & 4, v & 8, false});
    for (int i = 0; i < 6; i++)
        for (int v = 0; v < 3 * 4; v++)
            check_form(&(shape){sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], types[v / 4],
                                false, v & 1, v & 2, false, true});
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
        cmocka_unit_test(gradients),
        cmocka_unit_test(values_are_those_of_torch),
        cmocka_unit_test(layer_norms_are_those_of_torch),
        cmocka_unit_test(ranks_that_add_their_sums_norm_all_heads),
        cmocka_unit_test(vector_forms_equal_the_reference),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
