// bench_calibrate_calls.c -- times the calls of one communicator, on each of its ranks. See bench_calibrate_calls.h.
// Called by `trireme bench calibrate`. bench_calibrate_arrays.c has the memory.
#include "cmd/bench/bench_calibrate_calls.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "cmd/bench/bench_calibrate_arrays.h"
#include "device/kernels.h"

#include <stdlib.h>
#include <string.h>

enum {
    LEAST_ROUNDS = 3,
    MOST_ROUNDS = 31,
    SMALL_BYTES = 64 << 10, // calls up to this one are timed several at once
    AT_ONCE = 16,
};

typedef enum calls_pairs { PAIRS_NONE, PAIRS_ON_HOST, PAIRS_OF_HOSTS } calls_pairs;

typedef struct calls_row {
    comm_call_kind kind; // of a send, the receive is measured with it
    bool segments;
    calls_pairs pairs;
} calls_row;

static const calls_row ROWS[] = {
    {CALL_ALL_REDUCE, false, PAIRS_NONE}, {CALL_REDUCE_SCATTER, false, PAIRS_NONE},
    {CALL_ALL_GATHER, false, PAIRS_NONE}, {CALL_BROADCAST, false, PAIRS_NONE},
    {CALL_ALL_TO_ALL, false, PAIRS_NONE}, {CALL_REDUCE_SCATTER, true, PAIRS_NONE},
    {CALL_ALL_GATHER, true, PAIRS_NONE},  {CALL_SEND, false, PAIRS_ON_HOST},
    {CALL_SEND, false, PAIRS_OF_HOSTS},
};
enum { ROW_COUNT = sizeof ROWS / sizeof *ROWS };

// Of one call: of a collective or a send, and of a receive. 0 where this rank has no such role.
typedef struct calls_figures {
    double seconds[2], cores[2];
} calls_figures;

enum { FIGURES = sizeof(calls_figures) / sizeof(double) };

typedef struct calls_run {
    const bench_calls *x;
    bench_arrays arrays;
    device_stream *stream;
    double cell_seconds; // for one size of a row
    comm_rates *out;
    size_t room;
} calls_run;

// ---- One call

// The rank that this one exchanges messages with; -1: none.
static int partner_of(const calls_run *s, calls_pairs pairs, bool *sends)
{
    const int distance = pairs == PAIRS_ON_HOST ? 1 : s->x->group.per_host, rank = s->x->comm->rank;
    *sends = rank / distance % 2 == 0;
    const int partner = *sends ? rank + distance : rank - distance;
    return partner < s->x->comm->size ? partner : -1;
}

static status issue_message(const calls_run *s, const calls_row *row, const bench_calls_array *a,
                            err *e)
{
    bool sends;
    const int partner = partner_of(s, row->pairs, &sends);
    if (partner < 0) return OK;
    return sends ? comm_send(s->x->comm, s->arrays.memory, a->bytes, partner, s->stream, e)
                 : comm_recv(s->x->comm, s->arrays.memory, a->bytes, partner, s->stream, e);
}

// Plain arrays lie in each other, as in training, but those of an all_to_all.
static status issue_call(const calls_run *s, const calls_row *row, const bench_calls_array *a,
                         err *e)
{
    comm *c = s->x->comm;
    char *all = s->arrays.memory, *own = all + (size_t)c->rank * a->shard * dtype_bytes(a->type);
    switch (row->kind) {
    case CALL_SEND:
        return issue_message(s, row, a, e);
    case CALL_ALL_REDUCE:
        return comm_all_reduce(c, all, a->count, a->type, REDUCE_SUM, s->stream, e);
    case CALL_BROADCAST:
        return comm_broadcast(c, all, a->bytes, 0, s->stream, e);
    case CALL_REDUCE_SCATTER:
        return row->segments
                   ? comm_reduce_scatter_segments(c, a->segment, a->segments, all, NULL, a->type,
                                                  REDUCE_SUM, s->stream, e)
                   : comm_reduce_scatter(c, all, own, a->shard, a->type, REDUCE_SUM, s->stream, e);
    case CALL_ALL_GATHER:
        return row->segments ? comm_all_gather_segments(c, a->segment, a->segments, NULL, all,
                                                        a->type, s->stream, e)
                             : comm_all_gather(c, own, all, a->shard, a->type, s->stream, e);
    default:
        return comm_issue(c,
                          &(comm_call){row->kind, .type = a->type, .count = a->shard, .in = all,
                                       .out = s->arrays.other},
                          s->stream, e);
    }
}

// ---- Times

typedef struct calls_clock {
    double *seconds; // of the thread that runs the stream
} calls_clock;

static status take_stamp(void *arg, err *e)
{
    (void)e;
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    *((const calls_clock *)arg)->seconds = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
    return OK;
}

// Nothing where a stream runs no function of the host: there no thread works.
static void stamp(const calls_run *s, double *seconds)
{
    const calls_clock x = {seconds};
    *seconds = 0;
    if (s->x->device->ops->call) s->x->device->ops->call(s->stream, take_stamp, &x, sizeof x);
}

// The arrays are written, and then all ranks begin.
static status begin(const calls_run *s, const bench_calls_array *a, err *e)
{
    status result = OK;
    const kernel_call fill = {.kind = K_FILL, .u.fill = {s->arrays.memory, (int64_t)a->bytes}};
    device_launch(s->stream, &fill);
    TRY(s->x->device->ops->sync(s->stream, e));
    TRY(comm_barrier(s->x->comm, e));
done:
    return result;
}

// The arrays of messages may be written again.
static status end(const calls_run *s, err *e)
{
    status result = OK;
    comm *c = s->x->comm;
    for (int r = 0; r < c->size; r++)
        if (c->sent[r]) TRY(comm_send_wait(c, r, c->sent[r], s->stream, e));
    TRY(s->x->device->ops->sync(s->stream, e));
done:
    return result;
}

// One call's part of several.
static status time_calls(const calls_run *s, const calls_row *row, const bench_calls_array *a,
                         calls_figures *out, err *e)
{
    status result = OK;
    const int count = a->bytes <= SMALL_BYTES ? AT_ONCE : 1;
    double before, after;
    bool sends = true;
    int role = 0;
    *out = (calls_figures){.seconds = {0}};
    if (row->pairs != PAIRS_NONE) role = partner_of(s, row->pairs, &sends) < 0 ? -1 : !sends;
    TRY(begin(s, a, e));
    const double start = clock_seconds();
    stamp(s, &before);
    for (int i = 0; i < count; i++) TRY(issue_call(s, row, a, e));
    stamp(s, &after);
    TRY(s->x->device->ops->sync(s->stream, e));
    const double seconds = clock_seconds() - start;
    TRY(end(s, e));
    if (role < 0) return OK;
    out->seconds[role] = seconds / count;
    out->cores[role] = seconds > 0 ? (after - before) / seconds : 0;
done:
    return result;
}

// The largest figures of all ranks.
static status agree(const calls_run *s, calls_figures *f, err *e)
{
    status result = OK;
    void *shared = s->arrays.figures;
    TRY(device_upload(s->stream, shared, f, sizeof *f, e));
    TRY(comm_all_reduce(s->x->comm, shared, FIGURES, F64, REDUCE_MAX, s->stream, e));
    TRY(device_download(s->stream, f, shared, sizeof *f, e));
done:
    return result;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

// The first calls take pages and warm up; the second ones say how many there is time for.
static status measure_size(const calls_run *s, const calls_row *row, const bench_calls_array *a,
                           calls_figures *out, err *e)
{
    status result = OK;
    double seconds[2][MOST_ROUNDS], cores[2][MOST_ROUNDS];
    const int64_t start = clock_ns();
    TRY(time_calls(s, row, a, out, e));
    TRY(time_calls(s, row, a, out, e));
    out->seconds[0] = (double)(clock_ns() - start) * 1e-9 / 2; // with the arrays
    TRY(agree(s, out, e));
    const double fit = s->cell_seconds / out->seconds[0];
    const int rounds = fit < LEAST_ROUNDS  ? LEAST_ROUNDS
                       : fit > MOST_ROUNDS ? MOST_ROUNDS
                                           : (int)fit;
    for (int i = 0; i < rounds; i++) {
        TRY(time_calls(s, row, a, out, e));
        for (int role = 0; role < 2; role++) {
            seconds[role][i] = out->seconds[role];
            cores[role][i] = out->cores[role];
        }
    }
    for (int role = 0; role < 2; role++) {
        out->seconds[role] = median(seconds[role], rounds);
        out->cores[role] = median(cores[role], rounds);
    }
    TRY(agree(s, out, e));
done:
    return result;
}

// ---- Points

static planner_group group_of(const calls_run *s, const calls_row *row)
{
    const planner_group *all = &s->x->group;
    if (row->pairs == PAIRS_NONE) return *all;
    return row->pairs == PAIRS_ON_HOST ? (planner_group){2, 2, 1, all->per_host / 2}
                                       : (planner_group){2, 1, 2, all->per_host};
}

static status add_point(calls_run *s, const comm_point *p, err *e)
{
    status result = OK;
    TRY(alloc_grow(&s->out->point, &s->room, s->out->points + 1, sizeof *p, "rates of calls", e));
    s->out->point[s->out->points++] = *p;
done:
    return result;
}

static status add_points(calls_run *s, const calls_row *row, const calls_figures *figures, int role,
                         err *e)
{
    status result = OK;
    for (int i = 0; i < s->arrays.sizes; i++) {
        comm_point p = {.kind = role ? CALL_RECV : row->kind,
                        .segments = row->segments,
                        .group = group_of(s, row),
                        .bytes = (double)s->arrays.array[i].bytes,
                        .seconds = figures[i].seconds[role],
                        .cores = figures[i].cores[role]};
        if (p.seconds <= 0) continue;
        memcpy(p.communicator, s->x->comm->ops->name, strlen(s->x->comm->ops->name) + 1);
        TRY(add_point(s, &p, e));
    }
done:
    return result;
}

static status measure_row(calls_run *s, const calls_row *row, err *e)
{
    status result = OK;
    calls_figures figures[BENCH_CALLS_SIZES] = {{.seconds = {0}}};
    for (int i = 0; i < s->arrays.sizes; i++) {
        const bench_calls_array *a = &s->arrays.array[i];
        const comm_call_row *kind = comm_call_row_of(row->kind);
        const bool of_shards = kind->in == COMM_ALL_COUNTS || kind->out == COMM_ALL_COUNTS;
        if (of_shards && a->type != F32) continue; // it has less than an element for each rank
        TRY(measure_size(s, row, a, &figures[i], e));
    }
    TRY(add_points(s, row, figures, 0, e));
    if (row->pairs != PAIRS_NONE) TRY(add_points(s, row, figures, 1, e));
done:
    return result;
}

static status measure_barrier(calls_run *s, err *e)
{
    status result = OK;
    calls_figures f = {.cores = {1}};
    double seconds[MOST_ROUNDS];
    for (int i = 0; i < MOST_ROUNDS; i++) {
        const double start = clock_seconds();
        for (int k = 0; k < AT_ONCE; k++) TRY(comm_barrier(s->x->comm, e));
        seconds[i] = (clock_seconds() - start) / AT_ONCE;
    }
    f.seconds[0] = median(seconds, MOST_ROUNDS);
    TRY(agree(s, &f, e));
    comm_point p = {
        .kind = CALL_BARRIER, .group = s->x->group, .seconds = f.seconds[0], .cores = 1};
    memcpy(p.communicator, s->x->comm->ops->name, strlen(s->x->comm->ops->name) + 1);
    TRY(add_point(s, &p, e));
done:
    return result;
}

static bool is_there(const calls_run *s, const calls_row *row)
{
    return row->pairs == PAIRS_NONE ||
           (row->pairs == PAIRS_ON_HOST ? s->x->group.per_host > 1 : s->x->group.hosts > 1);
}

status bench_calibrate_calls(const bench_calls *x, comm_rates *out, err *e)
{
    status result = OK;
    calls_run s = {.x = x,
                   .out = out,
                   .room = out->points,
                   .cell_seconds = x->seconds / (ROW_COUNT * BENCH_CALLS_SIZES)};
    // As the trainer opens it.
    TRY(x->device->ops->stream_open(x->device, STREAM_COMM, x->comm->can.own_thread, &s.stream, e));
    TRY(bench_arrays_open(x, s.stream, &s.arrays, e));
    for (int i = 0; i < ROW_COUNT; i++)
        if (is_there(&s, &ROWS[i])) TRY(measure_row(&s, &ROWS[i], e));
    TRY(measure_barrier(&s, e));
    TRY(comm_rates_fit(out, e));
done:
    if (result != OK) comm_abort(x->comm, e); // the others wait
    if (s.stream) x->device->ops->stream_close(s.stream);
    bench_arrays_close(x, &s.arrays);
    return result;
}
