// environment.h -- variables of PyTorch and NCCL: those that set keys of the job, which config/ reads, and those that have no
// effect, which cmd/ prints.
#ifndef TRIREME_CONFIG_ENVIRONMENT_H
#define TRIREME_CONFIG_ENVIRONMENT_H

#include "config/settings.h"

// Sets the keys that variables of the environment give. The job file and the command line override them.
// E_USAGE for a value that cannot be a key's.
status environment_read(job_values *v, err *e);
// Appends a line for each variable that is set and has no effect over this communicator. `tree_order`: it adds in the order
// of comm.h (comm_capabilities).
void environment_add_ignored(const char *communicator, bool tree_order, text *out);

#endif
