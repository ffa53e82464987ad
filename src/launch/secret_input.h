// secret_input.h -- takes the secret of a run from standard input, as `trireme deepspeed` hands it to each host through
// ssh: on a command line, or in a file that stays, others could find it.
#ifndef TRIREME_LAUNCH_SECRET_INPUT_H
#define TRIREME_LAUNCH_SECRET_INPUT_H

#include "base/err.h"

enum { SECRET_INPUT_PATH = 32 };

// Reads the first line, and writes the path of a file in memory that holds it: this process and the programs that it
// starts read it there, as any secret file (net/secret.h). From then on /dev/null is the standard input. When the given
// one ends, because ssh or its user is gone, this process gets SIGHUP. It must have no threads. E_USAGE where there is
// no line.
status secret_input_open(char path[SECRET_INPUT_PATH], err *e);

#endif
