// agent_watch.c -- see agent_watch.h.
#include "launch/agent_watch.h"

#include "base/proc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

// Each look is a sign of life, so there are several in the time of silence.
enum { SIGNS = 5, CALL_MS = 60000 };

static int64_t look_ms(const agent_group *g)
{
    const int64_t ms = g->rendezvous->silent_ms / SIGNS;
    return ms > 0 ? ms : 1;
}

static void read_end(agent_watch *w, const char *value, size_t bytes)
{
    err why = {0};
    w->done = bytes == 4 && memcmp(value, "done", 4) == 0;
    w->joins = bytes == 4 && memcmp(value, "join", 4) == 0;
    if (w->done || w->joins) return;
    worker_failure received;
    if (worker_failure_unpack(value, bytes, &received, &why) == OK)
        w->failure = received;
    else // it stays that of this agent
        snprintf(w->failure.what, sizeof w->failure.what, "%.*s", TEXT_CUT(why.text, 300));
}

static void lose_leader(agent_watch *w, const err *why)
{
    w->alone = true;
    snprintf(w->failure.what, sizeof w->failure.what, "the leader's agent is gone: %.*s",
             TEXT_CUT(why->text, 300));
}

static void *watch(void *arg)
{
    agent_watch *w = arg;
    char value[STORE_VALUE_BYTES];
    size_t bytes = 0;
    err why = {0};
    status got;
    do got = comm_store_get(w->store, w->key, value, sizeof value, &bytes, w->look_ms, &why);
    while (got == E_PEER);
    if (got == OK)
        read_end(w, value, bytes);
    else
        lose_leader(w, &why);
    eventfd_write(w->ended, 1);
    return NULL;
}

status agent_watch_open(const agent_group *g, const agent_round *r, agent_watch *w, err *e)
{
    status result = OK;
    sigset_t before;
    *w = (agent_watch){.ended = -1};
    agent_group_end_key(r, w->key);
    agent_group_lost(g, r->node, "", &w->failure);
    w->look_ms = look_ms(g);
    w->ended = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->ended < 0) return err_errno(e, "cannot watch the other nodes");
    TRY(comm_store_tcp_open(&g->address, &g->secret, CALL_MS, &w->store, e));
    TRY(agent_group_set_on_disconnect(g, w->store, r, g->rendezvous->silent_ms, e));
    proc_block_signals(&before);
    errno = pthread_create(&w->thread, NULL, watch, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    w->running = errno == 0;
    if (!w->running) result = err_errno(e, "cannot start the thread that watches the other nodes");
done:
    if (result != OK) agent_watch_close(w);
    return result;
}

void agent_watch_close(agent_watch *w)
{
    if (w->running) pthread_join(w->thread, NULL);
    comm_store_close(w->store);
    if (w->ended >= 0) close(w->ended);
    w->running = false;
    w->store = NULL;
    w->ended = -1;
}
