// bench_comm_run.c -- the loop of `trireme bench all_reduce …` on one rank: fills the buffers,
// times the calls, checks the result; rank 0 prints the rows in the format of nccl-tests.
// bench_comm.c starts it through launch_ranks. Numbers are made and compared in memory of the host.
#include "base/proc.h"
#include "cmd/bench_comm.h"
#include "cmd/console.h"

#include "base/alloc.h"
#include "base/clock.h"
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

static status time_calls(const bench_comm_rank *b, const bench_comm_row *r, bool in_place,
                         int count, double *out, err *e)
{
    status result = OK;
    char *in = NULL, *to = NULL;
    buffers(b, r, in_place, &in, &to);
    TRY(comm_barrier(b->comm, e));
    const double start = clock_seconds();
    for (int i = 0; i < count; i++) TRY(b->q->what->run(b, r, in, to, e));
    TRY(b->device->ops->sync(b->stream, e));
    *out = clock_seconds() - start;
done:
    return result;
}

static status count_wrong(const bench_comm_rank *b, const bench_comm_row *r, bool in_place,
                          uint64_t *out, err *e)
{
    status result = OK;
    const size_t element = dtype_bytes(b->q->type);
    char *in = NULL, *to = NULL;
    double seconds = 0;
    buffers(b, r, in_place, &in, &to);
    char *const filled = b->host ? b->host : in, *const read = b->host ? b->host : to;
    memset(read, 0xff, r->out * element);
    if (b->host) TRY(device_upload(b->stream, to, read, r->out * element, e));
    for (size_t i = 0; i < r->in; i++)
        put(filled, b->q->type, i, bench_comm_value(b->comm->rank, i));
    if (b->host) TRY(device_upload(b->stream, in, filled, r->in * element, e));
    TRY(time_calls(b, r, in_place, 1, &seconds, e));
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

static double average_seconds(const bench_request *q, int in_place)
{
    double least = 1e300, most = 0, sum = 0;
    for (int r = 0; r < q->ranks; r++) {
        const double s = q->board->ranks[r].seconds[in_place];
        sum += s;
        if (s < least) least = s;
        if (s > most) most = s;
    }
    return q->average == AVERAGE_RANK_0 ? q->board->ranks[0].seconds[in_place]
           : q->average == AVERAGE_MIN  ? least
           : q->average == AVERAGE_MAX  ? most
                                        : sum / q->ranks;
}

// Two decimals, or fewer where two do not fit the column.
static const char *fit(char out[32], double x, int width)
{
    int decimals = 2;
    do snprintf(out, 32, "%.*f", decimals, x);
    while ((int)strlen(out) > width && decimals-- > 0);
    return out;
}

static double bus_factor(const bench_request *q)
{
    const double n = q->ranks;
    const bench_bus bus = q->what->bus;
    return bus == BUS_ALL_REDUCE ? 2 * (n - 1) / n : bus == BUS_OTHERS ? (n - 1) / n : 1;
}

// The figures of a row, out-of-place or in-place. Adds them to the totals.
static double add_to_totals(const bench_request *q, const bench_comm_row *r, int in_place,
                            double *rate, uint64_t *wrong)
{
    const double seconds = average_seconds(q, in_place);
    *wrong = 0;
    for (int i = 0; i < q->ranks; i++) *wrong += q->board->ranks[i].wrong[in_place];
    *rate = (double)r->moved / seconds * 1e-9;
    q->board->wrong += *wrong;
    q->board->bandwidth_sum += *rate * bus_factor(q);
    q->board->bandwidths++;
    return seconds;
}

static void print_figures(const bench_request *q, const bench_comm_row *r, int in_place)
{
    char time[32], algorithm[32], bus[32];
    uint64_t wrong;
    double rate;
    if (in_place && !q->what->in_place) {
        printf("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
        return;
    }
    const double seconds = add_to_totals(q, r, in_place, &rate, &wrong);
    printf("  %7s  %6s  %6s", fit(time, seconds * 1e6, 7), fit(algorithm, rate, 6),
           fit(bus, rate * bus_factor(q), 6));
    if (q->check)
        printf("  %6g", (double)wrong);
    else
        printf("  %6s", "N/A");
}

static void print_figures_json(const bench_request *q, const bench_comm_row *r, int in_place)
{
    uint64_t wrong;
    double rate;
    printf(",\"%s\":", in_place ? "in_place" : "out_of_place");
    if (in_place && !q->what->in_place) {
        printf("null");
        return;
    }
    const double seconds = add_to_totals(q, r, in_place, &rate, &wrong);
    printf("{\"us\":%.6g,\"algorithm_gb_per_s\":%.6g,\"bus_gb_per_s\":%.6g,\"wrong\":",
           seconds * 1e6, rate, rate * bus_factor(q));
    if (q->check)
        printf("%llu}", (unsigned long long)wrong);
    else
        printf("null}");
}

static void print_row(const bench_request *q, const bench_comm_row *r)
{
    static const char *const types[DTYPES] = {
        [F32] = "float", [BF16] = "bfloat16", [F16] = "half", [F64] = "double", [I64] = "int64"};
    static const char *const ops[] = {
        [REDUCE_SUM] = "sum", [REDUCE_MAX] = "max", [REDUCE_MIN] = "min"};
    const char *const op = q->what->reduces ? ops[q->op] : "none";
    const int root = q->what->rooted ? q->root : -1;
    if (q->json) {
        printf("%s{\"bytes\":%zu,\"count\":%zu,\"type\":\"%s\",\"op\":\"%s\",\"root\":%d",
               q->board->bandwidths ? ",\n" : "", r->bytes, r->count, types[q->type], op, root);
        print_figures_json(q, r, 0);
        print_figures_json(q, r, 1);
        printf("}");
    } else {
        printf("%12zu  %12zu  %8s  %6s  %6d", r->bytes, r->count, types[q->type], op, root);
        print_figures(q, r, 0);
        print_figures(q, r, 1);
        printf("\n");
    }
}

static status run_size(const bench_comm_rank *b, int64_t bytes, err *e)
{
    status result = OK;
    const bench_request *q = b->q;
    const bench_comm_row r = row_of(b, bytes);
    bench_rank_figures *mine = &q->board->ranks[b->comm->rank];
    const int variants = q->what->in_place ? 2 : 1; // out-of-place, in-place
    for (int in_place = 0; in_place < variants; in_place++) {
        double seconds = 0;
        TRY(time_calls(b, &r, in_place, q->iterations * q->aggregate, &seconds, e));
        mine->seconds[in_place] = seconds / q->iterations / q->aggregate;
        if (q->check) TRY(count_wrong(b, &r, in_place, &mine->wrong[in_place], e));
    }
    TRY(comm_barrier(b->comm, e));
    if (b->comm->rank == 0) {
        print_row(q, &r);
        TRY(console_flush(e));
    }
    TRY(comm_barrier(b->comm, e));
done:
    return result;
}

static status run_sizes(const bench_comm_rank *b, err *e)
{
    status result = OK;
    const bench_request *q = b->q;
    const bench_comm_row most = row_of(b, q->most), least = row_of(b, q->least);
    double seconds = 0;
    TRY(time_calls(b, &most, true, q->what->in_place ? q->warm_up : 0, &seconds, e));
    TRY(time_calls(b, &most, false, q->warm_up, &seconds, e));
    TRY(time_calls(b, &least, false, q->warm_up, &seconds, e));
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
    device_options o = {.threads = 1, .local_rank = rank, .local_ranks = w->ranks};
    device_description d;
    TRY(device_describe(b->q->device, &o, &d, e));
    o.index = rank % d.count;
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

static status open_rank(bench_comm_rank *b, world *w, int rank, err *e)
{
    status result = OK;
    // The shards of a reduce are padded.
    const size_t each = ((size_t)b->q->most + (size_t)w->ranks * 32 + 63) & ~(size_t)63;
    TRY(open_device(b, w, rank, e));
    TRY(comm_open(b->q->comm, world_options(w, rank, b->device, 0), &b->comm, e));
    b->memory_bytes = 2 * each + 64;
    if (b->q->private_memory)
        TRY(device_alloc(b->device, MEMORY_DEVICE, b->memory_bytes, &b->memory, e));
    else
        TRY(comm_alloc(b->comm, b->device, b->memory_bytes, &b->memory, e));
    if (!b->device->is_host_memory)
        TRY(alloc_array(&b->host, each, 1, "the benchmark's numbers", e));
    TRY(alloc_zeroed(&b->sent, (size_t)w->ranks, sizeof *b->sent, "the benchmark's messages", e));
    TRY(comm_share(b->comm, e));
    TRY(clear(b, e));
    b->send = b->memory;
    b->recv = b->send + each;
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
    free(b->sent);
}

// The lines that rank 0 prints before the rows.
static void print_titles(const bench_request *q)
{
    char host[64];
    proc_host_name(host, sizeof host);
    printf("#\n# Using devices\n");
    for (int r = 0; r < q->ranks; r++)
        printf("#  Rank %2d Group %2d Pid %6d on %10s device %2d [%04x:%02x:%02x] %s\n", r, 0,
               (int)q->board->ranks[r].pid, host, q->board->ranks[r].index, 0, 0, 0,
               strcmp(q->board->ranks[r].device, "cpu") == 0 ? "CPU" : q->board->ranks[r].device);
    printf("#\n# %10s  %12s  %8s  %6s  %6s  %23s %7s  %23s\n", "", "", "", "", "", "out-of-place",
           "", "in-place");
    printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s\n", "size", "count",
           "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw",
           "#wrong");
    printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s\n", "(B)", "(elements)",
           "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)");
}

status bench_comm_run(world *w, int rank, int ranks, void *request, err *e)
{
    (void)ranks;
    status result = OK;
    bench_comm_rank b = {.q = request};
    b.q->board->ranks[rank].pid = getpid();
    TRY(open_rank(&b, w, rank, e));
    TRY(comm_barrier(b.comm, e));
    if (rank == 0 && !b.q->json) print_titles(b.q);
    TRY(run_sizes(&b, e));
done:
    close_rank(&b);
    return result;
}
