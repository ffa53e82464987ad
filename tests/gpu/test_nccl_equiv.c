// test_nccl_equiv.c -- trainers of several ranks on the GPUs of the stand-in have over the communicator nccl the bits
// that they have over p2p: policies, tensor parallelism, and the pipeline,
// whose sends wait.
#include "equiv/matrix_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

// The first step of a shape is issued, and recorded; the second replays it.
enum { STEPS = 2, LIMIT_S = 200 };

static const char *const POINTS[] = {
    "shard=2,inner=zero3,precision=bf16",
    "replicate=3",
    "pp=2,schedule=interleaved",
    "pp=2,shard=2,tp=2,inner=zero1",
};

static void run_over(const char *name, const point *p, outcome *out)
{
    const matrix_run how = {.steps = STEPS, .folder = pool_folder(), .cuda = true, .comm = name};
    pool_run_one(p, &how, LIMIT_S, out);
    if (out->result != OK) {
        char which[MATRIX_NAME];
        matrix_print(p, which);
        fail_msg("%s over %s: %s", which, name, out->error);
    }
}

static void test_ranks_have_the_bits_of_p2p(void **state)
{
    (void)state;
    static outcome got, want;
    setenv("TRIREME_STAND_IN_DEVICES", "8", 1);
    for (size_t i = 0; i < sizeof POINTS / sizeof *POINTS; i++) {
        point p;
        if (!matrix_parse(POINTS[i], &p) || !matrix_legal_apart(&p))
            fail_msg("%s is no point", POINTS[i]);
        run_over("p2p", &p, &want);
        run_over("nccl", &p, &got);
        const difference d = matrix_compare(&got, &want);
        if (!d.same || d.norm != 0)
            fail_msg("%s: loss %g, norm %g and weights %g from those over p2p", POINTS[i], d.loss,
                     d.norm, d.weights);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranks_have_the_bits_of_p2p)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
