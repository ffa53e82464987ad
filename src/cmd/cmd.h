// cmd.h -- the commands of the program, and what they share. Only this folder prints and exits.
#ifndef TRIREME_CMD_CMD_H
#define TRIREME_CMD_CMD_H

#include "base/err.h"

#include <stdbool.h>

struct job;

#define TRIREME_VERSION "0.1.0"

// Each runs one command and returns the process's exit code; argv[0] is the command's name.
int cmd_train(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_data(int argc, char **argv);
int cmd_generate(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_checkpoint(int argc, char **argv);
int cmd_curve(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_bench_train(int argc, char **argv);
int cmd_bench_tier(int argc, char **argv);
int cmd_bench_pipeline(int argc, char **argv);
int cmd_bench_comm(int argc, char **argv); // argv[0] is the collective

// Prints "trireme: <text>" to stderr and returns the status's exit code.
int cmd_fail(const err *e);
// Is the first argument --help or -h?
bool cmd_wants_help(int argc, char **argv);
// The first argument, when it is no flag: the job file. NULL otherwise.
const char *cmd_job_path(int argc, char **argv);
// argv[*i] is "--name VALUE" or "--name=VALUE": the value, with *i at its last word; "" when it is
// missing. NULL: it is another argument. For commands that have a flag or two beside the job's
// keys.
const char *cmd_take_value(const char *name, int argc, char **argv, int *i);
// The job of "[JOB.yaml] [--key value ...]"; errors as job_open. Owned by the caller.
status cmd_open_job(int argc, char **argv, struct job **out, err *e);
// Prints `usage` and the keys of the job file; 0.
int cmd_job_help(const char *usage);

#endif
