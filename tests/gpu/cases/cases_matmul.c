// cases_matmul.c -- cases of K_MATMUL: layouts, padded rows, a few rows, sums over nothing, bias, accumulation, and
// every activation at the end of a product.
#include "case.h"

typedef struct shape {
    int64_t m, n, k;
    int64_t pad; // elements between the rows of every matrix
    dtype type, c_type;
    bool trans_a, trans_b, bias, accumulate, tf32;
} shape;

// Numbers that TF32 has, so that products of them are exact with it, too.
static void *tf32_numbers(space *s, int64_t count)
{
    float *x = space_random(s, count, F32, 1, NULL);
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= ~UINT32_C(0x1fff);
        memcpy(&x[i], &bits, sizeof bits);
    }
    return x;
}

static void *factors(space *s, const shape *h, int64_t count)
{
    return h->tf32 ? tf32_numbers(s, count) : space_random(s, count, h->type, 1, NULL);
}

static kernel_call describe_matmul(space *s, const void *args)
{
    const shape *h = args;
    const int64_t a_rows = h->trans_a ? h->k : h->m, b_rows = h->trans_b ? h->n : h->k;
    const int64_t lda = (h->trans_a ? h->m : h->k) + h->pad,
                  ldb = (h->trans_b ? h->k : h->n) + h->pad;
    const int64_t ldc = h->n + h->pad;
    return (kernel_call){
        .kind = K_MATMUL,
        .u.matmul = {.m = h->m,
                     .n = h->n,
                     .k = h->k,
                     .a = factors(s, h, a_rows * lda),
                     .b = factors(s, h, b_rows * ldb),
                     .c = space_random(s, h->m * ldc, h->c_type, 1, "c"),
                     .bias = h->bias ? space_random(s, h->n, h->type, 1, NULL) : NULL,
                     .lda = lda,
                     .ldb = ldb,
                     .ldc = ldc,
                     .type = h->type,
                     .c_type = h->c_type,
                     .trans_a = h->trans_a,
                     .trans_b = h->trans_b,
                     .accumulate = h->accumulate,
                     .tf32 = h->tf32}};
}

static void check(case_run *r, const shape *h)
{
    case_check(r, describe_matmul, h, "matmul m=%lld n=%lld k=%lld pad=%lld %s to %s %c%c%s%s%s",
               (long long)h->m, (long long)h->n, (long long)h->k, (long long)h->pad,
               dtype_name(h->type), dtype_name(h->c_type), h->trans_a ? 't' : 'n',
               h->trans_b ? 't' : 'n', h->bias ? " bias" : "", h->accumulate ? " accumulate" : "",
               h->tf32 ? " tf32" : "");
}

// Every combination of layout, epilogue and type of one size.
static void check_all(case_run *r, int64_t m, int64_t n, int64_t k, int64_t pad)
{
    for (int type = 0; type < 5; type++) {
        static const dtype from[] = {F32, BF16, BF16, F16, F16}, to[] = {F32, BF16, F32, F16, F32};
        for (int flags = 0; flags < 16; flags++)
            check(r, &(shape){.m = m,
                              .n = n,
                              .k = k,
                              .pad = pad,
                              .type = from[type],
                              .c_type = to[type],
                              .trans_a = flags & 1,
                              .trans_b = flags & 2,
                              .bias = flags & 4,
                              .accumulate = flags & 8});
    }
}

// The products of a linear layer: forward, gradient of the input, gradient of the weights.
static void check_linear(case_run *r, int64_t rows, int64_t in, int64_t out, dtype type)
{
    check(r, &(shape){.m = rows,
                      .n = out,
                      .k = in,
                      .type = type,
                      .c_type = type,
                      .trans_b = true,
                      .bias = true});
    check(r, &(shape){.m = rows, .n = in, .k = out, .type = type, .c_type = type});
    check(r, &(shape){.m = out,
                      .n = in,
                      .k = rows,
                      .type = type,
                      .c_type = F32,
                      .trans_a = true,
                      .accumulate = true});
}

static void check_random(case_run *r)
{
    for (int i = 0; i < 24; i++) {
        const dtype type = (dtype)case_pick(r, F32, F16);
        const int64_t flags = case_pick(r, 0, 31);
        check(r, &(shape){.m = case_pick(r, 1, 140),
                          .n = case_pick(r, 1, 140),
                          .k = case_pick(r, 1, 600),
                          .pad = case_pick(r, 0, 9),
                          .type = type,
                          .c_type = flags & 16 ? F32 : type,
                          .trans_a = flags & 1,
                          .trans_b = flags & 2,
                          .bias = flags & 4,
                          .accumulate = flags & 8});
    }
}

// Layouts and epilogues of products in TF32.
// Dimensions that are large and odd are divided (cuda_matmul.c).
static void check_odd(case_run *r)
{
    const shape shapes[] = {
        {.m = 5, .n = 1031, .k = 24, .pad = 9, .trans_b = true},
        {.m = 1033, .n = 16, .k = 5, .pad = 7, .trans_a = true},
        {.m = 6, .n = 16, .k = 1027, .pad = 5},
        {.m = 1029, .n = 24, .k = 1025, .trans_a = true, .trans_b = true},
    };
    for (dtype type = F32; type <= F16; type++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int rounds = 0; rounds < 4; rounds++) {
                shape s = shapes[i];
                s.type = type;
                s.c_type = rounds & 1 ? F32 : type;
                s.accumulate = rounds & 2;
                s.bias = rounds & 1;
                check(r, &s);
            }
}

static void check_tf32(case_run *r)
{
    for (int flags = 0; flags < 16; flags++)
        check(r, &(shape){.m = 40,
                          .n = 24,
                          .k = 272,
                          .pad = 8,
                          .trans_a = flags & 1,
                          .trans_b = flags & 2,
                          .bias = flags & 4,
                          .accumulate = flags & 8,
                          .tf32 = true});
    check(r, &(shape){.m = 17, .n = 33, .k = 9, .pad = 3, .tf32 = true});
}

typedef struct joined {
    int64_t m, n, k;
    dtype type, c_type;
    kernel_epilogue epilogue;
    kernel_activation act;
    bool bias, aux, act_of_aux;
} joined;

static kernel_call describe_joined(space *s, const void *args)
{
    const joined *h = args;
    const bool grad = h->epilogue == EPILOGUE_ACTIVATION_GRAD;
    kernel_matmul_args a = {.m = h->m,
                            .n = h->n,
                            .k = h->k,
                            .a = space_random(s, h->m * h->k, h->type, 1, NULL),
                            .b = space_random(s, h->n * h->k, h->type, 1, NULL),
                            .c = space_array_of(s, h->m * h->n, h->c_type, "c"),
                            .lda = h->k,
                            .ldb = grad ? h->n : h->k,
                            .ldc = h->n,
                            .type = h->type,
                            .c_type = h->c_type,
                            .epilogue = h->epilogue,
                            .act = h->act,
                            .trans_b = !grad,
                            .act_of_aux = h->act_of_aux};
    if (h->bias) a.bias = space_random(s, h->n, h->type, 1, NULL);
    if (grad) a.aux = space_random(s, h->m * h->n, h->c_type, 2, NULL);
    if (h->aux) a.aux = space_array_of(s, h->m * h->n, h->c_type, "aux");
    return (kernel_call){.kind = K_MATMUL, .u.matmul = a};
}

// The forward pass with and without bias and aux, and the gradient.
static void check_joined(case_run *r, int64_t m, int64_t n, int64_t k, dtype type, dtype c_type,
                         kernel_activation act)
{
    for (int i = 0; i < 7; i++) {
        const joined h = {.m = m,
                          .n = n,
                          .k = k,
                          .type = type,
                          .c_type = c_type,
                          .epilogue = i < 6 ? EPILOGUE_ACTIVATION : EPILOGUE_ACTIVATION_GRAD,
                          .act = act,
                          .bias = i < 6 && i % 2,
                          .aux = i < 6 && i >= 2,
                          .act_of_aux = i == 4 || i == 5};
        case_check(r, describe_joined, &h,
                   "matmul m=%lld n=%lld k=%lld %s to %s, activation %d, %d", (long long)m,
                   (long long)n, (long long)k, dtype_name(type), dtype_name(c_type), act, i);
    }
}

static void check_activations(case_run *r)
{
    for (dtype type = F32; type <= F16; type++) {
        for (kernel_activation act = 0; act < ACTIVATIONS; act++)
            check_joined(r, 24, 40, 24, type, type, act);
        check_joined(r, 9, 20, 12, type, type,
                     ACT_GELU_TANH); // rows that the library does not take
        check_joined(r, 17, 8, 16, type, type, ACT_GELU_TANH); // so few that it has no algorithm
        check_joined(r, 6, 16, 0, type, type, ACT_GELU_TANH);
        check_joined(r, 16, 24, 16, type, F32, ACT_GELU_TANH);
        check_joined(r, 64, 48, 600, type, type, ACT_GELU_TANH); // sums that may be split
        check_joined(r, 0, 8, 8, type, type, ACT_GELU_TANH);
    }
}

void cases_run(case_run *r)
{
    check(r, &(shape){.m = 1, .n = 1, .k = 1, .type = F32, .c_type = F32});
    check(r, &(shape){.m = 1, .n = 1, .k = 1, .type = BF16, .c_type = F32, .trans_a = true});
    check_all(r, 17, 33, 9, 3);
    check_all(r, 40, 24, 272, 8);
    check_all(r, 3, 20, 0, 4); // a sum over nothing
    for (dtype type = F32; type <= F16; type++) {
        check_linear(r, 1, 64, 96, type); // decoding
        check_linear(r, 4, 72, 40, type);
        check_linear(r, 96, 64, 48, type);
        check_linear(r, 1100, 32, 24, type); // gradients over many rows
        check(r, &(shape){.m = 0, .n = 8, .k = 8, .type = type, .c_type = type});
        check(r, &(shape){.m = 8, .n = 0, .k = 8, .type = type, .c_type = type});
        // Logits, whose rows start at a multiple of more than the vocabulary.
        check(r, &(shape){.m = 19,
                          .n = 250,
                          .k = 64,
                          .pad = 6,
                          .type = type,
                          .c_type = type,
                          .trans_b = true});
    }
    check_odd(r);
    check_tf32(r);
    check_random(r);
    check_activations(r);
}
