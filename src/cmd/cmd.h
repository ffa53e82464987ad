// cmd.h -- the commands of the program, and what they share. Only this folder prints and exits.
#ifndef TRIREME_CMD_CMD_H
#define TRIREME_CMD_CMD_H

#include "base/err.h"

#include <jansson.h>

struct job;

// Prints "trireme: <text>" to stderr and returns the status's exit code.
int cmd_fail(const err *e);
// Prints "trireme: <before><line>" to stderr for each line; NULL: none.
void cmd_say_lines(const char *before, const char *lines);
// Prints "trireme: warning: <line>" to stderr for each line; NULL: none.
void cmd_warn(const char *lines);
// The first argument, when it is no flag: the job file. NULL otherwise.
const char *cmd_job_path(int argc, char **argv);
// Text of a user, such as a path, as a JSON string: what is not UTF-8 in it is left out.
json_t *json_of_text(const char *s);
// The job of "[JOB.yaml] [--key value ...]"; errors as job_open. Owned by the caller.
status cmd_open_job(int argc, char **argv, struct job **out, err *e);
// The job's model becomes that of a folder, weights included; E_USAGE when it is of another family.
status cmd_use_model(struct job *j, const char *folder, err *e);
#endif
