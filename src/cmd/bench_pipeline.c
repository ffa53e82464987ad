// bench_pipeline.c -- `trireme bench pipeline`: the share of time in which pipeline stages are
// idle: in closed form, as simulated, and as it is when the same lists run. Writes nothing to disk.
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

enum { WARM_UP = 2, MICROS = 8 };

// One schedule with one number of micro-batches.
typedef struct setup {
    job *job;
    session_inputs inputs;
    session_stages lists;
    double closed, by_flops;
    double *idle; // [rounds * steps]
    int counted;
    double *seconds; // [stages][INSTRS] of all counted steps and ranks
} setup;

typedef struct request {
    int count; // of the job's arguments
    char **args;
    const char *path, *list;
    int micros[MICROS], sizes;
    int64_t rounds;
    bool json;
    setup *all;
    int setups;
    const setup *now;
    double (*board)[INSTRS]; // [ranks * steps], shared with the ranks
} request;

static const flag flags[] = {
    {"--micros", FLAG_TEXT, offsetof(request, list), "LIST",
     "Sets the numbers of micro-batches of a step (default: 4,8,16)."},
    {"--rounds", FLAG_COUNT, offsetof(request, rounds), "N",
     "Sets how often the schedules run in turn (default: 3)."},
    {"--json", FLAG_SWITCH, offsetof(request, json), NULL, "Prints a JSON array."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

// ---- A run

static status rank_bench(world *w, int rank, int ranks, void *arg, err *e)
{
    status result = OK;
    const request *q = arg;
    const int64_t steps = q->now->job->train.steps;
    session s = {0};
    (void)ranks;
    TRY(session_open(q->now->job, &q->now->inputs, w, rank, &s, e));
    for (int64_t i = -WARM_UP; i < steps; i++) {
        trainer_step_result r;
        TRY(comm_barrier(s.comm, e));
        TRY(trainer_step(s.trainer, false, &r, e));
        if (i >= 0)
            memcpy(q->board[rank * steps + i], trainer_seconds(s.trainer), sizeof *q->board);
    }
done:
    if (result != OK) session_abort(&s, e);
    session_close(&s);
    return result;
}

// Does a rank wait for other stages in instructions of this kind?
static bool is_waiting(int kind)
{
    const instr_meeting m = instr_row_of((schedule_instr_kind)kind)->peers.meeting;
    return m == MEETS_SENDER || m == MEETS_ENDS || m == MEETS_ALL_STAGES;
}

// The update and the files of buckets, which are no part of the pipeline.
static bool is_after(int kind)
{
    const schedule_instr_kind k = (schedule_instr_kind)kind;
    const instr_row *row = instr_row_of(k);
    return instr_has_effect(k, ACCESS_WRITE, RES_UPDATED) ||
           instr_has_effect(k, ACCESS_READ, RES_UPDATED) ||
           (row->stream == STREAM_COPY && row->subject == ABOUT_BUCKET);
}

static void take_figures(const request *q, setup *x)
{
    const mesh *m = &x->lists.plan[0]->o.mesh;
    const int64_t steps = x->job->train.steps;
    for (int64_t i = 0; i < steps; i++) {
        double waited = 0, all = 0;
        for (int r = 0; r < m->ranks; r++) {
            const double *seconds = q->board[r * steps + i];
            for (int k = 0; k < INSTRS; k++) {
                if (!is_after(k)) all += seconds[k];
                if (is_waiting(k)) waited += seconds[k];
                x->seconds[mesh_at(m, r, AXIS_PP) * INSTRS + k] += seconds[k];
            }
        }
        x->idle[x->counted++] = waited / all;
    }
}

static status run_all(request *q, err *e)
{
    status result = OK;
    for (int64_t round = 0; round < q->rounds; round++)
        for (int i = 0; i < q->setups; i++) {
            const launch_options o = {.ranks = q->all[i].job->launch.ranks,
                                      .as_threads = q->all[i].job->launch.as_threads};
            q->now = &q->all[i];
            TRY(launch_ranks(&o, rank_bench, q, NULL, e));
            take_figures(q, &q->all[i]);
        }
done:
    return result;
}

// ---- Results

static double pass_seconds(const void *given, int stage, const schedule_instr *x)
{
    const setup *s = given;
    const schedule *l = &s->lists.train[stage];
    int count = 0;
    if (instr_row_of(x->kind)->computes == COMPUTES_NOTHING) return 0;
    for (int i = 0; i < l->count; i++) count += l->instr[i].kind == x->kind;
    return s->seconds[stage * INSTRS + (int)x->kind] / count;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static status print_setup(const request *q, setup *x, err *e)
{
    status result = OK;
    const plan_options *p = &x->lists.plan[0]->o;
    const simulate_costs c = {.seconds = pass_seconds, .given = x, .overlap = true};
    simulate_result by_passes;
    TRY(schedule_simulate(x->lists.train_of, x->lists.plan_of, x->lists.count, &c, &by_passes, e));
    qsort(x->idle, (size_t)x->counted, sizeof *x->idle, compare);
    if (q->json)
        printf("%s{\"schedule\":\"%s\",\"stages\":%d,\"virtual_stages\":%d,\"micro_batches\":%d,"
               "\"closed_form\":%.6g,\"by_flops\":%.6g,\"by_passes\":%.6g,\"run\":%.6g,"
               "\"run_least\":%.6g,\"run_most\":%.6g,\"steps\":%d}",
               x == q->all ? "[" : ",\n", pipeline_schedule_name(p->strategy.pipeline.schedule),
               x->lists.count, x->lists.plan[0]->chunks / x->lists.count, p->micros, x->closed,
               x->by_flops, by_passes.bubble, x->idle[x->counted / 2], x->idle[0],
               x->idle[x->counted - 1], x->counted);
    else
        printf("%-12s %6d %6d %12.1f %% %8.1f %% %8.1f %% %8.1f %%   (%.1f to %.1f)\n",
               pipeline_schedule_name(p->strategy.pipeline.schedule), x->lists.count, p->micros,
               100 * x->closed, 100 * x->by_flops, 100 * by_passes.bubble,
               100 * x->idle[x->counted / 2], 100 * x->idle[0], 100 * x->idle[x->counted - 1]);
done:
    simulate_result_clear(&by_passes);
    return result;
}

static status print_all(const request *q, err *e)
{
    status result = OK;
    if (!q->json)
        printf("%-12s %6s %6s %14s %10s %10s %10s\n", "schedule", "stages", "micros", "closed form",
               "by FLOPs", "by passes", "run");
    for (int i = 0; i < q->setups; i++) TRY(print_setup(q, &q->all[i], e));
    if (q->json) printf("]\n");
done:
    return result;
}

// ---- Jobs

static bool is_given(int count, char **args, const char *key)
{
    const size_t bytes = strcspn(key, "=");
    for (int i = 0; i < count; i++)
        if (strncmp(args[i], key, bytes) == 0 && strchr("=", args[i][bytes])) return true;
    return false;
}

// The arguments, before them what is not given, after them what this setup is.
static status open_job(const request *q, const text *own, int owns, job **out, err *e)
{
    static const char *const defaults[] = {"--train.steps=5",
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
                                           "--model.tie_embeddings=false"};
    enum { DEFAULTS = sizeof defaults / sizeof *defaults, RUN = 9 };
    int n = 0;
    char **all = calloc((size_t)(q->count + DEFAULTS + owns), sizeof *all);
    if (!all) return err_set(e, E_IO, "no memory for the arguments");
    // A job file says itself what is trained on what.
    for (int i = 0; i < (q->path ? RUN : DEFAULTS); i++)
        if (!is_given(q->count, q->args, defaults[i]) && !(q->path && i == 2))
            all[n++] = (char *)defaults[i];
    for (int i = 0; i < q->count; i++) all[n++] = q->args[i];
    for (int i = 0; i < owns; i++) all[n++] = own[i].chars;
    const status result = job_open(q->path, n, all, out, e);
    free(all);
    return result;
}

// micro_batch and data-parallel ranks are the job's; the global batch follows.
static status sequences_of(const request *q, int64_t *each, err *e)
{
    status result = OK;
    job *j = NULL;
    mesh m;
    TRY(open_job(q, NULL, 0, &j, e));
    TRY(job_solve_mesh(j, j->launch.ranks, &m, e));
    *each = (j->train.micro_batch ? j->train.micro_batch : 1) * mesh_data_ranks(&m);
done:
    job_close(j);
    return result;
}

static status open_setup(const request *q, pipeline_schedule order, int micros, int64_t each,
                         setup *x, err *e)
{
    status result = OK;
    text own[3] = {{0}};
    trainer_options o;
    simulate_result times = {.stages = 0};
    const int virtual = order == PIPE_INTERLEAVED ? 2 : 1;
    text_addf(&own[0], "--parallel.pp_schedule=%s", pipeline_schedule_name(order));
    text_addf(&own[1], "--parallel.virtual_stages=%d", virtual);
    text_addf(&own[2], "--train.global_batch=%lld", (long long)(each * micros));
    TRY(open_job(q, own, 3, &x->job, e));
    TRY(session_inputs_open(x->job, &x->inputs, e));
    TRY(session_options(x->job, &x->inputs, x->job->launch.ranks, &o, e));
    TRY(session_stages_open(&o, &x->lists, e));
    TRY(session_stages_simulate(&x->lists, &o, false, &times, e));
    x->by_flops = times.bubble;
    x->closed = pipeline_bubble(order, x->lists.count, virtual, micros);
    x->idle = calloc((size_t)(q->rounds * x->job->train.steps) + 1, sizeof *x->idle);
    x->seconds = calloc((size_t)x->lists.count, INSTRS * sizeof *x->seconds);
    if (!x->idle || !x->seconds) FAIL(E_IO, "no memory for the figures");
done:
    simulate_result_clear(&times);
    for (int i = 0; i < 3; i++) text_clear(&own[i]);
    return result;
}

static status open_all(request *q, err *e)
{
    status result = OK;
    int64_t each;
    TRY(sequences_of(q, &each, e));
    q->all = calloc((size_t)(q->sizes * PIPE_SCHEDULES), sizeof *q->all);
    if (!q->all) FAIL(E_IO, "no memory for %d jobs", q->sizes * PIPE_SCHEDULES);
    for (int i = 0; i < q->sizes; i++)
        for (int s = 0; s < PIPE_SCHEDULES; s++)
            TRY(open_setup(q, (pipeline_schedule)s, q->micros[i], each, &q->all[q->setups++], e));
    const job *j = q->all[0].job;
    if (j->parallel.pp < 2) FAIL(E_USAGE, "bench pipeline: found parallel.pp 1; valid: 2 or more");
    q->board = mmap(NULL, (size_t)(j->launch.ranks * j->train.steps) * sizeof *q->board,
                    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (q->board == MAP_FAILED) FAIL(E_IO, "bench pipeline: cannot map the ranks' figures");
done:
    return result;
}

static void close_all(request *q)
{
    for (int i = 0; i < q->setups; i++) {
        setup *x = &q->all[i];
        session_stages_close(&x->lists);
        session_inputs_close(&x->inputs);
        job_close(x->job);
        free(x->idle);
        free(x->seconds);
    }
    free(q->all); // the figures' pages end with the process
}

// ---- Arguments

static status read_micros(const char *list, request *q, err *e)
{
    q->sizes = 0;
    for (const char *at = list; *at;) {
        char *end;
        const long n = strtol(at, &end, 10);
        if (end == at || n < 1 || n > 1 << 16 || q->sizes == MICROS || (*end && *end != ','))
            return err_set(e, E_USAGE, "--micros: found '%s'; valid: up to %d numbers as 4,8,16",
                           list, MICROS);
        q->micros[q->sizes++] = (int)n;
        at = *end ? end + 1 : end;
    }
    return q->sizes ? OK : err_set(e, E_USAGE, "--micros: found ''; valid: as 4,8,16");
}

static status read_arguments(request *q, int argc, char **argv, err *e)
{
    status result = OK;
    q->rounds = 3;
    TRY(flags_take(flags, FLAGS, &argc, argv, q, e));
    TRY(read_micros(q->list ? q->list : "4,8,16", q, e));
    if (q->rounds < 1 || q->rounds > 1000)
        FAIL(E_USAGE, "--rounds: found %lld; valid: 1 to 1000", (long long)q->rounds);
    q->path = cmd_job_path(argc, argv);
    for (int i = q->path ? 2 : 1; i < argc; i++) q->args[q->count++] = argv[i];
done:
    return result;
}

static int cmd_bench_pipeline(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    request q = {.args = calloc((size_t)argc + 1, sizeof *q.args)};
    if (!q.args) FAIL(E_IO, "no memory for the arguments");
    TRY(read_arguments(&q, argc, argv, e));
    TRY(open_all(&q, e));
    TRY(run_all(&q, e));
    TRY(print_all(&q, e));
done:
    close_all(&q);
    free(q.args);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_bench_pipeline = {
    .name = "pipeline",
    .run = cmd_bench_pipeline,
    .usage = "[JOB.yaml] [--key value ...] [--micros LIST] [--rounds N] [--json]",
    .help = "Measures the bubble of pipeline schedules: the share of time in which stages wait.",
    .about =
        "Runs the job (default: a small gpt2 on 2 ranks of one thread) under every pipeline "
        "schedule with as many micro-batches as LIST says, schedules in turn, N rounds of "
        "train.steps steps each (default 5, after 2 that are not counted), and prints the share of "
        "time in which stages are idle:\n"
        "\"closed form\" counts every model chunk as equally long and messages as nothing;\n"
        "\"by FLOPs\" is simulated, and a block takes its FLOPs;\n"
        "\"by passes\" is simulated, and a block takes what its stage's blocks took in the run;\n"
        "\"run\" is measured from a step's start to the agreement on its norm, as waiting for "
        "messages and for that, in the median step.",
    .flags = flags,
    .flag_count = FLAGS,
    .takes_job = true,
};
