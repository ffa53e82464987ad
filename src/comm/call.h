// call.h -- a collective, or one end of a message, as data: what a communicator carries out (comm.h), what a plan
// lists, and what ranks compare. And the table of all kinds of calls.
//
// It is plain data, and knows neither streams nor ranks. A new kind is one row of the table: whoever needs to know
// something of a kind reads its row.
#ifndef TRIREME_COMM_CALL_H
#define TRIREME_COMM_CALL_H

#include "base/dtype.h"
#include "base/err.h"
#include "base/reduce.h"
#include "comm/segment.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct comm;
struct device_stream;

typedef reduce_op comm_reduce_op;

typedef enum comm_call_kind {
    CALL_NONE,
    CALL_LEAVE, // no call: a member closes, and the others may wait for it
    // These block the host.
    CALL_BARRIER,
    CALL_SPLIT,
    CALL_SHARE,   // of memory (comm_share)
    CALL_COMPARE, // gathers a few bytes of each rank's host (recorder_compare.c)
    // Collectives
    CALL_ALL_REDUCE,
    CALL_REDUCE_SCATTER,
    CALL_ALL_GATHER,
    CALL_BROADCAST,
    CALL_ALL_TO_ALL,
    CALL_GATHER,
    CALL_SCATTER,
    // Messages
    CALL_SEND,
    CALL_RECV,
    CALL_KINDS
} comm_call_kind;

// What a call met. The communicator adds to it when the stream runs the call; who asks clears it before that, and reads
// it after a sync. Ranks of a collective wait for the last one that comes to it, and a receive for its message. What is
// made of messages (compose.h) charges each wait to the peer of the message, which may itself have waited. Over a network
// sends charge nobody: their time is that of their bytes. p2p and nccl, whose streams are the device's, tell nothing.
typedef struct comm_visit {
    int64_t
        waited_ns; // until the last rank had come (a receive: until its message was there); summed where a call is made of several
    int64_t last_wait_ns; // the longest single wait, which is `last`'s
    int32_t last;         // rank of the communicator; -1: nobody waited, or it is not known
} comm_visit;

#define COMM_VISIT_NONE ((comm_visit){.last = -1})

// Adds a wait for rank `last`.
static inline void comm_visit_add(comm_visit *v, int64_t waited_ns, int last)
{
    if (waited_ns <= 0) return;
    v->waited_ns += waited_ns;
    if (waited_ns <= v->last_wait_ns) return;
    v->last_wait_ns = waited_ns;
    v->last = last;
}

static inline void comm_visit_join(comm_visit *v, const comm_visit *more)
{
    const int64_t waited_ns = v->waited_ns + more->waited_ns;
    if (more->last_wait_ns > v->last_wait_ns) *v = *more;
    v->waited_ns = waited_ns;
}

// Fields that a kind does not use are 0.
typedef struct comm_call {
    comm_call_kind kind;
    dtype type;
    comm_reduce_op op;
    int peer;     // the root of a collective; the other rank of a message
    size_t count; // elements, as the row says; 0 over segments
    // Over segments: every rank passes the same list. The array of shards, or, with in_place, the full array, in which
    // the shards lie at their offsets, is the other array, too.
    const comm_segment *segment; // [segments]; NULL: not over segments
    int segments;
    bool in_place;
    // The arrays. One may lie in the other where both hold the same elements of this rank.
    const void *in;
    void *out;
    // Of all_to_all: elements for each rank, which lie one after the other; NULL: `count` for each.
    const size_t *in_counts, *out_counts;
    comm_visit *visit; // borrowed until the stream has run the call; NULL: nobody asks
} comm_call;

// How many elements an array has, in a group of n ranks.
typedef enum comm_array {
    COMM_NO_ARRAY,
    COMM_ONE_COUNT, // count
    COMM_ALL_COUNTS // n * count
} comm_array;

// What is to be known of a kind.
typedef struct comm_call_row {
    const char *name;     // "all_reduce"
    const char *torch[2]; // PyTorch's name in its flight recorder; [1]: over segments
    const char *peer;     // which word stands before the peer: "from", "to"; NULL: it has none
    comm_array in, out;
    bool reduces;    // op is used
    bool is_message; // between two ranks: else all ranks of the group make the call
    int passes; // how often a rank of a ring sends (n-1)/n of the full array; of a message: all of it
    // Carries it out as messages; NULL: communicators carry it out.
    status (*compose)(struct comm *c, const comm_call *call, struct device_stream *on, err *e);
} comm_call_row;

extern const comm_call_row COMM_CALL_ROWS[CALL_KINDS];

static inline const comm_call_row *comm_call_row_of(comm_call_kind k)
{
    return &COMM_CALL_ROWS[k];
}

// Bytes of `count` elements: of the array, of one shard, or of a message.
static inline size_t comm_call_bytes(const comm_call *c)
{
    return c->count * dtype_bytes(c->type);
}

// Elements of the call: of the array, of one shard, or of all segments.
uint64_t comm_call_elements(const comm_call *c);
// The bytes that rank `rank` of `size` sends, by the formulas of a ring, whatever moves them:
//   all_reduce                              2(n-1)/n of the payload
//   other collectives                       (n-1)/n of the full array
//   the same over segments                  the full array without this rank's shards
//   send                                    the payload; recv sends nothing
// The numbers are exact when n is a power of two, and over segments.
double comm_call_traffic(const comm_call *c, int rank, int size);

// What all ranks of a collective must pass alike. Unused fields are 0, so signatures that may meet have equal bytes.
// There is no padding.
typedef struct comm_signature {
    uint8_t kind, type, op, in_place;
    int32_t peer;   // over segments: the number of segments
    uint64_t count; // comm_call_elements
    uint64_t hash;  // of the segments
} comm_signature;
_Static_assert(sizeof(comm_signature) == 24, "signatures are compared as bytes");

enum { CALL_TEXT_BYTES = 160 };

comm_signature comm_call_signature(const comm_call *c);
// "all_reduce"
const char *comm_signature_name(const comm_signature *s);
// Writes "calls all_reduce of 1024 fp32 (sum)" into out, and returns out.
const char *comm_signature_describe(const comm_signature *s, char out[CALL_TEXT_BYTES]);

#endif
