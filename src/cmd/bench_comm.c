// bench_comm.c -- `trireme bench all_reduce | reduce_scatter | all_gather | broadcast | sendrecv`:
// the flags and the frame of the output are those of nccl-tests, so that scripts written for it
// work.
//
// Called by bench.c. The measuring loop is in bench_comm_run.c.
#include "cmd/bench_comm.h"

#include "cmd/cmd.h"
#include "launch/launch.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

const char *const bench_names[BENCH_COLLECTIVES] = {"all_reduce", "reduce_scatter", "all_gather",
                                                    "broadcast", "sendrecv"};

static const char usage[] =
    "usage: trireme bench all_reduce|reduce_scatter|all_gather|broadcast|sendrecv [flags]\n"
    "\n"
    "Times a collective between ranks of this machine and checks its result. Flags and output are\n"
    "those of nccl-tests; time includes the copy where a call in place is measured out-of-place.\n"
    "\n"
    "  -b, --minbytes SIZE      smallest size (32M); K, M and G are powers of 1024\n"
    "  -e, --maxbytes SIZE      largest size (32M)\n"
    "  -i, --stepbytes SIZE     add this from row to row (1M)\n"
    "  -f, --stepfactor N       or multiply by this\n"
    "  -n, --iters N            timed calls per row (20)\n"
    "  -w, --warmup_iters N     calls before (1)\n"
    "  -m, --agg_iters N        calls per iteration (1)\n"
    "  -c, --check 0|1          compare the result, bit for bit (1)\n"
    "  -a, --average 0|1|2|3    time of rank 0, mean, min, max (1)\n"
    "  -o, --op OP              sum, max or min (sum)\n"
    "  -d, --datatype TYPE      float, half, bfloat16, double or int64 (float)\n"
    "  -r, --root RANK          of broadcast (0)\n"
    "  -t, --nthreads N  -g, --ngpus N   N ranks; given both, their product\n"
    "      --ranks N            number of ranks (2)\n"
    "      --as WAY             processes or threads (processes)\n"
    "      --memory KIND        shared (zero-copy) or private (shared)\n"
    "\n"
    "Exit codes: 0 done, 1 a rank failed or a result was wrong, 2 bad usage.\n";

enum { FLAG_RANKS = 256, FLAG_AS, FLAG_MEMORY };

static const struct option flags[] = {{"minbytes", 1, NULL, 'b'},
                                      {"maxbytes", 1, NULL, 'e'},
                                      {"stepbytes", 1, NULL, 'i'},
                                      {"stepfactor", 1, NULL, 'f'},
                                      {"iters", 1, NULL, 'n'},
                                      {"warmup_iters", 1, NULL, 'w'},
                                      {"agg_iters", 1, NULL, 'm'},
                                      {"check", 1, NULL, 'c'},
                                      {"average", 1, NULL, 'a'},
                                      {"op", 1, NULL, 'o'},
                                      {"datatype", 1, NULL, 'd'},
                                      {"root", 1, NULL, 'r'},
                                      {"nthreads", 1, NULL, 't'},
                                      {"ngpus", 1, NULL, 'g'},
                                      {"ranks", 1, NULL, FLAG_RANKS},
                                      {"as", 1, NULL, FLAG_AS},
                                      {"memory", 1, NULL, FLAG_MEMORY},
                                      {"help", 0, NULL, 'h'},
                                      {NULL, 0, NULL, 0}};

// "128M": powers of 1024, as nccl-tests has them. Whole numbers from `least` on.
static status parse_number(const char *flag, const char *s, int64_t least, int64_t *out, err *e)
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
                       flag, s, (long long)least);
    *out = (int64_t)value;
    return OK;
}

static status parse_int(const char *flag, const char *s, int least, int most, int *out, err *e)
{
    int64_t x = 0;
    status result = parse_number(flag, s, least, &x, e);
    if (result == OK && x > most)
        return err_set(e, E_USAGE, "bench: %s: found %s; valid are %d to %d", flag, s, least, most);
    *out = (int)x;
    return result;
}

// The place of `s` in `words` (space-separated).
static status parse_word(const char *flag, const char *s, const char *words, int *out, err *e)
{
    const size_t length = strlen(s);
    *out = 0;
    for (const char *w = words; length && *w; ++*out) {
        const size_t n = strcspn(w, " ");
        if (n == length && strncmp(w, s, n) == 0) return OK;
        w += n + (w[n] == ' ');
    }
    return err_set(e, E_USAGE, "bench: %s: found '%s'; valid are %s", flag, s, words);
}

typedef struct rank_flags {
    int ranks, threads, devices; // 0: not given
} rank_flags;

static status parse_flag(int flag, const char *s, bench_request *q, rank_flags *r, err *e)
{
    static const dtype types[] = {F32, F16, BF16, F64, I64};
    static const reduce_op ops[] = {REDUCE_SUM, REDUCE_MAX, REDUCE_MIN};
    int word = 0;
    status result = OK;
    switch (flag) {
    case 'b':
        return parse_number("-b", s, 1, &q->least, e);
    case 'e':
        return parse_number("-e", s, 1, &q->most, e);
    case 'i':
        return parse_number("-i", s, 1, &q->step, e);
    case 'f':
        return parse_number("-f", s, 2, &q->factor, e);
    case 'n':
        return parse_int("-n", s, 1, 1 << 30, &q->iterations, e);
    case 'w':
        return parse_int("-w", s, 0, 1 << 30, &q->warm_up, e);
    case 'm':
        return parse_int("-m", s, 1, 1 << 20, &q->aggregate, e);
    case 'r':
        return parse_int("-r", s, 0, WORLD_RANKS - 1, &q->root, e);
    case 't':
        return parse_int("-t", s, 1, WORLD_RANKS, &r->threads, e);
    case 'g':
        return parse_int("-g", s, 1, WORLD_RANKS, &r->devices, e);
    case FLAG_RANKS:
        return parse_int("--ranks", s, 1, WORLD_RANKS, &r->ranks, e);
    case 'c':
        result = parse_int("-c", s, 0, 1, &word, e);
        q->check = word;
        break;
    case 'a':
        result = parse_int("-a", s, 0, 3, &word, e);
        q->average = (average)word;
        break;
    case 'o':
        result = parse_word("-o", s, "sum max min", &word, e);
        if (result == OK) q->op = ops[word];
        break;
    case 'd':
        result = parse_word("-d", s, "float half bfloat16 double int64", &word, e);
        if (result == OK) q->type = types[word];
        break;
    case FLAG_AS:
        result = parse_word("--as", s, "processes threads", &word, e);
        q->as_threads = word;
        break;
    case FLAG_MEMORY:
        result = parse_word("--memory", s, "shared private", &word, e);
        q->private_memory = word;
        break;
    default:
        break;
    }
    return result;
}

static status check_request(bench_request *q, const rank_flags *r, err *e)
{
    const int by_nccl = (r->threads ? r->threads : 1) * (r->devices ? r->devices : 1);
    q->ranks = r->ranks ? r->ranks : r->threads || r->devices ? by_nccl : 2;
    if (q->ranks > WORLD_RANKS)
        return err_set(e, E_USAGE, "bench: %d ranks; valid are 1 to %d", q->ranks, WORLD_RANKS);
    if (q->least > q->most)
        return err_set(e, E_USAGE, "bench: -b %lld is more than -e %lld", (long long)q->least,
                       (long long)q->most);
    if (q->root >= q->ranks)
        return err_set(e, E_USAGE, "bench: -r %d; valid are 0 to %d", q->root, q->ranks - 1);
    if (q->what == BENCH_SENDRECV && q->ranks < 2)
        return err_set(e, E_USAGE, "bench: sendrecv needs two ranks or more");
    return OK;
}

static status parse_flags(int argc, char **argv, bench_request *q, bool *help, err *e)
{
    status result = OK;
    rank_flags ranks = {0};
    int flag = 0;
    *help = false;
    opterr = 0;
    optind = 1;
    while ((flag = getopt_long(argc, argv, ":b:e:i:f:n:w:m:c:a:o:d:r:t:g:h", flags, NULL)) != -1) {
        if (flag == ':') FAIL(E_USAGE, "bench: %s needs a value", argv[optind - 1]);
        if (flag == '?')
            FAIL(E_USAGE, "bench: unknown flag %s; `trireme bench %s --help` lists them",
                 argv[optind - 1], argv[0]);
        if (flag == 'h') *help = true;
        TRY(parse_flag(flag, optarg, q, &ranks, e));
    }
    if (optind < argc) FAIL(E_USAGE, "bench: unexpected argument %s", argv[optind]);
    TRY(check_request(q, &ranks, e));
done:
    return result;
}

static void print_head(const bench_request *q)
{
    printf("# trireme version %s (output as of nccl-tests)\n", TRIREME_VERSION);
    printf("# Collective test starting: %s_perf\n", bench_names[q->what]);
    printf("# nThread %d nGpus %d minBytes %lld maxBytes %lld step: %lld(%s) warmup iters: %d "
           "iters: %d agg iters: %d validation: %d graph: 0 unalign: 0\n",
           q->as_threads ? q->ranks : 1, q->as_threads ? 1 : q->ranks, (long long)q->least,
           (long long)q->most, (long long)(q->factor ? q->factor : q->step),
           q->factor ? "factor" : "bytes", q->warm_up, q->iterations, q->aggregate, q->check);
}

static void print_foot(const bench_request *q)
{
    const bench_board *b = q->board;
    printf("# Out of bounds values : %llu %s\n", (unsigned long long)b->wrong,
           b->wrong ? "FAILED" : "OK");
    printf("# Avg bus bandwidth    : %g \n#\n",
           b->bandwidth_sum / (b->bandwidths ? b->bandwidths : 1));
    printf("# Collective test concluded: %s_perf\n", bench_names[q->what]);
}

int cmd_bench_comm(int argc, char **argv)
{
    status result = OK;
    err failure = {0}, *e = &failure;
    bool help = false;
    bench_request q = {.least = 32 << 20,
                       .most = 32 << 20,
                       .step = 1 << 20,
                       .iterations = 20,
                       .warm_up = 1,
                       .aggregate = 1,
                       .check = true,
                       .average = AVERAGE_MEAN};
    while (q.what < BENCH_SENDRECV && strcmp(argv[0], bench_names[q.what]) != 0) q.what++;
    TRY(parse_flags(argc, argv, &q, &help, e));
    if (help) {
        printf("%s", usage);
        return 0;
    }
    TRY(launcher_check(e));
    q.board =
        mmap(NULL, sizeof *q.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (q.board == MAP_FAILED) {
        result = err_errno(e, "bench: cannot map the ranks' figures");
        goto done;
    }
    print_head(&q);
    const launch_options o = {.ranks = q.ranks, .as_threads = q.as_threads};
    result = launch_ranks(&o, bench_comm_run, &q, NULL, e);
    if (result == OK) print_foot(&q);
    const bool wrong = q.board->wrong != 0;
    munmap(q.board, sizeof *q.board);
    if (result == OK && wrong) return 1;
done:
    return result == OK ? 0 : cmd_fail(e);
}
