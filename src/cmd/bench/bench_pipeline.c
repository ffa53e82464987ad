// bench_pipeline.c -- `trireme bench pipeline`: the bubble of pipeline schedules, which is the
// share of time in which stages wait: analytic, simulated, and measured while the same schedules
// run. Writes nothing to disk.
#include "base/alloc.h"
#include "cmd/bench/bench_job.h"
#include "cmd/cmd.h"
#include "cmd/command.h"

#include "launch/launch.h"
#include "parallel/instructions.h"
#include "session/session.h"
#include "session/stages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WARM_UP = 2 };

// One schedule with one number of micro-batches.
typedef struct bench_setup {
    job *job;
    session_inputs inputs;
    trainer_options options; // the plans borrow from them
    session_stages lists;
    double analytic, simulated; // bubbles; simulated: blocks take their FLOPs
    double *measured;           // [rounds * steps] bubbles
    int counted;                // of them
    double *seconds;            // [stages][INSTRS] summed over counted steps and ranks
} bench_setup;

typedef struct bench_pipeline_request {
    bench_job given;
    const char *list; // --micros
    int micros[BENCH_LIST], sizes;
    int64_t rounds;
    bool json;
    bench_setup *all; // [setups]
    int setups;
    const bench_setup *now;   // the one that the ranks run
    double (*shared)[INSTRS]; // [ranks * steps], shared with the ranks
} bench_pipeline_request;

static const flag flags[] = {
    {"--micros", FLAG_TEXT, offsetof(bench_pipeline_request, list), "LIST",
     "Sets the numbers of micro-batches a step, separated by commas (default: 4,8,16)."},
    {"--rounds", FLAG_COUNT, offsetof(bench_pipeline_request, rounds), "N",
     "Sets the number of rounds; each runs every schedule once (default: 3)."},
    {"--json", FLAG_SWITCH, offsetof(bench_pipeline_request, json), NULL, "Prints a JSON array."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

// ---- A run

static status rank_bench(world *w, int rank, int ranks, void *arg, err *e)
{
    status result = OK;
    const bench_pipeline_request *q = arg;
    const int64_t steps = q->now->job->train.steps;
    session s = {0};
    (void)ranks;
    TRY(session_open(q->now->job, &q->now->inputs, w, rank, &s, e));
    for (int64_t i = -WARM_UP; i < steps; i++) {
        trainer_step_result r;
        TRY(comm_barrier(s.comm, e));
        TRY(trainer_step(s.trainer, false, &r, e));
        if (i >= 0)
            memcpy(q->shared[rank * steps + i], trainer_seconds(s.trainer), sizeof *q->shared);
    }
done:
    if (result != OK) session_abort(&s, e);
    session_close(&s);
    return result;
}

// Returns whether a rank waits for other stages in instructions of this kind.
static bool is_waiting(int kind)
{
    const instr_rendezvous m = instr_row_of((schedule_instr_kind)kind)->peers.waits_for;
    return m == WAITS_FOR_SENDER || m == WAITS_FOR_ENDS || m == WAITS_FOR_ALL_STAGES;
}

// The update and the files of buckets are no part of the pipeline: the kinds that stand in the list
// after the instruction in which all stages meet.
static bool is_after_clipping(const schedule *s, int kind)
{
    for (int i = s->count - 1; i >= 0; i--) {
        if (instr_row_of(s->instr[i].kind)->peers.waits_for == WAITS_FOR_ALL_STAGES) break;
        if ((int)s->instr[i].kind == kind) return true;
    }
    return false;
}

static void add_figures(const bench_pipeline_request *q, bench_setup *x)
{
    const mesh *m = &x->lists.plan[0]->o.mesh;
    const int64_t steps = x->job->train.steps;
    for (int64_t i = 0; i < steps; i++) {
        double waited = 0, all = 0;
        for (int r = 0; r < m->ranks; r++) {
            const double *seconds = q->shared[r * steps + i];
            const int stage = mesh_coord(m, r, AXIS_PP);
            for (int k = 0; k < INSTRS; k++) {
                if (!is_after_clipping(&x->lists.train[stage], k)) all += seconds[k];
                if (is_waiting(k)) waited += seconds[k];
                x->seconds[stage * INSTRS + k] += seconds[k];
            }
        }
        x->measured[x->counted++] = waited / all;
    }
}

// Says which run begins: a line of its own, or on a terminal one that is rewritten.
static void say_run(const bench_pipeline_request *q, int64_t round, int i)
{
    const plan_options *p = &q->all[i].lists.plan[0]->o;
    const bool terminal = isatty(STDERR_FILENO);
    fprintf(stderr, "%srun %lld of %lld: %s, %d micro-batches%s", terminal ? "\r" : "",
            (long long)(round * q->setups + i + 1), (long long)(q->rounds * q->setups),
            pipeline_schedule_name(p->strategy.pipeline.schedule), p->micros,
            terminal ? "\033[K" : "\n");
    fflush(stderr);
}

static status run_all(bench_pipeline_request *q, err *e)
{
    status result = OK;
    for (int64_t round = 0; round < q->rounds; round++)
        for (int i = 0; i < q->setups; i++) {
            say_run(q, round, i);
            const launch_options o = {.ranks = q->all[i].job->launch.ranks,
                                      .as_threads = q->all[i].job->launch.as_threads};
            q->now = &q->all[i];
            TRY(launch_ranks(&o, rank_bench, q, NULL, e));
            add_figures(q, &q->all[i]);
        }
done:
    if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
    return result;
}

// ---- Results

static double pass_seconds(const void *given, int stage, const schedule_instr *x)
{
    const bench_setup *s = given;
    const schedule *l = &s->lists.train[stage];
    int count = 0;
    if (instr_row_of(x->kind)->computes == COMPUTES_NOTHING) return 0;
    for (int i = 0; i < l->count; i++) count += l->instr[i].kind == x->kind;
    return s->seconds[stage * INSTRS + (int)x->kind] / count;
}

static status print_setup(const bench_pipeline_request *q, bench_setup *x, err *e)
{
    status result = OK;
    const plan_options *p = &x->lists.plan[0]->o;
    const simulate_costs c = {.seconds = pass_seconds,
                              .given = x,
                              .overlap = true,
                              .sends_wait = p->strategy.pipeline.sends_wait};
    simulate_result by_passes; // blocks take their measured times
    TRY(schedule_simulate(x->lists.train_of, x->lists.plan_of, x->lists.count, &c, &by_passes, e));
    bench_sort(x->measured, x->counted);
    if (q->json)
        printf("%s{\"schedule\":\"%s\",\"stages\":%d,\"virtual_stages\":%d,\"micro_batches\":%d,"
               "\"closed_form\":%.6g,\"by_flops\":%.6g,\"by_passes\":%.6g,\"run\":%.6g,"
               "\"run_least\":%.6g,\"run_most\":%.6g,\"steps\":%d}",
               x == q->all ? "[" : ",\n", pipeline_schedule_name(p->strategy.pipeline.schedule),
               x->lists.count, x->lists.plan[0]->chunks / x->lists.count, p->micros, x->analytic,
               x->simulated, by_passes.bubble, x->measured[x->counted / 2], x->measured[0],
               x->measured[x->counted - 1], x->counted);
    else
        printf("%-12s %6d %6d %12.1f %% %8.1f %% %8.1f %% %8.1f %%   (%.1f to %.1f)\n",
               pipeline_schedule_name(p->strategy.pipeline.schedule), x->lists.count, p->micros,
               100 * x->analytic, 100 * x->simulated, 100 * by_passes.bubble,
               100 * x->measured[x->counted / 2], 100 * x->measured[0],
               100 * x->measured[x->counted - 1]);
done:
    simulate_result_clear(&by_passes);
    return result;
}

static status print_all(const bench_pipeline_request *q, err *e)
{
    status result = OK;
    if (!q->json)
        printf("%-12s %6s %6s %14s %10s %10s %10s\n", "schedule", "stages", "micros", "analytic",
               "by FLOPs", "by times", "measured");
    for (int i = 0; i < q->setups; i++) TRY(print_setup(q, &q->all[i], e));
    if (q->json) printf("]\n");
done:
    return result;
}

// ---- Jobs

static const char *const DEFAULTS[] = {"--train.steps=5",
                                       "--train.micro_batch=1",
                                       "--data.train=mock",
                                       "--train.out=.",
                                       "--train.save_every=0",
                                       "--train.eval_every=0",
                                       "--launch.ranks=2",
                                       "--launch.threads_per_rank=1",
                                       "--parallel.pp=2",
                                       "--data.seq_len=128",
                                       "--model.family=gpt2",
                                       "--model.layers=8",
                                       "--model.hidden=192",
                                       "--model.heads=6",
                                       "--model.vocab=64",
                                       "--model.max_seq=128",
                                       "--model.tie_embeddings=false",
                                       NULL};

// Sequences of one micro-batch of all data-parallel ranks. The global batch is a multiple of them.
static status sequences_of(const bench_pipeline_request *q, int64_t *each, err *e)
{
    status result = OK;
    job *j = NULL;
    mesh m;
    TRY(bench_job_open(&q->given, NULL, 0, &j, e));
    TRY(job_solve_mesh(j, j->launch.ranks, &m, e));
    *each = (j->train.micro_batch ? j->train.micro_batch : 1) * mesh_data_ranks(&m);
done:
    job_close(j);
    return result;
}

static status open_setup(const bench_pipeline_request *q, pipeline_schedule order, int micros,
                         int64_t each, bench_setup *x, err *e)
{
    status result = OK;
    text settings[3] = {{0}};
    trainer_options *o = &x->options;
    simulate_result times = {.stages = 0};
    const int virtual = order == PIPE_INTERLEAVED ? 2 : 1;
    text_addf(&settings[0], "--parallel.pp_schedule=%s", pipeline_schedule_name(order));
    text_addf(&settings[1], "--parallel.virtual_stages=%d", virtual);
    text_addf(&settings[2], "--train.global_batch=%lld", (long long)(each * micros));
    TRY(bench_job_open(&q->given, settings, 3, &x->job, e));
    TRY(session_inputs_open(x->job, &x->inputs, e));
    TRY(session_options(x->job, &x->inputs, x->job->launch.ranks, o, e));
    TRY(session_stages_open(o, &x->lists, e));
    TRY(session_stages_simulate(&x->lists, o, false, &times, e));
    x->simulated = times.bubble;
    x->analytic = pipeline_bubble(order, x->lists.count, virtual, micros);
    TRY(alloc_zeroed(&x->measured, (size_t)(q->rounds * x->job->train.steps), sizeof *x->measured,
                     "the figures", e));
    TRY(alloc_zeroed(&x->seconds, (size_t)x->lists.count, INSTRS * sizeof *x->seconds,
                     "the figures", e));
done:
    simulate_result_clear(&times);
    for (int i = 0; i < 3; i++) text_clear(&settings[i]);
    return result;
}

static status open_all(bench_pipeline_request *q, err *e)
{
    status result = OK;
    int64_t each;
    TRY(sequences_of(q, &each, e));
    TRY(alloc_zeroed(&q->all, (size_t)(q->sizes * PIPE_SCHEDULES), sizeof *q->all, "the jobs", e));
    for (int i = 0; i < q->sizes; i++)
        for (int s = 0; s < PIPE_SCHEDULES; s++)
            TRY(open_setup(q, (pipeline_schedule)s, q->micros[i], each, &q->all[q->setups++], e));
    const job *j = q->all[0].job;
    if (j->parallel.size[AXIS_PP] < 2)
        FAIL(E_USAGE, "bench pipeline: found parallel.pp 1; valid: 2 or more");
    q->shared = mmap(NULL, (size_t)(j->launch.ranks * j->train.steps) * sizeof *q->shared,
                     PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (q->shared == MAP_FAILED) FAIL(E_IO, "bench pipeline: cannot map the ranks' figures");
done:
    return result;
}

static void close_all(bench_pipeline_request *q)
{
    for (int i = 0; i < q->setups; i++) {
        bench_setup *x = &q->all[i];
        session_stages_close(&x->lists);
        session_options_clear(&x->options);
        session_inputs_close(&x->inputs);
        job_close(x->job);
        free(x->measured);
        free(x->seconds);
    }
    free(q->all); // q->board lives until the process ends
}

// ---- Arguments

static status read_arguments(bench_pipeline_request *q, int argc, char **argv, err *e)
{
    status result = OK;
    q->rounds = 3;
    TRY(flags_take(flags, FLAGS, &argc, argv, q, e));
    TRY(bench_read_list("--micros", q->list ? q->list : "4,8,16", "4,8,16", 1 << 16, q->micros,
                        &q->sizes, e));
    if (q->rounds < 1 || q->rounds > 1000)
        FAIL(E_USAGE, "--rounds: found %lld; valid: 1 to 1000", (long long)q->rounds);
    q->given = bench_job_arguments(argc, argv, DEFAULTS);
done:
    return result;
}

static int cmd_bench_pipeline(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    bench_pipeline_request q = {.all = NULL};
    TRY(read_arguments(&q, argc, argv, e));
    TRY(open_all(&q, e));
    TRY(run_all(&q, e));
    TRY(print_all(&q, e));
done:
    close_all(&q);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_bench_pipeline = {
    .name = "pipeline",
    .run = cmd_bench_pipeline,
    .usage = "[JOB.yaml] [--key value ...] [--micros LIST] [--rounds N] [--json]",
    .help = "Measures the bubble of pipeline schedules: the share of time in which stages wait.",
    .about =
        "Runs the job (default: a small gpt2 on 2 ranks of one thread) under every pipeline "
        "schedule and every number of micro-batches of LIST. In each of N rounds every schedule "
        "runs train.steps steps (default 5), after 2 that are not counted. Prints four bubbles:\n"
        "\"analytic\" is the formula: every model chunk takes the same time, messages take none;\n"
        "\"by FLOPs\" is simulated: a block takes time in proportion to its FLOPs;\n"
        "\"by times\" is simulated: a block takes the mean measured time of its stage's blocks;\n"
        "\"measured\" is the median step's share of time that ranks wait for messages and for the "
        "gradient norm, from the start of the step until all ranks have the norm.",
    .flags = flags,
    .flag_count = FLAGS,
    .takes_job = true,
};
