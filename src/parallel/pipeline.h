// pipeline.h -- the order of micro-batches on each pipeline stage: GPipe (Huang et al. 2019), 1F1B
// (Narayanan et al. 2019), interleaved 1F1B (Narayanan et al. 2021), zero-bubble ZB-H1 (Qi et al.
// 2023). Generators of plain lists; schedule.c turns a stage's list into instructions.
#ifndef TRIREME_PARALLEL_PIPELINE_H
#define TRIREME_PARALLEL_PIPELINE_H

#include "base/err.h"

#include <stdbool.h>

typedef enum pipeline_pass {
    PIPE_FORWARD,
    PIPE_BACKWARD,        // both halves
    PIPE_BACKWARD_INPUT,  // the gradient of the input,
    PIPE_BACKWARD_WEIGHT, // … and later those of the weights
} pipeline_pass;

// Chunk `chunk` (0 … virtual_stages-1) of the stage, for micro-batch `micro`.
typedef struct pipeline_op {
    pipeline_pass kind;
    int micro, chunk;
} pipeline_op;

typedef struct pipeline_list {
    pipeline_op *at;
    int count;
} pipeline_list;

typedef enum pipeline_schedule {
    PIPE_GPIPE,
    PIPE_1F1B,
    PIPE_INTERLEAVED,
    PIPE_ZB,
    PIPE_SCHEDULES
} pipeline_schedule;

// Does it run the backward of a stage in two halves?
static inline bool pipeline_schedule_splits_backward(pipeline_schedule s)
{
    return s == PIPE_ZB;
}
extern const char *const PIPELINE_SCHEDULE_NAMES[PIPE_SCHEDULES + 1]; // the job file's words;
                                                                      // ended by NULL
const char *pipeline_schedule_name(pipeline_schedule s);
// E_USAGE when the combination is impossible, naming parallel.pp_schedule, what was found and what
// is valid. Chunk c of stage s is part c*stages + s of the model; virtual_stages is 1 but for
// interleaved. Backward passes of a chunk run in the order of micro-batches under every schedule,
// so that gradients are summed in one order.
status pipeline_make(pipeline_schedule s, int stages, int virtual_stages, int micros, int stage,
                     pipeline_list *out, err *e);
void pipeline_list_clear(pipeline_list *l);
// The share of a step in which a stage is idle, in closed form, when chunks cost the same and
// messages nothing. GPipe and 1F1B: (p-1)/(m+p-1); interleaved: (p-1)/(vm+p-1); zero-bubble, when
// forward, input half and weight half cost the same: (p-1)/(3m+p-1), and with m < p micro-batches
// p-m more on both sides, as the first gradient is late by these.
double pipeline_bubble(pipeline_schedule s, int stages, int virtual_stages, int micros);

// Cuts `blocks` into `parts` runs of about equal cost: minimises the largest sum (exact, by dynamic
// programming); first[parts+1] receives the borders. Every part gets at least one block: E_USAGE
// when there are fewer blocks than parts.
status pipeline_split(const double *cost, int blocks, int parts, int *first, err *e);

#endif
