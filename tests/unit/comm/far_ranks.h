// far_ranks.h -- ranks of several hosts, for the tests of communicators: each host has a world of its own, and all meet
// in a TCP store. And what such ranks run.
#ifndef TESTS_COMM_FAR_RANKS_H
#define TESTS_COMM_FAR_RANKS_H

#include "collective_cases.h"

#include "rendezvous/store_server.h"
#include "rendezvous/store_tcp.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { LIMIT_S = 200, OPEN_MS = TEST_PATIENCE_MS, PATIENCE_MS = TEST_PATIENCE_MS, FAR_HOSTS = 16 };

// ---- What ranks run

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

static inline status split_and_reduce(const test_rank *s, err *e)
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

// A ring in which all messages start together, of few bytes and of many, then a chain.
static status messages(const test_rank *s, err *e)
{
    status result = OK;
    enum { COUNT = 300000 };
    const int size = s->comm->size, rank = s->comm->rank, next = (rank + 1) % size,
              last = (rank + size - 1) % size;
    const uint64_t before = s->comm->sent[next];
    float *to = malloc(COUNT * 4), *from = malloc(COUNT * 4), *want = malloc(COUNT * 4);
    fill(to, F32, rank, COUNT);
    fill(want, F32, last, COUNT);
    for (int i = 0; i < 3; i++) {
        const comm_message m[] = {comm_message_to(s->comm, to, 12, next),
                                  comm_message_from(s->comm, from, 12, last),
                                  comm_message_to(s->comm, to, 0, next),
                                  comm_message_to(s->comm, to + 3, (COUNT - 3) * 4, next),
                                  comm_message_from(s->comm, from, 0, last),
                                  comm_message_from(s->comm, from + 3, (COUNT - 3) * 4, last)};
        TRY(comm_issue_group(m, 6, s->stream, e));
        TRY(s->device->ops->sync(s->stream, e));
        if (memcmp(from, want, COUNT * 4) != 0) FAIL(E_INTERNAL, "a message differs");
        memset(from, 0, COUNT * 4);
    }
    TRY(comm_send_wait(s->comm, next, before + 9, s->stream, e));
    if (comm_send_wait(s->comm, next, before + 10, s->stream, e) != E_INTERNAL)
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

// ---- Ranks of several hosts

typedef struct far_result {
    status result;
    err error;
} far_result;

static const net_secret FAR_SECRET = {.key = "of all far ranks"};

// Memory that the test and all ranks share.
typedef struct far_shared {
    net_address store;
    far_result results[TEST_RANKS];
} far_shared;

typedef struct far_ranks {
    const char *communicator;
    int per_host[FAR_HOSTS]; // ranks of each host, up to a 0; all 0: each rank is alone on its host
    int started[2];          // a pipe that the test closes when the store is open
    int ranks, killed;       // killed: this rank kills itself; -1: none
    bool late;               // streams have threads of their own
    bool compares;           // each collective is compared before it runs
    // Where it is set: the last rank opens its communicator when this has returned, which gets the other ranks' processes.
    void (*before_last)(const pid_t *pid, int ranks);
    int last[2]; // the pipe by which the last rank waits
    int64_t patience_ms;
    rank_fn fn;
    far_shared *shared;
    far_result *results; // [ranks] in *shared
} far_ranks;

// A rank and its host.
typedef struct far_place {
    world *world;
    int rank, local_rank, local_size;
} far_place;

// Waits until the test closes its end.
static void await_pipe(const int ends[2])
{
    char nothing;
    close(ends[1]);
    while (read(ends[0], &nothing, 1) > 0) continue;
    close(ends[0]);
}

static int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++) count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static status run_far(const far_ranks *f, const far_place *p, err *e)
{
    status result = OK;
    device d = {.ops = f->late ? &test_late_device_ops : &test_device_ops};
    test_rank s = {.device = &d, .world = p->world, .arg = (void *)(uintptr_t)f};
    comm_store *store = NULL;
    int descriptors = 0;
    comm_watchdog_set(s.world->watchdog, f->patience_ms);
    TRY(d.ops->stream_open(&d, STREAM_COMM, false, &s.stream, e));
    TRY(comm_store_tcp_open(&f->shared->store, &FAR_SECRET, OPEN_MS, &store, e));
    const comm_options o = {.rank = p->rank,
                            .size = f->ranks,
                            .local_rank = p->local_rank,
                            .local_size = p->local_size,
                            .store = store,
                            .device = &d,
                            .deadline_ms = OPEN_MS,
                            .world = s.world};
    if (f->before_last && p->rank == f->ranks - 1) await_pipe(f->last);
    descriptors = open_descriptors();
    TRY(comm_open(f->communicator, o, &s.comm, e));
    TRY(f->fn(&s, e));
done:
    if (result != OK && s.comm) comm_abort(s.comm, e);
    if (s.stream) d.ops->stream_close(s.stream);
    comm_close(s.comm);
    if (result == OK && open_descriptors() != descriptors)
        result = err_set(e, E_INTERNAL, "%d descriptors are open, not %d", open_descriptors(),
                         descriptors);
    comm_store_close(store);
    if (result == OK && d.bytes_now)
        return err_set(e, E_INTERNAL, "%zu bytes are still counted", d.bytes_now);
    return result;
}

static void open_hosts(const far_ranks *f, far_place *places)
{
    err e;
    for (int first = 0, host = 0; first < f->ranks; host++) {
        const int ranks = f->per_host[0] ? f->per_host[host] : 1;
        world *w = NULL;
        assert_int_equal(world_open(ranks, false, &w, &e), OK);
        w->first_rank = first;
        w->secret = FAR_SECRET;
        assert_int_equal(comm_recorder_open(w, 0, f->compares, &e), OK);
        for (int r = 0; r < ranks; r++)
            places[first + r] =
                (far_place){.world = w, .rank = first + r, .local_rank = r, .local_size = ranks};
        first += ranks;
    }
}

// The ranks that share memory with a rank that was killed learn it from their starting process.
static void wait_far(const far_ranks *f, const far_place *places, const pid_t *pid)
{
    for (int left = f->ranks; left > 0; left--) {
        int how = 0, r = 0;
        const pid_t ended = wait(&how);
        while (r < f->ranks && pid[r] != ended) r++;
        assert_true(r < f->ranks);
        if (r != f->killed)
            assert_int_equal(how, 0);
        else
            assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
        if (r == f->killed && places[r].local_size > 1)
            comm_failure_set_lost(places[r].world->failure, r, ended, how, NULL, "");
    }
}

// A rank connects when all are forked, because the store's thread starts after the forks: a thread may hold a lock (of
// OpenSSL, of a sanitizer's allocator), and a process that is forked then would wait for this lock for ever.
static void await_start(const far_ranks *f, int rank)
{
    if (rank < f->ranks - 1) close(f->last[1]); // else it would keep the last rank waiting
    await_pipe(f->started);
}

// Forks the ranks and waits for them. The test that calls it looks at f->results.
static void fork_far(far_ranks *f)
{
    net_address local;
    store_server *server = NULL;
    pid_t pid[TEST_RANKS];
    far_place places[TEST_RANKS];
    err e;
    alarm(LIMIT_S);
    f->shared =
        mmap(NULL, sizeof *f->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(f->shared != MAP_FAILED);
    f->results = f->shared->results;
    open_hosts(f, places);
    assert_int_equal(pipe(f->started), 0);
    assert_int_equal(pipe(f->last), 0);
    for (int r = 0; r < f->ranks; r++) {
        if ((pid[r] = fork()) != 0) continue;
        alarm(LIMIT_S);
        await_start(f, r);
        f->results[r].result = run_far(f, &places[r], &f->results[r].error);
        _exit(0);
    }
    assert_int_equal(net_address_resolve("127.0.0.1", 0, &local, &e), OK);
    assert_int_equal(store_server_open(&local, &FAR_SECRET, &server, &f->shared->store, &e), OK);
    close(f->started[1]);
    if (f->before_last) f->before_last(pid, f->ranks);
    close(f->last[1]);
    wait_far(f, places, pid);
    close(f->started[0]);
    close(f->last[0]);
    store_server_close(server);
    for (int r = 0; r < f->ranks; r++)
        if (places[r].local_rank == 0) world_close(places[r].world);
}

static void close_far(far_ranks *f)
{
    munmap(f->shared, sizeof *f->shared);
}

static void expect_ok(far_ranks *f)
{
    for (int r = 0; r < f->ranks; r++)
        if (f->results[r].result != OK) fail_msg("rank %d: %s", r, f->results[r].error.text);
    close_far(f);
}

static inline status far_everything(const test_rank *s, err *e)
{
    status result = OK;
    TRY(reductions(s, e));
    TRY(larger(s, e));
    TRY(messages(s, e));
done:
    return result;
}

// All reduce for ever; one rank dies in its third call.
static inline status reduce_until_killed(const test_rank *s, err *e)
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

static inline status fail_in_one_rank(const test_rank *s, err *e)
{
    status result = OK;
    TRY(one_all_reduce(s, PRIVATE, 100, F32, REDUCE_MAX, e));
    if (s->comm->rank == 1) FAIL(E_IO, "the disk is full");
    for (;;) TRY(one_all_reduce(s, PRIVATE, 100, F32, REDUCE_MAX, e));
done:
    return result;
}

#endif
