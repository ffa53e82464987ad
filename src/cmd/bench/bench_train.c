// bench_train.c -- `trireme bench train`: measures speed and memory of training steps, by default
// on random tokens. Writes nothing to disk.
#include "base/alloc.h"
#include "cmd/bench/bench_job.h"
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/console.h"

#include "base/clock.h"
#include "base/proc.h"
#include "session/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UP = 2 };

// The figures that one rank has measured.
typedef struct bench_figures {
    double step_s, first_step_s, flops, rate;
    uint64_t plan_bytes, runtime_bytes, device_bytes, params;
    double update_s;     // seconds a step of the optimizer, its tiers and the weights' all-gather
    tier_counters tiers; // of this rank, a step
    uint64_t launches;   // of kernels on this rank, a step
    uint64_t
        driver_bytes; // of the device, given out since before the ranks opened it; 0: not known
} bench_figures;

typedef struct bench_train_request {
    job *job;
    session_inputs inputs;
    bool json;
    double memory_within; // percent of the plan; INFINITY: not checked
    double began;
    uint64_t free_bytes; // of the first device, before a rank opened it
} bench_train_request;

static const flag flags[] = {
    {"--json", FLAG_SWITCH, offsetof(bench_train_request, json), NULL, "Prints one JSON object."},
    {"--memory-within", FLAG_NUMBER, offsetof(bench_train_request, memory_within), "PERCENT",
     "Fails where a rank's memory differs from the plan's by more than this (ranks on the CPU)."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

static void print_figures(const bench_train_request *q, const bench_figures *f, uint64_t pss,
                          uint64_t peak)
{
    const job *j = q->job;
    double per_step = (double)(j->train.global_batch * j->data.seq_len);
    double share = f->flops / f->rate / f->step_s;
    if (q->json) {
        printf("{\"tokens_per_s\":%.6g,\"step_ms_median\":%.6g,\"matmul_share\":%.4f,\"matmul_"
               "flops_per_s\":%.6g,"
               "\"pss_bytes_per_rank\":%llu,\"peak_bytes_per_rank\":%llu,\"plan_bytes_per_rank\":%"
               "llu,\"runtime_bytes_per_rank\":%llu,\"device_bytes_per_rank\":%llu,"
               "\"driver_bytes\":%llu,\"first_step_s\":%.4f,\"params\":%llu,\"ranks\":%d,\"update_"
               "ms\":%.6g,\"launches\":"
               "%llu,\"tier\":{"
               "\"bytes_read\":%llu,\"bytes_written\":%llu,\"waited_ms\":%.6g,\"moving_ms\":%.6g,"
               "\"cpu_ms\":%.6g}}\n",
               per_step / f->step_s, f->step_s * 1e3, share, f->rate, (unsigned long long)pss,
               (unsigned long long)peak, (unsigned long long)f->plan_bytes,
               (unsigned long long)f->runtime_bytes, (unsigned long long)f->device_bytes,
               (unsigned long long)f->driver_bytes, f->first_step_s, (unsigned long long)f->params,
               j->launch.ranks, f->update_s * 1e3, (unsigned long long)f->launches,
               (unsigned long long)f->tiers.bytes_read, (unsigned long long)f->tiers.bytes_written,
               f->tiers.seconds_waited * 1e3, f->tiers.seconds_moving * 1e3,
               f->tiers.seconds_cpu * 1e3);
    } else {
        char a[24], b[24], c[24];
        text_bytes(a, (double)pss);
        text_bytes(b, (double)f->plan_bytes);
        text_bytes(c, (double)f->runtime_bytes);
        printf("%llu parameters on %d ranks: %.1f tokens/s, median step %.2f ms, first step %.3f s "
               "after the start\n"
               "mfu %.0f %% of the measured matmul peak, %.1f GFLOP/s a rank\n"
               "memory per rank: %s (shared pages divided), plan %s, of which runtime %s\n",
               (unsigned long long)f->params, j->launch.ranks, per_step / f->step_s,
               f->step_s * 1e3, f->first_step_s, share * 100, f->rate * 1e-9, a, b, c);
    }
}

// The traffic of the file tier between two readings, divided by the steps.
static tier_counters per_step(const tier_counters *before, const tier_counters *after,
                              int64_t steps)
{
    const double n = (double)steps;
    return (tier_counters){.bytes_read = (after->bytes_read - before->bytes_read) / (uint64_t)steps,
                           .bytes_written =
                               (after->bytes_written - before->bytes_written) / (uint64_t)steps,
                           .seconds_waited = (after->seconds_waited - before->seconds_waited) / n,
                           .seconds_moving = (after->seconds_moving - before->seconds_moving) / n,
                           .seconds_cpu = (after->seconds_cpu - before->seconds_cpu) / n};
}

static double update_seconds(const trainer *t)
{
    const double *s = trainer_seconds(t);
    return s[SWAP_IN] + s[OPTIMIZER_STEP] + s[ALL_GATHER_UPDATED] + s[SWAP_OUT];
}

// As the driver says, which knows nothing of our counts. 0 where the device's memory is the host's.
static status read_free_bytes(const job *j, uint64_t *out, err *e)
{
    status result = OK;
    device_description d;
    TRY(device_describe(j->launch.device, NULL, &d, e));
    *out = d.is_host_memory ? 0 : d.free_bytes;
done:
    return result;
}

// The plan is of all that a rank has resident where the device's memory is the host's.
static status check_memory(const bench_train_request *q, uint64_t pss, uint64_t planned_bytes,
                           err *e)
{
    const double percent = ((double)pss / (double)planned_bytes - 1) * 100;
    char found[24], planned[24];
    if (fabs(percent) <= q->memory_within) return OK;
    text_bytes(found, (double)pss);
    text_bytes(planned, (double)planned_bytes);
    return err_set(e, E_INTERNAL,
                   "has %s of memory, %+.1f %% of the plan's %s; valid with "
                   "--memory-within: at most %g %% more or less",
                   found, percent, planned, q->memory_within);
}

static status rank_bench(world *w, int rank, int ranks, void *arg, err *e)
{
    status result = OK;
    const bench_train_request *q = arg;
    session s = {0};
    bench_figures f = {0};
    (void)ranks;
    int64_t steps = q->job->train.steps, counted = 0;
    double *seconds = NULL;
    TRY(alloc_zeroed(&seconds, (size_t)steps, sizeof *seconds, "the steps", e));
    TRY(session_open(q->job, &q->inputs, w, rank, &s, e));
    tier_counters before = {0}, after = {0};
    for (int64_t i = 0; i < steps; i++) {
        trainer_step_result r;
        if (i == (steps > WARM_UP ? WARM_UP : 0)) {
            trainer_add_tiers(s.trainer, &before);
            f.launches = s.device->launches;
        }
        TRY(trainer_step(s.trainer, false, &r, e));
        if (i == 0) f.first_step_s = clock_seconds() - q->began;
        if (i < WARM_UP && steps > WARM_UP) continue;
        seconds[counted++] = r.seconds;
        f.update_s += update_seconds(s.trainer);
    }
    trainer_add_tiers(s.trainer, &after);
    f.tiers = per_step(&before, &after, counted);
    f.launches = (s.device->launches - f.launches) / (uint64_t)counted;
    f.update_s /= (double)counted;
    // The barriers keep every rank's memory alive while it is measured.
    uint64_t pss = proc_own_bytes(), peak = proc_bytes("/proc/self/status", "VmHWM:");
    uint64_t free_bytes = 0;
    TRY(read_free_bytes(q->job, &free_bytes, e));
    f.driver_bytes = free_bytes < q->free_bytes ? q->free_bytes - free_bytes : 0;
    f.device_bytes = s.device->bytes_peak;
    TRY(comm_barrier(s.comm, e));
    f.rate = device_matmul_rate(s.device, job_dtype(q->job), 1.0);
    TRY(comm_barrier(s.comm, e));
    bench_sort(seconds, counted);
    f.step_s = seconds[counted / 2];
    f.flops = trainer_flops(s.trainer);
    f.rate = fmax(f.rate, f.flops / seconds[0]); // the fastest step is a lower bound of the peak
    f.plan_bytes = plan_bytes(trainer_get_plan(s.trainer));
    f.runtime_bytes = trainer_get_plan(s.trainer)->bytes[BYTES_RUNTIME];
    f.params = model_param_count(trainer_get_model(s.trainer));
    if (rank == 0) print_figures(q, &f, pss, peak);
    if (rank == 0) TRY(console_flush(e));
    TRY(check_memory(q, pss, f.plan_bytes, e));
done:
    free(seconds);
    if (result != OK) session_abort(&s, e);
    session_close(&s);
    return result;
}

static int cmd_bench_train(int argc, char **argv)
{
    static const char *const defaults[] = {"--data.train=mock",    "--train.steps=10",
                                           "--train.out=.",        "--train.save_every=0",
                                           "--train.eval_every=0", NULL};
    status result = OK;
    err error = {0}, *e = &error;
    bench_train_request q = {.began = clock_seconds(), .memory_within = INFINITY};
    session_join join;
    TRY(join_open(&join, argc, argv, e));
    TRY(flags_take(flags, FLAGS, &argc, argv, &q, e));
    TRY(join_attach(&join, e));
    bench_job given = bench_job_arguments(argc, argv, defaults);
    given.own = join.own;
    TRY(bench_job_join(&given, NULL, 0, &join, &q.job, &q.inputs, e));
    if (!(q.memory_within >= 0))
        FAIL(E_USAGE, "--memory-within: found %g; valid: a number of percent from 0",
             q.memory_within);
    if (isfinite(q.memory_within) && q.job->strategy.offload.host_is_apart)
        FAIL(E_USAGE,
             "--memory-within: found device %s, whose memory is not the host's; valid: "
             "--launch.device cpu",
             q.job->launch.device);
    TRY(read_free_bytes(q.job, &q.free_bytes, e));
    launch_options o = {.ranks = q.job->launch.ranks, .as_threads = q.job->launch.as_threads};
    TRY(join_run(&join, &o, rank_bench, &q, e));
done:
    session_inputs_close(&q.inputs);
    job_close(q.job);
    return cmd_end(&join, result, e);
}

const command command_bench_train = {
    .name = "train",
    .run = cmd_bench_train,
    .usage = "[JOB.yaml] [--key value ...] [--memory-within PERCENT] [--json]",
    .help = "Measures the speed and memory of training steps.",
    .about =
        "Runs train.steps steps of the job (default 10) on its data, or on random tokens; the "
        "first 2 are not counted. Ranks that another launcher has started take part, as for train. "
        "Prints tokens per second, the median time of a step, the mfu "
        "(the step's FLOP/s as a share of the measured matmul peak, or of the fastest step where "
        "that was faster), and the memory of a rank "
        "beside the plan's.",
    .flags = flags,
    .flag_count = FLAGS,
    .takes_job = true,
};
