// bench_calibrate.c -- `trireme bench calibrate`: measures kernels, calls, files and a step of this machine with the ranks
// that training would have, and writes the machine file that plans read (planner/calibrated.h).
#include "cmd/bench/bench_calibrate.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "cmd/bench/bench_calibrate_calls.h"
#include "cmd/bench/bench_job.h"
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/console.h"
#include "cmd/doctor/facts.h"
#include "session/join.h"
#include "session/plan/machine_choice.h"
#include "store/tier_rate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Shares of --seconds. The rest is for starting.
static const double KERNELS_SHARE = 0.6, CALLS_SHARE = 0.2, STEP_SHARE = 0.08;
// Bytes of the files, for each second that there is in all.
static const double FILE_BYTES = 4 << 20;

typedef struct bench_calibrate_flags {
    const char *out, *folder, *precision, *comm;
    int64_t ranks, threads;
    double seconds;
} bench_calibrate_flags;

static const flag flags[] = {
    {"--out", FLAG_TEXT, offsetof(bench_calibrate_flags, out), "FILE",
     "Names the machine file to write (default: that of this user, which plans read)."},
    {"--ranks", FLAG_COUNT, offsetof(bench_calibrate_flags, ranks), "N",
     "Sets the number of ranks (default: as launch.ranks)."},
    {"--threads", FLAG_COUNT, offsetof(bench_calibrate_flags, threads), "N",
     "Sets the threads of a rank (default: as launch.threads_per_rank)."},
    {"--comm", FLAG_TEXT, offsetof(bench_calibrate_flags, comm), "auto|local|hier|tls|ucx|mpi",
     "Chooses the communicator, as launch.comm does (default: auto)."},
    {"--precision", FLAG_TEXT, offsetof(bench_calibrate_flags, precision), "LIST",
     "Lists the number formats to measure, of fp32, bf16 and fp16 (default: fp32,bf16)."},
    {"--seconds", FLAG_NUMBER, offsetof(bench_calibrate_flags, seconds), "S",
     "Sets the seconds in which all is measured, about (default: 60)."},
    {"--path", FLAG_TEXT, offsetof(bench_calibrate_flags, folder), "DIR",
     "Names a folder on the disk to measure (default: the current one)."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

// ---- On a rank

bool bench_calibrate_has_cores(const bench_calibrate *q)
{
    return job_local_ranks(q->job) * q->job->launch.threads_per_rank <= proc_usable_cores();
}

static void describe_host(const bench_calibrate *q, calibrated_file *f)
{
    const time_t now = time(NULL);
    struct tm t;
    char cpu[FACTS_LINE] = "";
    gmtime_r(&now, &t);
    strftime(f->date, sizeof f->date, "%Y-%m-%d %H:%M UTC", &t);
    proc_host_name(f->host, sizeof f->host);
    (void)facts_read_value("/proc/cpuinfo", "model name", cpu);
    snprintf(f->cpu, sizeof f->cpu, "%.*s", TEXT_CUT(cpu, CALIBRATED_NAME - 1));
    snprintf(f->version, sizeof f->version, "%s", TRIREME_VERSION);
    f->cores = proc_usable_cores();
    f->ranks = job_local_ranks(q->job);
    f->threads = q->job->launch.threads_per_rank;
    f->does.factor = 1;
}

static status measure_files(const bench_calibrate *q, calibrated_host *out, err *e)
{
    status result = OK;
    tier_rate rate = {0};
    const double blocks = q->seconds * FILE_BYTES / (1 << 20);
    const tier_options o = {.folder = q->folder,
                            .name = "bench calibrate",
                            .bytes = (uint64_t)(blocks < 8 ? 8 : blocks) << 20,
                            .block_bytes = 1 << 20,
                            .depth = 8};
    TRY(tier_rate_measure(&o, &rate, e));
    out->read_bytes_per_s = (double)o.bytes / rate.read_s;
    out->write_bytes_per_s = (double)o.bytes / rate.write_s;
done:
    text_clear(&rate.note);
    return result;
}

static status measure_calls(const bench_calibrate_rank *r, const world *w, err *e)
{
    comm *const c = r->s->comm;
    const bench_calls x = {.comm = c,
                           .device = r->s->device,
                           .group = {c->size, w->ranks, c->size / w->ranks, 1},
                           .seconds = CALLS_SHARE * r->q->seconds,
                           .most_bytes = BENCH_CALLS_MOST};
    r->file->calls.threads = r->file->threads;
    return c->size > 1 ? bench_calibrate_calls(&x, &r->file->calls, e) : OK;
}

// The step is predicted with what was measured before it.
static status measure(const bench_calibrate_rank *r, const world *w, err *e)
{
    status result = OK;
    const bench_calibrate *q = r->q;
    const bool writes = r->s->comm->rank == 0;
    describe_host(q, r->file);
    if (writes) TRY(measure_files(q, &r->file->does, e));
    TRY(bench_calibrate_kernels(r, KERNELS_SHARE * q->seconds, e));
    TRY(measure_calls(r, w, e));
    if (writes) TRY(calibrated_file_write(r->file, q->out, e));
    TRY(bench_calibrate_step(r, STEP_SHARE * q->seconds, e));
    if (writes) TRY(calibrated_file_write(r->file, q->out, e));
done:
    return result;
}

static void print_summary(const calibrated_file *f, const char *path, double seconds)
{
    console_line("%d ranks of %d %s on %s: memory %.1f GB/s a rank, %zu points of kernels, %zu of "
                 "calls, in %.0f s",
                 f->ranks, f->threads, f->threads == 1 ? "thread" : "threads", f->cpu,
                 f->kernels.memory_bytes_per_s * 1e-9, f->kernels.points, f->calls.points, seconds);
    for (int t = 0; t < DTYPES; t++)
        if (f->kernels.product_flops[t] > 0)
            console_line("products of %s: %.1f GFLOP/s a rank", dtype_name((dtype)t),
                         f->kernels.product_flops[t] * 1e-9);
    console_line("kernels take %.3f times as long in a step as alone; a step takes %.3f ms beside "
                 "its instructions",
                 f->does.factor, f->does.step_s * 1e3);
    console_line("files: read %.2f GB/s, write %.2f GB/s", f->does.read_bytes_per_s * 1e-9,
                 f->does.write_bytes_per_s * 1e-9);
    console_line("wrote %s", path);
}

static status rank_calibrate(world *w, int rank, int ranks, void *arg, err *e)
{
    status result = OK;
    const bench_calibrate *q = arg;
    const double began = clock_seconds();
    session s = {0};
    calibrated_file file = {.ranks = 0};
    bench_calibrate_rank r = {.q = q, .s = &s, .file = &file};
    void *figures = NULL;
    (void)ranks;
    TRY(session_open(q->job, &q->inputs, w, rank, &s, e));
    TRY(s.device->ops->stream_open(s.device, STREAM_COMPUTE, false, &r.stream, e));
    TRY(device_alloc(s.device, MEMORY_DEVICE, DEVICE_ALIGN, &figures, e));
    r.figures = figures;
    TRY(measure(&r, w, e));
    if (rank == 0) print_summary(&file, q->out, clock_seconds() - began);
    if (rank == 0) TRY(console_flush(e));
done:
    if (result != OK) session_abort(&s, e);
    device_release(s.device, MEMORY_DEVICE, figures, DEVICE_ALIGN);
    if (r.stream) s.device->ops->stream_close(r.stream);
    session_close(&s);
    calibrated_file_clear(&file);
    return result;
}

// ---- The command

static status read_precisions(const char *list, bench_calibrate *q, err *e)
{
    for (const char *word = list; q->types < CALIBRATE_TYPES;) {
        const size_t bytes = strcspn(word, ",");
        dtype type = F32;
        while (type <= F16 &&
               (strlen(dtype_name(type)) != bytes || strncmp(word, dtype_name(type), bytes) != 0))
            type++;
        if (type > F16) break;
        q->type[q->types++] = type;
        if (!word[bytes]) return OK;
        word += bytes + 1;
    }
    return err_set(e, E_USAGE,
                   "bench calibrate: --precision: found '%s'; valid is a list of fp32, bf16, fp16",
                   list);
}

static status read_flags(const bench_calibrate_flags *f, bench_calibrate *q, char **owned, err *e)
{
    status result = OK;
    TRY(read_precisions(f->precision, q, e));
    if (!(f->seconds > 0 && f->seconds <= 3600))
        FAIL(E_USAGE, "bench calibrate: --seconds: found %g; valid are numbers above 0, up to 3600",
             f->seconds);
    if (f->ranks > WORLD_MOST_RANKS || f->threads > INT32_MAX)
        FAIL(E_USAGE,
             "bench calibrate: found --ranks %lld, --threads %lld; valid are up to %d ranks",
             (long long)f->ranks, (long long)f->threads, WORLD_MOST_RANKS);
    q->seconds = f->seconds;
    q->folder = f->folder;
    q->out = f->out;
    if (!q->out) TRY(session_machine_path(owned, e));
    if (!q->out) q->out = *owned;
done:
    return result;
}

// A file that cannot be written is known before anything is measured.
static status check_out(const char *path, err *e)
{
    status result = OK;
    char *folder = NULL;
    bool can = false;
    const char *const slash = strrchr(path, '/');
    TRY(text_copy(slash ? path : ".", &folder, e));
    if (slash) folder[slash - path] = 0;
    TRY(file_could_be_directory(*folder ? folder : "/", &can, e));
    if (!can || file_is_directory(path))
        FAIL(E_USAGE,
             "bench calibrate: --out: found %s; valid is a file in a folder that can be "
             "written",
             path);
    TRY(file_make_directories(*folder ? folder : "/", e));
done:
    free(folder);
    return result;
}

static void add_setting(text *settings, int *count, const char *key, const char *value)
{
    if (value) text_addf(&settings[(*count)++], "--%s=%s", key, value);
}

enum { SETTINGS = 6, MICRO_BATCH = 2 };

// The small model is of sizes that no example has.
static status open_job(const bench_calibrate_flags *f, const session_join *join, bench_calibrate *q,
                       err *e)
{
    static const char *const defaults[] = {"--data.train=mock",    "--train.steps=1000000",
                                           "--train.out=.",        "--train.save_every=0",
                                           "--train.eval_every=0", "--train.micro_batch=2",
                                           "--data.seq_len=192",   "--model.family=gpt2",
                                           "--model.layers=3",     "--model.hidden=320",
                                           "--model.heads=5",      "--model.vocab=3000",
                                           "--model.max_seq=192",  "--launch.device=cpu",
                                           "--parallel.dp=ddp",    NULL};
    status result = OK;
    text settings[SETTINGS] = {{0}};
    char number[24];
    int count = 0;
    job *of_ranks = NULL;
    const bench_job given = {.defaults = defaults, .own = join->own};
    add_setting(settings, &count, "train.precision", dtype_name(q->type[0]));
    add_setting(settings, &count, "launch.comm", f->comm);
    snprintf(number, sizeof number, "%lld", (long long)f->ranks);
    add_setting(settings, &count, "launch.ranks", f->ranks > 0 ? number : NULL);
    snprintf(number, sizeof number, "%lld", (long long)f->threads);
    add_setting(settings, &count, "launch.threads_per_rank", f->threads > 0 ? number : NULL);
    // Each rank has one micro-batch.
    TRY(bench_job_open(&given, settings, count, &of_ranks, e));
    snprintf(number, sizeof number, "%d", MICRO_BATCH * of_ranks->launch.ranks);
    add_setting(settings, &count, "train.global_batch", number);
    TRY(bench_job_join(&given, settings, count, join, &q->job, &q->inputs, e));
done:
    job_close(of_ranks);
    for (int i = 0; i < SETTINGS; i++) text_clear(&settings[i]);
    return result;
}

static int cmd_bench_calibrate(int argc, char **argv)
{
    status result = OK;
    err failure = {0}, *e = &failure;
    session_join join;
    char *path = NULL;
    bench_calibrate_flags f = {.precision = "fp32,bf16", .seconds = 60, .folder = "."};
    bench_calibrate q = {.types = 0};
    TRY(join_open(&join, argc, argv, e));
    TRY(flags_parse(flags, FLAGS, argc, argv, &f, NULL, e));
    TRY(read_flags(&f, &q, &path, e));
    if (!join_follows(&join)) TRY(check_out(q.out, e));
    TRY(join_attach(&join, e));
    TRY(open_job(&f, &join, &q, e));
    const launch_options o = {.ranks = q.job->launch.ranks, .as_threads = q.job->launch.as_threads};
    TRY(join_run(&join, &o, rank_calibrate, &q, e));
done:
    session_inputs_close(&q.inputs);
    job_close(q.job);
    free(path);
    return cmd_end(&join, result, e);
}

const command command_bench_calibrate = {
    .name = "calibrate",
    .run = cmd_bench_calibrate,
    .usage = "[flags]",
    .help = "Measures this machine's rates, from which plans predict times.",
    .about =
        "Starts the ranks that training would have, so that they share the memory and the cores as "
        "in training. Measures kernels of many shapes, the calls of the communicator, a disk, and "
        "the steps of a small model. Writes the machine file that `trireme plan` and `trireme "
        "explain --time` read. Nothing else should run meanwhile. Ranks that another launcher has "
        "started take part, as for train.",
    .flags = flags,
    .flag_count = FLAGS,
};
