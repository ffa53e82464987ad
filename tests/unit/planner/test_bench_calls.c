// test_bench_calls.c -- measures calls of two and three ranks for an instant: every rank has the same points, of every
// row, and they make rates. No time is compared with another.
#include "cmd/bench/bench_calibrate_calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/comm/ranks.h"

enum { MOST_BYTES = 64 << 10 };

typedef struct measured_ranks {
    comm_rates rates[4];
    device *device[4];
} measured_ranks;

static status measure(const test_rank *s, err *e)
{
    status result = OK;
    measured_ranks *all = s->arg;
    const int rank = s->comm->rank, size = s->comm->size;
    const device_options o = {.threads = 1, .local_rank = rank, .local_ranks = size};
    TRY(device_open("cpu", &o, &all->device[rank], e));
    const bench_calls x = {.comm = s->comm,
                           .device = all->device[rank],
                           .group = {size, size, 1, 1},
                           .seconds = 1e-6,
                           .most_bytes = MOST_BYTES};
    all->rates[rank].threads = 1;
    TRY(bench_calibrate_calls(&x, &all->rates[rank], e));
done:
    return result;
}

static int points_of(const comm_rates *r, comm_call_kind kind, bool segments)
{
    int count = 0;
    for (size_t i = 0; i < r->points; i++)
        count += r->point[i].kind == kind && r->point[i].segments == segments;
    return count;
}

static void check_ranks(const char *communicator, int ranks, int small)
{
    measured_ranks all = {.rates = {{.point = NULL}}};
    workers k = {.ranks = ranks,
                 .as_threads = true,
                 .communicator = communicator,
                 .fn = measure,
                 .arg = &all};
    assert_int_equal(workers_run(&k), 0);
    const comm_rates *r = &all.rates[0];
    assert_int_equal(points_of(r, CALL_ALL_REDUCE, false), 5);
    assert_int_equal(points_of(r, CALL_BROADCAST, false), 5);
    assert_int_equal(points_of(r, CALL_ALL_GATHER, false), 5 - small);
    assert_int_equal(points_of(r, CALL_ALL_GATHER, true), 5 - small);
    assert_int_equal(points_of(r, CALL_REDUCE_SCATTER, true), 5 - small);
    assert_int_equal(points_of(r, CALL_SEND, false), 5);
    assert_int_equal(points_of(r, CALL_RECV, false), 5);
    assert_int_equal(points_of(r, CALL_BARRIER, false), 1);
    assert_int_equal(r->fits, 1);
    const planner_group g = {ranks, ranks, 1, 1};
    const comm_call c = {.kind = CALL_ALL_REDUCE, .type = F32};
    const planner_claim claim = comm_rates_claim(r, communicator, &g, &c, 5000, 1e10);
    assert_true(claim.seconds > 0 && claim.share[RESOURCE_COMPUTE] > 0);
    for (int i = 0; i < ranks; i++) {
        assert_int_equal(all.rates[i].points, r->points);
        assert_memory_equal(all.rates[i].point, r->point, r->points * sizeof *r->point);
    }
    for (int i = 0; i < ranks; i++) {
        comm_rates_clear(&all.rates[i]);
        device_close(all.device[i]);
    }
}

static void test_ranks_of_one_host_share_memory(void **state)
{
    (void)state;
    check_ranks("local", 2, 0);
    check_ranks("local", 3, 1); // 8 bytes are less than an element for each
}

// Its calls are work of a stream with a thread of its own, and its segments are packed.
static void test_ranks_over_a_network(void **state)
{
    (void)state;
    check_ranks("tls", 2, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_of_one_host_share_memory),
        cmocka_unit_test(test_ranks_over_a_network),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
