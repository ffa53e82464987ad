// groups.h -- how the process groups of a mesh lie on hosts, when ranks fill one host after the other.
#ifndef TRIREME_PLANNER_GROUPS_H
#define TRIREME_PLANNER_GROUPS_H

#include "parallel/plan.h"
#include "planner/cost.h"

// `process_group` is one of parallel/plan.h: axes, or GROUP_…. ranks_per_host 0: all ranks are on one host.
planner_group planner_group_of(const plan *p, int process_group, int ranks_per_host);
// Of a message between this stage and the stage `peer`, as a group of two.
planner_group planner_message_of(const plan *p, int peer, int ranks_per_host);

#endif
