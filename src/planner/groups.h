// groups.h -- how the process groups of a mesh lie on hosts, when ranks fill one host after the other.
#ifndef TRIREME_PLANNER_GROUPS_H
#define TRIREME_PLANNER_GROUPS_H

#include "parallel/plan.h"
#include "planner/cost.h"

// `process_group` is one of parallel/plan.h: axes, or GROUP_…. ranks_per_host 0: all ranks are on one host.
planner_group planner_group_of(const plan *p, int process_group, int ranks_per_host);
// The same for the groups of one plan, of which each is looked for once: a group may have thousands of ranks, and a list
// thousands of calls. Begins zeroed.
typedef struct planner_groups {
    planner_group item[PROCESS_GROUPS]; // ranks 0: not known yet
} planner_groups;
const planner_group *planner_groups_find(planner_groups *known, const plan *p, int process_group,
                                         int ranks_per_host);
// Of a message between this stage and the stage `peer`, as a group of two.
planner_group planner_message_of(const plan *p, int peer, int ranks_per_host);

#endif
