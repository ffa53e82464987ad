// launcher.h -- finds the place of this process among those that another program (torchrun, mpirun, srun, ...) has
// started of this program, from the environment. Its ranks attach to one memory (comm/attach.h).
#ifndef TRIREME_LAUNCH_LAUNCHER_H
#define TRIREME_LAUNCH_LAUNCHER_H

#include "base/err.h"

#include <stdint.h>

enum { LAUNCHER_IDENTITY_BYTES = 512 };

typedef struct launcher_place {
    const char *launcher; // its name; NULL: this process was started alone
    int rank, ranks;      // of all hosts; ranks is at least 2
    int local_rank, local_ranks;
    int64_t deadline_ms; // for all processes to come (TRIREME_ATTACH_TIMEOUT)
    char identity
        [LAUNCHER_IDENTITY_BYTES]; // of the job, the same in all of its processes on this host
} launcher_place;

// Reads the variables of the launchers in one order; the first that says that there are several processes counts.
// E_USAGE where its variables are not complete or no numbers, or where the processes are on several hosts; the text
// names the variables.
status launcher_find(launcher_place *out, err *e);

// E_USAGE where launcher_find finds a launcher, for what starts all of its ranks itself.
status launcher_check(err *e);

#endif
