// pipeline.h -- the order of passes on each pipeline stage, and the division of a model into
// chunks. The schedules are GPipe (Huang et al. 2019), 1F1B (Narayanan et al. 2019), interleaved
// 1F1B (Narayanan et al. 2021) and zero-bubble ZB-H1 (Qi et al. 2023). Pure functions: plan.c calls
// pipeline_split, schedule.c turns the list of passes into instructions.
#ifndef TRIREME_PARALLEL_PIPELINE_H
#define TRIREME_PARALLEL_PIPELINE_H

#include "base/err.h"

#include <stdbool.h>

typedef enum pipeline_pass {
    PIPE_FORWARD,
    PIPE_BACKWARD,        // dgrad and wgrad together
    PIPE_BACKWARD_INPUT,  // dgrad: the gradient of the input
    PIPE_BACKWARD_WEIGHT, // wgrad: the gradients of the weights
    PIPE_SEND_ACT,        // the messages between passes (pipeline_messages.h)
    PIPE_RECV_ACT,
    PIPE_SEND_GRAD,
    PIPE_RECV_GRAD,
} pipeline_pass;

typedef struct pipeline_op {
    pipeline_pass kind;
    int micro;      // micro-batch
    int chunk;      // of the stage's model chunks, 0 … virtual_stages-1
    bool received;  // a pass whose input or output gradient is a message
    bool with_next; // a message that starts together with the next one
} pipeline_op;

typedef struct pipeline_list {
    pipeline_op *ops; // [count]
    int count;
} pipeline_list;

typedef enum pipeline_schedule {
    PIPE_GPIPE,
    PIPE_1F1B,
    PIPE_INTERLEAVED,
    PIPE_ZB,
    PIPE_SCHEDULES
} pipeline_schedule;

// Does the schedule run dgrad and wgrad apart?
static inline bool pipeline_schedule_splits_backward(pipeline_schedule s)
{
    return s == PIPE_ZB;
}
// The names in the job file, by enumerator; ended by NULL.
extern const char *const PIPELINE_SCHEDULE_NAMES[PIPE_SCHEDULES + 1];
const char *pipeline_schedule_name(pipeline_schedule s);
// The passes of one stage, in order. The caller clears the list. The c-th chunk of stage s is model
// chunk c*stages + s; virtual_stages is 1 except for interleaved. Under every schedule the backward
// passes of a chunk run in the order of micro-batches, so that gradients are summed in one order.
// E_USAGE names parallel.pp_schedule where the combination is impossible.
status pipeline_make(pipeline_schedule s, int stages, int virtual_stages, int micros, int stage,
                     pipeline_list *out, err *e);
void pipeline_list_clear(pipeline_list *l);
// The analytic bubble: the share of a step in which a stage is idle, if all chunks take the same
// time and messages take none. With p stages, m micro-batches and v virtual stages:
//
//   gpipe, 1f1b   (p-1) / (m+p-1)
//   interleaved   (p-1) / (vm+p-1)
//   zb            (p-1) / (3m+p-1), if forward, dgrad and wgrad take the same time. With m < p the
//                 first gradient is p-m units late, which both p-1 grow by.
double pipeline_bubble(pipeline_schedule s, int stages, int virtual_stages, int micros);

// Divides blocks into chunks of about equal cost: it minimizes the cost of the largest chunk
// (exactly, by dynamic programming), and among those divisions the sum of squares. cost is
// [blocks]. first is [chunks+1]: chunk k is blocks first[k] … first[k+1]-1. Every chunk gets at
// least one block; E_USAGE where there are fewer blocks than chunks.
status pipeline_split(const double *cost, int blocks, int chunks, int *first, err *e);

#endif
