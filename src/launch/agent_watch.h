// agent_watch.h -- a thread of an agent that waits for the end of a round, gives the signs of life of the agent, and
// sets its action on disconnect: when the agent has exited, the others read that. Used by agent.c only.
#ifndef TRIREME_LAUNCH_AGENT_WATCH_H
#define TRIREME_LAUNCH_AGENT_WATCH_H

#include "launch/agent_group.h"

#include <pthread.h>

typedef struct agent_watch {
    pthread_t thread;
    bool running;
    comm_store *store; // a connection of its own
    char key[STORE_KEY_BYTES];
    int64_t look_ms;
    int ended; // readable when the round has ended
    // The thread writes the fields below. They may be read after agent_watch_close, or when `ended` is readable.
    bool done;  // all workers have succeeded
    bool joins; // further nodes have come: all start again with them
    bool alone; // the leader's agent is gone, or does not answer
    worker_failure failure;
} agent_watch;

status agent_watch_open(const agent_group *g, const agent_round *r, agent_watch *w, err *e);
// Waits for the thread, which ends with the round.
void agent_watch_close(agent_watch *w);

#endif
