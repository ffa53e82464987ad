// shared.h -- the layout of what the ranks of one machine share: the world, its heap and the groups
// (communicators) in it. All of it lies at the same address in every process, so plain pointers
// work. Inside comm/ only.
//
// A group works in rounds. In a round every member posts a record and waits for the records of all
// others. A member that posts round k+1 is done with everything of round k, so two records and two
// staging halves per member, used in turn, are never overwritten too early:
//   what a member stages before it posts round k is read by others between that post and their post
//   of round k+1; it stages there again only before round k+2, when it has seen all posts of k+1.
#ifndef TRIREME_COMM_SHARED_H
#define TRIREME_COMM_SHARED_H

#include "comm/doorbell.h"

enum {
    HEAP_EXTENTS = 1 << 15,
    POST_DATA_BYTES = 24,
    STAGE_BYTES = 256 << 10, // of one area; a member has two halves of two areas (in, result)
    RING_BYTES = 2 << 20,    // a power of two
};

typedef struct extent {
    size_t at, bytes; // offset in the arena
} extent;

typedef struct heap {
    _Atomic int locked;
    int used;
    extent extents[HEAP_EXTENTS]; // sorted by `at`
} heap;

// What a member tells the others in one round. `kind` to `hash` describe the call, and must be
// equal on all members.
typedef struct post {
    _Alignas(64) doorbell doorbell; // value: the round
    uint8_t kind, type, op, in_place;
    int32_t root; // of broadcast; or how many segments
    uint64_t count;
    uint64_t hash; // of the segments
    void *at;      // the buffer that others may read (and write, for all-reduce), or NULL
    uint8_t data[POST_DATA_BYTES];
} post;
_Static_assert(sizeof(post) == 64, "a post is one cache line");

typedef struct member {
    post posts[2];    // by round & 1
    _Atomic int left; // it sends and receives nothing any more
} member;

// Messages from one member to another, in a ring of RING_BYTES. All counters are modulo 2^32.
typedef struct channel {
    _Alignas(64) doorbell written; // bytes, by the sender
    char *ring;                    // set by the sender before its first message
    uint32_t announced;            // messages of which the ring holds the place only; by the sender
    _Alignas(64) doorbell taken;   // bytes, by the receiver
    doorbell received, fetched;    // messages: all, and those that were announced; by the receiver
} channel;

typedef struct group {
    _Atomic int members_left; // the last one to close releases the group
    int size;
    int world_rank[WORLD_RANKS];
    member *members;   // [size]
    channel *channels; // [size][size], from row to column
    char *stages;      // [size] of 4 * STAGE_BYTES
} group;

struct world {
    int ranks;
    bool as_threads;
    bool spin; // every rank can have a core of its own
    char *arena;
    size_t arena_bytes;
    group *all;
    _Atomic int stop;
    _Atomic int64_t watchdog_ms; // 0 = none
    _Atomic int claimed;         // 0, or 2 + the rank whose failure is the first
    _Atomic int failed;          // the record below may be read
    int failed_rank;
    err failure;
    comm_activity activities[WORLD_RANKS];
    heap heap;
};

static inline bool world_has_failed(const world *w)
{
    return atomic_load_explicit(&w->failed, memory_order_acquire) != 0;
}

// E_PEER with the first failure's line.
status world_peer_error(const world *w, err *e);
// A rank that waits for another one in a call.
typedef struct wait_place {
    int waiting, awaited; // world ranks
    uint64_t what;        // the waiting rank's activity when it issued the call
    const char *call;     // what rank `awaited` did not come to
    const char *label;    // of the group; NULL: none
} wait_place;

// After a wait that ended without what it waited for: the first failure, or that the watchdog's
// time is over, which then becomes the first failure.
status world_wait_error(world *w, const wait_place *at, err *e);

// Page-aligned zeroed memory that all ranks see at the same address. `touch`: take the pages now,
// so that running out is an error here and not a signal later. E_FIT when there is none left.
// Any rank may release it.
status heap_take(world *w, size_t bytes, bool touch, void **out, err *e);
void heap_give(world *w, void *p); // NULL allowed

// heap_take and heap_give for a communicator's buffers: pages are taken at once, and counted in d.
status heap_alloc(world *w, device *d, size_t bytes, void **out, err *e);
void heap_release(world *w, device *d, void *p, size_t bytes);

// Is p memory of comm_alloc?
static inline bool world_holds(const world *w, const void *p)
{
    const char *at = p;
    return at >= w->arena && at < w->arena + w->arena_bytes;
}

// Can every rank address p? Always, when they are threads.
static inline bool world_sees(const world *w, const void *p)
{
    return w->as_threads || world_holds(w, p);
}

// For who finds a rank gone: a rank that fails closes its communicators on its way out, and says
// why only then. Waits for that half a second at most; true when there is a first failure, so that
// the cause is named and not its consequence.
bool world_leaver_failed(const world *w);

status group_open(world *w, int size, const int *world_ranks, group **out, err *e);
// One member leaves.
void group_leave(world *w, group *g);

// The communicator of member `rank` of g, which it leaves when closed.
status local_comm_open(world *w, group *g, int rank, comm **out, err *e);

// The communicator of one rank among others: solo, with this world's memory and failures. NULL: of
// one rank that is alone.
status solo_comm_open_in(world *w, int world_rank, comm **out, err *e);

#endif
