// shared.h -- the layout of the memory that the ranks of one machine share: the world, its heap,
// and the process groups in it. All of it lies at the same address in every process, so plain
// pointers work. Only files of comm/ include it.
//
// A group works in rounds. In each round every member publishes a post (comm_post) and waits for
// the posts of all other members. A member that publishes its post of round k+1 has finished with
// everything of round k. So two posts and two staging areas per member, used alternately, are never
// overwritten too early:
//   before its post of round k         a member fills its staging area k & 1
//   between the posts of k and k+1     the other members read it
//   before its post of round k+2       the member fills it again; it has seen all posts of k+1
#ifndef TRIREME_COMM_SHARED_H
#define TRIREME_COMM_SHARED_H

#include "comm/doorbell.h"

enum {
    HEAP_EXTENTS = 1 << 15,
    POST_DATA_BYTES = 24,
    STAGING_BYTES = 256 << 10, // of one staging area; a member has two for inputs, two for results
    RING_BYTES = 2 << 20,      // of a channel; a power of two
};

typedef struct heap_extent {
    size_t offset, bytes; // of the arena
} heap_extent;

typedef struct comm_heap {
    _Atomic int locked;
    int used;
    heap_extent extents[HEAP_EXTENTS]; // [used], sorted by offset
} comm_heap;

// The message of one member to all others in one round. The fields from `kind` to `hash` describe
// the call, and must be equal on all members.
typedef struct comm_post {
    _Alignas(64) doorbell doorbell; // its value is the round
    uint8_t kind, type, op, in_place;
    int32_t root; // of a broadcast; for calls over segments: the number of segments
    uint64_t count;
    uint64_t hash; // of the segments
    void *buffer;  // that others may read (and write, in an all-reduce); NULL: not visible to all
    uint8_t data[POST_DATA_BYTES];
} comm_post;
_Static_assert(sizeof(comm_post) == 64, "a post is one cache line");

typedef struct comm_member {
    comm_post posts[2]; // by round & 1
    _Atomic int left;   // true: it sends and receives nothing any more
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
    int world_rank[WORLD_RANKS];
    comm_member *members;   // [size]
    comm_channel *channels; // [size][size], from row to column
    char *staging;          // [size][4][STAGING_BYTES]: see local_staging
} comm_group;

struct world {
    int ranks;
    bool as_threads;
    bool spin;   // every rank can have a core of its own
    char *arena; // memory of the heap
    size_t arena_bytes;
    comm_group *all; // the group of all ranks
    _Atomic int stop;
    _Atomic int64_t watchdog_ms; // 0: none
    _Atomic int claimed;         // 2 + the rank whose failure is the first; 0: none
    _Atomic int failed;          // true: failed_rank and failure may be read
    int failed_rank;
    err failure;
    comm_activity activities[WORLD_RANKS];
    comm_heap heap;
};

static inline bool world_has_failed(const world *w)
{
    return atomic_load_explicit(&w->failed, memory_order_acquire) != 0;
}

// Returns E_PEER with the line of the first failure.
status world_peer_error(const world *w, err *e);

// A rank that waits for another one in a call.
typedef struct world_wait {
    int waiting, awaited; // world ranks
    uint64_t what;        // the waiting rank's activity when it issued the call
    const char *call;     // the call that rank `awaited` did not come to
    const char *label;    // of the group; NULL: none
} world_wait;

// The error of a wait that ended without its event: E_PEER with the first failure of the world. If
// there is none, the watchdog's time is over, and that becomes the first failure.
status world_wait_error(world *w, const world_wait *wait, err *e);

// Gives page-aligned zeroed memory that all ranks see at the same address. `touch` takes the pages
// now, so that a lack of memory is an error here and not a signal later. E_FIT when there is none
// left. Any rank may release it.
status heap_take(world *w, size_t bytes, bool touch, void **out, err *e);
void heap_give(world *w, void *p); // NULL allowed

// heap_take and heap_give for the buffers of communicators: pages are taken at once and counted in
// d->bytes_now.
status heap_alloc(world *w, device *d, size_t bytes, void **out, err *e);
void heap_release(world *w, device *d, void *p, size_t bytes);

// True if p is memory of comm_alloc.
static inline bool world_holds(const world *w, const void *p)
{
    const char *byte = p;
    return byte >= w->arena && byte < w->arena + w->arena_bytes;
}

// True if every rank can address p, as is always so when the ranks are threads.
static inline bool world_sees(const world *w, const void *p)
{
    return w->as_threads || world_holds(w, p);
}

// Called when a rank is found to have left. A rank that fails closes its communicators first and
// records its failure later. This call waits up to half a second for that record, so that the cause
// is reported and not its consequence. Returns whether there is a failure.
bool world_leaver_failed(const world *w);

status comm_group_open(world *w, int size, const int *world_ranks, comm_group **out, err *e);
// One member leaves. The last one releases the group.
void comm_group_leave(world *w, comm_group *g);

// Opens the communicator of member `rank` of g. Closing it leaves g.
status local_comm_open(world *w, comm_group *g, int rank, comm **out, err *e);

// Opens the communicator of a group of one rank, with the memory and the failures of world w. w is
// NULL when the run has only one rank.
status comm_solo_open_in(world *w, int world_rank, comm **out, err *e);

#endif
