// memory.h -- all memory of a trainer, in one list. Every object of the trainer requests its memory
// here twice: the first request adds the bytes to the plan, the second one allocates them. So the
// plan has exactly the bytes that a trainer allocates. The list owns the memory until memory_close.
// It does not know what the memory is for.
#ifndef TRIREME_TRAIN_MEMORY_H
#define TRIREME_TRAIN_MEMORY_H

#include "comm/comm.h"
#include "parallel/plan.h"

typedef struct trainer_memory trainer_memory;

// FROM_SHARED: memory of comm_alloc, which other ranks read.
typedef enum memory_source { FROM_DEVICE, FROM_HOST, FROM_ZEROED, FROM_SHARED } memory_source;

// Starts to count bytes in p->bytes and, where the host's memory is apart, p->host_bytes; p is borrowed.
status memory_open(plan *p, trainer_memory **out, err *e);
// Ends the counting: later requests allocate from d and c, which are borrowed.
void memory_start(trainer_memory *m, device *d, comm *c);
void memory_close(trainer_memory *m); // NULL allowed

bool memory_is_counting(const trainer_memory *m);
// Counts `bytes` in category c, or allocates them and sets the pointer that `out` points to. It
// sets nothing for 0 bytes. E_FIT when there is not enough memory.
status memory_take(trainer_memory *m, plan_category c, memory_source from, size_t bytes, void *out,
                   err *e);
// Like memory_take, for bytes that plan_make has counted already: it does not count them again.
status memory_take_planned(trainer_memory *m, memory_source from, size_t bytes, void *out, err *e);
// Allocates a table of zeros on the host's heap: `count` items of `item` bytes. Does nothing while
// memory is counted.
status memory_table(trainer_memory *m, size_t count, size_t item, void *out, err *e);

#endif
