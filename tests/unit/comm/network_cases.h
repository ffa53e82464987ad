// network_cases.h -- the tests of a communicator of comm/network/network.h: every collective by every algorithm against the tree,
// splits, messages, and ranks that share no memory: each has a world of its own, and they meet in a TCP store. A test
// program defines COMMUNICATOR before it includes this file.
#ifndef TESTS_COMM_NETWORK_CASES_H
#define TESTS_COMM_NETWORK_CASES_H

#include "far_ranks.h"

#include "comm/network/network_private.h"
#include "rendezvous/rendezvous.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>

#include <cmocka.h>

static const char *const ALGORITHMS[] = {"auto", "recursive_doubling", "gather", "halving_doubling",
                                         "direct"};

static void run(int ranks, bool as_threads, bool late, rank_fn fn)
{
    alarm(LIMIT_S);
    workers k = {.ranks = ranks,
                 .as_threads = as_threads,
                 .late = late,
                 .communicator = COMMUNICATOR,
                 .fn = fn};
    const int bad = workers_run(&k);
    if (bad) print_error("%s\n", k.failure.text);
    assert_int_equal(bad, 0);
}

// ---- Ranks of one machine, which are forked

static void test_every_algorithm_has_the_bits_of_the_tree(void **state)
{
    (void)state;
    for (size_t a = 0; a < sizeof ALGORITHMS / sizeof *ALGORITHMS; a++) {
        setenv("TRIREME_ALGO", ALGORITHMS[a], 1);
        for (int n = 2; n <= 9; n++) run(n, false, false, reductions);
        run(16, false, false, reductions);
    }
    unsetenv("TRIREME_ALGO");
}

static void test_every_collective(void **state)
{
    (void)state;
    run(2, false, false, everything);
    run(3, false, false, everything);
    run(5, true, false, everything);
    run(2, true, true, everything);
}

static void test_larger_than_the_workspace(void **state)
{
    (void)state;
    for (size_t a = 0; a < sizeof ALGORITHMS / sizeof *ALGORITHMS; a++) {
        setenv("TRIREME_ALGO", ALGORITHMS[a], 1);
        run(4, false, false, larger);
    }
    unsetenv("TRIREME_ALGO");
    run(3, false, false, larger);
}

static void test_a_nan_wins_every_maximum(void **state)
{
    (void)state;
    run(3, true, false, nan_wins);
}

// Each communicator of several ranks takes the bytes that the plan counts.
static status check_bytes(const test_rank *s, int comms, err *e)
{
    const size_t want = (size_t)comms * s->comm->can.own_bytes;
    if (s->device->bytes_now == want) return OK;
    return err_set(e, E_INTERNAL, "%zu bytes are counted, not %zu", s->device->bytes_now, want);
}

static status split_and_count(const test_rank *s, err *e)
{
    status result = OK;
    comm *part = NULL;
    TRY(check_bytes(s, 1, e));
    TRY(comm_split(s->comm, s->comm->rank / 2, s->comm->rank, &part, e));
    TRY(check_bytes(s, 1 + (part->size > 1), e));
done:
    comm_close(part);
    return result;
}

static void test_groups_are_split(void **state)
{
    (void)state;
    run(5, false, false, split_and_reduce);
    run(5, false, false, split_and_count);
}

static void test_messages_arrive_in_order(void **state)
{
    (void)state;
    run(2, false, false, messages);
    run(3, false, true, messages);
}

// A call that has ended has left the lock of its rank.
static void expect_unlocked(const test_rank *s, const char *call)
{
    enum { LONG_S = 5 };
    pthread_mutex_t *lock = &network_of(s->comm)->own->lock;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LONG_S;
    if (pthread_mutex_timedlock(lock, &until) == 0) {
        pthread_mutex_unlock(lock);
        return;
    }
    fprintf(stderr, "rank %d: %s has left the lock locked\n", s->comm->rank, call);
    kill(getppid(), SIGKILL); // the test and its ranks end: whatever comes would wait for the lock
}

static status calls_one_by_one(const test_rank *s, err *e)
{
    status result = OK;
    const int other = 1 - s->comm->rank;
    char to[64] = {0}, from[64];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    expect_unlocked(s, "comm_open");
    TRY(one_all_reduce(s, PRIVATE, 100, F32, REDUCE_SUM, e));
    expect_unlocked(s, "all_reduce");
    TRY(one_all_gather(s, PRIVATE, 5, F32, false, e));
    expect_unlocked(s, "all_gather");
    TRY(comm_barrier(s->comm, e));
    expect_unlocked(s, "barrier");
    for (int turn = 0; turn < 2; turn++) {
        if (turn == s->comm->rank)
            TRY(comm_send(s->comm, to, sizeof to, other, s->stream, e));
        else
            TRY(comm_recv(s->comm, from, sizeof from, other, s->stream, e));
        TRY(s->device->ops->sync(s->stream, e));
        expect_unlocked(s, turn == s->comm->rank ? "send" : "recv");
    }
    TRY(comm_send_wait(s->comm, other, 1, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    expect_unlocked(s, "send_wait");
done:
    return result;
}

static void test_calls_leave_the_lock(void **state)
{
    (void)state;
    run(2, false, false, calls_one_by_one);
}

// Values of several lengths, of which some do not fit in one value of a store; twice, so the keys are gone.
static status tell_long_values(const test_rank *s, err *e)
{
    status result = OK;
    const int rank = s->comm->rank, size = s->comm->size;
    const comm_rendezvous meeting = {
        .store = s->world->store, .group = 77, .rank = rank, .size = size};
    char own[4000], *all = NULL;
    size_t block = 0;
    for (int turn = 0; turn < 2; turn++) {
        memset(own, 'a' + rank + turn, sizeof own);
        const size_t bytes = 900 * (size_t)(rank + 1);
        TRY(comm_rendezvous_all_gather(&meeting, own, bytes, OPEN_MS, &all, &block, e));
        if (block != 900 * (size_t)size) FAIL(E_INTERNAL, "blocks of %zu bytes", block);
        for (int r = 0; r < size; r++)
            for (size_t i = 0; i < 900 * (size_t)(r + 1); i++)
                if (all[(size_t)r * block + i] != 'a' + r + turn)
                    FAIL(E_INTERNAL, "byte %zu of rank %d differs", i, r);
        free(all);
        all = NULL;
        TRY(comm_barrier(s->comm, e));
    }
done:
    free(all);
    return result;
}

static void test_ranks_tell_values_of_any_length(void **state)
{
    (void)state;
    run(4, true, false, tell_long_values);
}

// ---- Ranks that share no memory

static void test_ranks_without_common_memory(void **state)
{
    (void)state;
    for (int n = 2; n <= 5; n += 3) {
        far_ranks f = {.communicator = COMMUNICATOR,
                       .ranks = n,
                       .killed = -1,
                       .patience_ms = PATIENCE_MS,
                       .fn = far_everything};
        fork_far(&f);
        expect_ok(&f);
    }
}

static void test_split_without_common_memory(void **state)
{
    (void)state;
    far_ranks f = {.communicator = COMMUNICATOR,
                   .ranks = 5,
                   .killed = -1,
                   .patience_ms = PATIENCE_MS,
                   .fn = split_and_reduce};
    fork_far(&f);
    expect_ok(&f);
}

static void test_a_rank_that_is_killed_is_named(void **state)
{
    (void)state;
    far_ranks f = {.communicator = COMMUNICATOR,
                   .ranks = 4,
                   .killed = 2,
                   .patience_ms = PATIENCE_MS,
                   .fn = reduce_until_killed};
    fork_far(&f);
    for (int r = 0; r < 4; r++) {
        if (r == 2) continue;
        assert_int_equal(f.results[r].result, E_PEER);
        if (!strstr(f.results[r].error.text, "rank 2 was lost before all_reduce over dp"))
            fail_msg("rank %d: %s", r, f.results[r].error.text);
    }
    close_far(&f);
}

static void test_a_failure_is_told_to_all(void **state)
{
    (void)state;
    far_ranks f = {.communicator = COMMUNICATOR,
                   .ranks = 3,
                   .killed = -1,
                   .patience_ms = PATIENCE_MS,
                   .fn = fail_in_one_rank};
    fork_far(&f);
    assert_int_equal(f.results[1].result, E_IO);
    for (int r = 0; r < 3; r += 2) {
        assert_int_equal(f.results[r].result, E_PEER);
        assert_string_equal(f.results[r].error.text, "rank 1: the disk is full");
    }
    close_far(&f);
}

// The limit does not count the time in which the other rank opens its communicator.
static status do_not_come(const test_rank *s, err *e)
{
    status result = OK;
    comm_set_label(s->comm, "dp");
    TRY(comm_barrier(s->comm, e));
    if (s->comm->rank == 0) {
        comm_watchdog_set(s->world->watchdog, 500);
        return one_all_reduce(s, PRIVATE, 100, F32, REDUCE_SUM, e);
    }
    while (!comm_failure_known(s->world->failure)) { // stays, and calls nothing
        network_progress(s->comm);
        sched_yield();
    }
    result = E_PEER;
done:
    return result;
}

static void test_a_wait_is_bounded(void **state)
{
    (void)state;
    far_ranks f = {.communicator = COMMUNICATOR,
                   .ranks = 2,
                   .killed = -1,
                   .patience_ms = PATIENCE_MS,
                   .fn = do_not_come};
    fork_far(&f);
    assert_int_equal(f.results[0].result, E_PEER);
    assert_string_equal(f.results[0].error.text,
                        "Watchdog caught collective operation timeout: rank 1 did not come to "
                        "all_reduce over dp within 0.5 s");
    close_far(&f);
}

// ---- Calls that differ, and settings

static status differ(const test_rank *s, err *e)
{
    return one_all_reduce(s, PRIVATE, s->comm->rank ? 900 : 200000, F32, REDUCE_SUM, e);
}

static status differ_in_messages(const test_rank *s, err *e)
{
    status result = OK;
    char x[16] = {0};
    if (s->comm->rank == 0)
        TRY(comm_send(s->comm, x, 8, 1, s->stream, e));
    else
        TRY(comm_recv(s->comm, x, 12, 0, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    TRY(comm_barrier(s->comm, e));
done:
    return result;
}

static void test_calls_that_differ_are_named(void **state)
{
    (void)state;
    workers k = {.ranks = 2, .as_threads = true, .communicator = COMMUNICATOR, .fn = differ};
    assert_int_equal(workers_run(&k), 2);
    for (int r = 0; r < 2; r++)
        if (!strstr(k.errors[r].text,
                    "rank 0 calls all_reduce of 200000 fp32 (sum) by direct while "
                    "rank 1 calls all_reduce of 900 fp32 (sum) by "
                    "recursive_doubling"))
            fail_msg("%s", k.errors[r].text);
    for (size_t a = 1; a < sizeof ALGORITHMS / sizeof *ALGORITHMS; a++) {
        char line[160];
        setenv("TRIREME_ALGO", ALGORITHMS[a],
               1); // of which each would be chosen for one size at most
        assert_int_equal(workers_run(&k), 2);
        snprintf(line, sizeof line,
                 "all_reduce of 200000 fp32 (sum) by %s while rank 1 calls all_reduce of 900 fp32 "
                 "(sum) by %s",
                 ALGORITHMS[a], ALGORITHMS[a]);
        for (int r = 0; r < 2; r++)
            if (!strstr(k.errors[r].text, line)) fail_msg("%s", k.errors[r].text);
    }
    unsetenv("TRIREME_ALGO");
    k.fn = differ_in_messages;
    assert_int_equal(workers_run(&k), 2);
    for (int r = 0; r < 2; r++)
        if (!strstr(k.errors[r].text, "rank 0 sends 8 bytes while rank 1 receives 12"))
            fail_msg("%s", k.errors[r].text);
}

static void test_an_unknown_algorithm_is_refused(void **state)
{
    (void)state;
    workers k = {.ranks = 2, .as_threads = true, .communicator = COMMUNICATOR, .fn = differ};
    setenv("TRIREME_ALGO", "ring", 1);
    assert_int_equal(workers_run(&k), 2);
    unsetenv("TRIREME_ALGO");
    for (int r = 0; r < 2; r++) {
        assert_int_equal(k.results[r], E_USAGE);
        assert_string_equal(k.errors[r].text, "TRIREME_ALGO=ring: valid are auto, "
                                              "recursive_doubling, gather, halving_doubling and "
                                              "direct");
    }
}

// First those that fork ranks far apart, before a library has run in this process.
#define NETWORK_CASES                                                                              \
    cmocka_unit_test(test_ranks_without_common_memory),                                            \
        cmocka_unit_test(test_split_without_common_memory),                                        \
        cmocka_unit_test(test_a_rank_that_is_killed_is_named),                                     \
        cmocka_unit_test(test_a_failure_is_told_to_all), cmocka_unit_test(test_a_wait_is_bounded), \
        cmocka_unit_test(test_an_unknown_algorithm_is_refused),                                    \
        cmocka_unit_test(test_a_nan_wins_every_maximum), cmocka_unit_test(test_groups_are_split),  \
        cmocka_unit_test(test_messages_arrive_in_order),                                           \
        cmocka_unit_test(test_ranks_tell_values_of_any_length),                                    \
        cmocka_unit_test(test_calls_that_differ_are_named),                                        \
        cmocka_unit_test(test_larger_than_the_workspace), cmocka_unit_test(test_every_collective), \
        cmocka_unit_test(test_every_algorithm_has_the_bits_of_the_tree)

#endif
