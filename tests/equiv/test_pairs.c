// test_pairs.c -- pairs of jobs that must have equal bits: some by name, each of which once differed, and how the
// search draws others. The search itself is a command (search.c), which CI runs, too.
#include "comm/registry.h"
#include "equiv/matrix_pair.h"
#include "equiv/matrix_pool.h"
#include "late/late_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

enum { LIMIT_S = 600 };

typedef struct named_pair {
    const char *a, *b;
} named_pair;

static point parse(const char *name)
{
    point p;
    if (!matrix_parse(name, &p) || !matrix_legal(&p)) fail_msg("%s is no point", name);
    return p;
}

// Runs a as `how` says, and b with threads.
static difference compare(const named_pair *p, matrix_run how)
{
    static outcome out[2];
    const char *name[2] = {p->a, p->b};
    for (int i = 0; i < 2; i++, how = (matrix_run){0}) {
        const point one = parse(name[i]);
        how.steps = 3;
        how.folder = pool_folder();
        how.patience_ms = LIMIT_S * 500;
        pool_run_one(&one, &how, LIMIT_S, &out[i]);
        if (out[i].result != OK) fail_msg("%s: %s", name[i], out[i].error);
    }
    return matrix_compare(&out[0], &out[1]);
}

static void expect_equal_as(const named_pair *pairs, size_t count, matrix_run how)
{
    for (size_t i = 0; i < count; i++) {
        const point a = parse(pairs[i].a), b = parse(pairs[i].b);
        if (!pair_must_equal(&a, &b))
            fail_msg("%s and %s need not be equal", pairs[i].a, pairs[i].b);
        const difference d = compare(&pairs[i], how);
        if (!d.same)
            fail_msg("%s and %s: losses differ by %.3g, weights by %.3g", pairs[i].a, pairs[i].b,
                     d.loss, d.weights);
    }
}

static void expect_equal(const named_pair *pairs, size_t count)
{
    expect_equal_as(pairs, count, (matrix_run){0});
}

// The head's gradients come in forward, those of norms in dgrad: between these and the rest a stage runs other
// micro-batches.
static void test_every_schedule_reduces_micro_batches_in_their_order(void **state)
{
    (void)state;
    static const named_pair pairs[] = {
        {"model=llama,shard=2,inner=zero2,no_sync=false",
         "model=llama,shard=2,inner=zero3,no_sync=false,pp=2,schedule=gpipe"},
        {"model=llama,shard=2,inner=zero2,no_sync=false",
         "model=llama,shard=2,inner=zero3,no_sync=false,pp=2,schedule=zb"},
        {"model=llama,shard=2,inner=zero3,no_sync=false,pp=2",
         "model=llama,shard=2,inner=zero2,no_sync=false,pp=4,schedule=zb"},
        {"model=llama,shard=2,inner=zero3,no_sync=false",
         "model=llama,shard=2,inner=zero2,no_sync=false,pp=2,schedule=interleaved"},
    };
    expect_equal(pairs, sizeof pairs / sizeof *pairs);
}

static void test_tied_weights_have_the_same_sums_on_one_stage_and_on_two(void **state)
{
    (void)state;
    static const named_pair pairs[] = {
        {"shard=2,no_sync=false", "shard=2,no_sync=false,pp=2"},
        {"model=llama_tied,shard=2,inner=zero2,no_sync=false",
         "model=llama_tied,shard=2,inner=zero3,no_sync=false,pp=2"},
        {"replicate=2,shard=2,inner=zero2,no_sync=false",
         "replicate=2,shard=2,inner=zero2,no_sync=false,pp=2,schedule=gpipe"},
        {"tp=2,shard=2,inner=zero2,no_sync=false",
         "tp=2,shard=2,inner=zero2,no_sync=false,pp=2,schedule=zb"},
    };
    expect_equal(pairs, sizeof pairs / sizeof *pairs);
}

static void test_any_number_of_ranks_is_summed_in_one_tree(void **state)
{
    (void)state;
    static const named_pair pairs[] = {
        {"replicate=2,cp=3", "shard=2,cp=3,inner=zero1"},
        {"replicate=2,cp=3", "shard=2,cp=3,inner=zero3"},
        {"replicate=2,cp=3,micros=1", "shard=2,cp=3,inner=zero2,micros=1"},
        {"replicate=2,shard=3,inner=zero3", "shard=6,inner=zero1"},
        {"replicate=2,shard=3,inner=zero3,micros=1", "replicate=3,shard=2,micros=1"},
        {"replicate=2,shard=3,outer=zero3,inner=zero3,no_sync=false",
         "shard=6,inner=zero2,no_sync=false"},
        {"replicate=2,shard=3,outer=zero1,inner=zero2,micros=1", "shard=6,micros=1"},
        {"replicate=2,shard=3,outer=zero2,inner=ddp,micros=1,file=g", "shard=6,micros=1"},
    };
    expect_equal(pairs, sizeof pairs / sizeof *pairs);
}

// A stage without a backward sends activations and overwrites them at once.
static const named_pair FROZEN_STAGES[] = {
    {"pp=4,groups=frozen", "groups=frozen"},
    {"replicate=2,pp=4,schedule=interleaved,groups=frozen", "replicate=2,groups=frozen"},
    {"model=llama,pp=4,schedule=gpipe,groups=frozen", "model=llama,groups=frozen"},
};

static void test_a_stage_overwrites_what_it_sent_when_the_other_host_has_read_it(void **state)
{
    (void)state;
    comm_description d;
    if (comm_describe("hier", 4, true, true, &d, NULL) != OK) skip();
    for (int second = 1; second < 4; second++)
        expect_equal_as(FROZEN_STAGES, sizeof FROZEN_STAGES / sizeof *FROZEN_STAGES,
                        (matrix_run){.processes = true, .second_host = second});
}

// A stream that waits for the other stage waits for its own send first.
static void test_a_stage_overwrites_what_it_sent_on_late_streams(void **state)
{
    (void)state;
    for (int order = LATE_OTHERS_FIRST; order <= LATE_OTHERS_LAST; order++)
        expect_equal_as(FROZEN_STAGES, sizeof FROZEN_STAGES / sizeof *FROZEN_STAGES,
                        (matrix_run){.late = true, .late_order = order});
}

// A comparison that could not fail would show nothing.
static void test_another_order_of_sums_has_other_bits(void **state)
{
    (void)state;
    static const named_pair pairs[] = {
        {"shard=2,inner=zero2,no_sync=false", "shard=2,inner=zero2"},
        {"replicate=2,shard=2,inner=zero2,no_sync=false", "shard=4,inner=zero2,no_sync=false"},
        {"shard=3", "shard=2"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const point a = parse(pairs[i].a), b = parse(pairs[i].b);
        assert_false(pair_must_equal(&a, &b));
        assert_false(compare(&pairs[i], (matrix_run){0}).same);
    }
}

static void test_a_seed_has_its_pairs(void **state)
{
    (void)state;
    int processes = 0, hosts = 0, schedules = 0;
    for (uint64_t k = 0; k < 100; k++) {
        pair p, again, other;
        pair_draw(7, k, &p);
        pair_draw(7, k, &again);
        pair_draw(8, k, &other);
        assert_memory_equal(p.point, again.point, sizeof p.point);
        assert_true(memcmp(p.point, other.point, sizeof p.point) != 0);
        for (int i = 0; i < 2; i++) {
            assert_true(matrix_legal(&p.point[i]));
            assert_int_equal(p.how[i].second_host, again.how[i].second_host);
            assert_true(p.how[i].second_host < matrix_ranks(&p.point[i]));
            processes += p.how[i].processes;
            hosts += p.how[i].second_host > 0;
        }
        assert_true(pair_must_equal(&p.point[0], &p.point[1]));
        assert_true(memcmp(&p.point[0], &p.point[1], sizeof p.point[0]) != 0);
        schedules += p.point[0].v[DIM_SCHEDULE] != p.point[1].v[DIM_SCHEDULE];
    }
    print_message("%d runs with processes, %d on two hosts, %d pairs of two schedules\n", processes,
                  hosts, schedules);
    assert_true(processes > 20 && schedules > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_schedule_reduces_micro_batches_in_their_order),
        cmocka_unit_test(test_tied_weights_have_the_same_sums_on_one_stage_and_on_two),
        cmocka_unit_test(test_any_number_of_ranks_is_summed_in_one_tree),
        cmocka_unit_test(test_a_stage_overwrites_what_it_sent_when_the_other_host_has_read_it),
        cmocka_unit_test(test_a_stage_overwrites_what_it_sent_on_late_streams),
        cmocka_unit_test(test_another_order_of_sums_has_other_bits),
        cmocka_unit_test(test_a_seed_has_its_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
