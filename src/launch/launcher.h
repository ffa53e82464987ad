// launcher.h -- finds the place of this process among those that another program (torchrun, mpirun, srun, ...) has
// started of this program, from the environment. Its ranks attach to one memory (rendezvous/attach.h).
#ifndef TRIREME_LAUNCH_LAUNCHER_H
#define TRIREME_LAUNCH_LAUNCHER_H

#include "launch/starter.h"
#include "net/address.h"

#include <stdint.h>

enum { LAUNCHER_IDENTITY_BYTES = 512 };
// `trireme run` sets it to the run's TORCHELASTIC_RUN_ID.
#define LAUNCHER_RUN_VARIABLE "TRIREME_RUN_ID"

typedef struct launcher_location {
    const char *launcher; // its name; NULL: this process was started alone
    int rank, ranks;      // of all hosts; ranks is at least 2
    int local_rank, local_ranks;
    int starts; // ranks that this process starts: its own, or all of the host, the first of which is `rank`
    int64_t deadline_ms;               // for all processes to come (TRIREME_ATTACH_TIMEOUT)
    char run[LAUNCHER_IDENTITY_BYTES]; // the identity of the job, the same in all of its processes
    char identity[LAUNCHER_IDENTITY_BYTES]; // and of those on this host
    launch_starter starter;                 // the process of that launcher
    net_endpoint rendezvous; // where the hosts meet, if there are several: on the host of rank 0
} launcher_location;

// Reads the variables of the launchers in one order; the first that says that there are several processes counts.
// E_USAGE where its variables are not complete or no numbers, or where the processes are on several hosts and it is not
// known where these meet (launcher_find_rendezvous); the text names the variables.
status launcher_find(launcher_location *out, err *e);

// Fills p->rendezvous: MASTER_ADDR and MASTER_PORT; under srun the first host of the job and a port that follows from the
// job's number; under TF_CONFIG the first task, on SageMaker the first host. E_USAGE names what is missing. Used by launcher_find only.
status launcher_find_rendezvous(launcher_location *p, err *e);

// E_USAGE where launcher_find finds a launcher, for what starts all of its ranks itself.
status launcher_check(err *e);

#endif
