// segments.h -- the segment tables of a trainer (kernel_segment in device/kernels.h). They say which
// elements of each parameter a kernel processes that takes all parameters of a bucket in one launch.
// It owns the tables, device memory that is written once, when the trainer opens: a step only reads
// them. Where communicators pack shards, it also owns their tables and workspaces (comm/packed.h).
// step_state.c and step_update.c launch kernels with them. It launches no kernel itself.
#ifndef TRIREME_TRAIN_SEGMENTS_H
#define TRIREME_TRAIN_SEGMENTS_H

#include "device/kernels.h"
#include "train/trainer.h"

typedef struct trainer_segments trainer_segments;

// Offsets count from the start of the bucket in each array.
typedef enum segment_table {
    SEGMENTS_GRADIENT_SHARDS,     // src: full gradients; dst: this rank's reduced shards
    SEGMENTS_POST_FORWARD_SHARDS, // src: full weights; dst: the shards of RESHARD_POST_FORWARD
    SEGMENTS_SQUARES,             // src: the reduced gradients that this rank counts in the norm
    SEGMENTS_GROUP_SQUARES,       // the same, where the norms of groups are wanted
    SEGMENTS_UPDATE,              // as K_UPDATE: reduced gradients, weights and optimizer state
    SEGMENT_TABLES
} segment_table;

// What one launch processes.
typedef struct segment_run {
    const kernel_segment *segment; // [segments], device memory; empty segments are left out
    int64_t segments;
    int64_t count; // elements, of all segments together
    int group;     // of the segments; of SEGMENTS_SQUARES the one that owns the bucket
} segment_run;

// The runs of a bucket: one, and for SEGMENTS_GROUP_SQUARES and SEGMENTS_UPDATE one for each parameter
// group in the bucket. None where the table has nothing of the bucket.
typedef struct segment_runs {
    const segment_run *items;
    int count;
} segment_runs;

// Counts memory, or allocates it and writes the tables. E_FIT when there is not enough memory.
status segments_allocate(trainer *t, err *e);
void segments_close(trainer *t);

segment_runs segments_of(const trainer *t, segment_table k, int bucket);
// The segments of a run in the host's memory, for kernels that run there.
const kernel_segment *segments_on_host(const trainer *t, const segment_run *run);

#endif
