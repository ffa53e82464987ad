// mapping.h -- the memory that the ranks of one machine share: one mapping, which lies at one address in every
// process, so plain pointers work in it.
//
// Processes that are forked inherit it, so its address is any. Processes that were started apart get its
// descriptor (attach.c) and map it at an address that is free in each: one of a few slots of the address
// space. The memory has no name in a file system, and it is gone with its last process. It does not know
// what lies in it.
#ifndef TRIREME_RENDEZVOUS_MAPPING_H
#define TRIREME_RENDEZVOUS_MAPPING_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct comm_mapping {
    char *memory; // zeroed when it is new
    size_t bytes;
    int fd; // of memory that other processes may attach to; -1: forked processes inherit the memory
} comm_mapping;

// A bit for each slot of the address space in which this process has mapped nothing.
uint32_t comm_mapping_free_slots(void);

// Maps `head` bytes; with has_arena also several times the memory of this machine, or less as far as the limits
// of the process allow. It maps address space only: memory is taken when it is used. slots 0: for processes that
// are forked; else it lies in a slot whose bit is set there. The caller closes it. E_IO.
status comm_mapping_open(size_t header, bool has_arena, uint32_t slots, comm_mapping *out, err *e);
// Maps the memory of another process, which has it at `address`. Takes fd in any case. E_IO.
status comm_mapping_attach(int fd, void *address, size_t bytes, comm_mapping *out, err *e);
// No other process can attach any more.
void comm_mapping_seal(comm_mapping *m);
void comm_mapping_close(comm_mapping *m);

#endif
