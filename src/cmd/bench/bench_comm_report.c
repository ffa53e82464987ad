// bench_comm_report.c -- the file of `trireme bench all_reduce … -J FILE`: one JSON object with the members of
// nccl-tests (version 3 of its file), less those of CUDA and NCCL. bench_comm_run.c calls it on rank 0.
#define _GNU_SOURCE // environ
#include "cmd/bench/bench_comm.h"

#include "base/file.h"

#include <string.h>
#include <unistd.h>

static void add_strings(text *out, const char *name, int count, char *const *items,
                        const char *const *starts)
{
    bool first = true;
    text_addf(out, "\"%s\":[", name);
    for (int i = 0; count < 0 ? items[i] != NULL : i < count; i++) {
        bool wanted = !starts;
        for (int k = 0; !wanted && starts[k]; k++)
            wanted = strncmp(items[i], starts[k], strlen(starts[k])) == 0;
        if (!wanted) continue;
        if (!first) text_add(out, ",");
        text_add_json(out, items[i]);
        first = false;
    }
    text_add(out, "],\n");
}

static void add_devices(text *out, const bench_request *q)
{
    text_add(out, "\"devices\":[");
    for (int r = 0; r < q->ranks; r++) {
        const bench_rank_figures *x = &q->board->ranks[r];
        text_addf(out, "%s{\"rank\":%d,\"group\":0,\"pid\":%d,\"hostname\":", r ? ",\n" : "", r,
                  x->pid);
        text_add_json(out, x->host);
        text_addf(out, ",\"device\":%d,\"device_hex\":\"0000:00:00\",\"device_info\":", x->index);
        text_add_json(out, strcmp(x->device, "cpu") == 0 ? "CPU" : x->device);
        text_add(out, "}");
    }
    text_add(out, "]");
}

void bench_comm_report_begin(bench_comm_rank *b)
{
    static const char *const variables[] = {"NCCL_", "TRIREME_", "UCX_", NULL};
    const bench_request *q = b->q;
    const int ranks = bench_comm_ranks_of_process(q);
    char now[BENCH_TIME_TEXT];
    text *out = &b->report;
    if (!q->output.path) return;
    bench_comm_time(now);
    text_addf(out, "{\"version\":3,\"program\":\"trireme %s\",\n\"start_time\":\"%s\",\n",
              TRIREME_VERSION, now);
    add_strings(out, "args", q->output.argc, q->output.argv, NULL);
    add_strings(out, "env", -1, environ, variables);
    text_addf(out,
              "\"config\":{\"nthreads\":%d,\"ngpus\":%d,\"minimum_bytes\":%lld,"
              "\"maximum_bytes\":%lld,\"%s\":%lld,\"warmup_iters\":%d,\"iterations\":%d,"
              "\"aggregated_iterations\":%d,\"validation\":%d,\"graph\":%d,"
              "\"blocking_collectives\":%s,\"parallel_init\":true,"
              "\"per_iter_timing\":0,\"per_iter_skip\":0,\n",
              q->as_threads ? ranks : 1, q->as_threads ? 1 : ranks, (long long)q->least,
              (long long)q->most, q->factor ? "step_factor" : "step_bytes",
              (long long)(q->factor ? q->factor : q->step), q->loop.warm_up, q->loop.iterations,
              q->loop.aggregate, q->check, q->loop.replays, q->loop.blocking ? "true" : "false");
    add_devices(out, q);
    text_add(out, "},\n\"results\":[");
}

static void add_figures(text *out, const bench_request *q, const char *name,
                        const bench_comm_figures *f)
{
    text_addf(out, ",\"%s\":", name);
    if (!f->there) {
        text_add(out, "null");
        return;
    }
    text_addf(out, "{\"%s\":%.6g,\"alg_bw\":%.6g,\"bus_bw\":%.6g,\"nwrong\":",
              q->output.cpu_time ? "cpu_time" : "time", q->output.cpu_time ? f->cpu_us : f->us,
              f->rate, f->bus);
    if (q->check)
        text_addf(out, "%llu}", (unsigned long long)f->wrong);
    else
        text_add(out, "null}");
}

void bench_comm_report_row(bench_comm_rank *b, const bench_comm_row *r,
                           const bench_comm_figures f[2], bool first)
{
    const bench_request *q = b->q;
    text *out = &b->report;
    if (!q->output.path) return;
    text_addf(out, "%s{\"size\":%zu,\"count\":%zu,\"type\":\"%s\",\"redop\":\"%s\",\"root\":%d",
              first ? "" : ",\n", r->bytes, r->count, bench_comm_type_name(q),
              bench_comm_op_name(q), q->what->rooted ? q->root : -1);
    add_figures(out, q, "out_of_place", &f[0]);
    add_figures(out, q, "in_place", &f[1]);
    text_addf(out, ",\"actual_iterations\":%d,\"experiment_name\":\"%s_perf\"}", q->loop.iterations,
              q->what->name);
}

status bench_comm_report_write(bench_comm_rank *b, err *e)
{
    status result = OK;
    const bench_request *q = b->q;
    const uint64_t wrong = q->board->wrong;
    char now[BENCH_TIME_TEXT];
    text *out = &b->report;
    if (!q->output.path) return OK;
    bench_comm_time(now);
    text_addf(out,
              "],\n\"out_of_bounds\":{\"count\":%llu,\"okay\":%s},\n\"average_bus_bandwidth\":"
              "{\"bandwidth\":%.6g,\"okay\":%s},\n\"end_time\":\"%s\"}\n",
              (unsigned long long)wrong, wrong ? "false" : "true", bench_comm_mean_bus(q),
              q->expected_bus <= 0    ? "\"unchecked\""
              : bench_comm_is_slow(q) ? "false"
                                      : "true",
              now);
    TRY(text_check(out, e));
    TRY(file_replace(q->output.path, out->chars, out->bytes, e));
done:
    return result;
}
