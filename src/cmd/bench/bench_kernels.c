// bench_kernels.c -- `trireme bench kernels`: measures every kernel of a device against its limit. The limit
// of a call is the greater of two times: that of its bytes at the measured rate of copies, and that of its
// floating-point operations at the measured rate of matrix products. It knows no device.
#include "cmd/bench/bench_copies.h"
#include "cmd/bench/bench_job.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/proc.h"
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "device/kernel_cost.h"
#include "device/kernel_needs.h"
#include "planner/calibrated.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TIMINGS = 5, // of which the median is printed
    MOST_LAUNCHES = 2000,
    HOST_TOKENS = 1024, // by default, on a device whose memory is the host's
    DEVICE_TOKENS = 32768,
};
// Bytes of the copies. On a device with memory of its own they are at most one COPY_SHARE of what is free.
static const size_t HOST_COPY = (size_t)256 << 20, DEVICE_COPY = (size_t)1 << 30, COPY_SHARE = 64;

typedef struct bench_flags {
    const char *device, *model, *precision, *only, *machine;
    int64_t tokens, threads;
    double seconds;
    bool json;
} bench_flags;

static const flag flags[] = {
    {"--device", FLAG_TEXT, offsetof(bench_flags, device), "NAME",
     "Chooses the device (default: auto), as launch.device does."},
    {"--model", FLAG_TEXT, offsetof(bench_flags, model), "gpt2|small|llama",
     "Takes the shapes of GPT-2 124M, of a GPT-2 of 12M, or of a Llama of about 1B (default: "
     "all)."},
    {"--precision", FLAG_TEXT, offsetof(bench_flags, precision), "fp32|bf16|fp16",
     "Sets the number format of activations and compute weights (default: bf16)."},
    {"--only", FLAG_TEXT, offsetof(bench_flags, only), "KERNEL",
     "Measures the kernels whose names start with this."},
    {"--tokens", FLAG_COUNT, offsetof(bench_flags, tokens), "N",
     "Sets the tokens of a call (default: 32768, and 1024 on CPUs)."},
    {"--threads", FLAG_COUNT, offsetof(bench_flags, threads), "N",
     "Sets the threads of kernels on a CPU (default: all cores)."},
    {"--seconds", FLAG_NUMBER, offsetof(bench_flags, seconds), "S",
     "Sets the seconds for which each kernel is measured (default: 0.2)."},
    {"--machine", FLAG_TEXT, offsetof(bench_flags, machine), "FILE",
     "Prints beside each kernel the time that this file of `bench calibrate` predicts. Each launch "
     "then has other arrays, as in a step."},
    {"--json", FLAG_SWITCH, offsetof(bench_flags, json), NULL, "Prints one JSON object."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

// An open device, and what it can do at most.
typedef struct bench_device {
    device *d;
    device_stream *s;
    double copy_rate, product_rate; // bytes moved and floating-point operations in a second
    double seconds;                 // of a measurement
    int printed;
    planner_machine machine; // that predicts; without costs: none does
    bench_copies copies;     // with it
    double *error;           // [printed] of each prediction, without its sign
    size_t error_room;
} bench_device;

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// ---- Times

// The seconds of `count` launches, until the device has done them.
static status time_launches(const bench_device *b, const kernel_call *call, int count, double *out,
                            err *e)
{
    status result = OK;
    const double start = clock_seconds();
    for (int i = 0; i < count; i++) device_launch(b->s, call);
    TRY(b->d->ops->sync(b->s, e));
    *out = clock_seconds() - start;
done:
    return result;
}

// The seconds of one launch: the median of several timings of many launches each.
static status time_one(const bench_device *b, const kernel_call *call, double *out, err *e)
{
    status result = OK;
    double timings[TIMINGS], once = 0;
    TRY(time_launches(b, call, 1, &once, e)); // the first use of a kernel and of memory is slow
    TRY(time_launches(b, call, 1, &once, e));
    const double fit = b->seconds / TIMINGS / (once > 1e-7 ? once : 1e-7);
    const int count = fit < 1 ? 1 : fit > MOST_LAUNCHES ? MOST_LAUNCHES : (int)fit;
    for (int i = 0; i < TIMINGS; i++) {
        TRY(time_launches(b, call, count, &timings[i], e));
        timings[i] /= count;
    }
    qsort(timings, TIMINGS, sizeof *timings, compare);
    *out = timings[TIMINGS / 2];
done:
    return result;
}

// ---- Calls

// Makes a call over an arena, and measures it.
static status time_call(const bench_device *b, bench_describe describe, kernel_kind kind,
                        const bench_sizes *q, bench_call *c, double *seconds, err *e)
{
    status result = OK;
    bench_arena m = {.stream = b->s};
    void *memory = NULL, *workspace = NULL;
    size_t workspace_bytes = 0, bytes = 0;
    *c = (bench_call){.call.kind = kind};
    describe(&m, q, c); // counts
    bytes = m.used + BENCH_SCRATCH_BYTES;
    TRY(device_alloc(b->d, MEMORY_DEVICE, bytes, &memory, e));
    m = (bench_arena){.stream = b->s, .base = memory};
    *c = (bench_call){.call.kind = kind};
    describe(&m, q, c);
    if (m.result != OK) {
        *e = m.failure;
        result = m.result;
        goto done;
    }
    workspace_bytes = kernel_workspace_bytes(b->d->needs, &c->call);
    if (workspace_bytes > 0) TRY(device_alloc(b->d, MEMORY_DEVICE, workspace_bytes, &workspace, e));
    c->call.workspace = workspace;
    c->call.workspace_bytes = workspace_bytes;
    if (b->d->ops->prepare) TRY(b->d->ops->prepare(b->d, &c->call, e));
    TRY(time_one(b, &c->call, seconds, e));
done:
    device_release(b->d, MEMORY_DEVICE, workspace, workspace_bytes);
    device_release(b->d, MEMORY_DEVICE, memory, bytes);
    return result;
}

static status time_copies(bench_device *b, const bench_kernel_row *r, const bench_sizes *q,
                          bench_call *c, double *seconds, err *e)
{
    const bench_point p = {r->kind, r->describe, q->model, q->tokens, q->type};
    (void)bench_copies_describe(&p, c);
    return bench_copies_time(&b->copies, &p, b->seconds, seconds, e);
}

// ---- Limits

static status measure_copies(bench_device *b, uint64_t free_bytes, err *e)
{
    const size_t share = free_bytes / COPY_SHARE / DEVICE_ALIGN * DEVICE_ALIGN;
    const size_t most = share < DEVICE_COPY ? share + DEVICE_ALIGN : DEVICE_COPY;
    return device_copy_rate(b->d, b->d->is_host_memory ? HOST_COPY : most, 2 * b->seconds,
                            &b->copy_rate, e);
}

// The best rate of products that grow until one takes so long that its launch no longer counts.
static status measure_products(bench_device *b, dtype type, err *e)
{
    enum { LEAST = 512, MOST = 8192 };
    const double enough = 2e-3;
    status result = OK;
    double seconds = 0;
    for (int64_t n = LEAST; n <= MOST && seconds < enough; n *= 2) {
        const bench_model cube = {.cols = n, .inner = n};
        const bench_sizes q = {&cube, n, type};
        bench_call c;
        TRY(time_call(b, bench_forward, K_MATMUL, &q, &c, &seconds, e));
        b->product_rate = fmax(b->product_rate, kernel_cost_of(&c.call).flops / seconds);
    }
done:
    return result;
}

// ---- Output

static void print_header(const bench_flags *f, const bench_device *b, const device_description *d,
                         dtype type)
{
    if (f->json) {
        printf("{\"device\":\"%s\",\"kind\":\"%s\",\"precision\":\"%s\",\"copy_gb_per_s\":%.6g,"
               "\"product_gflop_per_s\":%.6g,\"kernels\":[",
               d->name, d->kind, dtype_name(type), 1e-9 * b->copy_rate, 1e-9 * b->product_rate);
        return;
    }
    printf("device %s (%s): copies %.1f GB/s, read and written; products of %s %.1f GFLOP/s\n",
           d->name, d->kind, 1e-9 * b->copy_rate, dtype_name(type), 1e-9 * b->product_rate);
    printf("%-6s %-20s %-24s %12s %10s %12s %8s", "model", "kernel", "shape", "us", "GB/s",
           "GFLOP/s", "of limit");
    if (f->machine) printf(" %12s %8s", "predicted us", "error");
    printf("\n");
}

// Positive where the kernel is slower than predicted.
static double predict(const bench_device *b, const kernel_cost *k, double seconds, double *error)
{
    const planner_costs *costs = &b->machine.costs;
    const double predicted = costs->kernel(costs->given, k).seconds;
    *error = seconds / predicted - 1;
    return predicted;
}

static status print_call(const bench_flags *f, bench_device *b, const bench_model *m,
                         const bench_call *c, double seconds, err *e)
{
    status result = OK;
    const kernel_cost k = kernel_cost_of(&c->call);
    const double by_bytes = k.bytes / b->copy_rate, by_flops = k.flops / b->product_rate;
    const double limit = by_bytes > by_flops ? by_bytes : by_flops;
    const char *name = kernel_name(c->call.kind);
    double error = 0, predicted = 0;
    if (f->machine) predicted = predict(b, &k, seconds, &error);
    if (f->json)
        printf(
            "%s{\"model\":\"%s\",\"kernel\":\"%s\",\"shape\":\"%s\",\"us\":%.6g,\"gb_per_s\":%.6g,"
            "\"gflop_per_s\":%.6g,\"of_limit\":%.4f",
            b->printed ? "," : "", m->name, name, c->shape, 1e6 * seconds, 1e-9 * k.bytes / seconds,
            1e-9 * k.flops / seconds, limit / seconds);
    else
        printf("%-6s %-20s %-24s %12.1f %10.1f %12.1f %6.0f %%", m->name, name, c->shape,
               1e6 * seconds, 1e-9 * k.bytes / seconds, 1e-9 * k.flops / seconds,
               100 * limit / seconds);
    if (f->machine)
        printf(f->json ? ",\"predicted_us\":%.6g,\"error\":%.4f" : " %12.1f %+6.1f %%",
               1e6 * predicted, f->json ? error : 100 * error);
    printf(f->json ? "}" : "\n");
    fflush(stdout);
    TRY(alloc_grow(&b->error, &b->error_room, (size_t)b->printed + 1, sizeof *b->error,
                   "the errors", e));
    b->error[b->printed++] = fabs(error);
done:
    return result;
}

// The median and the 90th percentile of the errors.
static void print_foot(const bench_flags *f, bench_device *b)
{
    if (f->json) printf("]");
    if (f->machine && b->printed > 0) {
        bench_sort(b->error, b->printed);
        const double median = b->error[b->printed / 2], ninth = b->error[b->printed * 9 / 10];
        printf(f->json ? ",\"median_error\":%.4f,\"p90_error\":%.4f"
                       : "median error %.1f %%, 90th percentile %.1f %%",
               f->json ? median : 100 * median, f->json ? ninth : 100 * ninth);
        if (!f->json) printf(", of %d kernels\n", b->printed);
    }
    if (f->json) printf("}\n");
}

// ---- The command

static status measure_model(const bench_flags *f, bench_device *b, const bench_model *of,
                            dtype type, err *e)
{
    status result = OK;
    bench_model m = *of;
    const int64_t otherwise = b->d->is_host_memory ? HOST_TOKENS : DEVICE_TOKENS;
    int64_t tokens = f->tokens > 0 ? f->tokens : otherwise;
    if (m.seq > tokens) m.seq = tokens;
    tokens -= tokens % m.seq; // complete sequences
    const bench_sizes q = {&m, tokens, type};
    for (int i = 0; i < BENCH_ROW_COUNT; i++) {
        const bench_kernel_row *r = &BENCH_ROWS[i];
        bench_call c;
        double seconds = 0;
        if (m.is_llama ? !r->llama : !r->gpt2) continue;
        if (f->only && strncmp(kernel_name(r->kind), f->only, strlen(f->only)) != 0) continue;
        if (f->machine)
            TRY(time_copies(b, r, &q, &c, &seconds, e));
        else
            TRY(time_call(b, r->describe, r->kind, &q, &c, &seconds, e));
        TRY(print_call(f, b, &m, &c, seconds, e));
    }
done:
    return result;
}

static status read_precision(const char *word, dtype *out, err *e)
{
    for (*out = F32; *out <= F16; ++*out)
        if (strcmp(word, dtype_name(*out)) == 0) return OK;
    return err_set(e, E_USAGE, "bench kernels: --precision: found '%s'; valid are fp32, bf16, fp16",
                   word);
}

static status check_flags(const bench_flags *f, err *e)
{
    bool known = !f->model, starts = !f->only;
    for (int i = 0; i < BENCH_MODEL_COUNT && !known; i++)
        known = strcmp(f->model, BENCH_MODELS[i].name) == 0;
    for (int i = 0; i < BENCH_ROW_COUNT && !starts; i++)
        starts = strncmp(kernel_name(BENCH_ROWS[i].kind), f->only, strlen(f->only)) == 0;
    if (!known)
        return err_set(e, E_USAGE,
                       "bench kernels: --model: found '%s'; valid are gpt2, small, llama",
                       f->model);
    if (!starts)
        return err_set(e, E_USAGE,
                       "bench kernels: --only: found '%s'; valid is the start of a kernel's name, "
                       "such as norm",
                       f->only);
    if (!(f->seconds > 0 && f->seconds <= 60))
        return err_set(e, E_USAGE,
                       "bench kernels: --seconds: found %g; valid are numbers above 0, up to 60",
                       f->seconds);
    if (f->threads > INT32_MAX || f->tokens > (int64_t)1 << 24)
        return err_set(
            e, E_USAGE,
            "bench kernels: found --threads %lld, --tokens %lld; valid are up to 16777216 "
            "tokens",
            (long long)f->threads, (long long)f->tokens);
    return OK;
}

// This process is one rank with all of --threads.
static status open_machine(const bench_flags *f, bench_device *b, err *e)
{
    status result = OK;
    const int threads = f->threads > 0 ? (int)f->threads : proc_usable_cores();
    b->copies = (bench_copies){.d = b->d, .stream = b->s, .has_cores = true, .delay = -1};
    TRY(calibrated_open(f->machine, threads, 1, "solo", &b->machine, e));
    TRY(bench_copies_open(&b->copies, e));
done:
    return result;
}

static int cmd_bench_kernels(int argc, char **argv)
{
    status result = OK;
    err failure = {0}, *e = &failure;
    bench_flags f = {.device = "auto", .precision = "bf16", .seconds = 0.2};
    bench_device b = {0};
    device_description described = {0};
    dtype type = BF16;
    TRY(flags_parse(flags, FLAGS, argc, argv, &f, NULL, e));
    TRY(read_precision(f.precision, &type, e));
    TRY(check_flags(&f, e));
    const device_options o = {.threads = (int)f.threads};
    TRY(device_describe(f.device, &o, &described, e));
    TRY(device_open(f.device, &o, &b.d, e));
    TRY(b.d->ops->stream_open(b.d, STREAM_COMPUTE, false, &b.s, e));
    b.seconds = f.seconds;
    TRY(measure_copies(&b, described.free_bytes, e));
    TRY(measure_products(&b, type, e));
    if (f.machine) TRY(open_machine(&f, &b, e));
    print_header(&f, &b, &described, type);
    for (int i = 0; i < BENCH_MODEL_COUNT; i++)
        if (!f.model || strcmp(f.model, BENCH_MODELS[i].name) == 0)
            TRY(measure_model(&f, &b, &BENCH_MODELS[i], type, e));
    print_foot(&f, &b);
done:
    if (b.copies.d) bench_copies_close(&b.copies);
    planner_machine_close(&b.machine);
    free(b.error);
    if (b.s) b.d->ops->stream_close(b.s);
    device_close(b.d);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_bench_kernels = {
    .name = "kernels",
    .run = cmd_bench_kernels,
    .usage = "[flags]",
    .help = "Measures every kernel of a device against its limit.",
    .about = "Prints the median time of each kernel with the shapes of a block, and the share of "
             "its limit: the "
             "time of its bytes at the measured rate of copies, or of its floating-point "
             "operations at the "
             "measured rate of matrix products, whichever is longer. Arrays that fit in a cache "
             "may exceed "
             "100 %.",
    .flags = flags,
    .flag_count = FLAGS,
};
