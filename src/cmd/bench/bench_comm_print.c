// bench_comm_print.c -- what `trireme bench all_reduce …` prints: the lines of nccl-tests, or one JSON object.
// bench_comm_run.c calls it on rank 0.
#include "cmd/bench/bench_comm.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

double bench_comm_bus_factor(const bench_request *q)
{
    const double n = q->ranks;
    const bench_bus bus = q->what->bus;
    return bus == BUS_ALL_REDUCE ? 2 * (n - 1) / n : bus == BUS_OTHERS ? (n - 1) / n : 1;
}

double bench_comm_mean_bus(const bench_request *q)
{
    return q->board->bandwidth_sum / (q->board->bandwidths ? q->board->bandwidths : 1);
}

bool bench_comm_is_slow(const bench_request *q)
{
    return q->expected_bus > 0 && bench_comm_mean_bus(q) < 0.9 * q->expected_bus;
}

const char *bench_comm_type_name(const bench_request *q)
{
    static const char *const types[DTYPES] = {
        [F32] = "float", [BF16] = "bfloat16", [F16] = "half", [F64] = "double", [I64] = "int64"};
    return types[q->type];
}

const char *bench_comm_op_name(const bench_request *q)
{
    static const char *const ops[] = {
        [REDUCE_SUM] = "sum", [REDUCE_MAX] = "max", [REDUCE_MIN] = "min"};
    return q->what->reduces ? ops[q->op] : "none";
}

void bench_comm_time(char out[BENCH_TIME_TEXT])
{
    const time_t now = time(NULL);
    struct tm local;
    localtime_r(&now, &local);
    strftime(out, BENCH_TIME_TEXT, "%Y-%m-%d %H:%M:%S", &local);
}

// ---- The head

static void print_titles(const bench_request *q)
{
    const char *const time = q->output.cpu_time ? "cputime" : "time";
    const char *const stamp = q->output.timestamps ? "            timestamp" : "";
    printf("#\n# Using devices\n");
    for (int r = 0; r < q->ranks; r++) {
        const bench_rank_figures *x = &q->board->ranks[r];
        printf("#  Rank %2d Group %2d Pid %6d on %10s device %2d [%04x:%02x:%02x] %s\n", r, 0,
               x->pid, x->host, x->index, 0, 0, 0,
               strcmp(x->device, "cpu") == 0 ? "CPU" : x->device);
    }
    printf("#\n# %10s  %12s  %8s  %6s  %6s  %23s %7s  %23s\n", "", "", "", "", "", "out-of-place",
           "", "in-place");
    printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s%s\n", "size",
           "count", "type", "redop", "root", time, "algbw", "busbw", "#wrong", time, "algbw",
           "busbw", "#wrong", stamp);
    printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s\n", "(B)", "(elements)",
           "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)");
}

int bench_comm_ranks_of_process(const bench_request *q)
{
    return q->attached ? 1 : q->ranks;
}

void bench_comm_print_head(const bench_request *q)
{
    const int ranks = bench_comm_ranks_of_process(q);
    if (q->output.json) {
        printf("{\"collective\":\"%s\",\"ranks\":%d,\"as\":\"%s\",\"memory\":\"%s\",\"iters\":%d,"
               "\"rows\":[",
               q->what->name, q->ranks, q->as_threads ? "threads" : "processes",
               q->private_memory ? "private" : "shared", q->loop.iterations);
        return;
    }
    printf("# trireme version %s (output as of nccl-tests)\n", TRIREME_VERSION);
    printf("# Collective test starting: %s_perf\n", q->what->name);
    printf("# nThread %d nGpus %d minBytes %lld maxBytes %lld step: %lld(%s) warmup iters: %d "
           "iters: %d agg iters: %d validation: %d graph: %d unalign: 0\n",
           q->as_threads ? ranks : 1, q->as_threads ? 1 : ranks, (long long)q->least,
           (long long)q->most, (long long)(q->factor ? q->factor : q->step),
           q->factor ? "factor" : "bytes", q->loop.warm_up, q->loop.iterations, q->loop.aggregate,
           q->check, q->loop.replays);
    print_titles(q);
}

// ---- A row

// Two decimals, or fewer where two do not fit the column.
static const char *fit(char out[32], double x, int width)
{
    int decimals = 2;
    do snprintf(out, 32, "%.*f", decimals, x);
    while ((int)strlen(out) > width && decimals-- > 0);
    return out;
}

static void print_figures(const bench_request *q, const bench_comm_figures *f)
{
    char time[32], algorithm[32], bus[32];
    if (!f->there) {
        printf("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
        return;
    }
    printf("  %7s  %6s  %6s", fit(time, q->output.cpu_time ? f->cpu_us : f->us, 7),
           fit(algorithm, f->rate, 6), fit(bus, f->bus, 6));
    if (q->check)
        printf("  %6g", (double)f->wrong);
    else
        printf("  %6s", "N/A");
}

static void print_figures_json(const bench_request *q, const bench_comm_figures *f)
{
    if (!f->there) {
        printf("null");
        return;
    }
    printf("{\"us\":%.6g,", f->us);
    if (q->output.cpu_time) printf("\"cpu_us\":%.6g,", f->cpu_us);
    printf("\"algorithm_gb_per_s\":%.6g,\"bus_gb_per_s\":%.6g,\"wrong\":", f->rate, f->bus);
    if (q->check)
        printf("%llu}", (unsigned long long)f->wrong);
    else
        printf("null}");
}

static void print_row_json(const bench_request *q, const bench_comm_row *r,
                           const bench_comm_figures f[2], const char *stamp, bool first)
{
    printf("%s{\"bytes\":%zu,\"count\":%zu,\"type\":\"%s\",\"op\":\"%s\",\"root\":%d,"
           "\"out_of_place\":",
           first ? "" : ",\n", r->bytes, r->count, bench_comm_type_name(q), bench_comm_op_name(q),
           q->what->rooted ? q->root : -1);
    print_figures_json(q, &f[0]);
    printf(",\"in_place\":");
    print_figures_json(q, &f[1]);
    if (q->output.timestamps) printf(",\"timestamp\":\"%s\"", stamp);
    printf("}");
}

void bench_comm_print_row(const bench_request *q, const bench_comm_row *r,
                          const bench_comm_figures f[2], bool first)
{
    char stamp[BENCH_TIME_TEXT];
    bench_comm_time(stamp);
    if (q->output.json) {
        print_row_json(q, r, f, stamp, first);
        return;
    }
    printf("%12zu  %12zu  %8s  %6s  %6d", r->bytes, r->count, bench_comm_type_name(q),
           bench_comm_op_name(q), q->what->rooted ? q->root : -1);
    print_figures(q, &f[0]);
    print_figures(q, &f[1]);
    if (q->output.timestamps) printf("  %s", stamp);
    printf("\n");
}

// ---- The end

void bench_comm_print_foot(const bench_request *q)
{
    const bench_shared *b = q->board;
    const double mean = bench_comm_mean_bus(q);
    const char *const verdict = q->expected_bus <= 0 ? "" : bench_comm_is_slow(q) ? "FAILED" : "OK";
    if (q->output.json) {
        printf("],\"wrong\":");
        if (q->check)
            printf("%llu", (unsigned long long)b->wrong);
        else
            printf("null");
        printf(",\"bus_gb_per_s\":%.6g}\n", mean);
        return;
    }
    printf("# Out of bounds values : %llu %s\n", (unsigned long long)b->wrong,
           b->wrong ? "FAILED" : "OK");
    printf("# Avg bus bandwidth    : %g %s\n#\n", mean, verdict);
    printf("# Collective test concluded: %s_perf\n", q->what->name);
}
