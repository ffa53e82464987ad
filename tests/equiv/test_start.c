// test_start.c -- the data-parallel ranks together draw every initial weight once. A rank draws the
// weights of its shard. If every rank has all weights, each draws an equal share of them.
#include "equiv/matrix.h"
#include "equiv/matrix_pool.h"

#include "device/kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static device_ops counting[MATRIX_RANKS];
static _Atomic(const device_ops *) real; // all ranks have the same
static atomic_llong drawn[MATRIX_RANKS];

static void count_launch(device_stream *s, const kernel_call *c)
{
    const size_t rank = (size_t)(s->device->ops - counting);
    if (c->kind == K_INIT) atomic_fetch_add(&drawn[rank], c->u.init.count);
    atomic_load(&real)->launch(s, c);
}

static void opened(device *d, int rank)
{
    atomic_store(&real, d->ops);
    counting[rank] = *d->ops;
    counting[rank].launch = count_launch;
    d->ops = &counting[rank];
}

static void closing(device *d, int rank)
{
    (void)rank;
    d->ops = atomic_load(&real);
}

static void test_every_weight_is_drawn_once(void **state)
{
    (void)state;
    static const char *const points[] = {"replicate=2",
                                         "replicate=2,model=llama",
                                         "shard=2,inner=zero1",
                                         "shard=4,inner=zero2",
                                         "shard=2,inner=zero3",
                                         "shard=3,inner=zero3,precision=bf16,micros=1",
                                         "shard=2,inner=zero3,file=ogw"};
    static outcome out;
    const matrix_run how = {
        .steps = 1, .folder = pool_folder(), .opened = opened, .closing = closing};
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        point p;
        long long all = 0, most = 0;
        if (!matrix_parse(points[i], &p) || !matrix_legal(&p))
            fail_msg("%s is no point", points[i]);
        for (int r = 0; r < MATRIX_RANKS; r++) atomic_store(&drawn[r], 0);
        matrix_execute(&p, &how, &out);
        if (out.result != OK) fail_msg("%s: %s", points[i], out.error);
        for (int r = 0; r < MATRIX_RANKS; r++) {
            const long long own = atomic_load(&drawn[r]);
            all += own;
            if (own > most) most = own;
        }
        if (all != out.weights)
            fail_msg("%s: %lld elements are drawn, the model has %lld", points[i], all,
                     (long long)out.weights);
        // The shares are about equal; a row is never divided.
        if (most > out.weights * 3 / 4) fail_msg("%s: one rank draws %lld", points[i], most);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_weight_is_drawn_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
