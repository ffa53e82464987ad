// arena.h -- memory that all ranks of one machine see at the same address, and its heap.
//
// The process that makes the world's mapping opens it there (world.c), before the ranks start.
// It does not know what ranks do with the memory, or which ranks there are.
#ifndef TRIREME_RENDEZVOUS_ARENA_H
#define TRIREME_RENDEZVOUS_ARENA_H

#include "device/device.h"

typedef struct comm_arena comm_arena;

// Bytes of the list of `buffers` buffers.
size_t comm_arena_bytes(int buffers);
// Opens an arena for at most `buffers` buffers. Its list lies at head [comm_arena_bytes], and the buffers
// lie in memory [bytes], which is page-aligned. Both are zeroed, and mapped by all ranks at the same addresses. It
// needs no close. E_IO.
status comm_arena_open(void *header, int buffers, void *memory, size_t bytes, comm_arena **out,
                       err *e);

// Gives page-aligned zeroed memory that all ranks see at the same address. `touch` takes the pages
// now, so that a lack of memory is an error here and not a signal later. E_FIT when there is none
// left. Any rank may give it back. A rank that dies in these calls leaves the arena usable.
status comm_arena_take(comm_arena *a, size_t bytes, bool touch, void **out, err *e);
void comm_arena_give(comm_arena *a, void *p); // NULL allowed

// The same for the buffers of communicators: pages are taken at once and counted in d->bytes_now.
status comm_arena_alloc(comm_arena *a, device *d, size_t bytes, void **out, err *e);
void comm_arena_release(comm_arena *a, device *d, void *p, size_t bytes);

// Returns whether p is memory of the arena.
bool comm_arena_holds(const comm_arena *a, const void *p);

#endif
