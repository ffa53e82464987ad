// smoke.c -- `trireme smoke`: trains a small model on all devices and hosts of a launch in several ways, and compares losses
// and bits. doctor/measure/smoke.h judges them. It writes nothing to disk.
#include "doctor/measure/smoke.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/proc.h"
#include "cmd/bench/bench_job.h"
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/console.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    STEPS = 8,
    WARM_UP = 2, // steps of the first run that do not count for its speed
    RUNS = 7,
    BATCH = 4, // samples of a rank in a step
    MOST_RANKS_CPU = 8,
    HOST = 64, // bytes of a host's name, a multiple of 8
    MOST_HOSTS = 4096,
};
static const int64_t MOST_PARAMS = 4 << 20;

// A way of training, and the earlier one whose bits it must have.
typedef struct smoke_run {
    const char *name;
    const char *settings[2];
    int equals;   // -1: none
    bool divides; // needs an even number of ranks
} smoke_run;

static const smoke_run RUN[RUNS] = {
    {"ddp", {"--parallel.dp=ddp"}, -1, false},
    {"ddp again", {"--parallel.dp=ddp"}, 0, false},
    {"zero3", {"--parallel.dp=zero3"}, 0, false},
    {"tp 2 with ddp", {"--parallel.dp=ddp", "--parallel.tp=2"}, -1, true},
    {"tp 2 with zero3", {"--parallel.dp=zero3", "--parallel.tp=2"}, 3, true},
    {"pp 2 with 1f1b", {"--parallel.pp=2", "--parallel.pp_schedule=1f1b"}, -1, true},
    {"pp 2 with gpipe", {"--parallel.pp=2", "--parallel.pp_schedule=gpipe"}, 5, true},
};
enum { ZERO3 = 2 };

// Written by rank 0, in memory that it shares with the starting process.
typedef struct smoke_shared {
    double loss[RUNS][STEPS];
    double tokens, seconds; // of the steps of the first run that count
    char difference[256];   // the first one that was found; "": none
    char kind[32];          // of the device
    char host[MOST_HOSTS][HOST];
    int hosts;       // ranks whose host is known
    int now;         // the run that the ranks do
    float weights[]; // [RUNS, MOST_PARAMS]
} smoke_shared;

typedef struct smoke_request {
    session_join join;
    bench_job given;
    int64_t ranks; // 0: not given
    bool json;
    job *job[RUNS]; // NULL: the number of ranks does not allow the run
    session_inputs inputs[RUNS];
    smoke_shared *shared;
    double began;
} smoke_request;

static const flag flags[] = {
    {"--ranks", FLAG_COUNT, offsetof(smoke_request, ranks), "N",
     "Sets the number of ranks (default: one for each GPU, or for each core up to 8)."},
    {"--json", FLAG_SWITCH, offsetof(smoke_request, json), NULL, "Prints one JSON object."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

static const char *const DEFAULTS[] = {"--model.family=gpt2",
                                       "--model.layers=2",
                                       "--model.hidden=64",
                                       "--model.heads=4",
                                       "--model.vocab=256",
                                       "--model.max_seq=64",
                                       "--model.drop_embed=0",
                                       "--model.drop_attention=0",
                                       "--model.drop_residual=0",
                                       "--data.train=mock",
                                       "--data.seq_len=64",
                                       "--train.micro_batch=2",
                                       "--train.out=.",
                                       "--train.save_every=0",
                                       "--train.eval_every=0",
                                       "--optimizer.lr=3e-3",
                                       "--lr_schedule.name=constant",
                                       "--lr_schedule.warmup_steps=0",
                                       "--parallel.no_sync=true",
                                       "--checks.replicas_every=4",
                                       NULL};

// ---- A rank

// Tells rank 0 the name of each rank's host.
static status gather_hosts(const session *s, smoke_shared *shared, err *e)
{
    status result = OK;
    const int ranks = s->comm->size;
    const size_t bytes = (size_t)ranks * HOST;
    char name[HOST] = "", *all = NULL;
    void *memory = NULL;
    device_stream *stream = NULL;
    proc_host_name(name, sizeof name);
    TRY(alloc_zeroed(&all, bytes, 1, "the names of hosts", e));
    TRY(s->device->ops->stream_open(s->device, STREAM_COMM, false, &stream, e));
    TRY(device_alloc(s->device, MEMORY_DEVICE, bytes + HOST, &memory, e));
    char *const own = (char *)memory + bytes;
    TRY(device_upload(stream, own, name, HOST, e));
    TRY(comm_all_gather(s->comm, own, memory, HOST / 8, I64, stream, e));
    TRY(s->device->ops->sync(stream, e));
    TRY(device_download(stream, all, memory, bytes, e));
    if (s->comm->rank != 0) goto done;
    shared->hosts = ranks < MOST_HOSTS ? ranks : MOST_HOSTS;
    memcpy(shared->host, all, (size_t)shared->hosts * HOST);
done:
    device_release(s->device, MEMORY_DEVICE, memory, bytes + HOST);
    if (stream) s->device->ops->stream_close(stream);
    free(all);
    return result;
}

static void add_host(const smoke_shared *shared, int rank, text *out)
{
    if (rank >= 0 && rank < shared->hosts)
        text_addf(out, " on host %.*s", TEXT_CUT(shared->host[rank], HOST - 1));
}

// Says where the weights first differ from those of the run that they must equal.
static void compare_param(smoke_shared *shared, int run, const model_param *p, const float *own,
                          const float *other, int ranks)
{
    const smoke_run *r = &RUN[run];
    text line = {0};
    const smoke_difference d = smoke_compare(own, other, p->count, p->shard_rows, ranks);
    if (!d.elements || shared->difference[0]) return;
    text_addf(&line, "%s and %s have other weights: %lld of %lld elements of %s, the first is %lld",
              r->name, RUN[r->equals].name, (long long)d.elements, (long long)p->count, p->name,
              (long long)d.first);
    if (run == ZERO3) {
        text_addf(&line, ", in the shard of rank %d", d.rank);
        add_host(shared, d.rank, &line);
    }
    snprintf(shared->difference, sizeof shared->difference, "%s",
             line.chars ? line.chars : r->name);
    text_trim(shared->difference);
    text_clear(&line);
}

static status read_weights(smoke_shared *shared, int run, const session *s, err *e)
{
    status result = OK;
    const model *m = trainer_get_model(s->trainer);
    const bool is_first = s->comm->rank == 0;
    const int equals = RUN[run].equals;
    float *own = shared->weights + run * MOST_PARAMS;
    const float *other = shared->weights + (equals < 0 ? run : equals) * MOST_PARAMS;
    if (model_param_count(m) > (uint64_t)MOST_PARAMS)
        FAIL(E_USAGE, "found a model of %llu parameters; valid: at most %lld",
             (unsigned long long)model_param_count(m), (long long)MOST_PARAMS);
    for (int i = 0; i < m->params; i++) {
        TRY(trainer_read_state(s->trainer, STATE_WEIGHT, i, is_first ? own : NULL, e));
        if (is_first && equals >= 0)
            compare_param(shared, run, &m->param[i], own, other, s->comm->size);
        own += m->param[i].count;
        other += m->param[i].count;
    }
done:
    return result;
}

// Rank 0 writes what the run gave.
static status rank_train(const smoke_request *q, int run, world *w, int rank, err *e)
{
    status result = OK;
    session s = {0};
    smoke_shared *const shared = q->shared;
    TRY(session_open(q->job[run], &q->inputs[run], w, rank, &s, e));
    if (run == 0) TRY(gather_hosts(&s, shared, e));
    for (int i = 0; i < STEPS; i++) {
        trainer_step_result r;
        TRY(trainer_step(s.trainer, false, &r, e));
        if (rank != 0) continue;
        shared->loss[run][i] = r.loss;
        if (run != 0 || i < WARM_UP) continue;
        shared->tokens += r.tokens;
        shared->seconds += r.seconds;
    }
    TRY(read_weights(shared, run, &s, e));
done:
    if (result != OK) session_abort(&s, e);
    session_close(&s);
    return result;
}

static status rank_smoke(world *w, int rank, int ranks, void *arg, err *e)
{
    (void)ranks;
    status result = OK;
    const smoke_request *q = arg;
    for (int run = 0; run < RUNS; run++) {
        if (!q->job[run]) continue;
        if (rank == 0) q->shared->now = run;
        TRY(rank_train(q, run, w, rank, e));
    }
done:
    return result;
}

// ---- The starting process

// Each process opens the same jobs, as all have the same arguments (join_same).
static status open_run(smoke_request *q, int run, err *e)
{
    status result = OK;
    text settings[8] = {{0}};
    int count = 0;
    if (RUN[run].divides && q->ranks % 2 != 0) goto done;
    text_addf(&settings[count++], "--launch.ranks=%lld", (long long)q->ranks);
    text_addf(&settings[count++], "--train.global_batch=%lld", (long long)q->ranks * BATCH);
    text_addf(&settings[count++], "--train.steps=%d", STEPS);
    for (int i = 0; i < 2 && RUN[run].settings[i]; i++)
        text_add(&settings[count++], RUN[run].settings[i]);
    TRY(bench_job_open(&q->given, settings, count, &q->job[run], e));
    // Two batches of random tokens, again and again: a model that learns knows them soon.
    q->job[run]->data.mock_samples = (uint64_t)q->ranks * BATCH * 2;
    TRY(session_inputs_open(q->job[run], &q->inputs[run], e));
done:
    for (int i = 0; i < 8; i++) text_clear(&settings[i]);
    return result;
}

static status judge(const smoke_request *q, err *e)
{
    status result = OK;
    for (int run = 0; run < RUNS; run++) {
        const double *loss = q->shared->loss[run];
        if (!q->job[run]) continue;
        TRY(smoke_check_losses(RUN[run].name, loss, STEPS, e));
        TRY(smoke_check_first(RUN[run].name, loss[0], RUN[0].name, q->shared->loss[0][0], e));
    }
    if (q->shared->difference[0]) FAIL(E_NUMERIC, "smoke: %s", q->shared->difference);
done:
    return result;
}

// The run is named, and the host of the rank that failed.
static void name_host(const smoke_request *q, int rank, err *e)
{
    text host = {0};
    add_host(q->shared, rank, &host);
    err_prefix(e, "smoke: %s%s: ", RUN[q->shared->now].name, host.chars ? host.chars : "");
    text_clear(&host);
}

static status do_all(smoke_request *q, err *e)
{
    status result = OK;
    for (int run = 0; run < RUNS; run++) TRY(open_run(q, run, e));
    TRY(join_attach(&q->join, e));
    TRY(join_same(&q->join, NULL, NULL, NULL, e));
    const launch_options o = {.ranks = (int)q->ranks, .as_threads = q->job[0]->launch.as_threads};
    result = join_run(&q->join, &o, rank_smoke, q, e);
    if (result != OK) name_host(q, q->join.first_rank, e);
    if (result == OK && !join_follows(&q->join)) TRY(judge(q, e));
done:
    return result;
}

// ---- The command

static int count_hosts(const smoke_shared *s)
{
    int count = 0;
    for (int i = 0; i < s->hosts; i++) {
        bool seen = false;
        for (int k = 0; k < i && !seen; k++) seen = strcmp(s->host[k], s->host[i]) == 0;
        count += !seen;
    }
    return count;
}

static void print_result(const smoke_request *q)
{
    const smoke_shared *s = q->shared;
    const double seconds = clock_seconds() - q->began, *loss = s->loss[0];
    const int ranks = (int)q->ranks, hosts = count_hosts(s);
    int runs = 0;
    for (int i = 0; i < RUNS; i++) runs += q->job[i] != NULL;
    if (q->json)
        printf("{\"ranks\":%d,\"hosts\":%d,\"device\":\"%s\",\"runs\":%d,\"steps\":%d,"
               "\"seconds\":%.4g,\"tokens_per_s\":%.6g,\"first_loss\":%.9g,\"last_loss\":%.9g}\n",
               ranks, hosts, s->kind, runs, STEPS, seconds, s->tokens / s->seconds, loss[0],
               loss[STEPS - 1]);
    else
        printf("smoke: %d rank%s on %d host%s (%s): %d runs of %d steps in %.1f s, %.0f tokens/s; "
               "losses fall from %.4f to %.4f; the bits of equal runs agree\n",
               ranks, ranks == 1 ? "" : "s", hosts, hosts == 1 ? "" : "s", s->kind, runs, STEPS,
               seconds, s->tokens / s->seconds, loss[0], loss[STEPS - 1]);
}

static status read_arguments(smoke_request *q, int argc, char **argv, err *e)
{
    status result = OK;
    TRY(flags_take(flags, FLAGS, &argc, argv, q, e));
    q->given = bench_job_arguments(argc, argv, DEFAULTS);
    q->given.own = q->join.own;
    if (q->given.path)
        FAIL(E_USAGE,
             "smoke: found '%s'; valid are keys such as --launch.device cuda, as it has "
             "a model of its own",
             q->given.path);
    if (bench_job_gives(&q->given, "--launch.ranks"))
        FAIL(E_USAGE, "smoke: --launch.ranks: valid is --ranks N");
    if (q->ranks > WORLD_MOST_RANKS)
        FAIL(E_USAGE, "smoke: --ranks: found %lld; valid: 1 to %d", (long long)q->ranks,
             WORLD_MOST_RANKS);
    if (q->join.location.launcher && q->ranks && q->ranks != q->join.location.ranks)
        FAIL(E_USAGE, "smoke: --ranks: found %lld; valid: %d, the ranks that %s has started",
             (long long)q->ranks, q->join.location.ranks, q->join.location.launcher);
done:
    return result;
}

// The device that the job names, and as many ranks as it has devices or cores.
static status choose_ranks(smoke_request *q, err *e)
{
    status result = OK;
    job *j = NULL;
    device_description d;
    text one = {0}, batch = {0};
    if (q->join.location.launcher) q->ranks = q->join.location.ranks;
    text_add(&one, "--launch.ranks=1");
    text_add(&batch, "--train.global_batch=4");
    const text settings[] = {one, batch};
    bench_job alone = q->given;
    alone.own = (job_own){0};
    TRY(bench_job_open(&alone, settings, 2, &j, e));
    TRY(device_describe(j->launch.device, NULL, &d, e));
    snprintf(q->shared->kind, sizeof q->shared->kind, "%.*s %.*s", TEXT_CUT(d.name, 8),
             TEXT_CUT(d.kind, 22));
    const int cores = proc_usable_cores();
    const int all = d.is_host_memory ? (cores < MOST_RANKS_CPU ? cores : MOST_RANKS_CPU) : d.count;
    if (!q->ranks) q->ranks = all;
done:
    job_close(j);
    text_clear(&one);
    text_clear(&batch);
    return result;
}

static int cmd_smoke(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    smoke_request q = {.began = clock_seconds()};
    const size_t bytes = sizeof *q.shared + (size_t)(RUNS * MOST_PARAMS) * sizeof(float);
    TRY(join_open(&q.join, argc, argv, e));
    q.shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0); // until the process ends
    if (q.shared == MAP_FAILED) FAIL(E_IO, "smoke: cannot map the ranks' figures");
    TRY(read_arguments(&q, argc, argv, e));
    TRY(choose_ranks(&q, e));
    TRY(do_all(&q, e));
    if (!join_follows(&q.join)) print_result(&q);
done:
    for (int run = 0; run < RUNS; run++) {
        session_inputs_close(&q.inputs[run]);
        job_close(q.job[run]);
    }
    return cmd_end(&q.join, result, e);
}

const command command_smoke = {
    .name = "smoke",
    .run = cmd_smoke,
    .usage = "[--ranks N] [--key value ...] [--json]",
    .help = "Trains a small model on all devices and hosts of a launch, and compares bits.",
    .about =
        "Trains a small gpt2 on random tokens with ddp, again with ddp, and with zero3, which must "
        "give the same bits; on an even number of ranks also with tensor and pipeline parallelism, "
        "each in two ways with the same bits. Checks that losses are finite and fall. Takes a few "
        "seconds, writes nothing, and prints one line. The exit code is 1 where a rank fails or "
        "runs differ; the message names the run, the rank and its host. Ranks that another "
        "launcher has started take part, as for train.",
    .flags = flags,
    .flag_count = FLAGS,
    .takes_job = true,
};
