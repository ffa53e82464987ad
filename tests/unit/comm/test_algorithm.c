// test_algorithm.c -- what communicators say that they send for a call: as much as comm_count_calls counts where an
// algorithm sends no more than a ring, else the closed form of the algorithm. Thresholds are those of the code.
#include "comm/algorithm.h"

#include "comm/hier/hier_private.h"
#include "comm/local/local.h"
#include "comm/network/network_private.h"
#include "comm/registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const comm_topology ONE_HOST[] = {{2, 2, 1}, {4, 4, 1}, {8, 8, 1}},
                           EVEN[] = {{4, 2, 2}, {8, 4, 2}, {8, 2, 4}},
                           APART[] = {{2, 1, 2}, {4, 1, 4}, {8, 1, 8}};
enum { TOPOLOGIES = 3 };

static const comm_call_kind COLLECTIVES[] = {CALL_ALL_REDUCE, CALL_REDUCE_SCATTER, CALL_ALL_GATHER,
                                             CALL_ALL_TO_ALL, CALL_GATHER,         CALL_SCATTER};
enum { KINDS = sizeof COLLECTIVES / sizeof *COLLECTIVES };

static comm_flows flows_of(const char *name, const comm_described_call *c)
{
    comm_flows out;
    assert_true(comm_flows_of(name, c, &out));
    assert_in_range(out.count, 0, COMM_FLOWS);
    return out;
}

static comm_described_call call_of(comm_topology on, comm_call_kind kind, double bytes)
{
    return (comm_described_call){.on = on, .kind = kind, .type = F32, .bytes = bytes};
}

// Of all flows and levels.
static double bytes_sent(const comm_flows *f)
{
    double bytes = 0;
    for (int i = 0; i < f->count; i++)
        for (int k = 0; k < COMM_LEVELS; k++) bytes += f->flow[i].sent[k];
    return bytes;
}

static double sent(const char *name, comm_topology on, comm_call_kind kind, double bytes)
{
    const comm_described_call c = call_of(on, kind, bytes);
    const comm_flows f = flows_of(name, &c);
    return bytes_sent(&f);
}

static double sum(const comm_flows *f, comm_level level, bool of_rounds)
{
    double out = 0;
    for (int i = 0; i < f->count; i++)
        out += of_rounds ? f->flow[i].rounds[level] : f->flow[i].sent[level];
    return out;
}

static double memory(const comm_flows *f)
{
    double bytes = 0;
    for (int i = 0; i < f->count; i++) bytes += f->flow[i].memory;
    return bytes;
}

// What comm_count_calls counts for this rank.
static double counted(comm_topology on, comm_call_kind kind, double bytes)
{
    const comm_call_row *row = comm_call_row_of(kind);
    const bool of_shards = row->in == COMM_ALL_COUNTS || row->out == COMM_ALL_COUNTS;
    const comm_call c = {
        .kind = kind, .type = F32, .count = (size_t)bytes / (of_shards ? (size_t)on.ranks : 1) / 4};
    return comm_call_traffic(&c, 0, on.ranks);
}

static void check_counts(const char *name, const comm_topology *on)
{
    static const double sizes[] = {1 << 20, 3 << 20, 64 << 20};
    for (int t = 0; t < TOPOLOGIES; t++)
        for (int k = 0; k < KINDS; k++)
            for (int s = 0; s < 3; s++) {
                const double got = sent(name, on[t], COLLECTIVES[k], sizes[s]),
                             want = counted(on[t], COLLECTIVES[k], sizes[s]);
                if (got < want * (1 - 1e-9) || got > want * (1 + 1e-9))
                    fail_msg("%s of %.0f bytes over %s, %d ranks on %d hosts: %.0f, not %.0f",
                             comm_call_row_of(COLLECTIVES[k])->name, sizes[s], name, on[t].ranks,
                             on[t].hosts, got, want);
            }
}

static void test_long_calls_send_what_is_counted(void **state)
{
    (void)state;
    static const char *const anywhere[] = {"nccl", "hier", "tls", "mpi"};
    check_counts("local", ONE_HOST);
    check_counts("p2p", ONE_HOST);
    for (size_t i = 0; i < sizeof anywhere / sizeof *anywhere; i++) {
        check_counts(anywhere[i], ONE_HOST);
        check_counts(anywhere[i], EVEN);
        check_counts(anywhere[i], APART);
    }
}

static void test_every_communicator_describes_every_call(void **state)
{
    (void)state;
    static const comm_call_kind kinds[] = {CALL_ALL_REDUCE, CALL_REDUCE_SCATTER, CALL_ALL_GATHER,
                                           CALL_BROADCAST,  CALL_ALL_TO_ALL,     CALL_GATHER,
                                           CALL_SCATTER,    CALL_SEND,           CALL_RECV};
    for (int i = 1; COMM_WORDS[i]; i++) { // 0: auto
        comm_description known;
        err e;
        if (comm_describe(COMM_WORDS[i], 2, false, true, &known, &e) != OK) continue; // ucx
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            assert_true(sent(COMM_WORDS[i], ONE_HOST[0], kinds[k], 4096) > 0);
        const comm_described_call barrier = call_of(ONE_HOST[0], CALL_BARRIER, 0);
        const comm_flows f = flows_of(COMM_WORDS[i], &barrier);
        assert_true(sum(&f, COMM_SHARED_MEMORY, true) + sum(&f, COMM_HOST_LINK, true) > 0);
        assert_true(bytes_sent(&f) == 0);
    }
    comm_flows out;
    const comm_described_call c = call_of(ONE_HOST[0], CALL_ALL_REDUCE, 8);
    assert_false(comm_flows_of("auto", &c, &out));
    assert_false(comm_flows_of("gloo", &c, &out));
}

static void test_one_rank_sends_nothing(void **state)
{
    (void)state;
    comm_described_call c = call_of((comm_topology){1, 1, 1}, CALL_ALL_GATHER, 4096);
    assert_int_equal(flows_of("hier", &c).count, 0);
    c.segments = true; // from the array of shards to the full one
    const comm_flows f = flows_of("solo", &c);
    assert_true(memory(&f) == 2 * 4096);
}

static void test_short_sums_of_networks_send_more_in_fewer_rounds(void **state)
{
    (void)state;
    for (int t = 0; t < TOPOLOGIES; t++) {
        const int n = APART[t].ranks, steps = comm_tree_steps(n);
        comm_described_call c = call_of(APART[t], CALL_ALL_REDUCE, 2048);
        comm_flows f = flows_of("tls", &c); // recursive doubling
        assert_true(bytes_sent(&f) == steps * 2048);
        assert_true(sum(&f, COMM_NETWORK, true) == steps);
        c.type = BF16; // gathered, because its sums are rounded once
        f = flows_of("tls", &c);
        assert_true(bytes_sent(&f) == (n - 1) * 2048);
        assert_true(sum(&f, COMM_NETWORK, true) == steps);
    }
    // Bruck's gather of three ranks: one array, and then one of two.
    comm_described_call c = call_of((comm_topology){3, 1, 3}, CALL_ALL_REDUCE, 1024);
    comm_flows f = flows_of("tls", &c);
    assert_true(bytes_sent(&f) == 2 * 1024);
    // Where the code chooses another algorithm, so does the description.
    c = call_of(APART[1], CALL_ALL_REDUCE, 2048);
    for (; c.bytes < 1 << 22; c.bytes *= 2) {
        const bool is_direct = strcmp("direct", network_algorithm_name(network_algorithm_choose(
                                                    -1, 4, F32, (size_t)c.bytes))) == 0;
        f = flows_of("tls", &c);
        assert_true(bytes_sent(&f) == (is_direct ? 1.5 : 2) * c.bytes);
    }
}

static void test_pieces_of_the_workspace_are_rounds(void **state)
{
    (void)state;
    comm_described_call c = call_of(APART[1], CALL_REDUCE_SCATTER, NETWORK_WORK_BYTES / 2);
    comm_flows f = flows_of("tls", &c);
    assert_true(sum(&f, COMM_NETWORK, true) == 1);
    c.bytes *= 6;
    f = flows_of("tls", &c);
    assert_true(sum(&f, COMM_NETWORK, true) == 6);
}

static void test_local_shows_short_arrays_in_one_round(void **state)
{
    (void)state;
    static const comm_call_kind kinds[] = {CALL_ALL_REDUCE, CALL_REDUCE_SCATTER, CALL_BROADCAST};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        comm_described_call c = call_of(ONE_HOST[1], kinds[k], LOCAL_FLAT_BYTES);
        comm_flows f = flows_of("local", &c);
        assert_true(sum(&f, COMM_SHARED_MEMORY, true) == 1);
        c.bytes *= 2;
        f = flows_of("local", &c);
        assert_true(sum(&f, COMM_SHARED_MEMORY, true) == 2);
    }
    // An all_gather by the bytes of a shard, and segments never.
    comm_described_call c = call_of(ONE_HOST[1], CALL_ALL_GATHER, 4 * LOCAL_FLAT_BYTES);
    comm_flows f = flows_of("local", &c);
    assert_true(sum(&f, COMM_SHARED_MEMORY, true) == 1);
    c.segments = c.in_place = true;
    f = flows_of("local", &c);
    assert_true(sum(&f, COMM_SHARED_MEMORY, true) == 2);
    assert_true(memory(&f) == 2 * (c.bytes - c.bytes / 4));
}

static void test_broadcasts_are_trees_rings_or_reads(void **state)
{
    (void)state;
    const double bytes = 1 << 20;
    for (int t = 0; t < TOPOLOGIES; t++) {
        const int n = ONE_HOST[t].ranks;
        assert_true(sent("local", ONE_HOST[t], CALL_BROADCAST, bytes) == (n - 1) * bytes);
        assert_true(sent("p2p", ONE_HOST[t], CALL_BROADCAST, bytes) == (n - 1) * bytes);
        assert_true(sent("nccl", ONE_HOST[t], CALL_BROADCAST, bytes) == bytes);
        assert_true(sent("tls", APART[t], CALL_BROADCAST, bytes) == comm_tree_steps(n) * bytes);
    }
    // Two hosts of four: one message between them, and three ranks read.
    assert_true(sent("hier", EVEN[1], CALL_BROADCAST, bytes) == 4 * bytes);
}

static void test_bytes_between_hosts(void **state)
{
    (void)state;
    const double bytes = 8 << 20;
    const comm_topology on = {8, 4, 2};
    comm_described_call c = call_of(on, CALL_ALL_REDUCE, bytes);
    comm_flows f = flows_of("hier", &c); // a shard of the host: half of it to its owner, and back
    assert_true(sum(&f, COMM_NETWORK, false) == bytes / 4);
    f = flows_of("tls", &c); // half of all ranks are on the other host
    assert_true(sum(&f, COMM_NETWORK, false) == bytes);
    f = flows_of("nccl", &c);
    assert_true(sum(&f, COMM_NETWORK, false) == bytes);
    c.any_order = true; // trees over two hosts, in the NICs of four ranks
    f = flows_of("nccl", &c);
    assert_true(sum(&f, COMM_NETWORK, false) == bytes / 4);
    assert_true(sum(&f, COMM_NETWORK, true) == 2);
    c.on = (comm_topology){4, 4, 1};
    f = flows_of("nccl", &c);
    assert_true(sum(&f, COMM_NETWORK, false) == 0 && sum(&f, COMM_NETWORK, true) == 0);
}

// Partners of a doubling are on one host as long as their distance is less than its ranks.
static void test_near_partners_do_not_leave_the_host(void **state)
{
    (void)state;
    const comm_described_call c = call_of((comm_topology){8, 2, 4}, CALL_ALL_REDUCE, 1024);
    const comm_flows f = flows_of("tls", &c);
    assert_true(sum(&f, COMM_HOST_LINK, false) == 1024);
    assert_true(sum(&f, COMM_NETWORK, false) == 2 * 1024);
    assert_true(sum(&f, COMM_HOST_LINK, true) == 1);
    assert_true(sum(&f, COMM_NETWORK, true) == 2);
}

static void test_hier_sums_short_arrays_in_two_steps(void **state)
{
    (void)state;
    comm_described_call c = call_of(EVEN[0], CALL_ALL_REDUCE, HIER_SMALL_BYTES);
    comm_flows f = flows_of("hier", &c);
    assert_true(sum(&f, COMM_SHARED_MEMORY, true) == 2);
    c.bytes += 16;
    f = flows_of("hier", &c); // a reduce_scatter and an all_gather
    assert_true(sum(&f, COMM_SHARED_MEMORY, true) == 4);
    // An uneven group is the network's alone.
    c.on = (comm_topology){5, 3, 2};
    f = flows_of("hier", &c);
    assert_true(sum(&f, COMM_SHARED_MEMORY, true) == 0);
    // Sums of 16-bit types travel as fp32 between steps.
    c = call_of(EVEN[0], CALL_ALL_REDUCE, 1 << 20);
    f = flows_of("hier", &c);
    const double wide = bytes_sent(&f);
    c.type = BF16;
    f = flows_of("hier", &c);
    assert_true(bytes_sent(&f) == 2 * wide);
}

static void test_packed_segments_are_copied(void **state)
{
    (void)state;
    static const char *const packs[] = {"p2p", "nccl", "hier", "tls"};
    for (size_t i = 0; i < sizeof packs / sizeof *packs; i++) {
        comm_described_call c = call_of(ONE_HOST[1], CALL_ALL_GATHER, 1 << 20);
        comm_flows f = flows_of(packs[i], &c);
        const double plain = memory(&f), bytes = bytes_sent(&f);
        c.segments = c.in_place = true;
        f = flows_of(packs[i], &c); // a shard in, three out
        // hier calls local on one host, where plain arrays lie in each other, too
        assert_true(memory(&f) == plain + 2 * c.bytes);
        assert_true(bytes_sent(&f) == bytes);
    }
}

// The messages of an all_to_all start in batches where a send waits.
static void test_messages_wait_together(void **state)
{
    (void)state;
    comm_described_call c = call_of((comm_topology){64, 8, 8}, CALL_ALL_TO_ALL, 64 << 10);
    comm_flows f = flows_of("nccl", &c);
    assert_true(sum(&f, COMM_NETWORK, true) == 4);
    assert_true(sum(&f, COMM_HOST_LINK, false) == 7 << 10);
    assert_true(sum(&f, COMM_NETWORK, false) == 56 << 10);
    c.on = (comm_topology){8, 8, 1};
    f = flows_of("local", &c);
    assert_true(sum(&f, COMM_SHARED_MEMORY, true) == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_calls_send_what_is_counted),
        cmocka_unit_test(test_every_communicator_describes_every_call),
        cmocka_unit_test(test_one_rank_sends_nothing),
        cmocka_unit_test(test_short_sums_of_networks_send_more_in_fewer_rounds),
        cmocka_unit_test(test_pieces_of_the_workspace_are_rounds),
        cmocka_unit_test(test_local_shows_short_arrays_in_one_round),
        cmocka_unit_test(test_broadcasts_are_trees_rings_or_reads),
        cmocka_unit_test(test_bytes_between_hosts),
        cmocka_unit_test(test_near_partners_do_not_leave_the_host),
        cmocka_unit_test(test_hier_sums_short_arrays_in_two_steps),
        cmocka_unit_test(test_packed_segments_are_copied),
        cmocka_unit_test(test_messages_wait_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
