// bench_tier.c -- `trireme bench tier`: measures how fast the file tier of offload writes and reads
// the disk of a folder (store/tier_rate.h).
#include "cmd/cmd.h"
#include "cmd/console.h"

#include "base/text.h"
#include "cmd/command.h"
#include "store/tier_rate.h"

#include <stdio.h>

typedef struct bench_tier_request {
    const char *path;
    int64_t bytes, block, depth;
    bool json;
} bench_tier_request;

static const flag flags[] = {
    {"--path", FLAG_TEXT, offsetof(bench_tier_request, path), "DIR",
     "Names a folder on the disk to measure (default: the current one)."},
    {"--bytes", FLAG_COUNT, offsetof(bench_tier_request, bytes), "N",
     "Sets the size of the file, in bytes (default: 1Gi)."},
    {"--block", FLAG_COUNT, offsetof(bench_tier_request, block), "N",
     "Sets the bytes of one request to the disk (default: 1Mi)."},
    {"--depth", FLAG_COUNT, offsetof(bench_tier_request, depth), "N",
     "Sets the number of requests in flight (default: 8)."},
    {"--json", FLAG_SWITCH, offsetof(bench_tier_request, json), NULL, "Prints one JSON object."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

static status measure(const bench_tier_request *q, err *e)
{
    status result = OK;
    tier_rate r = {0};
    const tier_options o = {.folder = q->path,
                            .name = "bench tier",
                            .bytes = (uint64_t)q->bytes,
                            .block_bytes = (size_t)q->block,
                            .depth = (int)q->depth};
    TRY(tier_rate_measure(&o, &r, e));
    if (r.note.bytes) console_say("%s", r.note.chars);
    const double bytes = (double)q->bytes;
    if (q->json) {
        printf("{\"write_gb_per_s\":%.4g,\"read_gb_per_s\":%.4g,\"bytes\":%lld,\"block_bytes\":%"
               "lld,\"depth\":%lld,\"cpu_share\":%.4g,\"best_way\":%s}\n",
               bytes * 1e-9 / r.write_s, bytes * 1e-9 / r.read_s, (long long)q->bytes,
               (long long)q->block, (long long)q->depth, r.cpu_share,
               r.note.bytes ? "false" : "true");
    } else {
        char size[24], block[24];
        text_bytes(size, bytes);
        text_bytes(block, (double)q->block);
        printf("%s in blocks of %s, %lld at a time: write %.3f GB/s, read %.3f GB/s; the tier's "
               "thread took %.1f %% of a core\n",
               size, block, (long long)q->depth, bytes * 1e-9 / r.write_s, bytes * 1e-9 / r.read_s,
               r.cpu_share * 100);
    }
done:
    text_clear(&r.note);
    return result;
}

static int cmd_bench_tier(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    bench_tier_request q = {.path = ".", .bytes = 1 << 30, .block = 1 << 20, .depth = 8};
    TRY(flags_parse(flags, FLAGS, argc, argv, &q, NULL, e));
    if (q.bytes == 0 || q.bytes % TIER_ALIGN)
        FAIL(E_USAGE, "bench tier: --bytes: found %lld; valid are multiples of %d",
             (long long)q.bytes, TIER_ALIGN);
    if (q.block == 0 || q.depth == 0 || q.depth > INT32_MAX)
        FAIL(E_USAGE, "bench tier: found --block %lld, --depth %lld; valid are numbers from 1 on",
             (long long)q.block, (long long)q.depth);
    TRY(measure(&q, e));
done:
    return result == OK ? 0 : cmd_fail(e);
}

const command command_bench_tier = {
    .name = "tier",
    .run = cmd_bench_tier,
    .usage = "[--path DIR] [--bytes N] [--block N] [--depth N] [--json]",
    .help = "Measures how fast offload to files writes and reads a disk.",
    .about =
        "Writes a file in DIR from front to back, then reads it, with the requests of offload to "
        "files. Prints the GB/s (1e9 bytes) of both and the share of a core that the transfers "
        "took. Removes the file.",
    .flags = flags,
    .flag_count = FLAGS,
};
