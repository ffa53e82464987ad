// traffic.h -- computes the bytes that a rank sends in one training step, by process group, from
// its plan and its list of instructions. `trireme plan` prints them after the bytes of memory, and
// a communicator that counts (comm/trace.h) must show the same.
//
// Collectives count by the formulas of a ring of n ranks: all-reduce 2(n-1)/n of the payload,
// reduce-scatter and all-gather the full payload less the rank's shard. A message counts on
// its sender. Communication that does not happen in every step (comparing replicas, evaluation,
// saving) is not counted.
#ifndef TRIREME_PARALLEL_TRAFFIC_H
#define TRIREME_PARALLEL_TRAFFIC_H

#include "parallel/instructions.h"

// The bytes that a block sends in one micro-batch.
typedef struct traffic_block {
    double input, output; // its input gradient and its output, to another stage
    // Over tp and over cp, by what a pass computes (COMPUTES_FORWARD, …).
    double tp[COMPUTES], cp[COMPUTES];
} traffic_block;

// Fills p->sent_bytes. blocks[b] belongs to block b of the model; it is read only for blocks of
// this stage. `agreed` is the payload in bytes of the all-reduce of CLIP_GRAD_NORM.
void traffic_count(plan *p, const schedule *s, const traffic_block *blocks, double agreed);

// Does the instruction send to other ranks, or receive from them?
bool traffic_communicates(const plan *p, const schedule_instr *x);

// Lists the process groups to print for these bytes: every single axis, "dp", the GROUP_…, and other
// flattened axes that are used. Returns their number.
int traffic_groups(const double sent[PROCESS_GROUPS], int out[PROCESS_GROUPS]);
// The name of a process group: "pp", "dp_shard_cp", "world", …; "dp" for both data-parallel axes.
// May write it to out.
const char *process_group_name(const mesh *m, int group, char out[MESH_NAME_BYTES]);
double traffic_total(const plan *p); // bytes over all groups

#endif
