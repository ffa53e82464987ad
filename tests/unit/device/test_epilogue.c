// test_epilogue.c -- a product that ends with an activation, or with an activation's gradient, has the bits of
// K_MATMUL followed by K_ACTIVATION or K_ACTIVATION_GRAD: at every level of instructions, with any number of
// threads, with and without the matrix of sums. The reference does the same.
#include "vec_check.h"

#include "device/cpu/cpu_products.h"
#include "device/cpu/ref/ref.h"

typedef struct shape {
    int64_t m, n, k;
    dtype type, c_type;
    kernel_epilogue epilogue;
    kernel_activation act;
    bool trans_b, bias, aux; // aux: the sums are wanted, too
} shape;

// Array 0 is c. Array 1 is aux: of EPILOGUE_ACTIVATION the sums.
static kernel_call describe(space *s, const shape *h)
{
    const bool grad = h->epilogue == EPILOGUE_ACTIVATION_GRAD;
    kernel_matmul_args a = {.m = h->m,
                            .n = h->n,
                            .k = h->k,
                            .lda = h->k,
                            .ldb = h->trans_b ? h->k : h->n,
                            .ldc = h->n,
                            .type = h->type,
                            .c_type = h->c_type,
                            .epilogue = h->epilogue,
                            .act = h->act,
                            .trans_b = h->trans_b};
    a.c = space_array_of(s, h->m * h->n, h->c_type, "c");
    a.aux = space_random(s, h->m * h->n, h->c_type, 1, "aux");
    a.a = space_random(s, h->m * h->k, h->type, 0.3f, NULL);
    a.b = space_random(s, h->n * h->k, h->type, 0.3f, NULL);
    if (h->bias) a.bias = space_random(s, h->n, h->type, 1, NULL);
    if (!grad && !h->aux) a.aux = NULL;
    return (kernel_call){.kind = K_MATMUL, .u.matmul = a};
}

typedef void (*run_fn)(cpu_context *x, kernel_call *c);

// The product without its epilogue, and then the activation.
static void run_two(cpu_context *x, kernel_call c, run_fn run)
{
    const kernel_matmul_args p = c.u.matmul;
    const bool grad = p.epilogue == EPILOGUE_ACTIVATION_GRAD;
    kernel_call act = {.kind = grad ? K_ACTIVATION_GRAD : K_ACTIVATION,
                       .u.activation = {.count = p.m * p.n,
                                        .x = grad ? p.aux : kernel_matmul_sums(&p),
                                        .dy = p.c,
                                        .y = p.c,
                                        .act = p.act,
                                        .type = p.c_type}};
    c.u.matmul.c = kernel_matmul_sums(&p);
    c.u.matmul.aux = NULL;
    c.u.matmul.epilogue = EPILOGUE_NONE;
    run(x, &c);
    run(x, &act);
}

static void run_device(cpu_context *x, kernel_call *c)
{
    cpu_kernels table;
    cpu_kernels_fill(&table, x->level);
    harness_run(&table, x->level, x, c);
}

static void run_reference(cpu_context *x, kernel_call *c)
{
    cpu_kernels table;
    ref_kernels_fill(&table);
    harness_run(&table, CPU_GENERIC, x, c);
}

static void assert_equal(const shape *h, cpu_context *one, cpu_context *other, run_fn run)
{
    space want = {.used = 0}, have = {.used = 0};
    run_two(one, describe(&want, h), run);
    kernel_call c = describe(&have, h);
    run(other, &c);
    for (int i = 0; i < 2; i++)
        if (memcmp(want.array[i].data, have.array[i].data,
                   dtype_bytes(h->c_type) * (size_t)(h->m * h->n)) != 0)
            fail_msg(
                "%s of %ldx%ldx%ld %s to %s, epilogue %d of activation %d, differs at level %d",
                want.array[i].name, (long)h->m, (long)h->n, (long)h->k, dtype_name(h->type),
                dtype_name(h->c_type), h->epilogue, h->act, other->level);
    space_free(&want);
    space_free(&have);
}

// The context at a lower level of instructions.
static cpu_context at_level(const cpu_context *x, cpu_level level)
{
    cpu_context lower = *x;
    if (level < x->level) lower.bf16_instructions = false;
    lower.level = level;
    return lower;
}

static void check(const shape *h)
{
    for (cpu_level level = CPU_GENERIC; level <= vec_one.level; level++) {
        cpu_context one = at_level(&vec_one, level), two = at_level(&vec_two, level);
        assert_equal(h, &one, &one, run_device);
        assert_equal(h, &one, &two, run_device);
    }
    if (h->m * h->n * h->k < 100000) assert_equal(h, &vec_one, &vec_one, run_reference);
}

static void one_call_has_the_bits_of_two(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{1, 1, 1},    {3, 33, 40},    {8, 5000, 20}, {17, 31, 9},
                                       {16, 48, 64}, {40, 100, 400}, {5, 7, 0},     {130, 97, 70}};
    static const dtype from[] = {F32, BF16, BF16, F16, F16}, to[] = {F32, BF16, F32, F16, F32};
    for (int i = 0; i < 8 * 5 * 6; i++) {
        const int64_t *size = sizes[i % 8];
        const int type = i / 8 % 5, form = i / 40;
        for (kernel_activation act = 0; act < ACTIVATIONS; act++)
            check(&(shape){.m = size[0],
                           .n = size[1],
                           .k = size[2],
                           .type = from[type],
                           .c_type = to[type],
                           .epilogue = form < 4 ? EPILOGUE_ACTIVATION : EPILOGUE_ACTIVATION_GRAD,
                           .act = act,
                           .trans_b = form < 4,
                           .bias = form % 2,
                           .aux = form / 2 % 2});
    }
}

// Several blocks of c, and several slices of k.
static void large_products_do_too(void **state)
{
    (void)state;
    for (dtype type = F32; type <= F16; type++)
        for (kernel_epilogue e = EPILOGUE_ACTIVATION; e <= EPILOGUE_ACTIVATION_GRAD; e++)
            check(&(shape){.m = 800,
                           .n = 790,
                           .k = 777,
                           .type = type,
                           .c_type = type,
                           .epilogue = e,
                           .act = ACT_GELU_TANH,
                           .trans_b = e == EPILOGUE_ACTIVATION,
                           .bias = e == EPILOGUE_ACTIVATION,
                           .aux = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_call_has_the_bits_of_two),
        cmocka_unit_test(large_products_do_too),
    };
    return cmocka_run_group_tests(tests, vec_open, vec_close);
}
