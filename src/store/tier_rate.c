// tier_rate.c -- see tier_rate.h. It deliberately does not know trainers.
#include "store/tier_rate.h"

#include "base/clock.h"
#include "device/device.h"

#include <stdbool.h>
#include <string.h>

enum {
    REQUEST = 32 << 20, // bytes of one request to the tier
    BUFFERS = 2,        // requests in flight: one buffer is filled while the other is transferred
};

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

static status check(const tier_options *o, const char *buffer, uint64_t offset, size_t bytes,
                    err *e)
{
    for (size_t k = 0; k < bytes; k += o->block_bytes)
        if (*(const uint64_t *)(buffer + k) != stamp(offset + k))
            return err_set(e, E_IO,
                           "%s: the block at offset %llu is not the one that was written there",
                           o->name, (unsigned long long)(offset + k));
    return OK;
}

// The bytes of the request at this offset.
static size_t request_bytes(const tier_options *o, uint64_t offset)
{
    const uint64_t left = o->bytes - offset;
    return left < REQUEST ? (size_t)left : REQUEST;
}

// Writes or reads the file once; *seconds is the time until the last byte.
static status pass(tier *t, const tier_options *o, bool write, char *memory, double *seconds,
                   err *e)
{
    status result = OK;
    tier_ticket tickets[BUFFERS] = {0};
    const uint64_t count = (o->bytes + REQUEST - 1) / REQUEST;
    const double began = clock_seconds();
    for (uint64_t i = 0; i < count + BUFFERS; i++) {
        char *buffer = memory + i % BUFFERS * REQUEST;
        const uint64_t offset = i * REQUEST, before = offset - BUFFERS * REQUEST;
        if (i >= BUFFERS && i - BUFFERS < count) {
            TRY(tier_wait(t, tickets[i % BUFFERS], e));
            if (!write) TRY(check(o, buffer, before, request_bytes(o, before), e));
        }
        if (i >= count) continue;
        if (write) {
            fill(buffer, offset, request_bytes(o, offset), o->block_bytes);
            TRY(tier_write(t, offset, buffer, request_bytes(o, offset), &tickets[i % BUFFERS], e));
        } else {
            TRY(tier_read(t, offset, buffer, request_bytes(o, offset), &tickets[i % BUFFERS], e));
        }
    }
    *seconds = clock_seconds() - began;
done:
    return result;
}

status tier_rate_measure(const tier_options *o, tier_rate *out, err *e)
{
    status result = OK;
    tier *t = NULL;
    device *d = NULL;
    void *memory = NULL;
    const device_options one_thread = {.threads = 1};
    TRY(device_open("cpu", &one_thread, &d, e));
    TRY(device_alloc(d, MEMORY_HOST, BUFFERS * REQUEST, &memory, e)); // huge pages, as in a trainer
    TRY(tier_open(o, &t, e));
    if (tier_note(t)) text_add(&out->note, tier_note(t));
    memset(memory, 1, BUFFERS * REQUEST); // so that the pages exist before the clock starts
    TRY(pass(t, o, true, memory, &out->write_s, e));
    TRY(pass(t, o, false, memory, &out->read_s, e));
    tier_counters c;
    tier_count(t, &c);
    out->cpu_share = c.seconds_cpu / (out->write_s + out->read_s);
done:
    tier_close(t);
    if (memory) device_release(d, MEMORY_HOST, memory, BUFFERS * REQUEST);
    device_close(d);
    return result;
}
