// measure_ranks.c -- the rate of an all-reduce of this host's ranks with its results checked, and of messages from one device
// to another. Called by the checks and by `trireme topo --measure`. Ranks are threads, so that the caller need not fork.
#include "doctor/measure/measure.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/proc.h"
#include "comm/registry.h"

#include <math.h>
#include <stdlib.h>

enum {
    ELEMENTS = 4 << 20,
    CALLS = 10,
    MOST_RANKS = 16,
    LINK_BYTES = 32 << 20,
    MESSAGES = 6,
    WAIT_MS = 5000
};

typedef status (*ranks_main)(world *w, int rank, void *arg, err *e);

typedef struct ranks_work {
    world *world;
    ranks_main main;
    const char *device;
    const int *index; // [ranks] of the devices; NULL: 0
    double *wrong;    // [ranks] elements
    double seconds;   // of a call, on rank 0
} ranks_work;

typedef struct rank_state {
    device *device;
    device_stream *stream;
    comm *comm;
    void *memory;
    size_t bytes;
} rank_state;

static status run_rank(int rank, void *arg, err *e)
{
    ranks_work *x = arg;
    return x->main(x->world, rank, x, e);
}

// Where one fails, it closes its communicator, and the others fail, too.
static status run_ranks(ranks_work *x, int ranks, ranks_main fn, err *e)
{
    status result = OK;
    x->main = fn;
    TRY(world_open(ranks, true, &x->world, e));
    TRY(measure_run_on_cores(NULL, ranks, run_rank, x, e));
done:
    world_close(x->world);
    return result;
}

static status open_rank(world *w, int rank, const ranks_work *x, size_t bytes, rank_state *r,
                        err *e)
{
    status result = OK;
    const device_options o = {.threads = 1,
                              .index = x->index ? x->index[rank] : 0,
                              .local_rank = rank,
                              .local_ranks = w->ranks};
    TRY(device_open(x->device, &o, &r->device, e));
    TRY(r->device->ops->stream_open(r->device, STREAM_COMM, false, &r->stream, e));
    TRY(comm_open("auto", comm_world_options(w, rank, r->device, WAIT_MS), &r->comm, e));
    TRY(comm_alloc(r->comm, r->device, bytes, &r->memory, e));
    r->bytes = bytes;
    TRY(comm_share(r->comm, e));
done:
    return result;
}

static void close_rank(rank_state *r)
{
    if (r->stream) r->device->ops->stream_close(r->stream);
    if (r->comm) comm_release(r->comm, r->device, r->memory, r->bytes);
    comm_close(r->comm);
    device_close(r->device);
}

// ---- All-reduce

// Whole numbers, whose sums are exact.
static float value_of(int rank, size_t i)
{
    return (float)((i * 7 + (size_t)rank * 3) % 64);
}

static double count_wrong(const float *sum, int ranks)
{
    double wrong = 0;
    for (size_t i = 0; i < ELEMENTS; i++) {
        float expected = 0;
        for (int r = 0; r < ranks; r++) expected += value_of(r, i);
        wrong += sum[i] != expected;
    }
    return wrong;
}

static status reduce_all(world *w, int rank, void *arg, err *e)
{
    status result = OK;
    ranks_work *x = arg;
    rank_state r = {0};
    TRY(open_rank(w, rank, x, ELEMENTS * sizeof(float), &r, e));
    double best = INFINITY;
    for (int call = 0; call < CALLS; call++) {
        float *const sum = r.memory;
        for (size_t i = 0; i < ELEMENTS; i++) sum[i] = value_of(rank, i);
        TRY(comm_barrier(r.comm, e));
        const double start = clock_seconds();
        TRY(comm_all_reduce(r.comm, sum, ELEMENTS, F32, REDUCE_SUM, r.stream, e));
        TRY(r.device->ops->sync(r.stream, e));
        best = fmin(best, clock_seconds() - start);
        TRY(comm_barrier(r.comm, e));
        if (call == 0 || call == CALLS - 1) x->wrong[rank] += count_wrong(sum, w->ranks);
    }
    if (rank == 0) x->seconds = best;
done:
    close_rank(&r);
    return result;
}

status measure_all_reduce(const doctor_context *c, doctor_measured *out, err *e)
{
    status result = OK;
    const int cores = proc_usable_cores(), asked = c->ranks > 0 ? c->ranks : cores;
    const int ranks = asked < 2 ? 2 : asked > MOST_RANKS ? MOST_RANKS : asked;
    ranks_work x = {.device = "cpu"};
    out->all_reduce.wrong_rank = -1;
    TRY(alloc_zeroed(&x.wrong, (size_t)ranks, sizeof *x.wrong, "the figures", e));
    TRY(run_ranks(&x, ranks, reduce_all, e));
    out->all_reduce.ranks = ranks;
    out->all_reduce.rate = ELEMENTS * sizeof(float) / x.seconds * 2 * (ranks - 1) / ranks * 1e-9;
    for (int i = ranks - 1; i >= 0; i--) {
        out->all_reduce.wrong += x.wrong[i];
        if (x.wrong[i] > 0) out->all_reduce.wrong_rank = i;
    }
done:
    free(x.wrong);
    return result;
}

// ---- A link

static status send_messages(world *w, int rank, void *arg, err *e)
{
    status result = OK;
    ranks_work *x = arg;
    rank_state r = {0};
    TRY(open_rank(w, rank, x, LINK_BYTES, &r, e));
    double best = INFINITY;
    for (int i = 0; i < MESSAGES; i++) {
        TRY(comm_barrier(r.comm, e));
        const double start = clock_seconds();
        const comm_message m = rank == 0 ? comm_message_to(r.comm, r.memory, LINK_BYTES, 1)
                                         : comm_message_from(r.comm, r.memory, LINK_BYTES, 0);
        TRY(comm_issue_group(&m, 1, r.stream, e));
        if (rank == 0) TRY(comm_send_wait(r.comm, 1, r.comm->sent[1], r.stream, e));
        TRY(r.device->ops->sync(r.stream, e));
        best = fmin(best, clock_seconds() - start);
    }
    if (rank == 0) x->seconds = best;
done:
    close_rank(&r);
    return result;
}

status measure_link(const char *device_name, int from, int to, double *out, err *e)
{
    status result = OK;
    const int both[] = {from, to};
    ranks_work x = {.device = device_name, .index = both};
    TRY(run_ranks(&x, 2, send_messages, e));
    *out = LINK_BYTES / x.seconds * 1e-9;
done:
    return result;
}
