// The communicator ucx: every collective by every algorithm against the tree, splits, messages, and ranks that
// share no memory: each has a world of its own, and they meet in a TCP store.
#include "collective_cases.h"

#include "comm/rendezvous.h"
#include "comm/store_server.h"
#include "comm/store_tcp.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { LIMIT_S = 200, OPEN_MS = 60000, PATIENCE_MS = 60000 };

static const char *const ALGORITHMS[] = {"auto", "recursive_doubling", "gather", "halving_doubling",
                                         "direct"};

static void run(int ranks, bool as_threads, bool late, rank_fn fn)
{
    alarm(LIMIT_S);
    workers k = {
        .ranks = ranks, .as_threads = as_threads, .late = late, .communicator = "ucx", .fn = fn};
    const int bad = workers_run(&k);
    if (bad) print_error("%s\n", k.failure.text);
    assert_int_equal(bad, 0);
}

// ---- Ranks of one machine, which are forked

static status reductions(const test_rank *s, err *e)
{
    status result = OK;
    static const size_t counts[] = {0, 1, 3, 511, 4099, 9001};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++) {
            const comm_reduce_op op = (comm_reduce_op)((c + t) % 3);
            TRY(one_all_reduce(s, PRIVATE, counts[c], TYPES[t], REDUCE_SUM, e));
            TRY(one_all_reduce(s, PRIVATE, counts[c], TYPES[t], op, e));
        }
done:
    return result;
}

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

static status larger(const test_rank *s, err *e)
{
    status result = OK;
    TRY(one_all_reduce(s, PRIVATE, 1500001, F32, REDUCE_SUM,
                       e)); // several pieces of each algorithm
    TRY(one_all_reduce(s, PRIVATE, 1500001, BF16, REDUCE_SUM, e));
    TRY(one_reduce_scatter(s, PRIVATE, 600001, F32, REDUCE_SUM, true, e));
    TRY(large(s, e));
done:
    return result;
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

static void test_over_tcp_alone(void **state)
{
    (void)state;
    setenv("UCX_TLS", "tcp,self", 1);
    run(4, false, false, larger);
    run(3, false, false, reductions);
    unsetenv("UCX_TLS");
}

static status split_and_reduce(const test_rank *s, err *e)
{
    status result = OK;
    test_rank part = *s, one = *s;
    part.comm = one.comm = NULL;
    TRY(comm_split(s->comm, s->comm->rank / 2, s->comm->rank, &part.comm, e));
    if (part.comm->size != (s->comm->rank == 4 ? 1 : 2)) FAIL(E_INTERNAL, "a group's size");
    TRY(reductions(&part, e));
    TRY(comm_split(part.comm, part.comm->rank, 0, &one.comm, e));
    TRY(reductions(&one, e));
    TRY(one_all_gather(&one, PRIVATE, 5, F32, false, e));
    TRY(reductions(s, e));
done:
    comm_close(one.comm);
    comm_close(part.comm);
    return result;
}

static void test_groups_are_split(void **state)
{
    (void)state;
    run(5, false, false, split_and_reduce);
}

// A ring in which all messages start together, of few bytes and of many, then a chain.
static status messages(const test_rank *s, err *e)
{
    status result = OK;
    enum { COUNT = 300000 };
    const int size = s->comm->size, rank = s->comm->rank, next = (rank + 1) % size,
              last = (rank + size - 1) % size;
    float *to = malloc(COUNT * 4), *from = malloc(COUNT * 4), *want = malloc(COUNT * 4);
    fill(to, F32, rank, COUNT);
    fill(want, F32, last, COUNT);
    for (int i = 0; i < 3; i++) {
        TRY(comm_group_begin(s->comm, e));
        TRY(comm_send(s->comm, to, 12, next, s->stream, e));
        TRY(comm_recv(s->comm, from, 12, last, s->stream, e));
        TRY(comm_send(s->comm, to, 0, next, s->stream, e));
        TRY(comm_send(s->comm, to + 3, (COUNT - 3) * 4, next, s->stream, e));
        TRY(comm_recv(s->comm, from, 0, last, s->stream, e));
        TRY(comm_recv(s->comm, from + 3, (COUNT - 3) * 4, last, s->stream, e));
        TRY(comm_group_end(s->comm, e));
        TRY(s->device->ops->sync(s->stream, e));
        if (memcmp(from, want, COUNT * 4) != 0) FAIL(E_INTERNAL, "a message differs");
        memset(from, 0, COUNT * 4);
    }
    TRY(comm_send_wait(s->comm, next, 9, s->stream, e));
    if (comm_send_wait(s->comm, next, 10, s->stream, e) != E_INTERNAL)
        FAIL(E_INTERNAL, "ten were sent");
    if (rank > 0) TRY(comm_recv(s->comm, to, COUNT * 4, last, s->stream, e));
    if (next > 0) TRY(comm_send(s->comm, to, COUNT * 4, next, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    fill(want, F32, 0, COUNT);
    if (memcmp(to, want, COUNT * 4) != 0) FAIL(E_INTERNAL, "a chain of messages differs");
done:
    free(to);
    free(from);
    free(want);
    return result;
}

static void test_messages_arrive_in_order(void **state)
{
    (void)state;
    run(2, false, false, messages);
    run(3, false, true, messages);
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
        TRY(comm_rendezvous_tell(&meeting, own, bytes, OPEN_MS, &all, &block, e));
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

typedef struct far_result {
    status result;
    err error;
} far_result;

typedef struct far_ranks {
    int ranks, killed; // killed: this rank kills itself; -1: none
    int64_t patience_ms;
    rank_fn fn;
    net_address address;
    far_result *results; // [ranks] in memory that the test reads at the end
} far_ranks;

static status run_far(const far_ranks *f, int rank, err *e)
{
    status result = OK;
    device d = {.ops = &test_device_ops};
    test_rank s = {.device = &d, .arg = (void *)(uintptr_t)f};
    const net_secret none = {.given = false};
    comm_store *store = NULL;
    TRY(world_open(1, false, &s.world, e));
    comm_watchdog_set(s.world->watchdog, f->patience_ms);
    TRY(d.ops->stream_open(&d, STREAM_COMM, false, &s.stream, e));
    TRY(comm_store_tcp_open(&f->address, &none, OPEN_MS, &store, e));
    const comm_options o = {.rank = rank,
                            .size = f->ranks,
                            .local_rank = 0,
                            .local_size = 1,
                            .store = store,
                            .device = &d,
                            .deadline_ms = OPEN_MS,
                            .world = s.world};
    TRY(comm_open("ucx", o, &s.comm, e));
    TRY(f->fn(&s, e));
done:
    if (result != OK && s.comm) comm_abort(s.comm, e);
    if (s.stream) d.ops->stream_close(s.stream);
    comm_close(s.comm);
    comm_store_close(store);
    world_close(s.world);
    return result;
}

// Forks the ranks and waits for them. The test that calls it looks at f->results.
static void fork_far(far_ranks *f)
{
    net_address local;
    store_server *server = NULL;
    const net_secret none = {.given = false};
    pid_t pid[TEST_RANKS];
    err e;
    alarm(LIMIT_S);
    f->results = mmap(NULL, (size_t)f->ranks * sizeof *f->results, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(f->results != MAP_FAILED);
    assert_int_equal(net_address_resolve("127.0.0.1", 0, &local, &e), OK);
    assert_int_equal(store_server_open(&local, &none, &server, &f->address, &e), OK);
    for (int r = 0; r < f->ranks; r++) {
        if ((pid[r] = fork()) != 0) continue;
        alarm(LIMIT_S);
        f->results[r].result = run_far(f, r, &f->results[r].error);
        _exit(0);
    }
    for (int r = 0; r < f->ranks; r++) {
        int how = 0;
        assert_int_equal(waitpid(pid[r], &how, 0), pid[r]);
        if (r == f->killed)
            assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
        else
            assert_int_equal(how, 0);
    }
    store_server_close(server);
}

static void close_far(far_ranks *f)
{
    munmap(f->results, (size_t)f->ranks * sizeof *f->results);
}

static status far_everything(const test_rank *s, err *e)
{
    status result = OK;
    TRY(reductions(s, e));
    TRY(larger(s, e));
    TRY(messages(s, e));
done:
    return result;
}

static void test_ranks_without_common_memory(void **state)
{
    (void)state;
    for (int n = 2; n <= 5; n += 3) {
        far_ranks f = {.ranks = n, .killed = -1, .patience_ms = PATIENCE_MS, .fn = far_everything};
        fork_far(&f);
        for (int r = 0; r < n; r++)
            if (f.results[r].result != OK) fail_msg("rank %d: %s", r, f.results[r].error.text);
        close_far(&f);
    }
}

static void test_split_without_common_memory(void **state)
{
    (void)state;
    far_ranks f = {.ranks = 5, .killed = -1, .patience_ms = PATIENCE_MS, .fn = split_and_reduce};
    fork_far(&f);
    for (int r = 0; r < 5; r++)
        if (f.results[r].result != OK) fail_msg("rank %d: %s", r, f.results[r].error.text);
    close_far(&f);
}

// All reduce for ever; one rank dies in its third call.
static status reduce_until_killed(const test_rank *s, err *e)
{
    status result = OK;
    const far_ranks *f = s->arg;
    comm_set_label(s->comm, "dp");
    for (int i = 0;; i++) {
        if (i == 2 && s->comm->rank == f->killed) raise(SIGKILL);
        TRY(one_all_reduce(s, PRIVATE, 300000, F32, REDUCE_MAX, e));
    }
done:
    return result;
}

static void test_a_rank_that_is_killed_is_named(void **state)
{
    (void)state;
    static const char *const transports[] = {"tcp,self", "all"};
    for (size_t t = 0; t < 2; t++) {
        setenv("UCX_TLS", transports[t], 1);
        far_ranks f = {
            .ranks = 4, .killed = 2, .patience_ms = PATIENCE_MS, .fn = reduce_until_killed};
        fork_far(&f);
        for (int r = 0; r < 4; r++) {
            if (r == 2) continue;
            assert_int_equal(f.results[r].result, E_PEER);
            if (!strstr(f.results[r].error.text, "rank 2 was lost before all_reduce over dp"))
                fail_msg("rank %d: %s", r, f.results[r].error.text);
        }
        close_far(&f);
    }
    unsetenv("UCX_TLS");
}

static status fail_in_one_rank(const test_rank *s, err *e)
{
    status result = OK;
    TRY(one_all_reduce(s, PRIVATE, 100, F32, REDUCE_MAX, e));
    if (s->comm->rank == 1) FAIL(E_IO, "the disk is full");
    for (;;) TRY(one_all_reduce(s, PRIVATE, 100, F32, REDUCE_MAX, e));
done:
    return result;
}

static void test_a_failure_is_told_to_all(void **state)
{
    (void)state;
    far_ranks f = {.ranks = 3, .killed = -1, .patience_ms = PATIENCE_MS, .fn = fail_in_one_rank};
    fork_far(&f);
    assert_int_equal(f.results[1].result, E_IO);
    for (int r = 0; r < 3; r += 2) {
        assert_int_equal(f.results[r].result, E_PEER);
        assert_string_equal(f.results[r].error.text, "rank 1: the disk is full");
    }
    close_far(&f);
}

static status do_not_come(const test_rank *s, err *e)
{
    comm_set_label(s->comm, "dp");
    if (s->comm->rank == 1) { // stays, and calls nothing
        while (!comm_failure_known(s->world->failure))
            if (comm_barrier(s->comm, e) != OK) return E_PEER;
        return E_PEER;
    }
    return one_all_reduce(s, PRIVATE, 100, F32, REDUCE_SUM, e);
}

static void test_a_wait_is_bounded(void **state)
{
    (void)state;
    far_ranks f = {.ranks = 2, .killed = -1, .patience_ms = 500, .fn = do_not_come};
    fork_far(&f);
    assert_int_equal(f.results[0].result, E_PEER);
    const char *text = f.results[0].error.text; // the wait of either rank may be over first
    if (!strstr(text, "rank 1 did not come to all_reduce over dp within 0.5 s") &&
        !strstr(text, "rank 0 did not come to barrier over dp within 0.5 s"))
        fail_msg("%s", text);
    close_far(&f);
}

// ---- Calls that differ, and settings

static status differ(const test_rank *s, err *e)
{
    return one_all_reduce(s, PRIVATE, s->comm->rank ? 900 : 80000, F32, REDUCE_SUM, e);
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
    workers k = {.ranks = 2, .as_threads = true, .communicator = "ucx", .fn = differ};
    assert_int_equal(workers_run(&k), 2);
    for (int r = 0; r < 2; r++)
        if (!strstr(k.errors[r].text, "rank 0 calls all_reduce of 80000 fp32 (sum) by direct while "
                                      "rank 1 calls all_reduce of 900 fp32 (sum) by "
                                      "recursive_doubling"))
            fail_msg("%s", k.errors[r].text);
    k.fn = differ_in_messages;
    assert_int_equal(workers_run(&k), 2);
    for (int r = 0; r < 2; r++)
        if (!strstr(k.errors[r].text, "rank 0 sends 8 bytes while rank 1 receives 12"))
            fail_msg("%s", k.errors[r].text);
}

static void test_an_unknown_algorithm_is_refused(void **state)
{
    (void)state;
    workers k = {.ranks = 2, .as_threads = true, .communicator = "ucx", .fn = differ};
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_unknown_algorithm_is_refused),
        cmocka_unit_test(test_a_nan_wins_every_maximum),
        cmocka_unit_test(test_groups_are_split),
        cmocka_unit_test(test_messages_arrive_in_order),
        cmocka_unit_test(test_ranks_tell_values_of_any_length),
        cmocka_unit_test(test_calls_that_differ_are_named),
        cmocka_unit_test(test_ranks_without_common_memory),
        cmocka_unit_test(test_split_without_common_memory),
        cmocka_unit_test(test_a_rank_that_is_killed_is_named),
        cmocka_unit_test(test_a_failure_is_told_to_all),
        cmocka_unit_test(test_a_wait_is_bounded),
        cmocka_unit_test(test_over_tcp_alone),
        cmocka_unit_test(test_larger_than_the_workspace),
        cmocka_unit_test(test_every_collective),
        cmocka_unit_test(test_every_algorithm_has_the_bits_of_the_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
