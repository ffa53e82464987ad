// bench_comm_run.c -- the loop of `trireme bench all_reduce …` on one rank: fills the buffers,
// times the calls, checks the result; rank 0 has the rows printed.
// bench_comm.c starts it through launch_ranks. Numbers are made and compared in memory of the host.
#include "cmd/bench/bench_comm.h"
#include "cmd/cmd.h"
#include "cmd/console.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/proc.h"
#include "device/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bench_comm_row row_of(const bench_comm_rank *b, int64_t bytes)
{
    const bench_collective *what = b->q->what;
    const size_t element = dtype_bytes(b->q->type), ranks = (size_t)b->comm->size,
                 aligned = 16 / element; // shards start at multiples of 16 bytes
    const bool is_root = b->comm->rank == b->q->root;
    const size_t all = (size_t)bytes / element;
    const size_t shard = what->divides
                             ? all / ranks & ~(aligned - 1)
                             : (all + ranks - 1 + ranks * (aligned - 1)) / ranks & ~(aligned - 1);
    const size_t full = what->divides ? shard * ranks : all;
    return (bench_comm_row){.count = what->divides ? shard : all,
                            .in = what->in == ARRAY_SHARD ? shard : full,
                            .out = what->out == ARRAY_SHARD             ? shard
                                   : what->out == ARRAY_FULL || is_root ? full
                                                                        : 0,
                            .bytes = full * element,
                            .moved = (what->bus == BUS_HYPERCUBE ? full - shard : full) * element,
                            .shard_bytes = shard * element};
}

static void put(void *p, dtype t, size_t i, double x)
{
    if (t == F32)
        ((float *)p)[i] = (float)x;
    else if (t == BF16)
        ((uint16_t *)p)[i] = float_to_bf16((float)x);
    else if (t == F16)
        ((uint16_t *)p)[i] = float_to_fp16((float)x);
    else if (t == F64)
        ((double *)p)[i] = x;
    else
        ((int64_t *)p)[i] = (int64_t)x;
}

// The input and output of a call, out-of-place or in-place.
static void buffers(const bench_comm_rank *b, const bench_comm_row *r, bool in_place, char **in,
                    char **out)
{
    const size_t shard = (size_t)b->comm->rank * r->shard_bytes;
    *in = b->send;
    *out = b->recv;
    if (!in_place) return;
    *in = b->q->what->in == ARRAY_SHARD ? b->recv + shard : b->recv;
    *out = b->q->what->out == ARRAY_SHARD ? b->recv + shard : b->recv;
}

typedef struct bench_seconds {
    double all, cpu; // until the calls are complete, and until they are issued
} bench_seconds;

// *apart grows by the seconds that do not count.
static status issue_calls(const bench_comm_rank *b, const bench_comm_row *r, bool in_place,
                          int count, double *apart, err *e)
{
    status result = OK;
    char *in = NULL, *to = NULL;
    const bench_comm_loop *l = &b->q->loop;
    buffers(b, r, in_place, &in, &to);
    for (int i = 0; i < count; i++) {
        TRY(b->q->what->run(b, r, in, to, e));
        if (l->blocking == BLOCK_NEVER) continue;
        if (l->blocking == BLOCK_ITERATIONS && (i + 1) % l->aggregate) continue;
        TRY(b->device->ops->sync(b->stream, e));
        if (l->blocking == BLOCK_OWN) continue;
        const double complete = clock_seconds();
        TRY(comm_barrier(b->comm, e));
        if (l->blocking == BLOCK_ITERATIONS) *apart += clock_seconds() - complete;
    }
done:
    return result;
}

static status time_calls(const bench_comm_rank *b, const bench_comm_row *r, bool in_place,
                         int count, bench_seconds *out, err *e)
{
    status result = OK;
    double apart = 0;
    TRY(comm_barrier(b->comm, e));
    const double start = clock_seconds();
    TRY(issue_calls(b, r, in_place, count, &apart, e));
    out->cpu = clock_seconds() - start - apart;
    TRY(b->device->ops->sync(b->stream, e));
    out->all = clock_seconds() - start - apart;
done:
    return result;
}

// Records the calls, and times `replays` replays of the recording.
static status time_replays(const bench_comm_rank *b, const bench_comm_row *r, bool in_place,
                           int count, int replays, bench_seconds *out, err *e)
{
    status result = OK;
    const device_ops *ops = b->device->ops;
    device_recording *recording = NULL;
    double apart = 0; // none: recorded calls are not waited for
    err later = {0};
    TRY(comm_barrier(b->comm, e));
    TRY(ops->capture_begin(b->stream, e));
    result = issue_calls(b, r, in_place, count, &apart, e);
    const status ended = ops->capture_end(b->stream, &recording, &later);
    if (result == OK && ended != OK) *e = later, result = ended;
    if (result != OK) goto done;
    TRY(comm_barrier(b->comm, e));
    const double start = clock_seconds();
    for (int i = 0; i < replays; i++) TRY(ops->replay(recording, b->stream, e));
    out->cpu = clock_seconds() - start;
    TRY(ops->sync(b->stream, e));
    out->all = clock_seconds() - start;
done:
    ops->recording_close(recording);
    return result;
}

static status count_wrong(const bench_comm_rank *b, const bench_comm_row *r, bool in_place,
                          uint64_t *out, err *e)
{
    status result = OK;
    const size_t element = dtype_bytes(b->q->type);
    char *in = NULL, *to = NULL;
    bench_seconds unused;
    buffers(b, r, in_place, &in, &to);
    char *const filled = b->host ? b->host : in, *const read = b->host ? b->host : to;
    memset(read, 0xff, r->out * element);
    if (b->host) TRY(device_upload(b->stream, to, read, r->out * element, e));
    for (size_t i = 0; i < r->in; i++)
        put(filled, b->q->type, i, bench_comm_value(b, b->comm->rank, i));
    if (b->host) TRY(device_upload(b->stream, in, filled, r->in * element, e));
    if (b->q->loop.replays)
        TRY(time_replays(b, r, in_place, 1, 1, &unused, e));
    else
        TRY(time_calls(b, r, in_place, 1, &unused, e));
    if (b->host) TRY(device_download(b->stream, read, to, r->out * element, e));
    *out = 0;
    for (size_t i = 0; i < r->out; i++) {
        uint64_t exact = 0;
        put(&exact, b->q->type, 0, b->q->what->expect(b, r, i));
        *out += memcmp(read + i * element, &exact, element) != 0;
    }
done:
    return result;
}

// The board receives the figures of all ranks. Ranks that one process has started share it.
static status tell_figures(const bench_comm_rank *b, err *e)
{
    status result = OK;
    bench_rank_figures *const all = b->q->board->ranks;
    const size_t each = sizeof *all;
    char *const own = (char *)b->exchange + (size_t)b->comm->rank * each;
    if (!b->q->attached) return comm_barrier(b->comm, e);
    TRY(device_upload(b->stream, own, &all[b->comm->rank], each, e));
    TRY(comm_all_gather(b->comm, own, b->exchange, each / sizeof(int64_t), I64, b->stream, e));
    TRY(device_download(b->stream, all, b->exchange, (size_t)b->comm->size * each, e));
done:
    return result;
}

// The figure of a row of those of all ranks, as -a says.
static double average_of(const bench_request *q, const double *of_rank_0)
{
    double least = 1e300, most = 0, sum = 0;
    const size_t stride = sizeof(bench_rank_figures);
    for (int r = 0; r < q->ranks; r++) {
        const double s = *(const double *)((const char *)of_rank_0 + (size_t)r * stride);
        sum += s;
        if (s < least) least = s;
        if (s > most) most = s;
    }
    return q->average == AVERAGE_RANK_0 ? *of_rank_0
           : q->average == AVERAGE_MIN  ? least
           : q->average == AVERAGE_MAX  ? most
                                        : sum / q->ranks;
}

// The figures of a row, out-of-place or in-place. Adds them to the totals.
static bench_comm_figures figures_of(const bench_request *q, const bench_comm_row *r, int in_place)
{
    bench_shared *const board = q->board;
    if (in_place && !q->what->in_place) return (bench_comm_figures){.there = false};
    const double seconds = average_of(q, &board->ranks[0].seconds[in_place]);
    bench_comm_figures f = {.there = true,
                            .us = seconds * 1e6,
                            .cpu_us = average_of(q, &board->ranks[0].cpu_seconds[in_place]) * 1e6,
                            .rate = (double)r->moved / seconds * 1e-9};
    f.bus = f.rate * bench_comm_bus_factor(q);
    for (int i = 0; i < q->ranks; i++) f.wrong += board->ranks[i].wrong[in_place];
    board->wrong += f.wrong;
    board->bandwidth_sum += f.bus;
    board->bandwidths++;
    return f;
}

// The first rank of each process counts, and rank 0 prints.
static status show_row(bench_comm_rank *b, const bench_comm_row *r, err *e)
{
    const bool first = b->q->board->bandwidths == 0;
    const bench_comm_figures f[] = {figures_of(b->q, r, 0), figures_of(b->q, r, 1)};
    if (b->comm->rank > 0) return OK;
    bench_comm_print_row(b->q, r, f, first);
    bench_comm_report_row(b, r, f, first);
    return console_flush(e);
}

static status run_size(bench_comm_rank *b, int64_t bytes, err *e)
{
    status result = OK;
    const bench_request *q = b->q;
    const bench_comm_row r = row_of(b, bytes);
    bench_rank_figures *mine = &q->board->ranks[b->comm->rank];
    const int variants = q->what->in_place ? 2 : 1; // out-of-place, in-place
    const int count = q->loop.iterations * q->loop.aggregate, replays = q->loop.replays;
    for (int in_place = 0; in_place < variants; in_place++) {
        bench_seconds s = {0};
        if (replays)
            TRY(time_replays(b, &r, in_place, count, replays, &s, e));
        else
            TRY(time_calls(b, &r, in_place, count, &s, e));
        const double calls = (double)count * (replays ? replays : 1);
        mine->seconds[in_place] = s.all / calls;
        mine->cpu_seconds[in_place] = s.cpu / calls;
        if (q->check) TRY(count_wrong(b, &r, in_place, &mine->wrong[in_place], e));
    }
    TRY(tell_figures(b, e));
    if (b->counts) TRY(show_row(b, &r, e));
    TRY(comm_barrier(b->comm, e));
done:
    return result;
}

static status run_sizes(bench_comm_rank *b, err *e)
{
    status result = OK;
    const bench_request *q = b->q;
    const bench_comm_row most = row_of(b, q->most), least = row_of(b, q->least);
    const int warm_up = q->loop.warm_up;
    bench_seconds unused;
    TRY(time_calls(b, &most, true, q->what->in_place ? warm_up : 0, &unused, e));
    TRY(time_calls(b, &most, false, warm_up, &unused, e));
    TRY(time_calls(b, &least, false, warm_up, &unused, e));
    for (int cycle = 0; q->loop.cycles == 0 || cycle < q->loop.cycles; cycle++)
        for (int64_t bytes = q->least; bytes <= q->most;
             bytes = q->factor ? bytes * q->factor : bytes + q->step)
            TRY(run_size(b, bytes, e));
done:
    return result;
}

// Ranks take the devices of the machine in turn.
static status open_device(bench_comm_rank *b, const world *w, int rank, err *e)
{
    status result = OK;
    bench_rank_figures *mine = &b->q->board->ranks[rank];
    const int local_rank = rank - w->first_rank;
    device_options o = {.threads = 1, .local_rank = local_rank, .local_ranks = w->ranks};
    device_description d;
    TRY(device_describe(b->q->device, &o, &d, e));
    o.index = local_rank % d.count;
    TRY(device_open(b->q->device, &o, &b->device, e));
    snprintf(mine->device, sizeof mine->device, "%s", d.name);
    mine->index = o.index;
    TRY(b->device->ops->stream_open(b->device, STREAM_COMM, false, &b->stream, e));
done:
    return result;
}

static status clear(const bench_comm_rank *b, err *e)
{
    const kernel_call zeros = {.kind = K_FILL, .u.fill = {b->memory, (int64_t)b->memory_bytes}};
    device_launch(b->stream, &zeros);
    return b->device->ops->sync(b->stream, e);
}

// Says why the calls cannot be recorded, where they cannot.
static status check_replays(const bench_comm_rank *b, err *e)
{
    const bool device_can = b->device->ops->capture_begin;
    if (!b->q->loop.replays || (device_can && b->comm->can.can_be_recorded)) return OK;
    return err_set(e, E_USAGE,
                   "bench: -G %d: the %s %s records no calls; valid is -G 0, or ranks on GPUs with "
                   "--comm p2p",
                   b->q->loop.replays, device_can ? "communicator" : "device",
                   device_can ? b->comm->ops->name : b->device->ops->name);
}

static status open_rank(bench_comm_rank *b, world *w, int rank, err *e)
{
    status result = OK;
    // The shards of a reduce are padded.
    const size_t ranks = (size_t)w->all_ranks;
    const size_t each = ((size_t)b->q->most + ranks * 32 + 63) & ~(size_t)63;
    bench_rank_figures *mine = &b->q->board->ranks[rank];
    mine->pid = (int)getpid();
    proc_host_name(mine->host, sizeof mine->host);
    TRY(open_device(b, w, rank, e));
    TRY(comm_open(b->q->comm, comm_world_options(w, rank, b->device, 0), &b->comm, e));
    TRY(check_replays(b, e));
    comm_watchdog_set(w->watchdog, (int64_t)(b->q->timeout_s * 1000));
    b->memory_bytes = 2 * each + ranks * sizeof *mine + 64;
    if (b->q->private_memory)
        TRY(device_alloc(b->device, MEMORY_DEVICE, b->memory_bytes, &b->memory, e));
    else
        TRY(comm_alloc(b->comm, b->device, b->memory_bytes, &b->memory, e));
    if (!b->device->is_host_memory)
        TRY(alloc_array(&b->host, each, 1, "the benchmark's numbers", e));
    TRY(comm_share(b->comm, e));
    TRY(clear(b, e));
    b->send = b->memory;
    b->recv = b->send + each;
    b->exchange = b->recv + each;
done:
    return result;
}

static void close_rank(bench_comm_rank *b)
{
    if (b->stream) b->device->ops->stream_close(b->stream);
    if (b->q->private_memory)
        device_release(b->device, MEMORY_DEVICE, b->memory, b->memory_bytes);
    else if (b->comm)
        comm_release(b->comm, b->device, b->memory, b->memory_bytes);
    comm_close(b->comm);
    device_close(b->device);
    free(b->host);
    text_clear(&b->report);
}

status bench_comm_run(world *w, int rank, int ranks, void *request, err *e)
{
    (void)ranks;
    status result = OK;
    bench_comm_rank b = {.q = request, .counts = rank == w->first_rank + w->first};
    TRY(open_rank(&b, w, rank, e));
    TRY(tell_figures(&b, e));
    if (rank == 0) {
        cmd_say_communicator(b.comm);
        bench_comm_print_head(b.q);
        bench_comm_report_begin(&b);
    }
    TRY(run_sizes(&b, e));
    if (rank == 0) {
        TRY(bench_comm_report_write(&b, e));
        bench_comm_print_foot(b.q);
        TRY(console_flush(e));
    }
    // Where a result is wrong all processes end with exit code 1, and at the first of them a launcher may end the others.
    TRY(comm_barrier(b.comm, e));
done:
    close_rank(&b);
    return result;
}
