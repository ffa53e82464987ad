// bench_scaling.c -- `trireme bench scaling`: the speed of a job's training steps on several numbers of ranks, which
// run in turn, beside the figures of a published guide. Writes nothing to disk.
#include "base/alloc.h"
#include "base/proc.h"
#include "cmd/bench/bench_job.h"
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "device/device.h"
#include "rendezvous/peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { WARM_UP = 2, MOST_ROUNDS = 1000 };

// The "real-world scaling" of PyTorch and TensorFlow on GPUs, from the article "Multi-GPU Training Setup"
// (section "Check Scaling Efficiency"). Its speed-up is that of an epoch.
static const struct {
    int times; // GPUs
    double speedup;
} GUIDE[] = {{1, 1}, {2, 1.9}, {4, 3.5}, {8, 6.5}};

// The job on one number of ranks.
typedef struct bench_row {
    job *job;
    session_inputs inputs;
    double *seconds; // [rounds * steps]
    double step_s, tokens_per_s;
} bench_row;

// The figures of rank 0, in memory that it shares with the starting process.
typedef struct bench_shared {
    double tokens; // of a step
    double seconds[];
} bench_shared;

typedef struct bench_scaling_request {
    session_join join;
    bench_job given;
    const char *list; // --ranks
    int ranks[BENCH_LIST], rows;
    int64_t rounds;
    bool weak, json;
    bench_row row[BENCH_LIST];
    const bench_row *now; // the one that the ranks run
    bench_shared *shared;
} bench_scaling_request;

static const flag flags[] = {
    {"--ranks", FLAG_TEXT, offsetof(bench_scaling_request, list), "LIST",
     "Sets the numbers of ranks, separated by commas and rising (default: the powers of two up to "
     "the "
     "cores or GPUs of this machine, at least 1,2)."},
    {"--weak", FLAG_SWITCH, offsetof(bench_scaling_request, weak), NULL,
     "Lets train.global_batch grow with the number of ranks; the job's value is that of the "
     "smallest number (default: every number of ranks has the job's value)."},
    {"--rounds", FLAG_COUNT, offsetof(bench_scaling_request, rounds), "N",
     "Sets the number of rounds; each runs every number of ranks once (default: 3)."},
    {"--json", FLAG_SWITCH, offsetof(bench_scaling_request, json), NULL, "Prints one JSON object."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

// ---- A run

static status rank_bench(world *w, int rank, int ranks, void *arg, err *e)
{
    status result = OK;
    const bench_scaling_request *q = arg;
    const int64_t steps = q->now->job->train.steps;
    session s = {0};
    (void)ranks;
    TRY(session_open(q->now->job, &q->now->inputs, w, rank, &s, e));
    for (int64_t i = -WARM_UP; i < steps; i++) {
        trainer_step_result r;
        TRY(trainer_step(s.trainer, false, &r, e));
        if (r.exhausted)
            FAIL(E_USAGE,
                 "bench scaling: the data ends after step %llu; valid are %lld steps and "
                 "%d before them",
                 (unsigned long long)r.step, (long long)steps, WARM_UP);
        if (rank != 0 || i < 0) continue;
        q->shared->tokens = r.tokens;
        q->shared->seconds[i] = r.seconds;
    }
done:
    if (result != OK) session_abort(&s, e);
    session_close(&s);
    return result;
}

static void close_row(bench_row *x)
{
    session_inputs_close(&x->inputs);
    job_close(x->job);
    x->job = NULL;
}

// If another launcher has started the ranks, the first of them run the row, and the others wait for their row.
static status run_row(bench_scaling_request *q, int64_t round, int i, err *e)
{
    status result = OK;
    session_join part;
    bool takes_part;
    bench_row *x = &q->row[i];
    TRY(join_part(&q->join, q->ranks[i], (int)round * q->rows + i, &part, &takes_part, e));
    if (!takes_part) goto done;
    TRY(join_same(&part, NULL, &x->job, &x->inputs, e));
    const int64_t steps = x->job->train.steps;
    const launch_options o = {.ranks = q->ranks[i], .as_threads = x->job->launch.as_threads};
    q->now = x;
    TRY(join_run(&part, &o, rank_bench, q, e));
    if (join_follows(&part)) goto done;
    for (int64_t k = 0; k < steps; k++) x->seconds[round * steps + k] = q->shared->seconds[k];
    x->tokens_per_s = q->shared->tokens; // of a step, until all rounds are done
done:
    result = join_fail(&part, result, e);
    if (join_follows(&part)) close_row(x);
    join_close(&part);
    return result;
}

static status run_all(bench_scaling_request *q, err *e)
{
    status result = OK;
    for (int64_t round = 0; round < q->rounds; round++)
        for (int i = 0; i < q->rows; i++) TRY(run_row(q, round, i, e));
    if (join_follows(&q->join)) goto done;
    for (int i = 0; i < q->rows; i++) {
        bench_row *x = &q->row[i];
        const int64_t count = q->rounds * x->job->train.steps;
        bench_sort(x->seconds, count);
        x->step_s = x->seconds[count / 2];
        x->tokens_per_s /= x->step_s;
    }
done:
    return result;
}

// ---- Results

// The guide's speed-up for `times` as many devices; 0: it has none.
static double guide_speedup(double times)
{
    for (size_t i = 0; i < sizeof GUIDE / sizeof *GUIDE; i++)
        if (GUIDE[i].times == times) return GUIDE[i].speedup;
    return 0;
}

static void print_row(const bench_scaling_request *q, int i)
{
    const bench_row *x = &q->row[i];
    const job *j = x->job;
    const double times = (double)q->ranks[i] / q->ranks[0],
                 speedup = x->tokens_per_s / q->row[0].tokens_per_s, guide = guide_speedup(times);
    if (!q->json) {
        printf("%5d %8d %12lld %10.2f %12.1f %8.2fx %10.1f %%", q->ranks[i],
               j->launch.threads_per_rank, (long long)j->train.global_batch, x->step_s * 1e3,
               x->tokens_per_s, speedup, 100 * speedup / times);
        if (guide > 0)
            printf(" %8.2fx %10.1f %%\n", guide, 100 * guide / times);
        else
            printf(" %9s %12s\n", "-", "-");
        return;
    }
    printf("%s{\"ranks\":%d,\"threads_per_rank\":%d,\"global_batch\":%lld,\"step_ms_median\":%.6g,"
           "\"tokens_per_s\":%.6g,\"speedup\":%.6g,\"efficiency\":%.6g,",
           i ? ",\n" : "", q->ranks[i], j->launch.threads_per_rank,
           (long long)j->train.global_batch, x->step_s * 1e3, x->tokens_per_s, speedup,
           speedup / times);
    if (guide > 0)
        printf("\"guide_speedup\":%.6g,\"guide_efficiency\":%.6g}", guide, guide / times);
    else
        printf("\"guide_speedup\":null,\"guide_efficiency\":null}");
}

static void print_all(const bench_scaling_request *q)
{
    const char *const kind = q->weak ? "weak" : "strong";
    const int cores = proc_usable_cores();
    const long long steps = (long long)(q->rounds * q->row[0].job->train.steps);
    if (q->json) {
        printf("{\"scaling\":\"%s\",\"cores\":%d,\"steps\":%lld,\"rows\":[", kind, cores, steps);
        for (int i = 0; i < q->rows; i++) print_row(q, i);
        printf("]}\n");
        return;
    }
    printf(
        "%s scaling: median of %lld steps, %d cores; the guide's are PyTorch's on as many GPUs\n",
        kind, steps, cores);
    printf("%5s %8s %12s %10s %12s %9s %12s %9s %12s\n", "ranks", "threads", "global batch",
           "step ms", "tokens/s", "speed-up", "efficiency", "guide", "efficiency");
    for (int i = 0; i < q->rows; i++) print_row(q, i);
}

// ---- Jobs

// Powers of two up to the devices of this machine that compute at once, or the ranks that another launcher has started.
static status default_ranks(bench_scaling_request *q, err *e)
{
    status result = OK;
    job *j = NULL;
    device_description d;
    int most = q->join.location.ranks;
    if (!most) {
        TRY(bench_job_open(&q->given, NULL, 0, &j, e));
        TRY(device_describe(j->launch.device, NULL, &d, e));
        most = d.is_host_memory ? proc_usable_cores() : d.count;
    }
    for (int ranks = 1; q->rows < BENCH_LIST && (ranks <= most || ranks <= 2); ranks *= 2)
        q->ranks[q->rows++] = ranks;
done:
    job_close(j);
    return result;
}

// The threads of a rank are the same in all rows, so that ranks alone differ: the cores, divided among the
// most ranks.
static status open_row(bench_scaling_request *q, int i, err *e)
{
    status result = OK;
    text settings[3] = {{0}};
    bench_row *x = &q->row[i];
    const launcher_location *p = &q->join.location;
    const int most = q->ranks[q->rows - 1], here = p->local_ranks < most ? p->local_ranks : most;
    const int threads = proc_usable_cores() / (p->launcher ? here : most);
    int count = 0;
    if (p->launcher) {
        q->given.own = q->join.own;
        q->given.own.ranks = q->ranks[i];
        q->given.own.local_ranks = q->ranks[i] < p->local_ranks ? q->ranks[i] : p->local_ranks;
    }
    text_addf(&settings[count++], "--launch.ranks=%d", q->ranks[i]);
    if (!bench_job_gives(&q->given, "--launch.threads_per_rank"))
        text_addf(&settings[count++], "--launch.threads_per_rank=%d", threads > 1 ? threads : 1);
    if (q->weak && i > 0) { // the data-parallel ranks of the first row divide its batch
        const int64_t all = q->row[0].job->train.global_batch * q->ranks[i];
        text_addf(&settings[count++], "--train.global_batch=%lld", (long long)(all / q->ranks[0]));
    }
    TRY(bench_job_open(&q->given, settings, count, &x->job, e));
    TRY(session_inputs_open(x->job, &x->inputs, e));
    TRY(alloc_zeroed(&x->seconds, (size_t)(q->rounds * x->job->train.steps), sizeof *x->seconds,
                     "the figures", e));
done:
    for (int k = 0; k < 3; k++) text_clear(&settings[k]);
    return result;
}

static status open_all(bench_scaling_request *q, err *e)
{
    status result = OK;
    for (int i = 0; i < q->rows; i++) TRY(open_row(q, i, e));
    q->shared = mmap(
        NULL, sizeof *q->shared + (size_t)q->row[0].job->train.steps * sizeof *q->shared->seconds,
        PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); // until the process ends
    if (q->shared == MAP_FAILED) FAIL(E_IO, "bench scaling: cannot map the ranks' figures");
done:
    return result;
}

static void close_all(bench_scaling_request *q)
{
    for (int i = 0; i < q->rows; i++) {
        close_row(&q->row[i]);
        free(q->row[i].seconds);
    }
}

// ---- Arguments

static status read_arguments(bench_scaling_request *q, int argc, char **argv, err *e)
{
    static const char *const defaults[] = {"--train.steps=10",        "--train.out=.",
                                           "--train.save_every=0",    "--train.eval_every=0",
                                           "--train.global_batch=16", "--data.train=mock",
                                           "--data.seq_len=64",       "--model.family=gpt2",
                                           "--model.layers=4",        "--model.hidden=128",
                                           "--model.heads=4",         "--model.vocab=512",
                                           "--model.max_seq=64",      NULL};
    status result = OK;
    q->rounds = 3;
    TRY(flags_take(flags, FLAGS, &argc, argv, q, e));
    if (q->rounds < 1 || q->rounds > MOST_ROUNDS)
        FAIL(E_USAGE, "--rounds: found %lld; valid: 1 to %d", (long long)q->rounds, MOST_ROUNDS);
    q->given = bench_job_arguments(argc, argv, defaults);
    if (bench_job_gives(&q->given, "--launch.ranks"))
        FAIL(E_USAGE, "bench scaling: --launch.ranks: --ranks LIST gives the numbers of ranks");
    if (!q->list) {
        TRY(default_ranks(q, e));
        goto done;
    }
    TRY(bench_read_list("--ranks", q->list, "1,2,4", WORLD_MOST_RANKS, q->ranks, &q->rows, e));
    for (int i = 1; i < q->rows; i++)
        if (q->ranks[i] <= q->ranks[i - 1])
            FAIL(E_USAGE, "--ranks: found '%s'; valid are rising numbers as 1,2,4", q->list);
    if (q->join.location.launcher && q->ranks[q->rows - 1] > q->join.location.ranks)
        FAIL(E_USAGE,
             "--ranks: found %d; valid: at most %d, the ranks of the run that %s has started",
             q->ranks[q->rows - 1], q->join.location.ranks, q->join.location.launcher);
done:
    return result;
}

// All processes of another launcher learn whether rank 0's can open the jobs.
static status meet(bench_scaling_request *q, err *e)
{
    status result = OK;
    TRY(join_attach(&q->join, e));
    if (!join_follows(&q->join)) TRY(open_all(q, e));
    TRY(join_same(&q->join, NULL, NULL, NULL, e));
    if (q->join.world) comm_peers_leave(q->join.world);
    world_close(q->join.world);
    q->join.world = NULL;
done:
    return result;
}

static int cmd_bench_scaling(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    bench_scaling_request q = {.rows = 0};
    TRY(join_open(&q.join, argc, argv, e));
    TRY(read_arguments(&q, argc, argv, e));
    TRY(meet(&q, e));
    TRY(run_all(&q, e));
    if (!join_follows(&q.join)) print_all(&q);
done:
    close_all(&q);
    return cmd_end(&q.join, result, e);
}

const command command_bench_scaling = {
    .name = "scaling",
    .run = cmd_bench_scaling,
    .usage = "[JOB.yaml] [--key value ...] [--ranks LIST] [--weak] [--rounds N] [--json]",
    .help = "Measures the speed of training on 1, 2, 4 and more ranks.",
    .about =
        "Runs the job (default: a small gpt2 on random tokens) on each number of ranks of LIST. In "
        "each of N rounds every number runs train.steps steps (default 10), after 2 that are not "
        "counted. Strong scaling keeps train.global_batch, weak scaling the share of a rank. Every "
        "rank "
        "has the same number of threads: the cores, divided among the most ranks. The speed-up is "
        "in "
        "tokens per second, of the first row, and the efficiency is the speed-up divided by the "
        "growth in ranks. Where another launcher has started ranks, the first of them run each "
        "row. The guide's figures are those of PyTorch on as many GPUs as the article "
        "\"Multi-GPU Training Setup\" gives them.",
    .flags = flags,
    .flag_count = FLAGS,
    .takes_job = true,
};
