// Initial values have the bits of rng_normal at every level, with any number of threads, and for
// every range of elements.
#include "vec_check.h"

enum { COUNT = 40000 }; // several grains of threads

typedef struct piece {
    uint64_t first;
    int64_t count;
    int form; // 0 constant, 1 normal, 2 uniform
} piece;

static kernel_call describe(space *s, const void *args)
{
    const piece *p = args;
    return (kernel_call){.kind = K_INIT,
                         .u.init = {.count = p->count,
                                    .y = space_random(s, p->count, F32, 1, "y"),
                                    .key = rng_key_make(5, RNG_INIT, 3, 0),
                                    .index0 = p->first,
                                    .std = 0.02f,
                                    .constant = 1,
                                    .normal = p->form == 1,
                                    .uniform = p->form == 2}};
}

static void every_form_gives_the_bits_of_the_reference(void **state)
{
    (void)state;
    static const int64_t counts[] = {0, 1, 2, 3, 5, 64, 1023, 1029, COUNT};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (uint64_t first = 0; first < 5; first++)
            for (int form = 0; form < 3; form++) {
                // One range crosses the end of 32 bits of counters.
                const piece p = {first == 4 ? (UINT64_C(1) << 34) - 3 : first, counts[i], form};
                char text[64];
                snprintf(text, sizeof text, "%ld from %lu", (long)p.count, (unsigned long)p.first);
                check_kernel(describe, &p, text);
            }
}

static void the_reference_is_the_scaled_normal_number(void **state)
{
    (void)state;
    float y[50];
    cpu_kernels table;
    const rng_key key = rng_key_make(5, RNG_INIT, 3, 0);
    ref_kernels_fill(&table);
    table.run[K_INIT](&vec_one, &(kernel_init_args){50, y, key, 7, 0.02f, 9, true, false});
    for (int i = 0; i < 50; i++) {
        const float want = 0.02f * rng_normal(key, 7 + (uint64_t)i);
        assert_memory_equal(&y[i], &want, sizeof want);
    }
    table.run[K_INIT](&vec_one, &(kernel_init_args){50, y, key, 7, 0.02f, 9, false, false});
    for (int i = 0; i < 50; i++) assert_true(y[i] == 9);
    table.run[K_INIT](&vec_one, &(kernel_init_args){50, y, key, 7, 0.02f, 9, false, true});
    for (int i = 0; i < 50; i++)
        assert_true(y[i] == 0.02f * (2 * rng_uniform(rng_word(key, 7 + (uint64_t)i)) - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_gives_the_bits_of_the_reference),
        cmocka_unit_test(the_reference_is_the_scaled_normal_number),
    };
    return cmocka_run_group_tests(tests, vec_open, vec_close);
}
