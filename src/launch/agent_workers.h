// agent_workers.h -- the workers of one node in one round: started with their environment and their outputs, watched,
// stopped. Used by agent.c only. It knows the ranks of the round, and nothing of other nodes.
#ifndef TRIREME_LAUNCH_AGENT_WORKERS_H
#define TRIREME_LAUNCH_AGENT_WORKERS_H

#include "launch/agent_group.h"
#include "launch/guard.h"
#include "launch/oom.h"
#include "launch/worker.h"
#include "launch/worker_output.h"

#include <poll.h>

enum { WORKER_STREAMS = 2 }; // stdout and stderr

typedef struct agent_worker {
    worker_process process;
    worker_output streams[WORKER_STREAMS];
    char *error_file; // where it may write its message
} agent_worker;

typedef struct agent_workers {
    const agent_options *options;
    const agent_round *round;
    launch_guard *guard;
    int count, alive;
    agent_worker *workers; // [count]
    struct pollfd *polled; // [(1 + WORKER_STREAMS) * count + others]
    int matches[WORKER_STREAMS];
    oom_count before;
    bool has_lost;            // output of a worker, which was said
    bool stopping;            // what ends now was stopped, and did not fail
    worker_failure *failures; // [failed], in the order in which they were seen
    int failed;
} agent_workers;

// Starts all workers of the round. `folder` is where the files of this attempt lie.
status agent_workers_start(agent_workers *w, const char *folder, err *e);
// Waits until something happens, at most `ms`, and deals with what happens to the workers. others [count] are
// descriptors of the caller, whose revents it fills.
status agent_workers_wait(agent_workers *w, int ms, struct pollfd *others, int count, err *e);
// Sends SIGTERM, or another signal, to all workers that are left; kills them after stop_ms; waits for them.
void agent_workers_stop(agent_workers *w, int signal_number);
void agent_workers_close(agent_workers *w); // all have ended

#endif
