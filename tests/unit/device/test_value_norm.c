// test_value_norm.c -- the norms of values: the gradient of the reference against central differences, with values of the
// layer and with those of its keys, and the vector forms against the reference.
#include "unit/device/gradient_check.h"
#include "vec_check.h"

enum { ROWS = 5, HEADS = 3, KV = 2, DIM = 6 };

typedef struct normed {
    kernel_value_norm_args forward;
    const float *weight;
    int64_t count;
} normed;

static double norm_loss(void *op)
{
    normed *l = op;
    run(K_VALUE_NORM, &l->forward);
    return weighted(l->forward.y, l->weight, l->count);
}

static void gradients(void **state)
{
    (void)state;
    for (int of_keys = 0; of_keys < 2; of_keys++) {
        float rstd[ROWS * KV];
        kernel_value_norm_args p = {.rows = ROWS,
                                    .heads = HEADS,
                                    .kv_heads = KV,
                                    .head_dim = DIM,
                                    .rstd = rstd,
                                    .eps = 1e-3f,
                                    .of_keys = of_keys};
        const int64_t in = ROWS * kernel_value_norm_cols(&p),
                      out = ROWS * kernel_value_norm_full_cols(&p);
        float *x = harness_random(in, 1), *y = harness_zeros(out), *dy = harness_random(out, 2),
              *dx = harness_zeros(in);
        p.x = x, p.y = y;
        normed l = {p, dy, out};
        norm_loss(&l);
        p.dy = dy, p.y = dx;
        run(K_VALUE_NORM_GRAD, &p);
        assert_gradient(&(claim){norm_loss, &l, x, dx, in});
        free(x), free(y), free(dy), free(dx);
    }
}

// Values as PyTorch's rms_norm gives them: 1, 2, 3 at eps 0, rounded to six digits.
static void values_of_keys_are_their_norms(void **state)
{
    (void)state;
    const float x[] = {7, 8, 9, 1, 2, 3},
                want[] = {7, 8, 9, 1, 2, 3, 0.462910f, 0.925820f, 1.388730f};
    float y[9], rstd;
    const kernel_value_norm_args p = {.rows = 1,
                                      .heads = 1,
                                      .kv_heads = 1,
                                      .head_dim = 3,
                                      .x = x,
                                      .y = y,
                                      .rstd = &rstd,
                                      .of_keys = true};
    run(K_VALUE_NORM, &p);
    for (int i = 0; i < 9; i++) assert_true(fabsf(y[i] - want[i]) < 2e-6f);
}

// ---- The vector forms

typedef struct shape {
    int64_t rows, heads, kv_heads, head_dim;
    dtype type;
    bool of_keys, in_place;
} shape;

static kernel_value_norm_args fill(space *s, const shape *h, bool gradient)
{
    kernel_value_norm_args p = {.rows = h->rows,
                                .heads = h->heads,
                                .kv_heads = h->kv_heads,
                                .head_dim = h->head_dim,
                                .eps = 1e-5f,
                                .of_keys = h->of_keys,
                                .type = h->type};
    const int64_t in = h->rows * kernel_value_norm_cols(&p),
                  out = h->rows * kernel_value_norm_full_cols(&p);
    const char *name = gradient ? "dx" : "y";
    p.x = space_random(s, in, h->type, 1, h->in_place && !gradient ? name : NULL);
    if (gradient) p.dy = space_random(s, out, h->type, 1, h->in_place ? name : NULL);
    p.y = h->in_place ? (void *)(uintptr_t)(gradient ? p.dy : p.x)
                      : space_random(s, gradient ? in : out, h->type, 1, name);
    p.rstd = space_random(s, h->rows * h->kv_heads, F32, 1, gradient ? NULL : "rstd");
    return p;
}

static kernel_call describe_norm(space *s, const void *args)
{
    return (kernel_call){.kind = K_VALUE_NORM, .u.value_norm = fill(s, args, false)};
}

static kernel_call describe_grad(space *s, const void *args)
{
    return (kernel_call){.kind = K_VALUE_NORM_GRAD, .u.value_norm = fill(s, args, true)};
}

static void vector_forms_equal_the_reference(void **state)
{
    (void)state;
    static const int64_t sizes[][4] = {{1, 1, 1, 1},   {3, 2, 1, 7},    {17, 4, 2, 16},
                                       {41, 3, 3, 33}, {130, 6, 2, 64}, {700, 2, 1, 8}};
    static const dtype types[] = {F32, BF16, F16};
    char text[96];
    for (int i = 0; i < 6; i++)
        for (int v = 0; v < 9; v++) {
            const shape h = {sizes[i][0],  sizes[i][1], sizes[i][2], sizes[i][3],
                             types[v / 3], v % 3 == 0,  v % 3 == 1};
            snprintf(text, sizeof text, "[%ld x %ld, %ld, %ld] %s", (long)h.rows, (long)h.heads,
                     (long)h.kv_heads, (long)h.head_dim, dtype_name(h.type));
            check_kernel(describe_norm, &h, text);
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
        cmocka_unit_test(gradients),
        cmocka_unit_test(values_of_keys_are_their_norms),
        cmocka_unit_test(vector_forms_equal_the_reference),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
