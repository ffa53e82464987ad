// bench_tier.c -- `trireme bench tier`: measures how fast the file tier of offload writes and reads
// the disk of a folder. Two requests are in flight at a time, as in a training step that computes
// on one buffer while the other is transferred. It checks what it reads, and removes its file. It
// deliberately does not know trainers.
#include "cmd/cmd.h"
#include "cmd/console.h"

#include "base/clock.h"
#include "base/text.h"
#include "cmd/command.h"
#include "device/device.h"
#include "store/tier.h"

#include <stdio.h>
#include <string.h>

enum {
    REQUEST = 32 << 20, // bytes of one request to the tier
    BUFFERS = 2,        // requests in flight: one buffer is filled while the other is transferred
};

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

// The first 8 bytes of each block are a code of its file offset, by which `check` recognizes the
// block. The other bytes stay as they are: filling them would add CPU time to the disk's.
static uint64_t stamp(uint64_t offset)
{
    return (offset + 1) * 0x9e3779b97f4a7c15u;
}

static void fill(char *buffer, uint64_t offset, size_t bytes, size_t block)
{
    for (size_t k = 0; k < bytes; k += block) *(uint64_t *)(buffer + k) = stamp(offset + k);
}

static status check(const char *buffer, uint64_t offset, size_t bytes, size_t block, err *e)
{
    for (size_t k = 0; k < bytes; k += block)
        if (*(const uint64_t *)(buffer + k) != stamp(offset + k))
            return err_set(
                e, E_IO,
                "bench tier: the block at offset %llu is not the one that was written there",
                (unsigned long long)(offset + k));
    return OK;
}

// The bytes of the request at this offset.
static size_t request_bytes(const bench_tier_request *q, uint64_t offset)
{
    const uint64_t left = (uint64_t)q->bytes - offset;
    return left < REQUEST ? (size_t)left : REQUEST;
}

// Writes or reads the file once; *seconds is the time until the last byte.
static status pass(tier *t, const bench_tier_request *q, bool write, char *memory, double *seconds,
                   err *e)
{
    status result = OK;
    tier_ticket tickets[BUFFERS] = {0};
    const uint64_t count = ((uint64_t)q->bytes + REQUEST - 1) / REQUEST;
    const double began = clock_seconds();
    for (uint64_t i = 0; i < count + BUFFERS; i++) {
        char *buffer = memory + i % BUFFERS * REQUEST;
        const uint64_t offset = i * REQUEST, before = offset - BUFFERS * REQUEST;
        if (i >= BUFFERS && i - BUFFERS < count) {
            TRY(tier_wait(t, tickets[i % BUFFERS], e));
            if (!write) TRY(check(buffer, before, request_bytes(q, before), (size_t)q->block, e));
        }
        if (i >= count) continue;
        if (write) {
            fill(buffer, offset, request_bytes(q, offset), (size_t)q->block);
            TRY(tier_write(t, offset, buffer, request_bytes(q, offset), &tickets[i % BUFFERS], e));
        } else {
            TRY(tier_read(t, offset, buffer, request_bytes(q, offset), &tickets[i % BUFFERS], e));
        }
    }
    *seconds = clock_seconds() - began;
done:
    return result;
}

static status measure(const bench_tier_request *q, err *e)
{
    status result = OK;
    tier *t = NULL;
    double write_s = 0, read_s = 0;
    device *d = NULL;
    void *memory = NULL;
    const device_options one_thread = {.threads = 1};
    const tier_options o = {.folder = q->path,
                            .name = "bench tier",
                            .bytes = (uint64_t)q->bytes,
                            .block_bytes = (size_t)q->block,
                            .depth = (int)q->depth};
    TRY(device_open("cpu", &one_thread, &d, e));
    TRY(device_alloc(d, MEMORY_HOST, BUFFERS * REQUEST, &memory, e)); // huge pages, as in a trainer
    TRY(tier_open(&o, &t, e));
    const char *note = tier_note(t);
    if (note) console_say("%s", note);
    memset(memory, 1, BUFFERS * REQUEST); // so that the pages exist before the clock starts
    TRY(pass(t, q, true, memory, &write_s, e));
    TRY(pass(t, q, false, memory, &read_s, e));
    tier_counters c;
    tier_count(t, &c);
    const double bytes = (double)q->bytes, cpu = c.seconds_cpu / (write_s + read_s);
    if (q->json) {
        printf("{\"write_gb_per_s\":%.4g,\"read_gb_per_s\":%.4g,\"bytes\":%lld,\"block_bytes\":%"
               "lld,\"depth\":%lld,\"cpu_share\":%.4g,\"best_way\":%s}\n",
               bytes * 1e-9 / write_s, bytes * 1e-9 / read_s, (long long)q->bytes,
               (long long)q->block, (long long)q->depth, cpu, note ? "false" : "true");
    } else {
        char size[24], block[24];
        text_bytes(size, bytes);
        text_bytes(block, (double)q->block);
        printf("%s in blocks of %s, %lld at a time: write %.3f GB/s, read %.3f GB/s; the tier's "
               "thread took %.1f %% of a core\n",
               size, block, (long long)q->depth, bytes * 1e-9 / write_s, bytes * 1e-9 / read_s,
               cpu * 100);
    }
done:
    tier_close(t);
    if (memory) device_release(d, MEMORY_HOST, memory, BUFFERS * REQUEST);
    device_close(d);
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
