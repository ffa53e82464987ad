// bench_comm_flags.c -- the flags of `trireme bench all_reduce …`, which are nccl-tests', and what they may say. Called by
// bench_comm.c.
#include "cmd/bench/bench_comm_flags.h"

#include <stdlib.h>
#include <string.h>

typedef struct bench_given_loop {
    const char *iterations, *warm_up, *aggregate, *cycles, *replays, *blocking, *parallel, *local;
} bench_given_loop;

// Flags whose one value is accepted.
typedef struct bench_given_fixed {
    const char *device_code, *ctas, *memory_report, *unaligned, *each, *skip;
} bench_given_fixed;

// The values of the command line as text; NULL: not given.
typedef struct bench_given {
    const char *least, *most, *step, *factor, *check, *average, *op, *type, *root, *threads,
        *devices, *ranks, *as, *memory, *device, *comm;
    bench_given_loop loop;
    bench_given_fixed fixed;
    const char *timeout, *timestamps, *cpu_time, *path;
    bool json;
} bench_given;

#define AT(field) offsetof(bench_given, field)
const flag BENCH_COMM_FLAGS[] = {
    {"-b, --minbytes", FLAG_TEXT, AT(least), "SIZE",
     "Sets the smallest size in bytes (default: 32M); K, M and G are powers of 1024."},
    {"-e, --maxbytes", FLAG_TEXT, AT(most), "SIZE",
     "Sets the largest size in bytes (default: 32M)."},
    {"-i, --stepbytes", FLAG_TEXT, AT(step), "SIZE",
     "Adds this many bytes to the size from row to row (default: 1M)."},
    {"-f, --stepfactor", FLAG_TEXT, AT(factor), "N",
     "Multiplies the size by N from row to row, instead of adding bytes."},
    {"-n, --iters", FLAG_TEXT, AT(loop.iterations), "N",
     "Sets the number of timed iterations of a row (default: 20)."},
    {"-w, --warmup_iters", FLAG_TEXT, AT(loop.warm_up), "N",
     "Sets the number of iterations that run before the timed ones (default: 1)."},
    {"-m, --agg_iters", FLAG_TEXT, AT(loop.aggregate), "N",
     "Sets the number of calls in an iteration (default: 1)."},
    {"-N, --run_cycles", FLAG_TEXT, AT(loop.cycles), "N",
     "Repeats all sizes N times (default: 1); 0 repeats them until the command is ended."},
    {"-G, --cudagraph", FLAG_TEXT, AT(loop.replays), "N",
     "Records the calls of a row, and times N replays of the recording (default: 0, calls are "
     "issued). Only GPUs with --comm p2p record calls."},
    {"-z, --blocking", FLAG_TEXT, AT(loop.blocking), "0|1|2|3",
     "Chooses what a rank waits for (default: 0, nothing): 1 that each call is complete on all "
     "ranks, 2 that it is complete on the rank, 3 as 1 but after each iteration, and the time of "
     "the meeting does not count."},
    {"-p, --parallel_init", FLAG_TEXT, AT(loop.parallel), "0|1",
     "Has no effect: the ranks always open their communicators at the same time."},
    {"-R, --local_register", FLAG_TEXT, AT(loop.local), "0|1|2",
     "Chooses the memory of the buffers as --memory does: 0 private, 1 and 2 shared (default: 1)."},
    {"-D, --device_implementation", FLAG_TEXT, AT(fixed.device_code), "0",
     "Accepts nccl-tests' default: calls are issued by the host."},
    {"-V, --device_cta_count", FLAG_TEXT, AT(fixed.ctas), "16",
     "Accepts nccl-tests' default, which has no effect with -D 0."},
    {"-M, --memory_report", FLAG_TEXT, AT(fixed.memory_report), "0",
     "Accepts nccl-tests' default: memory is not reported."},
    {"-u, --unalign", FLAG_TEXT, AT(fixed.unaligned), "0",
     "Accepts nccl-tests' default: buffers are aligned."},
    {"-I, --per_iter_timing", FLAG_TEXT, AT(fixed.each), "0",
     "Accepts nccl-tests' default: the iterations of a row are timed together."},
    {"-K, --per_iter_skip", FLAG_TEXT, AT(fixed.skip), "0",
     "Accepts nccl-tests' default, which has no effect with -I 0."},
    {"-T, --timeout", FLAG_TEXT, AT(timeout), "SECONDS",
     "Fails the run when a rank waits longer than this for another one in a call (default: 0, no "
     "limit)."},
    {"-C, --report_cputime", FLAG_TEXT, AT(cpu_time), "0|1",
     "Prints the time in which a call is issued, instead of the time until it is complete "
     "(default: 0). Bandwidths stay those of complete calls."},
    {"-S, --report_timestamps", FLAG_TEXT, AT(timestamps), "0|1",
     "Adds the local time to each row (default: 0)."},
    {"-J, --output_file", FLAG_TEXT, AT(path), "FILE.json",
     "Writes the results to a file, with the members of nccl-tests. It replaces an earlier file."},
    {"-c, --check", FLAG_TEXT, AT(check), "0|1",
     "Compares the result, bit for bit, with sums in the order of the tree (default: 1)."},
    {"-a, --average", FLAG_TEXT, AT(average), "0|1|2|3",
     "Chooses the time that is printed: 0 of rank 0, 1 the mean, 2 the least, 3 the greatest of "
     "all ranks (default: 1)."},
    {"-o, --op", FLAG_TEXT, AT(op), "sum|max|min", "Chooses the reduction (default: sum)."},
    {"-d, --datatype", FLAG_TEXT, AT(type), "float|half|bfloat16|double|int64",
     "Chooses the number format (default: float)."},
    {"-r, --root", FLAG_TEXT, AT(root), "RANK",
     "Chooses the root of broadcast, reduce, gather and scatter (default: 0)."},
    {"-t, --nthreads", FLAG_TEXT, AT(threads), "N",
     "Sets the number of ranks; with --ngpus, the product of both."},
    {"-g, --ngpus", FLAG_TEXT, AT(devices), "N",
     "Sets the number of ranks; with --nthreads, the product of both."},
    {"--ranks", FLAG_TEXT, AT(ranks), "N", "Sets the number of ranks (default: 2)."},
    {"--as", FLAG_TEXT, AT(as), "processes|threads",
     "Chooses whether ranks are processes or threads (default: processes)."},
    {"--memory", FLAG_TEXT, AT(memory), "shared|private",
     "Chooses the memory of the buffers; ranks read each other's shared memory without a copy "
     "(default: shared)."},
    {"--device", FLAG_TEXT, AT(device), "auto|cpu|cuda",
     "Chooses the device of the buffers; ranks take the GPUs of this machine in turn (default: "
     "auto)."},
    {"--comm", FLAG_TEXT, AT(comm), "auto|local|p2p|nccl|hier|tls|ucx|mpi",
     "Chooses the communicator, as launch.comm does (default: auto)."},
    {"--json", FLAG_SWITCH, AT(json), NULL, "Prints one JSON object."},
};
// Reads a whole number of at least `least`. K, M and G are powers of 1024, as in nccl-tests. The next three leave
// *out as it is where s is NULL.
static status parse_number(const char *name, const char *s, int64_t least, int64_t *out, err *e)
{
    char *end = NULL;
    if (!s) return OK;
    const double x = strtod(s, &end);
    double unit = 1;
    if (end != s && *end) {
        const char *const units = "KMG", *u = strchr(units, *end & ~0x20);
        unit = u && !end[1] ? (double)((int64_t)1 << 10 * (u - units + 1)) : 0;
    }
    const double value = x * unit;
    if (end == s || unit == 0 || !(value >= (double)least) || value > 1e15 ||
        value != (double)(int64_t)value)
        return err_set(e, E_USAGE,
                       "bench: %s: found '%s'; valid is a whole number from %lld on, "
                       "with K, M or G",
                       name, s, (long long)least);
    *out = (int64_t)value;
    return OK;
}

static status parse_int(const char *name, const char *s, int least, int most, int *out, err *e)
{
    int64_t x = *out;
    status result = parse_number(name, s, least, &x, e);
    if (result == OK && x > most)
        return err_set(e, E_USAGE, "bench: %s: found %s; valid are %d to %d", name, s, least, most);
    *out = (int)x;
    return result;
}

// The index of `s` among `words`, which are separated by spaces.
static status parse_word(const char *name, const char *s, const char *words, int *out, err *e)
{
    if (!s) return OK;
    const size_t length = strlen(s);
    *out = 0;
    for (const char *w = words; length && *w; ++*out) {
        const size_t n = strcspn(w, " ");
        if (n == length && strncmp(w, s, n) == 0) return OK;
        w += n + (w[n] == ' ');
    }
    return err_set(e, E_USAGE, "bench: %s: found '%s'; valid are %s", name, s, words);
}

typedef struct bench_rank_flags {
    int ranks, threads, devices; // 0: not given
} bench_rank_flags;

static status parse_bool(const char *name, const char *s, bool *out, err *e)
{
    int x = *out;
    const status result = parse_int(name, s, 0, 1, &x, e);
    *out = x;
    return result;
}

static status read_numbers(const bench_given *g, bench_request *q, bench_rank_flags *r, err *e)
{
    status result = OK;
    TRY(parse_number("-b", g->least, 1, &q->least, e));
    TRY(parse_number("-e", g->most, 1, &q->most, e));
    TRY(parse_number("-i", g->step, 1, &q->step, e));
    TRY(parse_number("-f", g->factor, 2, &q->factor, e));
    TRY(parse_int("-r", g->root, 0, WORLD_MOST_RANKS - 1, &q->root, e));
    TRY(parse_int("-t", g->threads, 1, WORLD_MOST_RANKS, &r->threads, e));
    TRY(parse_int("-g", g->devices, 1, WORLD_MOST_RANKS, &r->devices, e));
    TRY(parse_int("--ranks", g->ranks, 1, WORLD_MOST_RANKS, &r->ranks, e));
done:
    return result;
}

static status read_loop(const bench_given_loop *g, bench_comm_loop *l, err *e)
{
    status result = OK;
    int blocking = BLOCK_NEVER;
    bool ignored = false;
    TRY(parse_int("-n", g->iterations, 1, 1 << 30, &l->iterations, e));
    TRY(parse_int("-w", g->warm_up, 0, 1 << 30, &l->warm_up, e));
    TRY(parse_int("-m", g->aggregate, 1, 1 << 20, &l->aggregate, e));
    TRY(parse_int("-N", g->cycles, 0, 1 << 30, &l->cycles, e));
    TRY(parse_int("-G", g->replays, 0, 1 << 20, &l->replays, e));
    TRY(parse_int("-z", g->blocking, BLOCK_NEVER, BLOCK_ITERATIONS, &blocking, e));
    l->blocking = (bench_blocking)blocking;
    if ((int64_t)l->iterations * l->aggregate > 1 << 30)
        FAIL(E_USAGE, "bench: -n times -m is %lld; valid is at most %d",
             (long long)l->iterations * l->aggregate, 1 << 30);
    TRY(parse_bool("-p", g->parallel, &ignored, e));
    if (l->replays && l->blocking)
        FAIL(E_USAGE, "bench: -G and -z: recorded calls cannot be waited for one by one; give one");
done:
    return result;
}

// Values of nccl-tests other than the default say what this benchmark does not do.
static status check_fixed(const bench_given_fixed *g, err *e)
{
    const struct {
        const char *name, *given, *valid, *why;
    } all[] = {
        {"-D", g->device_code, "0", "calls are issued by the host, not by a kernel"},
        {"-V", g->ctas, "16", "no kernel issues calls, so it has no CTAs to count"},
        {"-M", g->memory_report, "0", "explain and plan report the memory of communicators"},
        {"-u", g->unaligned, "0", "buffers and shards are aligned to 16 bytes"},
        {"-I", g->each, "0",
         "the iterations of a row are timed together; -n 1 -N 20 gives 20 rows"},
        {"-K", g->skip, "0", "the iterations of a row are timed together; -w sets those before"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].given && strcmp(all[i].given, all[i].valid) != 0)
            return err_set(e, E_USAGE, "bench: %s: found '%s'; valid is %s: %s", all[i].name,
                           all[i].given, all[i].valid, all[i].why);
    return OK;
}

static status read_output(const bench_given *g, bench_comm_output *o, err *e)
{
    status result = OK;
    TRY(parse_bool("-C", g->cpu_time, &o->cpu_time, e));
    TRY(parse_bool("-S", g->timestamps, &o->timestamps, e));
    const size_t bytes = g->path ? strlen(g->path) : 0;
    if (g->path && (bytes <= 5 || strcmp(g->path + bytes - 5, ".json") != 0))
        FAIL(E_USAGE, "bench: -J: found '%s'; valid is a name that ends with .json", g->path);
    o->path = g->path;
    o->json = g->json;
done:
    return result;
}

// -R and --memory.
static status read_memory(const bench_given *g, bool *is_private, err *e)
{
    status result = OK;
    int memory = 0;
    int registered = 1;
    if (g->memory && g->loop.local)
        FAIL(E_USAGE, "bench: -R and --memory both choose the memory of the buffers; give one");
    TRY(parse_word("--memory", g->memory, "shared private", &memory, e));
    TRY(parse_int("-R", g->loop.local, 0, 2, &registered, e));
    *is_private = memory || !registered;
done:
    return result;
}

static status read_words(const bench_given *g, bench_request *q, err *e)
{
    static const dtype types[] = {F32, F16, BF16, F64, I64};
    static const comm_reduce_op ops[] = {REDUCE_SUM, REDUCE_MAX, REDUCE_MIN};
    status result = OK;
    int average_of = q->average, op = 0, type = 0, as = 0;
    TRY(parse_bool("-c", g->check, &q->check, e));
    TRY(parse_int("-a", g->average, 0, 3, &average_of, e));
    if (g->op &&
        (strcmp(g->op, "prod") == 0 || strcmp(g->op, "avg") == 0 || strcmp(g->op, "all") == 0))
        FAIL(E_USAGE,
             "bench: -o: found '%s'; valid are sum, max or min, one for a run: ranks reduce by "
             "nothing else",
             g->op);
    TRY(parse_word("-o", g->op, "sum max min", &op, e));
    TRY(parse_word("-d", g->type, "float half bfloat16 double int64", &type, e));
    TRY(parse_word("--as", g->as, "processes threads", &as, e));
    TRY(read_memory(g, &q->private_memory, e));
    if (g->timeout &&
        !(text_to_double(g->timeout, &q->timeout_s) && q->timeout_s >= 0 && q->timeout_s <= 1e9))
        FAIL(E_USAGE, "bench: -T: found '%s'; valid are seconds from 0 to 1e9", g->timeout);
    q->average = (bench_average)average_of;
    q->op = ops[op];
    q->type = types[type];
    q->as_threads = as;
    if (g->device) q->device = g->device;
    if (g->comm) q->comm = g->comm;
done:
    return result;
}

// Under another launcher each process is one rank.
static status count_ranks(bench_request *q, const bench_rank_flags *r, const launcher_location *p,
                          err *e)
{
    const int by_nccl = (r->threads ? r->threads : 1) * (r->devices ? r->devices : 1);
    const int given = r->ranks ? r->ranks : by_nccl;
    q->attached = p->launcher != NULL;
    q->ranks = q->attached ? p->ranks : r->ranks || r->threads || r->devices ? given : 2;
    if (q->attached && given != 1 && given != q->ranks)
        return err_set(e, E_USAGE,
                       "bench: found %d ranks; %s has started %d processes, and each is one rank",
                       given, p->launcher, q->ranks);
    if (q->attached && q->as_threads)
        return err_set(e, E_USAGE, "bench: --as threads: %s has started a process for each rank",
                       p->launcher);
    return OK;
}

static status check_request(const bench_request *q, err *e)
{
    if (q->ranks > WORLD_MOST_RANKS)
        return err_set(e, E_USAGE, "bench: %d ranks; valid are 1 to %d", q->ranks,
                       WORLD_MOST_RANKS);
    if (q->least > q->most)
        return err_set(e, E_USAGE, "bench: -b %lld is more than -e %lld", (long long)q->least,
                       (long long)q->most);
    if (q->root >= q->ranks)
        return err_set(e, E_USAGE, "bench: -r %d; valid are 0 to %d", q->root, q->ranks - 1);
    if (q->ranks < 2 && strcmp(q->what->name, "sendrecv") == 0)
        return err_set(e, E_USAGE, "bench: sendrecv needs two ranks or more");
    if (q->what->bus == BUS_HYPERCUBE && (q->ranks & (q->ranks - 1)))
        return err_set(e, E_USAGE, "bench: hypercube: found %d ranks; valid is a power of two",
                       q->ranks);
    return OK;
}

// The variables of nccl-tests.
static status read_environment(bench_request *q, err *e)
{
    static const char *const others[] = {"NCCL_TESTS_SPLIT", "NCCL_TESTS_SPLIT_MASK",
                                         "NCCL_TESTS_DEVICE"};
    const char *const expected = getenv("NCCL_TESTS_MIN_BW");
    if (expected && !(text_to_double(expected, &q->expected_bus) && q->expected_bus > 0))
        return err_set(e, E_USAGE, "bench: NCCL_TESTS_MIN_BW: found '%s'; valid are GB/s above 0",
                       expected);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (getenv(others[i]))
            return err_set(e, E_USAGE,
                           "bench: %s has no effect here: all ranks are one group, and take the "
                           "GPUs in turn; unset it",
                           others[i]);
    return OK;
}

status bench_comm_parse(int argc, char **argv, const launcher_location *p, bench_request *q, err *e)
{
    status result = OK;
    bench_given g = {0};
    bench_rank_flags ranks = {0};
    TRY(flags_parse(BENCH_COMM_FLAGS, BENCH_COMM_FLAG_COUNT, argc, argv, &g, NULL, e));
    TRY(read_numbers(&g, q, &ranks, e));
    TRY(read_loop(&g.loop, &q->loop, e));
    TRY(read_output(&g, &q->output, e));
    TRY(read_words(&g, q, e));
    TRY(check_fixed(&g.fixed, e));
    TRY(count_ranks(q, &ranks, p, e));
    TRY(check_request(q, e));
    TRY(read_environment(q, e));
done:
    if (result != OK && strncmp(e->text, "bench: ", 7) != 0) err_prefix(e, "bench: ");
    return result;
}
