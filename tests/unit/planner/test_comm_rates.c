// test_comm_rates.c -- what measured calls say of others: at the points, between them, of groups and kinds that were not
// measured, where the links are known because the points were made from them; and the section of a machine file.
#include "planner/comm_rates.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const planner_group PAIR = {2, 2, 1, 1}, FOUR = {4, 4, 1, 1}, APART = {2, 1, 2, 1};
static const comm_call_kind KINDS[] = {CALL_ALL_REDUCE, CALL_REDUCE_SCATTER, CALL_ALL_GATHER,
                                       CALL_BROADCAST,  CALL_SEND,           CALL_RECV};
static const double MEMORY = 10e9;
enum { MOST_POINTS = 512, SIZES = 8 };

static double size_of(int i)
{
    return 8 * pow(8, i);
}

static const planner_links TRUTH = {.level = {{2e-6, 0}, {20e-6, 1e9}, {100e-6, 0.2e9}},
                                    .memory_bytes_per_s = 8e9,
                                    .one_thread = true,
                                    .nics = 1};

static double true_seconds(const char *name, const planner_group *g, comm_call_kind kind,
                           bool segments, double bytes)
{
    comm_flows f;
    const comm_described_call c = {.on = {g->ranks, g->per_host, g->hosts},
                                   .kind = kind,
                                   .type = F32,
                                   .bytes = bytes,
                                   .segments = segments,
                                   .in_place = segments};
    assert_true(comm_flows_of(name, &c, &f));
    return planner_flows_claim(&f, g, &TRUTH).seconds;
}

static void add_row(comm_rates *r, const char *name, const planner_group *g, comm_call_kind kind,
                    bool segments)
{
    for (int i = 0; i < SIZES; i++) {
        comm_point *p = &r->point[r->points++];
        *p = (comm_point){.kind = kind, .segments = segments, .group = *g, .cores = 0.5};
        strcpy(p->communicator, name);
        p->bytes = size_of(i);
        p->seconds = true_seconds(name, g, kind, segments, p->bytes);
    }
}

static comm_rates made(void)
{
    err e;
    comm_rates r = {.point = calloc(MOST_POINTS, sizeof *r.point), .threads = 4};
    assert_non_null(r.point);
    for (size_t k = 0; k < sizeof KINDS / sizeof *KINDS; k++) {
        add_row(&r, "local", &PAIR, KINDS[k], false);
        add_row(&r, "tls", &APART, KINDS[k], false);
    }
    add_row(&r, "local", &PAIR, CALL_ALL_GATHER, true);
    assert_int_equal(comm_rates_fit(&r, &e), OK);
    return r;
}

static planner_claim claim(const comm_rates *r, const char *name, const planner_group *g,
                           comm_call_kind kind, double bytes)
{
    const comm_call c = {.kind = kind, .type = F32};
    return comm_rates_claim(r, name, g, &c, bytes, MEMORY);
}

static void assert_near(double got, double want, double share)
{
    if (fabs(got - want) > share * want) fail_msg("%g is not within %g of %g", got, share, want);
}

static void test_points_are_met(void **state)
{
    (void)state;
    comm_rates r = made();
    for (size_t i = 0; i < r.points; i++) {
        const comm_point *p = &r.point[i];
        const comm_segment any = {.count = 1, .shard_count = 1};
        const comm_call c = {.kind = p->kind,
                             .type = F32,
                             .segment = p->segments ? &any : NULL,
                             .in_place = p->segments};
        assert_near(comm_rates_claim(&r, p->communicator, &p->group, &c, p->bytes, MEMORY).seconds,
                    p->seconds, 1e-9);
    }
    comm_rates_clear(&r);
}

// Bandwidth and latency make straight lines; so between the points the true time is met where the algorithm is one.
static void test_between_and_beyond_the_points(void **state)
{
    (void)state;
    comm_rates r = made();
    static const double sizes[] = {100e3, 3e6, 10e6, 15e6, 100e6, 1e9};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_near(claim(&r, "local", &PAIR, CALL_ALL_REDUCE, sizes[i]).seconds,
                    true_seconds("local", &PAIR, CALL_ALL_REDUCE, false, sizes[i]), 1e-6);
    assert_near(claim(&r, "local", &PAIR, CALL_ALL_REDUCE, 0).seconds, r.point[0].seconds, 1e-9);
    comm_rates_clear(&r);
}

static void test_two_ranks_tell_of_four(void **state)
{
    (void)state;
    comm_rates r = made();
    static const double sizes[] = {64, 4096, 1 << 20, 16 << 20};
    for (size_t k = 0; k < 4; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const planner_group four_hosts = {4, 1, 4, 1};
            assert_near(claim(&r, "local", &FOUR, KINDS[k], sizes[i]).seconds,
                        true_seconds("local", &FOUR, KINDS[k], false, sizes[i]), 0.05);
            assert_near(claim(&r, "tls", &four_hosts, KINDS[k], sizes[i]).seconds,
                        true_seconds("tls", &four_hosts, KINDS[k], false, sizes[i]), 0.15);
        }
    // Two pairs of neighbours share one network.
    const planner_group beside = {2, 1, 2, 2};
    const double alone = claim(&r, "tls", &APART, CALL_ALL_REDUCE, 16 << 20).seconds,
                 shared = claim(&r, "tls", &beside, CALL_ALL_REDUCE, 16 << 20).seconds;
    assert_true(shared > 1.3 * alone && shared < 2.01 * alone);
    comm_rates_clear(&r);
}

// A gather was not measured: it is made of messages, as its description says. Segments of a reduce_scatter take the
// rate of plain ones.
static void test_other_kinds_take_the_nearest(void **state)
{
    (void)state;
    comm_rates r = made();
    assert_near(claim(&r, "local", &PAIR, CALL_GATHER, 8 << 20).seconds,
                true_seconds("local", &PAIR, CALL_GATHER, false, 8 << 20), 0.05);
    const comm_segment any = {.count = 1, .shard_count = 1};
    const comm_call c = {
        .kind = CALL_REDUCE_SCATTER, .type = F32, .segment = &any, .in_place = true};
    assert_near(comm_rates_claim(&r, "local", &PAIR, &c, 8 << 20, MEMORY).seconds,
                true_seconds("local", &PAIR, CALL_REDUCE_SCATTER, true, 8 << 20), 0.05);
    comm_rates_clear(&r);
}

static void test_nothing_is_claimed_of_what_is_not_known(void **state)
{
    (void)state;
    comm_rates r = made();
    const planner_group one = {1, 1, 1, 2};
    assert_true(comm_rates_have(&r, "local") && !comm_rates_have(&r, "ucx"));
    assert_true(claim(&r, "ucx", &PAIR, CALL_ALL_REDUCE, 1e6).seconds == 0);
    assert_true(claim(&r, "local", &one, CALL_ALL_REDUCE, 1e6).seconds == 0);
    comm_rates_clear(&r);
}

static void test_shares(void **state)
{
    (void)state;
    comm_rates r = made();
    const planner_claim local = claim(&r, "local", &PAIR, CALL_ALL_REDUCE, 64 << 20),
                        small = claim(&r, "local", &PAIR, CALL_ALL_REDUCE, 64),
                        far = claim(&r, "tls", &APART, CALL_ALL_REDUCE, 64 << 20);
    assert_true(local.share[RESOURCE_COMPUTE] == 1);
    assert_near(local.share[RESOURCE_MEMORY], 0.8, 1e-3); // 8 of 10 GB/s
    assert_true(small.share[RESOURCE_MEMORY] < 0.02);
    assert_true(local.share[RESOURCE_NETWORK] == 0);
    assert_near(far.share[RESOURCE_COMPUTE], 0.5 / 4, 1e-9); // half of one of four threads
    assert_true(far.share[RESOURCE_NETWORK] > 0.5 && far.share[RESOURCE_NETWORK] <= 1);
    r.threads = 0; // a GPU's
    assert_true(claim(&r, "tls", &APART, CALL_ALL_REDUCE, 1e6).share[RESOURCE_COMPUTE] == 0);
    comm_rates_clear(&r);
}

static void test_a_section_is_read_as_it_was_written(void **state)
{
    (void)state;
    err e;
    comm_rates r = made(), again;
    json_t *section = comm_rates_write(&r);
    assert_non_null(section);
    if (comm_rates_read(section, &again, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(again.points, r.points);
    assert_int_equal(again.threads, r.threads);
    assert_memory_equal(again.point, r.point, r.points * sizeof *r.point);
    assert_int_equal(again.fits, 2);
    json_decref(section);
    comm_rates_clear(&again);
    comm_rates_clear(&r);
}

static void test_a_bad_section_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"{\"threads\": 1}", "calls.rows"},
        {"{\"rows\": []}", "calls.threads"},
        {"{\"threads\": 1, \"rows\": [{\"call\": \"all_reduce\"}]}", "calls.rows[0].communicator"},
        {"{\"threads\": 1, \"rows\": [{\"communicator\": \"local\", \"call\": \"sum\"}]}",
         "calls.rows[0].call: found sum"},
        {"{\"threads\": 1, \"rows\": [{\"communicator\": \"local\", \"call\": \"send\", \"ranks\": "
         "0}]}",
         "calls.rows[0].ranks"},
        {"{\"threads\": 1, \"rows\": [{\"communicator\": \"local\", \"call\": \"send\", \"ranks\": "
         "2, \"per_host\": 2, \"hosts\": 1, \"neighbours\": 1, \"points\": [[8, 1e-6, 1], [8, "
         "-1, 1]]}]}",
         "calls.rows[0].points[1]"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err e;
        comm_rates r;
        json_t *section = json_loads(bad[i].text, 0, NULL);
        assert_non_null(section);
        assert_int_equal(comm_rates_read(section, &r, &e), E_USAGE);
        if (!strstr(e.text, bad[i].says)) fail_msg("%s: not %s", e.text, bad[i].says);
        assert_null(r.point);
        json_decref(section);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_points_are_met),
        cmocka_unit_test(test_between_and_beyond_the_points),
        cmocka_unit_test(test_two_ranks_tell_of_four),
        cmocka_unit_test(test_other_kinds_take_the_nearest),
        cmocka_unit_test(test_nothing_is_claimed_of_what_is_not_known),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_a_section_is_read_as_it_was_written),
        cmocka_unit_test(test_a_bad_section_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
