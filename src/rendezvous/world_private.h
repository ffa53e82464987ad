// world_private.h -- the two halves of world_open, which attach.c calls in different processes.
#ifndef TRIREME_RENDEZVOUS_WORLD_PRIVATE_H
#define TRIREME_RENDEZVOUS_WORLD_PRIVATE_H

#include "rendezvous/world.h"

// Bytes of a world's parts in front of the buffers of its arena.
size_t world_header_bytes(int ranks);
// Prepares the parts in a new mapping. E_IO.
status world_make(const comm_mapping *m, int ranks, err *e);
// Opens the world that world_make has prepared. Takes the mapping where it succeeds. E_MEMORY.
status world_enter(comm_mapping *m, int ranks, world **out, err *e);

#endif
