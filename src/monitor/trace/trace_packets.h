// trace_packets.h -- writes Perfetto's own trace format: packets of sequences. A sequence has one track, its own clock,
// whose times are differences to the time before, and its own interned strings, so that an event takes few bytes. The
// writers of ranks and of calls use it. It knows no spans.
//
// The clock of every sequence is CLOCK_MONOTONIC itself, from 0. Perfetto 52 takes clocks of sequences with the same number
// in two files of an archive for one, and refuses a CLOCK_MONOTONIC that goes back from one sequence to the next.
//
// Numbers of fields are those of Perfetto's protos/perfetto/trace/*.proto.
#ifndef TRIREME_MONITOR_TRACE_TRACE_PACKETS_H
#define TRIREME_MONITOR_TRACE_TRACE_PACKETS_H

#include "base/lookup.h"
#include "base/text.h"

// Strings that events name by number, shared by the sequences of a file.
typedef struct packet_strings {
    lookup table;
    const char **item; // [count] borrowed
    size_t count, room;
} packet_strings;

// The number of a string, from 0. The string is borrowed until the table is cleared.
status packet_string(packet_strings *s, const char *chars, int *out, err *e);
void packet_strings_clear(packet_strings *s);

// What an event says of itself; the words are those that the user sees beside it.
#define PACKET_FACT_LIST(FACT)                                                                     \
    FACT(STEP, "step")                                                                             \
    FACT(MICRO, "micro_batch")                                                                     \
    FACT(BYTES, "bytes")                                                                           \
    FACT(FLOPS, "flops")                                                                           \
    FACT(GROUP, "group")                                                                           \
    FACT(PEER, "peer")                                                                             \
    FACT(WAITED, "waited_ns")                                                                      \
    FACT(LAST, "last_arriver")                                                                     \
    FACT(LOSS, "loss")
#define PACKET_ENUMERATOR(NAME, word) FACT_##NAME,
typedef enum packet_fact { PACKET_FACT_LIST(PACKET_ENUMERATOR) PACKET_FACTS } packet_fact;
#undef PACKET_ENUMERATOR

// A sequence of packets of one track. Start with packets_begin.
typedef struct packets {
    text *out;               // the file
    packet_strings *strings; // of the file
    uint32_t sequence;
    int64_t offset_ns, last_ns; // last_ns: with the offset
    unsigned char *known; // [known_room] bits of a string: as a name, as a value, as a category
    size_t known_room;
    unsigned known_facts;
    text event, interned, part; // of the packet that is being made
} packets;

// Begins sequence `id`, unique in the file, whose events are of `track`. `offset_ns` is added to their times, which are
// those of the rank's clock, for the clock of the file.
status packets_begin(packets *p, text *out, packet_strings *strings, uint32_t id, uint64_t track,
                     int64_t offset_ns, err *e);
void packets_clear(packets *p);

// An event is begun, gets its facts, and is ended; times never decrease.
status packets_slice(packets *p, int name, int category, err *e); // numbers of strings; -1: none
void packets_fact(packets *p, packet_fact f, uint64_t value);
void packets_fact_number(packets *p, packet_fact f, double value);
status packets_fact_string(packets *p, packet_fact f, int value, err *e);
void packets_flow(packets *p, uint64_t id);
void packets_add(packets *p, int64_t ns); // the event that was begun
void packets_slice_end(packets *p, int64_t ns);
void packets_counter(packets *p, uint64_t track, int64_t ns, uint64_t value);

// ---- Descriptions

// How CLOCK_MONOTONIC of the file lies beside the time of day: `realtime_ns` is added to it.
void packets_describe_clock(text *out, int64_t realtime_ns);

typedef struct packet_process {
    uint64_t track;
    int32_t id;       // unique in the archive
    const char *name; // "rank 3 (host b)"
    const char *const *labels;
    int label_count;
} packet_process;

void packets_describe_process(text *out, const packet_process *p);
// A track below the process; tracks are shown by `order`.
void packets_describe_track(text *out, uint64_t track, uint64_t process, const char *name,
                            int order);
// A track of a number of bytes.
void packets_describe_counter(text *out, uint64_t track, uint64_t process, const char *name,
                              int order);
// Facts about the file: `count` keys, each with a number.
void packets_describe_file(text *out, const char *const *keys, const int64_t *values, int count);

#endif
