// cluster.h -- a machine that a cluster file describes, in YAML: nodes, GPUs, links, disks, prices. What the file leaves
// out comes from a table of GPUs.
#ifndef TRIREME_PLANNER_CLUSTER_H
#define TRIREME_PLANNER_CLUSTER_H

#include "planner/machine.h"

// E_USAGE names file, line and key, and what is valid. The caller closes *out with planner_machine_close.
status cluster_open(const char *path, planner_machine *out, err *e);

#endif
