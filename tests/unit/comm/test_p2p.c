// The communicator p2p on unkind devices: ranks are threads with a device each, whose memory the host
// cannot address, and whose streams run late.
#include "p2p_cases.h"

#include "sanitized.h"
#include "unkind/unkind_device.h"

static status open_device(int rank, int order, device **out, err *e)
{
    (void)rank;
    return unkind_device_open(&(unkind_options){.order = (late_order)order}, out, e);
}

static const char *broken_rule(const device *d)
{
    return unkind_broken(d);
}

static void check_all_ok(const group_state *g)
{
    for (int pass = 0; pass < 2; pass++) // a cause before its consequences
        for (int r = 0; r < g->ranks; r++)
            if (g->rank[r].result != OK && (pass || g->rank[r].result != E_PEER))
                fail_msg("rank %d of %d: %s", r, g->ranks, g->rank[r].error.text);
}

// Both orders of late streams, or under a sanitizer one of them.
static void run_well(int ranks, rank_fn fn)
{
    for (int order = LATE_OTHERS_FIRST; order <= LATE_OTHERS_LAST; order++) {
        if (SANITIZED && order % 2 == ranks % 2) continue;
        group_state g = {.order = order};
        run_ranks(&g, ranks, fn);
        check_all_ok(&g);
    }
}

static void test_every_collective_has_the_bits_of_the_tree(void **state)
{
    (void)state;
    static const int sizes[] = {2, 3, 4, 5, 6, 7, 8, 9, 16};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) run_well(sizes[i], collectives);
}

static void test_calls_follow_each_other_without_a_host(void **state)
{
    (void)state;
    run_well(2, many_calls);
    run_well(3, many_calls);
}

static void test_groups_are_split(void **state)
{
    (void)state;
    run_well(5, splits);
}

static void test_messages_arrive_in_order(void **state)
{
    (void)state;
    run_well(2, send_and_receive);
    run_well(3, send_and_receive);
}

static void test_recordings_are_replayed(void **state)
{
    (void)state;
    run_well(2, record_and_replay);
}

static void test_a_failure_releases_all_streams(void **state)
{
    (void)state;
    for (int order = LATE_OTHERS_FIRST; order <= LATE_OTHERS_LAST; order++) {
        group_state g = {.order = order};
        const double start = clock_seconds();
        run_ranks(&g, 3, fail_late);
        assert_true(clock_seconds() - start < 60);
        assert_int_equal(g.rank[1].result, E_IO);
        for (int r = 0; r < 3; r += 2) {
            assert_int_equal(g.rank[r].result, E_PEER);
            assert_string_equal(g.rank[r].error.text, "rank 1: the disk is full");
        }
    }
}

static void test_a_wait_of_a_stream_is_bounded(void **state)
{
    (void)state;
    group_state g = {.patience_ms = 300};
    run_ranks(&g, 2, replay_alone);
    assert_int_equal(g.rank[0].result, E_PEER);
    const char *text = g.rank[0].error.text;
    if (!strstr(text, "rank 1 did not come to all_reduce over dp")) fail_msg("%s", text);
}

static void test_a_lost_rank_is_named(void **state)
{
    (void)state;
    group_state g = {.order = LATE_OTHERS_FIRST};
    run_ranks(&g, 2, kill_a_rank);
    assert_int_equal(g.rank[0].result, E_PEER);
    assert_string_equal(g.rank[0].error.text, "rank 1 (pid 77) was killed by signal 9 (Killed)");
}

static void test_calls_that_differ_are_named(void **state)
{
    (void)state;
    group_state g = {.order = LATE_OTHERS_FIRST};
    run_ranks(&g, 2, differ);
    for (int r = 0; r < 2; r++)
        if (!strstr(g.rank[r].error.text, "rank 0 calls all_reduce of 800 fp32 (sum) while rank 1 "
                                          "calls all_reduce of 900 fp32 (sum)"))
            fail_msg("%s", g.rank[r].error.text);
}

static void test_a_message_of_another_length_is_refused(void **state)
{
    (void)state;
    group_state g = {.order = LATE_OTHERS_FIRST};
    run_ranks(&g, 2, send_other_bytes);
    for (int r = 0; r < 2; r++)
        assert_non_null(strstr(g.rank[r].error.text, "rank 0 sends 8 bytes while rank 1 receives "
                                                     "12"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_collective_has_the_bits_of_the_tree),
        cmocka_unit_test(test_calls_follow_each_other_without_a_host),
        cmocka_unit_test(test_groups_are_split),
        cmocka_unit_test(test_messages_arrive_in_order),
        cmocka_unit_test(test_recordings_are_replayed),
        cmocka_unit_test(test_a_failure_releases_all_streams),
        cmocka_unit_test(test_a_wait_of_a_stream_is_bounded),
        cmocka_unit_test(test_a_lost_rank_is_named),
        cmocka_unit_test(test_calls_that_differ_are_named),
        cmocka_unit_test(test_a_message_of_another_length_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
