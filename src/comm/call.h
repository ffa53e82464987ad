// call.h -- what a call of comm.h is: the fields that must be equal on all ranks, their names, and
// their words in messages.
//
// Used by the rounds of the local communicator and by the recorder, which compare calls. It does not
// know buffers, streams or ranks.
#ifndef TRIREME_COMM_CALL_H
#define TRIREME_COMM_CALL_H

#include "base/dtype.h"
#include "base/reduce.h"
#include "comm/segment.h"

#include <stddef.h>
#include <stdint.h>

typedef enum comm_call_kind {
    CALL_LEAVE = 1, // no call: the post of a member that closes, for members that wait for it
    CALL_BARRIER,
    CALL_SPLIT,
    CALL_SHARE,
    CALL_ALL_REDUCE,
    CALL_REDUCE_SCATTER,
    CALL_ALL_GATHER,
    CALL_ALL_GATHER_SEGMENTS,
    CALL_REDUCE_SCATTER_SEGMENTS,
    CALL_BROADCAST,
    CALL_SEND,
    CALL_RECV,
} comm_call_kind;

enum { CALL_TEXT_BYTES = 160 };

// Unused fields are 0, so two collectives that may meet have equal bytes. There is no padding.
typedef struct comm_call_shape {
    uint8_t kind, type, op, in_place;
    int32_t root;   // of a broadcast; of a message the peer; over segments: the number of segments
    uint64_t count; // elements; bytes in a broadcast and in messages
    uint64_t hash;  // of the segments
} comm_call_shape;
_Static_assert(sizeof(comm_call_shape) == 24, "shapes are compared as bytes");

// "all_reduce", also of the call over segments that is named after it.
const char *comm_call_name(comm_call_kind k);
// Writes "calls all_reduce of 1024 fp32 (sum)" into out, and returns out.
const char *comm_call_describe(const comm_call_shape *s, char out[CALL_TEXT_BYTES]);

#endif
