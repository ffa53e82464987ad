// test_p2p_equiv.c -- trainers of several ranks on the GPUs of the stand-in, over the communicator p2p: every
// policy and every pipeline has the bits of its reference on the same GPUs, and losses are close to those
// of cpu ranks. Ranks are threads that take three GPUs in turn.
#include "equiv/matrix_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { STEPS = 4, LIMIT_S = 300 };

static const char *const POINTS[] = {
    "shard=2,inner=zero3,precision=bf16",
    "tp=2sp,shard=2,inner=zero3",
    "cp=2",
    "pp=2,shard=2,tp=2,inner=zero1",
};

static void run_on(bool cuda, const point *p, outcome *out)
{
    const matrix_run how = {.steps = STEPS, .folder = pool_folder(), .cuda = cuda};
    pool_run_one(p, &how, LIMIT_S, out);
    if (out->result != OK) {
        char name[MATRIX_NAME];
        matrix_print(p, name);
        fail_msg("%s on %s: %s", name, cuda ? "cuda" : "cpu", out->error);
    }
}

static void check_points(const char *gpus)
{
    static outcome got, want, cpu;
    setenv("TRIREME_STAND_IN_DEVICES", gpus, 1);
    for (size_t i = 0; i < sizeof POINTS / sizeof *POINTS; i++) {
        point p;
        if (!matrix_parse(POINTS[i], &p) || !matrix_legal_apart(&p))
            fail_msg("%s is no point", POINTS[i]);
        const point reference = matrix_reference(&p);
        run_on(true, &p, &got);
        run_on(true, &reference, &want);
        run_on(false, &reference, &cpu);
        const difference d = matrix_compare(&got, &want), far = matrix_compare(&want, &cpu);
        if (!matrix_allows(&d, matrix_nearness(&p), matrix_tolerance(&p)))
            fail_msg("%s, %s GPUs: loss %g, norm %g and weights %g from its reference", POINTS[i],
                     gpus, d.loss, d.norm, d.weights);
        if (far.loss > 10 * matrix_tolerance(&p))
            fail_msg("%s, %s GPUs: loss %g from the cpu device's", POINTS[i], gpus, far.loss);
    }
}

static void test_ranks_of_several_gpus_have_the_bits_of_their_reference(void **state)
{
    (void)state;
    check_points("3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_of_several_gpus_have_the_bits_of_their_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
