// p2p_ranks.h -- runs a function on ranks of the communicator p2p, or of nccl, which are threads or processes, for
// their tests. The including file says how a device is opened: open_device and broken_rule.
#ifndef TRIREME_TESTS_COMM_P2P_RANKS_H
#define TRIREME_TESTS_COMM_P2P_RANKS_H

#include "base/clock.h"
#include "comm/p2p/p2p.h"
#include "comm/recorder.h"
#include "comm/registry.h"
#include "device/kernels.h"
#include "patience.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = 16, LIMIT_S = 240, ROOM = 5500 };

typedef struct rank_state {
    struct group_state *all;
    int rank;
    comm *comm;
    device *device;
    device_stream *stream[STREAMS];
    status result;
    err error;
} rank_state;

// The device of a rank; `order` is of the including file.
static status open_device(int rank, int order, device **out, err *e);
// The line of a rule of the device that was broken; NULL: none.
static const char *broken_rule(const device *d);

typedef status (*rank_fn)(rank_state *s, err *e);

typedef struct group_state {
    int ranks;
    int order;        // of work, for open_device
    const char *name; // of the communicator; NULL: auto, which is p2p
    bool any_order;
    bool compares;       // ranks compare their calls (comm/recorder.h)
    bool processes;      // ranks are not threads
    int64_t patience_ms; // 0: TEST_PATIENCE_MS
    rank_fn fn;
    world *world;
    rank_state rank[MOST];
} group_state;

// ---- Ranks

static status run_rank(rank_state *s, err *e)
{
    status result = OK;
    TRY(open_device(s->rank, s->all->order, &s->device, e));
    for (int k = 0; k < STREAMS; k++)
        TRY(s->device->ops->stream_open(s->device, (device_stream_kind)k, false, &s->stream[k], e));
    comm_options o = test_world_options(s->all->world, s->rank, s->device);
    o.any_order = s->all->any_order;
    TRY(comm_open(s->all->name ? s->all->name : "auto", o, &s->comm, e));
    if (strcmp(s->comm->ops->name, s->all->name ? s->all->name : "p2p") != 0)
        FAIL(E_INTERNAL, "auto is %s", s->comm->ops->name);
    TRY(s->all->fn(s, e));
    TRY(comm_barrier(s->comm, e));
    if (broken_rule(s->device)) FAIL(E_INTERNAL, "%s", broken_rule(s->device));
done:
    if (result != OK) comm_failure_set(s->all->world->failure, s->rank, e);
    for (int k = 0; k < STREAMS; k++)
        if (s->stream[k]) s->device->ops->stream_close(s->stream[k]);
    comm_close(s->comm);
    device_close(s->device);
    return result;
}

static void *rank_main(void *arg)
{
    rank_state *s = arg;
    s->result = run_rank(s, &s->error);
    return NULL;
}

static void run_threads(group_state *g)
{
    pthread_t thread[MOST];
    for (int r = 0; r < g->ranks; r++)
        assert_int_equal(pthread_create(&thread[r], NULL, rank_main, &g->rank[r]), 0);
    for (int r = 0; r < g->ranks; r++) pthread_join(thread[r], NULL);
}

// The ranks' states lie in memory that the processes share.
static void run_processes(group_state *g)
{
    pid_t pid[MOST];
    const size_t bytes = sizeof g->rank;
    rank_state *shared =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    memcpy(shared, g->rank, bytes);
    for (int r = 0; r < g->ranks; r++) {
        if ((pid[r] = fork()) != 0) continue;
        alarm(LIMIT_S);
        rank_main(&shared[r]);
        _exit(0);
    }
    for (int r = 0; r < g->ranks; r++) {
        int how = 0;
        assert_int_equal(waitpid(pid[r], &how, 0), pid[r]);
        if (how == 0) continue;
        comm_failure_set_lost(g->world->failure, r, pid[r], how, NULL, "");
        shared[r].result = E_INTERNAL;
        err_set(&shared[r].error, E_INTERNAL, "the process ended with %x", (unsigned)how);
    }
    memcpy(g->rank, shared, bytes);
    munmap(shared, bytes);
}

static void run_ranks(group_state *g, int ranks, rank_fn fn)
{
    err e;
    alarm(LIMIT_S);
    g->ranks = ranks;
    g->fn = fn;
    assert_int_equal(test_world_open(ranks, !g->processes, &g->world, &e), OK);
    if (g->patience_ms > 0) comm_watchdog_set(g->world->watchdog, g->patience_ms);
    assert_int_equal(comm_recorder_open(g->world, 0, g->compares, &e), OK);
    for (int r = 0; r < ranks; r++) g->rank[r] = (rank_state){.all = g, .rank = r};
    if (g->processes)
        run_processes(g);
    else
        run_threads(g);
    world_close(g->world);
}

#endif
