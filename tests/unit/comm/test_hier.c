// The communicator hier: hosts of one and of several ranks, even and uneven, against the tree, bit for bit; messages
// inside of hosts and between them, splits, and ranks that are lost. Each host is a world of its own.
#include "far_ranks.h"

#include "sanitized.h"

static void run_hosts(const int *per_host, rank_fn fn)
{
    far_ranks f = {.communicator = "hier", .killed = -1, .patience_ms = PATIENCE_MS, .fn = fn};
    for (int h = 0; per_host[h]; h++) f.ranks += f.per_host[h] = per_host[h];
    fork_far(&f);
    expect_ok(&f);
}

// 2 to 9 ranks and 16, on hosts of 1 to 4 ranks. The even ones with a power of two have steps in and between hosts.
static const int HOSTS[][FAR_HOSTS + 1] = {{1, 1},
                                           {2, 1},
                                           {2, 2},
                                           {1, 3},
                                           {3, 2},
                                           {2, 2, 2},
                                           {3, 3},
                                           {4, 2},
                                           {4, 3},
                                           {4, 4},
                                           {2, 2, 2, 2},
                                           {1, 1, 1, 1, 1},
                                           {4, 1, 4},
                                           {3, 3, 3},
                                           {4, 4, 4, 4},
                                           {3},
                                           {2, 2, 2, 2, 2, 2, 2, 2}};

static const comm_reduce_op OPS[] = {REDUCE_SUM, REDUCE_MAX, REDUCE_MIN};

// Arrays of a few elements, below and above the size at which a host's ranks share the work.
static status all_types_and_ops(const test_rank *s, err *e)
{
    status result = OK;
    static const size_t counts[] = {0, 1, 3, 2050, 8195};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        const int place = c % 2 ? SHARED : PRIVATE;
        for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++)
            for (size_t o = 0; o < sizeof OPS / sizeof *OPS; o++) {
                TRY(one_all_reduce(s, place, counts[c], TYPES[t], OPS[o], e));
                TRY(one_reduce_scatter(s, place, counts[c] / 4, TYPES[t], OPS[o], o == 1, e));
            }
        TRY(one_all_gather(s, place, counts[c], BF16, false, e));
        TRY(one_all_gather(s, place, counts[c] / 3, F64, true, e));
        for (int root = 0; root < s->comm->size; root++)
            TRY(one_broadcast(s, place, counts[c], root, e));
        TRY(comm_barrier(s->comm, e));
    }
    TRY(comm_share(s->comm, e));
done:
    return result;
}

static void test_every_layout_has_the_bits_of_the_tree(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof HOSTS / sizeof *HOSTS; i += SANITIZED ? 3 : 1)
        run_hosts(HOSTS[i], all_types_and_ops);
}

static void test_larger_than_the_workspace(void **state)
{
    (void)state;
    run_hosts((const int[]){2, 2, 0}, far_everything);
    run_hosts((const int[]){2, 2, 2, 0}, everything);
    run_hosts((const int[]){2, 2, 2, 0}, larger);
    run_hosts((const int[]){3, 1, 0}, far_everything);
}

static void test_a_nan_wins_every_maximum(void **state)
{
    (void)state;
    run_hosts((const int[]){2, 2, 0}, nan_wins);
}

static void test_messages_arrive_in_order(void **state)
{
    (void)state;
    run_hosts((const int[]){2, 2, 0}, messages);
    run_hosts((const int[]){3, 1, 0}, messages);
    run_hosts((const int[]){2, 0}, messages);
}

// Each pair sends and receives 3 MB at once, which is more than a channel holds, from memory of malloc and of comm_alloc.
// Half of the ranks receive first.
static status exchange_in_groups(const test_rank *s, err *e)
{
    status result = OK;
    enum { COUNT = 750000 };
    const int peer = s->comm->rank ^ 1;
    void *to = NULL, *from = NULL;
    float *want = malloc(COUNT * 4);
    for (int place = PRIVATE; place <= SHARED; place++) {
        TRY(buffer(s, place, COUNT * 4, &to, e));
        TRY(buffer(s, place, COUNT * 4, &from, e));
        fill(to, F32, s->comm->rank, COUNT);
        fill(want, F32, peer, COUNT);
        const comm_message send = comm_message_to(s->comm, to, COUNT * 4, peer),
                           recv = comm_message_from(s->comm, from, COUNT * 4, peer);
        const bool first = peer < s->comm->rank;
        const comm_message m[] = {first ? recv : send, first ? send : recv};
        TRY(comm_issue_group(m, 2, s->stream, e));
        TRY(comm_send_wait(s->comm, peer, (uint64_t)place + 1, s->stream, e));
        TRY(s->device->ops->sync(s->stream, e));
        if (memcmp(from, want, COUNT * 4) != 0) FAIL(E_INTERNAL, "a message differs");
        buffer_free(s, place, to, COUNT * 4);
        buffer_free(s, place, from, COUNT * 4);
    }
done:
    free(want);
    return result;
}

static void test_messages_of_a_group_start_together(void **state)
{
    (void)state;
    run_hosts((const int[]){2, 2, 0}, exchange_in_groups);
    run_hosts((const int[]){3, 3, 0}, exchange_in_groups);
    run_hosts((const int[]){2, 0}, exchange_in_groups);
}

// ---- Splits

static status use_group(const test_rank *s, int color, int size, err *e)
{
    status result = OK;
    test_rank part = *s;
    part.comm = NULL;
    TRY(comm_split(s->comm, color, s->comm->rank, &part.comm, e));
    if (part.comm->size != size) FAIL(E_INTERNAL, "a group of %d ranks", part.comm->size);
    TRY(reductions(&part, e));
    if (size > 1) TRY(messages(&part, e));
    TRY(reductions(s, e));
done:
    comm_close(part.comm);
    return result;
}

// Groups inside of a host, across hosts, with some ranks of each host, in another order, and of one rank.
static status use_groups(const test_rank *s, err *e)
{
    status result = OK;
    const int rank = s->comm->rank;
    test_rank turned = *s;
    turned.comm = NULL;
    TRY(use_group(s, rank / 4, 4, e));
    TRY(use_group(s, rank % 4, 2, e));
    TRY(use_group(s, rank / 2 % 2, 4, e));
    TRY(use_group(s, rank % 4 == 3, rank % 4 == 3 ? 2 : 6, e));
    TRY(use_group(s, rank, 1, e));
    TRY(comm_split(s->comm, 0, -rank, &turned.comm, e));
    if (turned.comm->rank != 7 - rank) FAIL(E_INTERNAL, "the order of keys");
    TRY(all_types_and_ops(&turned, e));
    TRY(use_group(&turned, rank / 4, 4, e)); // a group of a group
done:
    comm_close(turned.comm);
    return result;
}

static void test_groups_are_split(void **state)
{
    (void)state;
    run_hosts((const int[]){4, 4, 0}, use_groups);
    run_hosts((const int[]){3, 2, 0}, split_and_reduce);
}

// ---- Streams that run later

// Calls of two streams follow each other in the order of issue: they share a workspace.
static status two_streams(const test_rank *s, err *e)
{
    status result = OK;
    enum { CALLS = 24, COUNT = 3000 };
    uint16_t *x = calloc(CALLS * COUNT, sizeof *x);
    device_stream *other = NULL;
    TRY(s->device->ops->stream_open(s->device, STREAM_COPY, true, &other, e));
    for (int i = 0; i < CALLS; i++) fill(x + i * COUNT, BF16, s->comm->rank, COUNT);
    for (int i = 0; i < CALLS; i++)
        TRY(comm_all_reduce(s->comm, x + i * COUNT, COUNT, BF16, REDUCE_SUM,
                            i % 3 ? s->stream : other, e));
    TRY(s->device->ops->sync(s->stream, e));
    TRY(s->device->ops->sync(other, e));
    for (int i = 0; i < CALLS; i++)
        TRY(check(s, "all_reduce", x + i * COUNT, BF16, REDUCE_SUM, 0, COUNT, e));
    TRY(comm_barrier(s->comm, e));
done:
    if (other) s->device->ops->stream_close(other);
    free(x);
    return result;
}

static void run_late(int on_each_host, rank_fn fn)
{
    far_ranks f = {.communicator = "hier",
                   .per_host = {on_each_host, on_each_host},
                   .ranks = 2 * on_each_host,
                   .killed = -1,
                   .late = true,
                   .patience_ms = PATIENCE_MS,
                   .fn = fn};
    fork_far(&f);
    expect_ok(&f);
}

static void test_streams_with_threads(void **state)
{
    (void)state;
    run_late(2, two_streams);
    run_late(3, two_streams);
    run_late(2, messages);
    run_late(2, exchange_in_groups);
    run_late(4, use_groups);
}

// ---- Failures

static void test_a_rank_that_is_killed_is_named_on_all_hosts(void **state)
{
    (void)state;
    static const int hosts[][3] = {{2, 2, 0}, {3, 1, 0}};
    for (size_t i = 0; i < 2; i++) {
        far_ranks f = {.communicator = "hier",
                       .per_host = {hosts[i][0], hosts[i][1]},
                       .ranks = 4,
                       .killed = 2,
                       .patience_ms = PATIENCE_MS,
                       .fn = reduce_until_killed};
        fork_far(&f);
        for (int r = 0; r < 4; r++) {
            if (r == 2) continue;
            assert_int_equal(f.results[r].result, E_PEER);
            if (!strstr(f.results[r].error.text, "rank 2 was lost before all_reduce over dp") &&
                !strstr(f.results[r].error.text, "rank 2 (pid "))
                fail_msg("rank %d: %s", r, f.results[r].error.text);
        }
        close_far(&f);
    }
}

static void test_a_failure_is_told_to_all(void **state)
{
    (void)state;
    far_ranks f = {.communicator = "hier",
                   .per_host = {2, 2},
                   .ranks = 4,
                   .killed = -1,
                   .patience_ms = PATIENCE_MS,
                   .fn = fail_in_one_rank};
    fork_far(&f);
    assert_int_equal(f.results[1].result, E_IO);
    for (int r = 0; r < 4; r++) {
        if (r == 1) continue;
        assert_int_equal(f.results[r].result, E_PEER);
        assert_string_equal(f.results[r].error.text, "rank 1: the disk is full");
    }
    close_far(&f);
}

// Ranks 2 and 3 wait for each other's host only: the failure comes to them while they wait inside of their host.
static status wait_inside_of_a_host(const test_rank *s, err *e)
{
    status result = OK;
    char x[8] = {0};
    if (s->comm->rank == 1) FAIL(E_IO, "the disk is full");
    if (s->comm->rank == 0) return one_all_reduce(s, PRIVATE, 100, F32, REDUCE_SUM, e);
    TRY(comm_recv(s->comm, x, sizeof x, s->comm->rank ^ 1, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
done:
    return result;
}

static void test_a_failure_ends_a_wait_inside_of_another_host(void **state)
{
    (void)state;
    far_ranks f = {.communicator = "hier",
                   .per_host = {2, 2},
                   .ranks = 4,
                   .killed = -1,
                   .patience_ms = 0,
                   .fn = wait_inside_of_a_host};
    fork_far(&f);
    for (int r = 0; r < 4; r++) {
        if (r == 1) continue;
        assert_int_equal(f.results[r].result, E_PEER);
        assert_string_equal(f.results[r].error.text, "rank 1: the disk is full");
    }
    close_far(&f);
}

// Ranks 2 and 3 wait for each other, and the other host waits for longer. None counts the time in which another one
// opens its communicator.
static status do_not_send(const test_rank *s, err *e)
{
    status result = OK;
    char x[8];
    TRY(comm_barrier(s->comm, e));
    if (s->comm->rank >= 2) comm_watchdog_set(s->world->watchdog, 500);
    TRY(comm_recv(s->comm, x, sizeof x, s->comm->rank == 2 ? 3 : 2, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
done:
    return result;
}

static void test_a_wait_inside_of_a_host_is_bounded(void **state)
{
    (void)state;
    far_ranks f = {.communicator = "hier",
                   .per_host = {2, 2},
                   .ranks = 4,
                   .killed = -1,
                   .patience_ms = PATIENCE_MS,
                   .fn = do_not_send};
    fork_far(&f);
    for (int r = 0; r < 4; r++) {
        assert_int_equal(f.results[r].result, E_PEER);
        assert_string_equal(f.results[r].error.text,
                            "Watchdog caught collective operation timeout: rank 3 did not come to "
                            "send to rank 2 within 0.5 s; it waits for rank 2 in send to rank 3");
    }
    close_far(&f);
}

// ---- Calls that differ

static status differ_between_hosts(const test_rank *s, err *e)
{
    return one_all_reduce(s, PRIVATE, s->comm->rank < 2 ? 6000 : 3000, F32, REDUCE_SUM, e);
}

static status differ_on_a_host(const test_rank *s, err *e)
{
    return one_all_reduce(s, PRIVATE, s->comm->rank == 3 ? 6001 : 6000, F32, REDUCE_SUM, e);
}

static void expect_difference(rank_fn fn, const char *mine, const char *theirs)
{
    far_ranks f = {.communicator = "hier",
                   .per_host = {2, 2},
                   .ranks = 4,
                   .killed = -1,
                   .patience_ms = PATIENCE_MS,
                   .fn = fn};
    fork_far(&f);
    for (int r = 0; r < 4; r++) {
        const char *text = f.results[r].error.text;
        assert_true(f.results[r].result == E_INTERNAL || f.results[r].result == E_PEER);
        if (!strstr(text, mine) || !strstr(text, theirs)) fail_msg("rank %d: %s", r, text);
    }
    close_far(&f);
}

// With 6000 elements a rank sums 3000 with the other host, as each rank does with 3000. Yet the calls differ.
static void test_calls_that_differ_are_named(void **state)
{
    (void)state;
    expect_difference(differ_between_hosts, "calls all_reduce of 6000 fp32 (sum)",
                      "calls all_reduce of 3000 fp32 (sum)");
    expect_difference(differ_on_a_host, "rank 2 calls all_reduce of 6000 fp32 (sum)",
                      "rank 3 calls all_reduce of 6001 fp32 (sum)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_nan_wins_every_maximum),
        cmocka_unit_test(test_messages_arrive_in_order),
        cmocka_unit_test(test_messages_of_a_group_start_together),
        cmocka_unit_test(test_calls_that_differ_are_named),
        cmocka_unit_test(test_a_failure_is_told_to_all),
        cmocka_unit_test(test_a_failure_ends_a_wait_inside_of_another_host),
        cmocka_unit_test(test_a_wait_inside_of_a_host_is_bounded),
        cmocka_unit_test(test_a_rank_that_is_killed_is_named_on_all_hosts),
        cmocka_unit_test(test_streams_with_threads),
        cmocka_unit_test(test_groups_are_split),
        cmocka_unit_test(test_larger_than_the_workspace),
        cmocka_unit_test(test_every_layout_has_the_bits_of_the_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
