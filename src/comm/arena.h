// arena.h -- memory that all ranks of one machine see at the same address, and its heap.
//
// The starting process opens it before it starts the ranks; processes inherit it through fork. It is
// anonymous: nothing has a name in /dev/shm, and nothing is left behind when a run ends in any way.
// It does not know what ranks do with the memory, or which ranks there are.
#ifndef TRIREME_COMM_ARENA_H
#define TRIREME_COMM_ARENA_H

#include "device/device.h"

typedef struct comm_arena comm_arena;

// Opens an arena for at most `buffers` buffers. It maps address space only: memory is taken when it
// is used. E_IO when the process may not map enough.
status comm_arena_open(int buffers, comm_arena **out, err *e);
// Called by the starting process after all ranks have ended. a may be NULL.
void comm_arena_close(comm_arena *a);

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
