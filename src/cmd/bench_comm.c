// bench_comm.c -- `trireme bench all_reduce`, and the other collectives of bench_comm_calls.c: reads the flags, starts the ranks, and prints the head and the end of the output. Flags and
// output are those of nccl-tests, so that scripts written for it work. bench_comm_run.c measures.
#include "cmd/bench_comm.h"

#include "cmd/cmd.h"
#include "cmd/command.h"
#include "launch/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// The values of the command line as text; NULL: not given.
typedef struct bench_given {
    const char *least, *most, *step, *factor, *iterations, *warm_up, *aggregate, *check, *average,
        *op, *type, *root, *threads, *devices, *ranks, *as, *memory, *device, *comm;
    bool json;
} bench_given;

#define AT(field) offsetof(bench_given, field)
static const flag flags[] = {
    {"-b, --minbytes", FLAG_TEXT, AT(least), "SIZE",
     "Sets the smallest size in bytes (default: 32M); K, M and G are powers of 1024."},
    {"-e, --maxbytes", FLAG_TEXT, AT(most), "SIZE",
     "Sets the largest size in bytes (default: 32M)."},
    {"-i, --stepbytes", FLAG_TEXT, AT(step), "SIZE",
     "Adds this many bytes to the size from row to row (default: 1M)."},
    {"-f, --stepfactor", FLAG_TEXT, AT(factor), "N",
     "Multiplies the size by N from row to row, instead of adding bytes."},
    {"-n, --iters", FLAG_TEXT, AT(iterations), "N",
     "Sets the number of timed iterations of a row (default: 20)."},
    {"-w, --warmup_iters", FLAG_TEXT, AT(warm_up), "N",
     "Sets the number of iterations that run before the timed ones (default: 1)."},
    {"-m, --agg_iters", FLAG_TEXT, AT(aggregate), "N",
     "Sets the number of calls in an iteration (default: 1)."},
    {"-c, --check", FLAG_TEXT, AT(check), "0|1", "Compares the result, bit for bit (default: 1)."},
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
    {"--comm", FLAG_TEXT, AT(comm), "auto|local|p2p|ucx",
     "Chooses the communicator, as launch.comm does (default: auto)."},
    {"--json", FLAG_SWITCH, AT(json), NULL, "Prints one JSON object."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

// Reads a whole number of at least `least`. K, M and G are powers of 1024, as in nccl-tests.
static status parse_number(const char *name, const char *s, int64_t least, int64_t *out, err *e)
{
    char *end = NULL;
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
    int64_t x = 0;
    status result = parse_number(name, s, least, &x, e);
    if (result == OK && x > most)
        return err_set(e, E_USAGE, "bench: %s: found %s; valid are %d to %d", name, s, least, most);
    *out = (int)x;
    return result;
}

// The index of `s` among `words`, which are separated by spaces.
static status parse_word(const char *name, const char *s, const char *words, int *out, err *e)
{
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

static status read_numbers(const bench_given *g, bench_request *q, bench_rank_flags *r, err *e)
{
    status result = OK;
    if (g->least) TRY(parse_number("-b", g->least, 1, &q->least, e));
    if (g->most) TRY(parse_number("-e", g->most, 1, &q->most, e));
    if (g->step) TRY(parse_number("-i", g->step, 1, &q->step, e));
    if (g->factor) TRY(parse_number("-f", g->factor, 2, &q->factor, e));
    if (g->iterations) TRY(parse_int("-n", g->iterations, 1, 1 << 30, &q->iterations, e));
    if (g->warm_up) TRY(parse_int("-w", g->warm_up, 0, 1 << 30, &q->warm_up, e));
    if (g->aggregate) TRY(parse_int("-m", g->aggregate, 1, 1 << 20, &q->aggregate, e));
    if (g->root) TRY(parse_int("-r", g->root, 0, WORLD_MOST_RANKS - 1, &q->root, e));
    if (g->threads) TRY(parse_int("-t", g->threads, 1, WORLD_MOST_RANKS, &r->threads, e));
    if (g->devices) TRY(parse_int("-g", g->devices, 1, WORLD_MOST_RANKS, &r->devices, e));
    if (g->ranks) TRY(parse_int("--ranks", g->ranks, 1, WORLD_MOST_RANKS, &r->ranks, e));
done:
    return result;
}

static status read_words(const bench_given *g, bench_request *q, err *e)
{
    static const dtype types[] = {F32, F16, BF16, F64, I64};
    static const comm_reduce_op ops[] = {REDUCE_SUM, REDUCE_MAX, REDUCE_MIN};
    status result = OK;
    int check = q->check, average_of = q->average, op = 0, type = 0, as = 0, memory = 0;
    if (g->check) TRY(parse_int("-c", g->check, 0, 1, &check, e));
    if (g->average) TRY(parse_int("-a", g->average, 0, 3, &average_of, e));
    if (g->op) TRY(parse_word("-o", g->op, "sum max min", &op, e));
    if (g->type) TRY(parse_word("-d", g->type, "float half bfloat16 double int64", &type, e));
    if (g->as) TRY(parse_word("--as", g->as, "processes threads", &as, e));
    if (g->memory) TRY(parse_word("--memory", g->memory, "shared private", &memory, e));
    q->check = check;
    q->average = (bench_average)average_of;
    q->op = ops[op];
    q->type = types[type];
    q->as_threads = as;
    q->private_memory = memory;
    q->json = g->json;
    if (g->device) q->device = g->device;
    if (g->comm) q->comm = g->comm;
done:
    return result;
}

static status check_request(bench_request *q, const bench_rank_flags *r, err *e)
{
    const int by_nccl = (r->threads ? r->threads : 1) * (r->devices ? r->devices : 1);
    q->ranks = r->ranks ? r->ranks : r->threads || r->devices ? by_nccl : 2;
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

static status parse_flags(int argc, char **argv, bench_request *q, err *e)
{
    status result = OK;
    bench_given g = {0};
    bench_rank_flags ranks = {0};
    TRY(flags_parse(flags, FLAGS, argc, argv, &g, NULL, e));
    TRY(read_numbers(&g, q, &ranks, e));
    TRY(read_words(&g, q, e));
    TRY(check_request(q, &ranks, e));
done:
    if (result != OK && strncmp(e->text, "bench: ", 7) != 0) err_prefix(e, "bench: ");
    return result;
}

static void print_head(const bench_request *q)
{
    if (q->json) {
        printf("{\"collective\":\"%s\",\"ranks\":%d,\"as\":\"%s\",\"memory\":\"%s\",\"iters\":%d,"
               "\"rows\":[",
               q->what->name, q->ranks, q->as_threads ? "threads" : "processes",
               q->private_memory ? "private" : "shared", q->iterations);
        return;
    }
    printf("# trireme version %s (output as of nccl-tests)\n", TRIREME_VERSION);
    printf("# Collective test starting: %s_perf\n", q->what->name);
    printf("# nThread %d nGpus %d minBytes %lld maxBytes %lld step: %lld(%s) warmup iters: %d "
           "iters: %d agg iters: %d validation: %d graph: 0 unalign: 0\n",
           q->as_threads ? q->ranks : 1, q->as_threads ? 1 : q->ranks, (long long)q->least,
           (long long)q->most, (long long)(q->factor ? q->factor : q->step),
           q->factor ? "factor" : "bytes", q->warm_up, q->iterations, q->aggregate, q->check);
}

static void print_foot(const bench_request *q)
{
    const bench_board *b = q->board;
    const double mean = b->bandwidth_sum / (b->bandwidths ? b->bandwidths : 1);
    if (q->json) {
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
    printf("# Avg bus bandwidth    : %g \n#\n", mean);
    printf("# Collective test concluded: %s_perf\n", q->what->name);
}

static int cmd_bench_comm(int argc, char **argv)
{
    status result = OK;
    err failure = {0}, *e = &failure;
    bench_request q = {.what = BENCH_COLLECTIVES,
                       .least = 32 << 20,
                       .most = 32 << 20,
                       .step = 1 << 20,
                       .iterations = 20,
                       .warm_up = 1,
                       .aggregate = 1,
                       .check = true,
                       .device = "auto",
                       .comm = "auto",
                       .average = AVERAGE_MEAN};
    while (strcmp(argv[0], q.what->name) != 0) q.what++;
    TRY(parse_flags(argc, argv, &q, e));
    TRY(launcher_check(e));
    const size_t bytes = sizeof *q.board + (size_t)q.ranks * sizeof *q.board->ranks;
    q.board = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (q.board == MAP_FAILED) {
        result = err_errno(e, "bench: cannot map the ranks' figures");
        goto done;
    }
    print_head(&q);
    const launch_options o = {.ranks = q.ranks, .as_threads = q.as_threads};
    result = launch_ranks(&o, bench_comm_run, &q, NULL, e);
    if (result == OK) print_foot(&q);
    const bool wrong = q.board->wrong != 0;
    munmap(q.board, bytes);
    if (result == OK && wrong) return 1;
done:
    return result == OK ? 0 : cmd_fail(e);
}

#define COLLECTIVE(word, sentence)                                                                 \
    const command command_bench_##word = {                                                         \
        .name = #word,                                                                             \
        .run = cmd_bench_comm,                                                                     \
        .usage = "[flags]",                                                                        \
        .help = (sentence),                                                                        \
        .about =                                                                                   \
            "Times the collective between ranks of this machine and checks its result. Flags "     \
            "and output are those of nccl-tests. all_reduce and broadcast work in place, so "      \
            "their out-of-place time includes a copy. The exit code is 1 when a rank failed or "   \
            "a result was wrong.",                                                                 \
        .flags = flags,                                                                            \
        .flag_count = FLAGS,                                                                       \
    }

COLLECTIVE(all_reduce, "Measures sums (or extremes) that every rank receives.");
COLLECTIVE(reduce_scatter, "Measures sums of which every rank receives its shard.");
COLLECTIVE(all_gather, "Measures gathering the shards of all ranks on every rank.");
COLLECTIVE(broadcast, "Measures one rank sending to all others.");
COLLECTIVE(reduce, "Measures sums (or extremes) that one rank receives.");
COLLECTIVE(alltoall, "Measures every rank sending a shard to every other.");
COLLECTIVE(scatter, "Measures one rank sending a shard to every other.");
COLLECTIVE(gather, "Measures one rank receiving the shards of all others.");
COLLECTIVE(hypercube, "Measures gathering in rounds of pairs, on a power of two of ranks.");
COLLECTIVE(sendrecv, "Measures every rank sending to the next.");
