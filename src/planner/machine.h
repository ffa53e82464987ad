// machine.h -- a machine that jobs are planned for: this one, with measured rates (calibrated.h), or one that a cluster
// file describes (cluster.h). Both fill this record; who plans does not ask which of the two it has.
#ifndef TRIREME_PLANNER_MACHINE_H
#define TRIREME_PLANNER_MACHINE_H

#include "base/text.h"
#include "device/device.h"
#include "planner/cost.h"

typedef struct planner_machine {
    char *name;
    planner_costs costs;
    const char *communicator; // name, as launch.comm takes it, of the one whose costs these are
    device_description device;
    int ranks_per_host;        // devices of a host, or ranks for which the rates hold
    int hosts;                 // 0: as many as a job asks for
    double peak_flops[DTYPES]; // of one rank: what mfu is a share of; 0: not known
    uint64_t host_bytes;       // memory of a host; 0: not known
    // Of one rank; 0: not known.
    double watts, price_per_hour;
    double failures_per_hour;      // of one rank
    double checkpoint_bytes_per_s; // of one rank, written durably; 0: not known
    double restart_s;              // from a failure to the first step after it
    // The logarithm of the time that a rank computes in a step deviates by so much from rank to rank and step to step.
    double straggler_sigma;
    // What the reader of a prediction must know, a line each: where the rates are from, what is assumed, and the error
    // that predictions had where they were compared.
    text assumptions;
    double expected_error_percent; // 0: not known
    void *own;                     // of the opener
    void (*close)(struct planner_machine *m);
} planner_machine;

// Safe on a zeroed one.
void planner_machine_close(planner_machine *m);

#endif
