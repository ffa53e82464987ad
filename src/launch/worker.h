// worker.h -- one process of a program that an agent runs: started, watched through a pidfd, stopped.
//
// Called by agent.c. Each worker leads a process group of its own, so that what it starts is stopped with it. It
// knows no ranks and no environment.
#ifndef TRIREME_LAUNCH_WORKER_H
#define TRIREME_LAUNCH_WORKER_H

#include "launch/binding.h"

#include <stdbool.h>
#include <sys/types.h>

typedef struct worker_process {
    pid_t pid; // 0: none, or it has ended
    int pidfd; // -1: none
} worker_process;

typedef struct worker_command {
    char *const *argv; // [0] is looked up in PATH; ends with NULL
    char *const *env;  // "NAME=value"; ends with NULL
    int out, error;    // descriptors that become stdout and stderr; -1: those of this process
    const binding_cores *cores; // that it may use; NULL: those of this process
} worker_command;

// Starts the program. The kernel kills it when the calling thread ends. E_USAGE where there is no such program, or
// it cannot be run.
status worker_start(const worker_command *c, worker_process *out, err *e);
// Sends a signal to the worker and to what it has started. A worker that has ended is left alone.
void worker_signal(const worker_process *w, int signal_number);
// Waits until the worker has ended, and kills what is left of its process group. Returns waitpid's status.
int worker_reap(worker_process *w);

#endif
