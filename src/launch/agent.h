// agent.h -- runs any program as a group of workers on one or many hosts, as torchrun does. One agent runs on each
// host (node). The leading agent keeps the TCP store in which all agents meet.
//
// Called by cmd/run/run.c. A round is one start of all workers: the agents of the round agree on ranks, start their
// workers, and end together: when all workers are done, or when the first failure is known. It does not know what
// the workers compute. It prints nothing itself: the workers' output goes where the options say, and messages go to
// `say`.
#ifndef TRIREME_LAUNCH_AGENT_H
#define TRIREME_LAUNCH_AGENT_H

#include "launch/binding.h"
#include "launch/worker_failure.h"
#include "net/address.h"

#include <signal.h>

#include <stdbool.h>

// Streams of a worker: 0 none, or a sum of these.
enum { AGENT_STDOUT = 1, AGENT_STDERR = 2 };

// The options of the rendezvous of agents of several hosts.
typedef struct agent_rendezvous {
    net_endpoint endpoint; // of the store; host "": this host alone, on a free port
    const char *id;        // of the run, the same on every host
    const char
        *local_host; // this host's address for the others; NULL: the one that reaches the store
    const char
        *secret_file; // of the rendezvous, which workers read, too; NULL: see net_secret_find
    int least, most;  // nodes
    int node;         // static: this node's number, 0 to most-1; -1: in the order of arrival
    int is_leader;    // 1, 0, or -1: this host is the leader where the endpoint is its own address
    int64_t join_ms, last_call_ms,
        close_ms;      // to wait for nodes; for more than the least; for the others at the end
    int64_t silent_ms; // without a sign of life an agent is taken for lost
} agent_rendezvous;

// The destinations of the workers' output. The arrays are [workers], by local rank.
typedef struct agent_logs {
    const char *folder; // of this run; NULL: no files but those of errors, in a temporary folder
    const int *redirect, *tee; // AGENT_STDOUT + AGENT_STDERR; NULL: none
    const bool *shown;         // on the console; NULL: all
    const char
        *prefix; // of teed lines, with ${role_name}, ${local_rank}, ${rank}; NULL: torchrun's
    const char *const *stdout_words, *const *stderr_words; // end with NULL; NULL: no filter
} agent_logs;

typedef struct agent_options {
    char *const *program; // ends with NULL; ${local_rank} in a word stands for that of the worker
    int workers;          // on this node
    const char *role;
    agent_rendezvous rendezvous;
    agent_logs logs;
    const binding_cores *cores; // [workers] that each may use; NULL: those of this process
    int threads;                // OMP_NUM_THREADS of the workers, where it is not set; 0: none
    int max_restarts;
    sigset_t signals;        // that stop the run, and are passed on to the workers
    int64_t stop_ms;         // from SIGTERM to SIGKILL
    const char *worker_host; // MASTER_ADDR of the workers; NULL: node 0's address
    int worker_port;         // MASTER_PORT; 0: a free one
    bool own_gpu;       // LOCAL_RANK is 0, and CUDA_VISIBLE_DEVICES has one GPU, for each worker
    const char *python; // PYTHON_EXEC; NULL: not set
    void (*say)(const char *line); // what a user should know while it runs
} agent_options;

typedef struct agent_result {
    int signal;               // that ended the run; 0: none
    worker_failure *failures; // [count], the first is the root cause; the caller frees them
    int count;
} agent_result;

// Runs the program until it is done, or has failed for the last time. E_PEER: workers failed (out->count > 0);
// E_INTERRUPTED: a signal stopped the run; other errors say why the agents did not meet, or the program could not be
// started. Collective over the agents of the run. Before it is called the process must have no threads.
status agent_run(const agent_options *o, agent_result *out, err *e);

#endif
