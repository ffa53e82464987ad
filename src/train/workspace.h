// workspace.h -- the workspace of sums of squares, which the trainer launches itself. (Kernels of blocks
// have theirs in the workspace of the blocks.) It owns the memory. Launches of one step share it, so all
// of them stand on one stream.
#ifndef TRIREME_TRAIN_WORKSPACE_H
#define TRIREME_TRAIN_WORKSPACE_H

#include "device/kernels.h"
#include "train/trainer.h"

typedef struct trainer_workspace trainer_workspace;

// Counts memory, or allocates it: as much as the sum over any bucket or parameter of this rank needs.
status workspace_allocate(trainer *t, err *e);
void workspace_close(trainer *t);

// Launches K_SUM_SQUARES with the workspace.
void workspace_launch_squares(trainer *t, device_stream *on, const kernel_sum_squares_args *a);

// The most elements, up to `count`, whose squares one launch can sum.
int64_t workspace_most_squares(const trainer *t, int64_t count);

#endif
