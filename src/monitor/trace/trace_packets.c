// trace_packets.c -- writes packets of Perfetto's trace format (trace_packets.h).
#include "monitor/trace/trace_packets.h"

#include "base/alloc.h"
#include "base/protobuf.h"

#include <stdlib.h>
#include <string.h>

enum {
    // Trace, TracePacket
    TRACE_PACKET = 1,
    PACKET_CLOCK_SNAPSHOT = 6,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED = 12,
    PACKET_FLAGS = 13,
    PACKET_DEFAULTS = 59,
    PACKET_FIRST = 87,
    FLAG_CLEARED = 1, // what was said before no longer holds
    // ClockSnapshot, TracePacketDefaults
    SNAPSHOT_CLOCK = 1,
    SNAPSHOT_PRIMARY = 2,
    CLOCK_ID = 1,
    CLOCK_TIMESTAMP = 2,
    CLOCK_INCREMENTAL = 3,
    DEFAULTS_CLOCK = 58,
    DEFAULTS_EVENT = 11,
    MONOTONIC = 3,       // CLOCK_MONOTONIC
    SEQUENCE_CLOCK = 64, // the first of those that a sequence defines
    // TrackEvent, TrackEventDefaults
    EVENT_CATEGORY = 3,
    EVENT_FACT = 4,
    EVENT_TYPE = 9,
    EVENT_NAME = 10,
    EVENT_TRACK = 11,
    EVENT_COUNTER = 30,
    EVENT_FLOW = 47,
    TYPE_BEGIN = 1,
    TYPE_END = 2,
    TYPE_COUNTER = 4,
    // DebugAnnotation
    FACT_NAME = 1,
    FACT_UINT = 3,
    FACT_DOUBLE = 5,
    FACT_STRING = 17,
    // InternedData
    INTERNED_CATEGORY = 1,
    INTERNED_NAME = 2,
    INTERNED_FACT = 3,
    INTERNED_STRING = 29,
    INTERNED_ID = 1,
    INTERNED_CHARS = 2,
};

// ---- Strings

static bool is_string(const void *given, int number)
{
    const packet_strings *const *s = given;
    const char *const *chars = (const char *const *)given + 1;
    return strcmp((*s)->item[number], *chars) == 0;
}

status packet_string(packet_strings *s, const char *chars, int *out, err *e)
{
    status result = OK;
    const void *given[2] = {s, chars};
    const uint64_t hash = lookup_hash(chars, strlen(chars));
    *out = lookup_find(&s->table, hash, is_string, given);
    if (*out >= 0) return OK;
    TRY(alloc_grow(&s->item, &s->room, s->count + 1, sizeof *s->item, "the names of a trace", e));
    TRY(lookup_add(&s->table, hash, (int)s->count, e));
    *out = (int)s->count;
    s->item[s->count++] = chars;
done:
    return result;
}

void packet_strings_clear(packet_strings *s)
{
    lookup_clear(&s->table);
    free(s->item);
    *s = (packet_strings){0};
}

// Adds a string to the packet's interned data unless the sequence has it. Its id is its number + 1.
static status intern(packets *p, int field, unsigned bit, int number, err *e)
{
    status result = OK;
    if ((size_t)number >= p->known_room) {
        const size_t old = p->known_room;
        TRY(alloc_grow(&p->known, &p->known_room, p->strings->count, 1, "the names of a trace", e));
        memset(p->known + old, 0, p->known_room - old);
    }
    if (p->known[number] & bit) return OK;
    const char *chars = p->strings->item[number];
    p->known[number] |= (unsigned char)bit;
    p->part.bytes = 0;
    protobuf_add_uint(&p->part, INTERNED_ID, (uint64_t)number + 1);
    protobuf_add_bytes(&p->part, INTERNED_CHARS, chars, strlen(chars));
    protobuf_add_message(&p->interned, field, &p->part);
done:
    return result;
}

static void intern_fact(packets *p, packet_fact f)
{
#define PACKET_WORD(NAME, word) [FACT_##NAME] = word,
    static const char *const words[] = {PACKET_FACT_LIST(PACKET_WORD)};
#undef PACKET_WORD
    if (p->known_facts & 1u << f) return;
    p->known_facts |= 1u << f;
    p->part.bytes = 0;
    protobuf_add_uint(&p->part, INTERNED_ID, (uint64_t)f + 1);
    protobuf_add_bytes(&p->part, INTERNED_CHARS, words[f], strlen(words[f]));
    protobuf_add_message(&p->interned, INTERNED_FACT, &p->part);
}

// ---- Packets

static void add_clock(text *snapshot, text *part, uint64_t id)
{
    part->bytes = 0;
    protobuf_add_uint(part, CLOCK_ID, id);
    protobuf_add_uint(part, CLOCK_TIMESTAMP, 0);
    if (id == SEQUENCE_CLOCK) protobuf_add_uint(part, CLOCK_INCREMENTAL, 1);
    protobuf_add_message(snapshot, SNAPSHOT_CLOCK, part);
}

static void add_defaults(text *packet, text *part, text *defaults, uint64_t track)
{
    part->bytes = defaults->bytes = 0;
    protobuf_add_uint(part, EVENT_TRACK, track);
    protobuf_add_message(defaults, DEFAULTS_EVENT, part);
    protobuf_add_uint(defaults, DEFAULTS_CLOCK, SEQUENCE_CLOCK);
    protobuf_add_message(packet, PACKET_DEFAULTS, defaults);
}

status packets_begin(packets *p, text *out, packet_strings *strings, uint32_t id, uint64_t track,
                     int64_t offset_ns, err *e)
{
    text packet = {0};
    *p = (packets){.out = out, .strings = strings, .sequence = id, .offset_ns = offset_ns};
    add_clock(&p->event, &p->part, SEQUENCE_CLOCK);
    add_clock(&p->event, &p->part, MONOTONIC);
    protobuf_add_uint(&p->event, SNAPSHOT_PRIMARY, MONOTONIC);
    protobuf_add_message(&packet, PACKET_CLOCK_SNAPSHOT, &p->event);
    add_defaults(&packet, &p->part, &p->event, track);
    protobuf_add_uint(&packet, PACKET_SEQUENCE, id);
    protobuf_add_uint(&packet, PACKET_FLAGS, FLAG_CLEARED);
    protobuf_add_uint(&packet, PACKET_FIRST, 1);
    protobuf_add_message(out, TRACE_PACKET, &packet);
    p->event.bytes = 0;
    text_clear(&packet);
    return text_check(out, e);
}

void packets_clear(packets *p)
{
    free(p->known);
    text_clear(&p->event);
    text_clear(&p->interned);
    text_clear(&p->part);
    *p = (packets){0};
}

void packets_add(packets *p, int64_t ns)
{
    text *packet = &p->part;
    packet->bytes = 0;
    ns += p->offset_ns;
    if (ns < p->last_ns) ns = p->last_ns;
    protobuf_add_uint(packet, PACKET_TIMESTAMP, (uint64_t)(ns - p->last_ns));
    protobuf_add_uint(packet, PACKET_SEQUENCE, p->sequence);
    if (p->interned.bytes) protobuf_add_message(packet, PACKET_INTERNED, &p->interned);
    protobuf_add_message(packet, PACKET_TRACK_EVENT, &p->event);
    protobuf_add_message(p->out, TRACE_PACKET, packet);
    p->last_ns = ns;
    p->interned.bytes = p->event.bytes = 0;
}

status packets_slice(packets *p, int name, int category, err *e)
{
    status result = OK;
    protobuf_add_uint(&p->event, EVENT_TYPE, TYPE_BEGIN);
    TRY(intern(p, INTERNED_NAME, 1, name, e));
    protobuf_add_uint(&p->event, EVENT_NAME, (uint64_t)name + 1);
    if (category < 0) return OK;
    TRY(intern(p, INTERNED_CATEGORY, 4, category, e));
    protobuf_add_uint(&p->event, EVENT_CATEGORY, (uint64_t)category + 1);
done:
    return result;
}

void packets_fact(packets *p, packet_fact f, uint64_t value)
{
    intern_fact(p, f);
    p->part.bytes = 0;
    protobuf_add_uint(&p->part, FACT_NAME, (uint64_t)f + 1);
    protobuf_add_uint(&p->part, FACT_UINT, value);
    protobuf_add_message(&p->event, EVENT_FACT, &p->part);
}

void packets_fact_number(packets *p, packet_fact f, double value)
{
    intern_fact(p, f);
    p->part.bytes = 0;
    protobuf_add_uint(&p->part, FACT_NAME, (uint64_t)f + 1);
    protobuf_add_double(&p->part, FACT_DOUBLE, value);
    protobuf_add_message(&p->event, EVENT_FACT, &p->part);
}

status packets_fact_string(packets *p, packet_fact f, int value, err *e)
{
    status result = OK;
    TRY(intern(p, INTERNED_STRING, 2, value, e));
    intern_fact(p, f);
    p->part.bytes = 0;
    protobuf_add_uint(&p->part, FACT_NAME, (uint64_t)f + 1);
    protobuf_add_uint(&p->part, FACT_STRING, (uint64_t)value + 1);
    protobuf_add_message(&p->event, EVENT_FACT, &p->part);
done:
    return result;
}

void packets_flow(packets *p, uint64_t id)
{
    protobuf_add_fixed64(&p->event, EVENT_FLOW, id);
}

void packets_slice_end(packets *p, int64_t ns)
{
    protobuf_add_uint(&p->event, EVENT_TYPE, TYPE_END);
    packets_add(p, ns);
}

void packets_counter(packets *p, uint64_t track, int64_t ns, uint64_t value)
{
    protobuf_add_uint(&p->event, EVENT_TYPE, TYPE_COUNTER);
    protobuf_add_uint(&p->event, EVENT_TRACK, track);
    protobuf_add_uint(&p->event, EVENT_COUNTER, value);
    packets_add(p, ns);
}
