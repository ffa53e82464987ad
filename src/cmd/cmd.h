// cmd.h -- what the commands of the program share: failures, warnings and the job of the arguments.
// Only this folder prints and exits.
#ifndef TRIREME_CMD_CMD_H
#define TRIREME_CMD_CMD_H

#include "base/err.h"
#include "base/json.h"

struct comm;
struct job;
struct job_own;
struct job_theirs;
struct session_join;
struct session_model_names;
struct session_run;

// Prints "trireme: <text>" to stderr and returns the status's exit code.
int cmd_fail(const err *e);
// Prints "trireme: <line>" to stderr for each line; NULL: none.
void cmd_say_lines(const char *lines);
// Prints "trireme: warning: <line>" to stderr for each line; NULL: none.
void cmd_warn(const char *lines);
// Prints the communicator of this rank, and the variables of NCCL and PyTorch that have no effect over it, where the
// environment asks for it (config/debug.h). Rank 0 calls it.
void cmd_say_communicator(struct comm *c);
// The first argument, which is the job file; NULL where it is a flag or missing. Borrowed.
const char *cmd_job_path(int argc, char **argv);
// Opens the job of "[JOB.yaml] [--key value ...]" and prints its warnings. Errors are those of
// job_open. The caller closes the job.
status cmd_open_job(int argc, char **argv, struct job **out, err *e);
// The same with what the command decides by itself.
status cmd_open_job_own(int argc, char **argv, const struct job_own *own, struct job **out, err *e);
// `trireme train`, with the command line of another system's trainer in place of a job file, or below one; NULL: none.
int cmd_train_with(int argc, char **argv, const struct job_theirs *theirs);
// Opens the job of "JOB.yaml [--key value ...]" with a model and its inputs, in which `valid` is then the
// job's validation data, or else its training data. Prints warnings. Collective as join_same.
status cmd_open_model(struct session_run *r, int argc, char **argv,
                      const struct session_model_names *names, err *e);
// Ends the join (join_end), prints the failure, and returns the exit code.
int cmd_end(struct session_join *c, status result, err *e);
int cmd_end_run(struct session_run *r, status result, err *e); // the same of a run

#endif
