// two_systems.h -- divides the arguments of a command that takes another system's options and those of `train`. ilab.c and
// fine_tuners.c call it.
#ifndef TRIREME_CMD_TWO_SYSTEMS_H
#define TRIREME_CMD_TWO_SYSTEMS_H

#include "base/err.h"

// The arguments of both systems. Each array has room for two more than all. Start with {0}; the owner calls
// command_args_clear.
typedef struct command_args {
    char **ours, **theirs; // ours[0] is the command
    int our_count, their_count;
    const char *config; // of --config; NULL: none
} command_args;

void command_args_clear(command_args *a);
// An option and the words behind it belong to one system: keys of the job, as --train.steps, and flags of `train` are ours.
status command_args_divide(int argc, char **argv, command_args *out, err *e);

#endif
