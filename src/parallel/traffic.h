// traffic.h -- adds the bytes that a rank sends in one training step, by process group, from the calls
// of its list of instructions. `trireme plan` prints them after the bytes of memory, and
// a communicator that counts (comm_count_calls) must show the same.
//
// Collectives count by the formulas of a ring of n ranks: all-reduce 2(n-1)/n of the payload,
// reduce-scatter and all-gather the full payload less the rank's shard. A message counts on
// its sender. Communication that does not happen in every step (comparing replicas, evaluation,
// saving) is not counted.
#ifndef TRIREME_PARALLEL_TRAFFIC_H
#define TRIREME_PARALLEL_TRAFFIC_H

#include "parallel/schedule.h"

// Fills p->sent_bytes from the calls of the list.
void traffic_count(plan *p, const schedule *s);

// Lists the process groups to print for these bytes: every single axis, "dp", the GROUP_…, and other
// flattened axes that are used. Returns their number.
int traffic_groups(const double sent[PROCESS_GROUPS], int out[PROCESS_GROUPS]);
// The name of a process group: "pp", "dp_shard_cp", "world", …; "dp" for both data-parallel axes.
// May write it to out.
const char *process_group_name(const mesh *m, int group, char out[MESH_NAME_BYTES]);
double traffic_total(const plan *p); // bytes over all groups

#endif
