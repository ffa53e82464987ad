// tape_nccl.h -- replays the calls of NCCL on the call tape, for gpu_tape.c: by one rank, because a machine may have one
// GPU. It gets back what it gave.
#ifndef TRIREME_TAPE_NCCL_H
#define TRIREME_TAPE_NCCL_H

#include "base/err.h"

typedef struct tape_nccl tape_nccl;

// Makes the call of a line. The first one opens *n, which the caller closes.
status tape_nccl_replay(tape_nccl **n, const char *line, err *e);
void tape_nccl_close(tape_nccl *n); // NULL allowed

#endif
