// agent_group_end.c -- how agents end a round: the first failure, the common end, and what the others read when an agent is
// gone. See agent_group.h.
#include "launch/agent_group.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { CALL_MS = 60000 };

void agent_group_end_key(const agent_round *r, char out[STORE_KEY_BYTES])
{
    snprintf(out, STORE_KEY_BYTES, "%d/end", r->number);
}

status agent_group_publish(agent_group *g, const agent_round *r, store_value v, err *e)
{
    char key[STORE_KEY_BYTES], found[STORE_VALUE_BYTES];
    agent_group_end_key(r, key);
    return comm_store_compare(g->store, key, (store_value){0}, v, found, sizeof found, NULL,
                              CALL_MS, e);
}

status agent_group_fail(agent_group *g, const agent_round *r, const worker_failure *f, err *e)
{
    status result = OK;
    char packed[STORE_VALUE_BYTES];
    size_t bytes = 0;
    TRY(worker_failure_pack(f, packed, &bytes, e));
    TRY(agent_group_publish(g, r, (store_value){packed, bytes}, e));
done:
    return result;
}

status agent_group_finish(agent_group *g, const agent_round *r, err *e)
{
    status result = OK;
    char key[STORE_KEY_BYTES];
    int64_t nodes = 0;
    snprintf(key, sizeof key, "%d/finished", r->number);
    TRY(comm_store_add(g->store, key, 1, &nodes, CALL_MS, e));
    if (nodes == r->nodes) TRY(agent_group_publish(g, r, (store_value){"done", 4}, e));
done:
    return result;
}

void agent_group_lost(const agent_group *g, int node, const char *what, worker_failure *out)
{
    *out = (worker_failure){
        .rank = -1, .local_rank = -1, .node = node, .pid = (int)getpid(), .time_s = time(NULL)};
    snprintf(out->host, sizeof out->host, "%s", g->host);
    snprintf(out->what, sizeof out->what, "%.*s", TEXT_CUT(what, sizeof out->what - 1));
}

status agent_group_set_on_disconnect(const agent_group *g, comm_store *s, const agent_round *r,
                                     int64_t silent_ms, err *e)
{
    status result = OK;
    worker_failure lost;
    char packed[STORE_VALUE_BYTES], key[STORE_KEY_BYTES];
    size_t bytes = 0;
    agent_group_lost(g, r->node, "its agent ended, or its host does not answer", &lost);
    TRY(worker_failure_pack(&lost, packed, &bytes, e));
    agent_group_end_key(r, key);
    // No network can cut the leader off from the store that it keeps itself.
    TRY(comm_store_tcp_set_on_disconnect(s, key, (store_value){packed, bytes},
                                         g->server ? 0 : silent_ms, e));
    if (g->server) comm_store_tcp_wait_long(s);
done:
    return result;
}
