// test_p2p_equiv.c -- trainers of several ranks on the GPUs of the stand-in, over the communicator p2p: every
// policy and every pipeline has the bits of its reference on the same GPUs, and losses are close to those
// of cpu ranks. Ranks are threads that take three GPUs in turn, or share one.
//   gpu_test_p2p_equiv           every point
//   gpu_test_p2p_equiv PART      part 1, 2 or 3 of them: each is a test of its own
#include "equiv/matrix_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

// The first step of a shape is issued, and recorded; the second replays it. Every point accumulates the gradients
// of four micro-batches.
enum { STEPS = 2, LIMIT_S = 500, PARTS = 3 };

// Points of one reference follow each other.
static const char *const POINTS[PARTS][9] = {
    {
        "shard=2,inner=zero1",
        "shard=2,inner=zero2",
        "shard=2,inner=zero3",
        "shard=2,inner=zero3,file=ogw",
        "shard=2,inner=zero3,file=ogw_host_apart",
        "shard=2,inner=zero3,precision=bf16",
        "shard=2,inner=zero3,precision=bf16,file=og_host_apart_update",
        "shard=2,inner=zero3,precision=bf16,file=ogw_host_apart_update",
    },
    {
        "pp=2",
        "pp=2,schedule=gpipe",
        "pp=2,schedule=interleaved",
        "pp=2,schedule=zb",
        "cp=2",
        "cp=2,inner=zero3,precision=bf16",
        "replicate=3",
        "replicate=2,shard=2,outer=ddp,inner=zero3",
    },
    {
        "tp=2",
        "tp=2,pp=2",
        "tp=2sp,shard=2,inner=zero3",
        "pp=2,shard=2,tp=2,inner=zero1",
        "model=llama,cp=2,tp=2,inner=zero1",
        "shard=2,inner=zero2,no_sync=false",
    },
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

// The reference on three GPUs, and on cpu ranks, which it must be near.
static void run_reference(const point *reference, outcome *want)
{
    static point last;
    static outcome cpu;
    char name[MATRIX_NAME];
    if (want->weights > 0 && memcmp(reference, &last, sizeof last) == 0) return;
    last = *reference;
    setenv("TRIREME_STAND_IN_DEVICES", "3", 1);
    run_on(true, reference, want);
    run_on(false, reference, &cpu);
    const difference far = matrix_compare(want, &cpu);
    matrix_print(reference, name);
    if (!(far.loss <= 10 * matrix_tolerance(reference)))
        fail_msg("%s: loss %g from the cpu device's", name, far.loss);
}

// Every second point has one GPU for all of its ranks.
static void check_part(int part)
{
    static outcome got, want;
    for (int i = 0; i < 9 && POINTS[part][i]; i++) {
        const char *name = POINTS[part][i], *gpus = i % 2 ? "1" : "3";
        point p;
        if (!matrix_parse(name, &p) || !matrix_legal_apart(&p)) fail_msg("%s is no point", name);
        const point reference = matrix_reference(&p);
        run_reference(&reference, &want);
        setenv("TRIREME_STAND_IN_DEVICES", gpus, 1);
        run_on(true, &p, &got);
        const difference d = matrix_compare(&got, &want);
        if (!matrix_allows(&d, matrix_nearness(&p), matrix_tolerance(&p)))
            fail_msg("%s, %s GPUs: loss %g, norm %g and weights %g from its reference", name, gpus,
                     d.loss, d.norm, d.weights);
    }
}

static int parts[PARTS] = {0, 1, 2};

static void test_ranks_have_the_bits_of_their_reference(void **state)
{
    check_part(*(const int *)*state);
}

int main(int argc, char **argv)
{
    const int part = argc > 1 ? atoi(argv[1]) : 0;
    if (argc > 2 || part < 0 || part > PARTS || (argc > 1 && part == 0)) {
        fprintf(stderr, "usage: gpu_test_p2p_equiv [1 to %d]\n", PARTS);
        return 2;
    }
    struct CMUnitTest tests[PARTS];
    for (int i = 0; i < PARTS; i++)
        tests[i] = (struct CMUnitTest)cmocka_unit_test_prestate(
            test_ranks_have_the_bits_of_their_reference, &parts[i]);
    if (part) return _cmocka_run_group_tests("part", &tests[part - 1], 1, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
