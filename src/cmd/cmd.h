// cmd.h -- the commands of the program. Each takes the arguments from its own name on (argv[0] is
// "data"), prints, and returns the exit code: 0, 1, 2, 3 or 130 (base/err.h).
#ifndef TRIREME_CMD_CMD_H
#define TRIREME_CMD_CMD_H

#include "base/err.h"

int cmd_data(int argc, char **argv);

// Prints "trireme: <text>" to stderr and returns status_exit_code of the error.
int cmd_fail(const err *e);

#endif
