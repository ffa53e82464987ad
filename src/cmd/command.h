// command.h -- the commands of the program as one tree of rows: commands, subcommands (`data
// prepare`) and the flags of each. The caller of commands, help, completion and the manual walk the
// same rows.
#ifndef TRIREME_CMD_COMMAND_H
#define TRIREME_CMD_COMMAND_H

#include "cmd/flags.h"

typedef struct command {
    const char *name; // the word that calls it
    int (*run)(int argc,
               char **argv); // argv[0] is the name. NULL: it has subcommands only
    const char *usage;       // arguments after the name, one form a line; NULL: none
    const char *help;        // one sentence, for lists
    const char *about;       // more sentences; NULL: none
    const flag *flags; // [flag_count] with subcommands: those that may stand before their names
    size_t flag_count;
    bool takes_job;     // every key of the job file is also a flag
    bool takes_program; // what follows its flags is a program's own
    // Ends with NULL; NULL: none. Where the command also runs by itself, the first argument decides.
    const struct command *const *subcommands;
} command;

// The program itself; its subcommands are the commands.
extern const command command_trireme;

// One row for each command, in the file of the code that it calls.
extern const command command_train, command_explain, command_plan, command_data, command_generate,
    command_eval, command_predict, command_checkpoint, command_curve, command_bench, command_help,
    command_completion, command_version, command_run, command_torchrun, command_launch,
    command_deepspeed, command_translate, command_chat, command_accelerate,
    command_ilab_model_train, command_trl, command_axolotl, command_llamafactory, command_report,
    command_trace, command_trace_report, command_top, command_doctor, command_smoke, command_env,
    command_topo, command_diagnose;
extern const command command_accelerate_launch, command_accelerate_config, command_accelerate_env,
    command_accelerate_estimate, command_accelerate_merge, command_accelerate_test,
    command_accelerate_to_fsdp2;
extern const command command_data_prepare, command_data_inspect;
extern const command command_checkpoint_export, command_checkpoint_import;
extern const command command_bench_train, command_bench_all_reduce, command_bench_reduce_scatter,
    command_bench_all_gather, command_bench_broadcast, command_bench_sendrecv, command_bench_reduce,
    command_bench_alltoall, command_bench_scatter, command_bench_gather, command_bench_hypercube,
    command_bench_tier, command_bench_pipeline, command_bench_kernels, command_bench_scaling,
    command_bench_link, command_bench_calibrate, command_bench_plan;

// The subcommand that this word calls, or NULL.
const command *command_find_sub(const command *of, const char *word);
// Always E_USAGE: the command called `title` ("trireme data") has no subcommand of this name. Names
// the nearest one.
status command_unknown(const command *of, const char *title, const char *word, err *e);
// Calls `visit` for every row below `of` that runs, with its title ("data prepare").
void command_each(const command *of, void (*visit)(const command *c, const char *title, void *arg),
                  void *arg);
// Finds the command of a command line, and runs it or prints its help. Returns the exit code.
int command_call(int argc, char **argv);

#endif
