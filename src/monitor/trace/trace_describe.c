// trace_describe.c -- writes the packets of Perfetto's trace format that describe processes, tracks and files
// (trace_packets.h).
#include "base/protobuf.h"
#include "monitor/trace/trace_packets.h"

#include <string.h>

enum {
    TRACE_PACKET = 1,
    PACKET_CLOCK_SNAPSHOT = 6,
    PACKET_TRACK = 60,
    PACKET_ATTRIBUTES = 126,
    // TrackDescriptor
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_PARENT = 5,
    TRACK_COUNTER = 8,
    TRACK_CHILDREN = 11,
    TRACK_ORDER = 12,
    TRACK_SIBLINGS = 15,
    CHILDREN_EXPLICIT = 3, // by their order
    SIBLINGS_NONE = 2,     // tracks of equal names stay apart
    // ProcessDescriptor, CounterDescriptor
    PROCESS_ID = 1,
    PROCESS_NAME = 6,
    PROCESS_LABEL = 8,
    COUNTER_UNIT = 3,
    COUNTER_AXIS = 7,
    UNIT_BYTES = 3,
    // ClockSnapshot
    SNAPSHOT_CLOCK = 1,
    SNAPSHOT_PRIMARY = 2,
    CLOCK_ID = 1,
    CLOCK_TIMESTAMP = 2,
    REALTIME = 1,
    MONOTONIC = 3,
    // TraceAttributes
    ATTRIBUTE = 1,
    ATTRIBUTE_KEY = 1,
    ATTRIBUTE_NUMBER = 2,
};

static void add_packet(text *out, int field, const text *message)
{
    text packet = {0};
    protobuf_add_message(&packet, field, message);
    protobuf_add_message(out, TRACE_PACKET, &packet);
    text_clear(&packet);
}

static void add_string(text *t, int field, const char *chars)
{
    protobuf_add_bytes(t, field, chars, strlen(chars));
}

static void add_clock(text *snapshot, uint64_t id, int64_t ns)
{
    text clock = {0};
    protobuf_add_uint(&clock, CLOCK_ID, id);
    protobuf_add_uint(&clock, CLOCK_TIMESTAMP, (uint64_t)ns);
    protobuf_add_message(snapshot, SNAPSHOT_CLOCK, &clock);
    text_clear(&clock);
}

void packets_describe_clock(text *out, int64_t realtime_ns)
{
    text snapshot = {0};
    add_clock(&snapshot, MONOTONIC, 0);
    add_clock(&snapshot, REALTIME, realtime_ns);
    protobuf_add_uint(&snapshot, SNAPSHOT_PRIMARY, MONOTONIC);
    add_packet(out, PACKET_CLOCK_SNAPSHOT, &snapshot);
    text_clear(&snapshot);
}

void packets_describe_process(text *out, const packet_process *p)
{
    text track = {0}, process = {0};
    protobuf_add_uint(&process, PROCESS_ID, (uint64_t)p->id);
    add_string(&process, PROCESS_NAME, p->name);
    for (int i = 0; i < p->label_count; i++) add_string(&process, PROCESS_LABEL, p->labels[i]);
    protobuf_add_uint(&track, TRACK_UUID, p->track);
    add_string(&track, TRACK_NAME, p->name);
    protobuf_add_message(&track, TRACK_PROCESS, &process);
    protobuf_add_uint(&track, TRACK_CHILDREN, CHILDREN_EXPLICIT);
    add_packet(out, PACKET_TRACK, &track);
    text_clear(&track);
    text_clear(&process);
}

static void add_track(text *track, uint64_t id, uint64_t process, const char *name, int order)
{
    protobuf_add_uint(track, TRACK_UUID, id);
    protobuf_add_uint(track, TRACK_PARENT, process);
    add_string(track, TRACK_NAME, name);
    protobuf_add_uint(track, TRACK_ORDER, (uint64_t)order);
    protobuf_add_uint(track, TRACK_SIBLINGS, SIBLINGS_NONE);
}

void packets_describe_track(text *out, uint64_t track, uint64_t process, const char *name,
                            int order)
{
    text t = {0};
    add_track(&t, track, process, name, order);
    add_packet(out, PACKET_TRACK, &t);
    text_clear(&t);
}

void packets_describe_counter(text *out, uint64_t track, uint64_t process, const char *name,
                              int order)
{
    text t = {0}, counter = {0};
    add_track(&t, track, process, name, order);
    protobuf_add_uint(&counter, COUNTER_UNIT, UNIT_BYTES);
    add_string(&counter, COUNTER_AXIS, "memory");
    protobuf_add_message(&t, TRACK_COUNTER, &counter);
    add_packet(out, PACKET_TRACK, &t);
    text_clear(&t);
    text_clear(&counter);
}

void packets_describe_file(text *out, const char *const *keys, const int64_t *values, int count)
{
    text attributes = {0}, one = {0};
    for (int i = 0; i < count; i++) {
        one.bytes = 0;
        add_string(&one, ATTRIBUTE_KEY, keys[i]);
        protobuf_add_uint(&one, ATTRIBUTE_NUMBER, (uint64_t)values[i]);
        protobuf_add_message(&attributes, ATTRIBUTE, &one);
    }
    add_packet(out, PACKET_ATTRIBUTES, &attributes);
    text_clear(&attributes);
    text_clear(&one);
}
