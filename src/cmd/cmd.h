// cmd.h -- the commands of the program, and what they share. Only this folder prints and exits.
#ifndef TRIREME_CMD_CMD_H
#define TRIREME_CMD_CMD_H

#include "base/err.h"

#include <stdbool.h>

#define TRIREME_VERSION "0.1.0"

// Each runs one command and returns the process's exit code; argv[0] is the command's name.
int cmd_train(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_data(int argc, char **argv);
int cmd_generate(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_checkpoint(int argc, char **argv);
int cmd_curve(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_bench_train(int argc, char **argv);
int cmd_bench_comm(int argc, char **argv); // argv[0] is the collective

// Prints "trireme: <text>" to stderr and returns the status's exit code.
int cmd_fail(const err *e);
// Prints `usage` and the keys of the job file; 0.
int cmd_job_help(const char *usage);

// A flag of a command: "--name VALUE" or "--name=VALUE", or "--name" alone when it is a switch.
typedef struct cmd_flag {
    const char *name;   // without the dashes
    const char **value; // set to the argument, or to "" for a switch
    bool is_switch;
} cmd_flag;

// Sets flags from argv[1…]; what is no flag goes to `rest` (at most rest_max). E_USAGE names an
// unknown flag, with a did-you-mean, or one without its value.
status cmd_flags(int argc, char **argv, const cmd_flag *flags, int count, const char **rest,
                 int rest_max, int *rest_count, err *e);

#endif
