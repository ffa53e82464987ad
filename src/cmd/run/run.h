// run.h -- the flags of `trireme run`, as they were given. Private to cmd/: deepspeed.c, accelerate/launch.c and
// check/check_original.c fill a request of their own.
#ifndef TRIREME_CMD_RUN_H
#define TRIREME_CMD_RUN_H

#include "launch/agent.h"
#include "launch/secret_input.h"

#include <stdint.h>

typedef struct run_workers {
    const char *nproc, *role, *numa, *start_method, *signals;
    int64_t max_restarts, shutdown_s; // -1: not given
    double monitor_s;
    bool module, no_python, run_path, own_gpu, use_env, bind_cores;
    bool quiet;            // no warnings
    const char *core_list; // of bind_cores; NULL: one core of each physical core
    const char *rank_word; // the first argument of each worker; NULL: none
} run_workers;

typedef struct run_nodes {
    const char *nnodes, *backend, *endpoint, *id, *conf, *master_addr, *local_addr, *secret_file;
    int64_t node_rank, master_port; // -1: not given
    bool standalone;
} run_nodes;

typedef struct run_outputs {
    const char *folder, *redirects, *tee, *ranks, *stdout_words, *stderr_words, *specs, *events;
} run_outputs;

typedef struct run_request {
    run_workers workers;
    run_nodes nodes;
    run_outputs outputs;
    bool json; // print events
} run_request;

// The request becomes this: the agent's options, and what they borrow.
typedef struct run_options {
    agent_options agent;
    char id[64];                         // of the run
    char secret_path[SECRET_INPUT_PATH]; // of --secret-file -
    binding_cores *cores;                // [workers]; NULL: not bound
    char *folder;
    int *redirect, *tee;
    bool *shown;
    char **stdout_words, **stderr_words; // end with NULL
    char **program;    // ends with NULL; the words are borrowed, but [0] may be `self`
    const char *entry; // the word that names the program in reports; borrowed
    char self[4096];
} run_options;

// The events of a run on stdout (run_events.c); zeroed: none are printed.
typedef struct run_events {
    struct log_file *log;
    double began;
} run_events;

status run_events_begin(const run_request *q, const run_options *o, run_events *x, err *e);
// Prints the failures and the end, and closes the log. `e` says why where `result` is not OK.
void run_events_end(run_events *x, const agent_result *r, status result, const err *e);

// Starts the program `rest` [count] as the request says, and returns the exit code (run.c). Prints what a user should
// know.
int run_start(const run_request *q, char **rest, int count);
// Returns how many workers this host has room for: one for each GPU that a program may use, else one for each core.
int run_auto_workers(void);
int run_usable_gpus(void); // 0: none
// The path of this program.
void run_find_self(char *out, size_t bytes);
// `rest` [count] is the program with its arguments, borrowed. E_USAGE names the flag. The caller closes *out also
// after a failure.
status run_options_open(const run_request *q, char **rest, int count, run_options *out, err *e);
void run_options_close(run_options *o);
// The part of it that says where output goes.
status run_outputs_open(const run_outputs *q, run_options *o, err *e);
void run_outputs_close(run_options *o);

#endif
