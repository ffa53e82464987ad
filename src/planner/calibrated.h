// calibrated.h -- a machine whose rates were measured: `trireme bench calibrate` writes them to a machine file, which is
// JSON, and plans read it. The file has three sections, one a header: kernels (kernel_rates.h), calls (comm_rates.h),
// and what the host and its disks do.
#ifndef TRIREME_PLANNER_CALIBRATED_H
#define TRIREME_PLANNER_CALIBRATED_H

#include "planner/machine.h"

// Reads a machine file, as machine->costs for ranks of `threads` threads, `ranks_per_host` of them on a host, that talk
// through `communicator`. E_USAGE names the file and what it lacks. The caller closes *out with planner_machine_close.
status calibrated_open(const char *path, int threads, int ranks_per_host, const char *communicator,
                       planner_machine *out, err *e);

#endif
