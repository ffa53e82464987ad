// cmd.h -- the commands of the program, and what they share. Only this folder prints and exits.
#ifndef TRIREME_CMD_CMD_H
#define TRIREME_CMD_CMD_H

#include "base/err.h"

struct job;

#define TRIREME_VERSION "0.1.0"

// Prints "trireme: <text>" to stderr and returns the status's exit code.
int cmd_fail(const err *e);
// The first argument, when it is no flag: the job file. NULL otherwise.
const char *cmd_job_path(int argc, char **argv);
// The job of "[JOB.yaml] [--key value ...]"; errors as job_open. Owned by the caller.
status cmd_open_job(int argc, char **argv, struct job **out, err *e);
// The job's model becomes that of a folder, weights included; E_USAGE when it is of another family.
status cmd_use_model(struct job *j, const char *folder, err *e);
#endif
