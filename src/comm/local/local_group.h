// local_group.h -- the state of a process group of one machine: posts, channels and staging areas of
// its members. It lies in the arena, at the same address in every process, so plain pointers work.
// Only files of comm/ include it.
//
// A group works in rounds. In each round every member publishes a post (comm_post) and waits for
// the posts of all other members. A member that publishes its post of round k+1 has finished with
// everything of round k. So two posts and two staging areas per member, used alternately, are never
// overwritten too early:
//   before its post of round k         a member fills its staging area k & 1
//   between the posts of k and k+1     the other members read it
//   before its post of round k+2       the member fills it again; it has seen all posts of k+1
#ifndef TRIREME_COMM_LOCAL_GROUP_H
#define TRIREME_COMM_LOCAL_GROUP_H

#include "comm/call.h"
#include "rendezvous/arena.h"
#include "rendezvous/doorbell.h"

enum {
    POST_DATA_BYTES = 8,
    STAGING_BYTES = 256 << 10, // of one staging area; a member has two for inputs, two for results
    RING_BYTES = 2 << 20,      // of a channel; a power of two
};

// The message of one member to all others in one round. `call` must be equal on all
// members.
typedef struct comm_post {
    _Alignas(64) doorbell doorbell; // its value is the round
    comm_signature call;
    void *buffer; // that others may read (and write, in an all-reduce); NULL: not visible to all
    int64_t arrived_ns; // when the member came to the call (clock_ns); 0: not known
    int32_t arrived_by; // comm_arrival.by
    _Alignas(8) uint8_t data[POST_DATA_BYTES]; // of elements of any type
} comm_post;
_Static_assert(sizeof(comm_post) == 64, "a post is one cache line");

typedef struct comm_member {
    comm_post posts[2]; // by round & 1
    _Atomic int left;   // true: it sends and receives nothing any more
    _Atomic int rings;  // of the channels that it sends to
} comm_member;

// The FIFO of messages from one member to another, in a ring of RING_BYTES bytes. All counters are
// modulo 2^32. A message is either copied into the ring, or announced: the ring then holds only the
// address of its bytes.
typedef struct comm_channel {
    // Written by the sender:
    _Alignas(64) doorbell written; // bytes put into the ring
    char *ring;                    // set before the first message
    uint32_t announced;            // messages that were announced
    // Written by the receiver:
    _Alignas(64) doorbell taken; // bytes taken from the ring
    doorbell received;           // messages that were received
    doorbell fetched;            // announced messages whose bytes were copied
} comm_channel;

typedef struct comm_group {
    _Atomic int members_left; // the last one to close releases the group
    int size;
    int *world_rank;        // [size]
    comm_member *members;   // [size]
    comm_channel *channels; // [size][size], from row to column
    char *staging;          // [size][4][STAGING_BYTES]: see local_staging
} comm_group;

// Opens the state of a group of the ranks world_ranks [size] (NULL: 0 … size-1), in `a`. E_FIT.
status comm_group_open(comm_arena *a, int size, const int *world_ranks, comm_group **out, err *e);
// One member leaves. The last one releases the group.
void comm_group_leave(comm_arena *a, comm_group *g);

#endif
