// test_flows.c -- times of flows on known links, counted by hand; and how hosts share their networks.
#include "planner/flows.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const planner_links LINKS = {.level = {{1e-6, 0}, {2e-6, 100e9}, {10e-6, 50e9}},
                                    .memory_bytes_per_s = 1000e9,
                                    .ranks_per_host = 8,
                                    .nics = 8,
                                    .compute_share = 0.1};

static void assert_near(double got, double want)
{
    if (fabs(got - want) > 1e-9 * fabs(want)) fail_msg("%g is not %g", got, want);
}

static void test_ranks_share_the_network_of_their_host(void **state)
{
    (void)state;
    planner_links l = LINKS;
    const planner_group all = {16, 8, 2, 1}, ones = {4, 1, 4, 8}, pair = {2, 1, 2, 2};
    assert_near(planner_network_bytes_per_s(&l, &all), 50e9); // a NIC each
    assert_near(planner_network_bytes_per_s(&l, &ones), 50e9);
    l.nics = 2;
    assert_near(planner_network_bytes_per_s(&l, &all), 50e9 / 4);
    assert_near(planner_network_bytes_per_s(&l, &ones), 50e9 / 4);
    assert_near(planner_network_bytes_per_s(&l, &pair), 50e9); // two ranks send
    l.nics = 1;
    assert_near(planner_network_bytes_per_s(&l, &pair), 25e9);
}

static void test_oversubscribed_switches_limit_those_that_leave_them(void **state)
{
    (void)state;
    planner_links l = LINKS;
    const planner_group near = {16, 8, 2, 1}, far = {64, 8, 8, 1}, one = {8, 1, 8, 1};
    l.switch_hosts = 4;
    l.oversubscription = 4;
    assert_near(planner_network_bytes_per_s(&l, &near), 50e9);
    assert_near(planner_network_bytes_per_s(&l, &far), 50e9 / 4);
    // One rank of a host alone does not fill what the host has beyond its switch.
    assert_near(planner_network_bytes_per_s(&l, &one), 50e9);
    l.switch_hosts = 0;
    assert_near(planner_network_bytes_per_s(&l, &far), 50e9);
}

static void test_what_moves_at_one_time_takes_the_longest(void **state)
{
    (void)state;
    planner_links l = LINKS;
    const planner_group g = {16, 8, 2, 1};
    const comm_flows f = {.flow = {{.rounds = {0, 3, 1}, .sent = {0, 1e9, 1e9}, .memory = 4e9},
                                   {.rounds = {5, 0, 0}, .memory = 1e9}},
                          .count = 2};
    planner_claim c = planner_flows_claim(&f, &g, &l);
    const double latencies = 5e-6 + 3 * 2e-6 + 10e-6;
    assert_near(c.seconds, latencies + 1e9 / 50e9 + 1e9 / 1000e9);
    assert_near(c.share[RESOURCE_COMPUTE], 0.1);
    assert_near(c.share[RESOURCE_NETWORK], 1e9 / 50e9 / c.seconds);
    assert_near(c.share[RESOURCE_LINK], 1e9 / 100e9 / c.seconds);
    assert_near(c.share[RESOURCE_MEMORY], 5e9 / 1000e9 / c.seconds);
    l.one_thread = true;
    c = planner_flows_claim(&f, &g, &l);
    assert_near(c.seconds, latencies + 1e9 / 50e9 + 1e9 / 100e9 + 5e9 / 1000e9);
    const planner_claim none = planner_flows_claim(&(comm_flows){.count = 0}, &g, &l);
    assert_true(none.seconds == 0 && none.share[RESOURCE_COMPUTE] == 0);
}

// A rank that has the network of its host for itself takes its part and those of others, which counts as all of it.
static void test_a_share_of_the_network_is_of_the_ranks_part(void **state)
{
    (void)state;
    planner_links l = LINKS;
    l.nics = 1;
    l.level[COMM_NETWORK].latency_s = 0;
    const planner_group one = {2, 1, 2, 1};
    const comm_flows f = {.flow = {{.sent = {0, 0, 1e9}}}, .count = 1};
    const planner_claim c = planner_flows_claim(&f, &one, &l);
    assert_near(c.seconds, 1e9 / 50e9);
    assert_near(c.share[RESOURCE_NETWORK], 1);
}

// Lists count of an all_to_all without counts what goes to one rank.
static void test_a_plans_call_is_described(void **state)
{
    (void)state;
    const planner_group g = {4, 2, 2, 1};
    const size_t counts[4] = {1, 2, 3, 4};
    const comm_segment any = {.count = 8, .shard_count = 2};
    comm_call c = {.kind = CALL_ALL_TO_ALL, .type = F32, .count = 4};
    assert_near(planner_described_call(&g, &c, 16, false).bytes, 64);
    c.in_counts = counts;
    assert_near(planner_described_call(&g, &c, 40, false).bytes, 40);
    c = (comm_call){.kind = CALL_ALL_GATHER, .type = BF16, .segment = &any, .segments = 1};
    const comm_described_call d = planner_described_call(&g, &c, 16, true);
    assert_true(d.segments && !d.in_place && d.any_order && d.type == BF16);
    assert_int_equal(d.on.per_host, 2);
    assert_int_equal(d.on.hosts, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_share_the_network_of_their_host),
        cmocka_unit_test(test_oversubscribed_switches_limit_those_that_leave_them),
        cmocka_unit_test(test_what_moves_at_one_time_takes_the_longest),
        cmocka_unit_test(test_a_share_of_the_network_is_of_the_ranks_part),
        cmocka_unit_test(test_a_plans_call_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
