// test_p2p_equiv.c -- trainers of several ranks on the GPUs of the stand-in, over the communicator p2p: every
// policy and every pipeline has the bits of its reference on the same GPUs, and losses are close to those
// of cpu ranks. Ranks are threads that take three GPUs in turn, or share one.
//   gpu_test_p2p_equiv           every point (./test --nightly)
//   gpu_test_p2p_equiv few       one of each kind
#include "device/device.h"
#include "equiv/matrix_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// The first step of a shape is issued, and recorded; the second replays it. Every point accumulates the gradients
// of four micro-batches.
enum { STEPS = 2, LIMIT_S = 500 };

typedef struct equal_point {
    const char *name;
    bool few; // one of the few
} equal_point;

// Points of one reference follow each other.
static const equal_point POINTS[] = {
    {"shard=2,inner=zero1", false},
    {"shard=2,inner=zero2", false},
    {"shard=2,inner=zero2,no_sync=false", false},
    {"shard=2,inner=zero3", true},
    {"shard=2,inner=zero3,file=ogw", false},
    {"shard=2,inner=zero3,file=ogw_host_apart", true},
    {"shard=2,inner=zero3,precision=bf16", false},
    {"shard=2,inner=zero3,precision=bf16,file=og_host_apart_update", false},
    {"shard=2,inner=zero3,precision=bf16,file=ogw_host_apart_update", false},
    {"pp=2", false},
    {"pp=2,schedule=gpipe", false},
    {"pp=2,schedule=interleaved", false},
    {"pp=2,schedule=zb", true},
    {"cp=2", false},
    {"cp=2,inner=zero3,precision=bf16", true},
    {"replicate=3", true},
    {"replicate=2,shard=2,outer=ddp,inner=zero3", false},
    {"tp=2", false},
    {"tp=2,pp=2", false},
    {"tp=2sp,shard=2,inner=zero3", true},
    {"pp=2,shard=2,tp=2,inner=zero1", false},
    {"model=llama,cp=2,tp=2,inner=zero1", false},
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

static bool few;

// Every second point has one GPU for all of its ranks.
static void test_ranks_have_the_bits_of_their_reference(void **state)
{
    static outcome got, want;
    (void)state;
#ifdef TESTS_ON_GPUS // where ranks that are threads need a GPU each (docs/gpus.md)
    device_description machine;
    if (device_describe("cuda", NULL, &machine, NULL) != OK || machine.count < 8) skip();
#endif
    for (size_t i = 0, run = 0; i < sizeof POINTS / sizeof *POINTS; i++) {
        const char *name = POINTS[i].name;
        point p;
        if (few && !POINTS[i].few) continue;
        const char *gpus = run++ % 2 ? "1" : "3";
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

int main(int count, char **word)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_have_the_bits_of_their_reference)};
    few = count == 2 && strcmp(word[1], "few") == 0;
    if (count > 1 && !few) {
        fprintf(stderr, "usage: gpu_test_p2p_equiv [few]\n");
        return 2;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
