// hosts_watch.c -- carries failures between this host and the others, and waits for the others' end. See hosts.h. The
// thread's connection is that of the process, which makes no other call while it is watched.
#include "base/proc.h"
#include "rendezvous/hosts_private.h"
#include "rendezvous/store_tcp.h"

#include <errno.h>
#include <stdlib.h>

enum { STAYS, LEAVES, CLOSES }; // leaving

// A rank that waits too long says more than a process that is silent: its line comes first.
enum { SILENT_MS = 5000 };

// The store is lost: the host of rank 0, or the way to it.
static void lose_store(world *w, const err *how)
{
    err why = {.code = OK};
    err_set(&why, E_PEER, "host %s (ranks %d to %d) lost the host of rank 0: %s", w->failure->host,
            w->first_rank, w->first_rank + w->ranks - 1, how->text);
    comm_failure_set(w->failure, -1, &why);
}

// Counts this host among those whose ranks have ended. Returns whether its watch is done.
static bool count_end(world *w)
{
    comm_hosts *h = w->hosts;
    char key[STORE_KEY_BYTES];
    int64_t ended = 0;
    comm_hosts_key(h, "ended", 0, key);
    const status got =
        comm_store_add(h->store, key, h->has_counted ? 0 : 1, &ended, HOSTS_CALL_MS, NULL);
    h->has_counted = true;
    if (got != OK || (w->first_rank == 0 && ended < h->table->count)) return false;
    comm_hosts_key(h, "failure", 0, key);
    (void)comm_store_tcp_set_on_disconnect(h->store, key, (store_value){0}, 0, NULL);
    return true;
}

// Returns whether there is nothing more to watch.
static bool look(world *w)
{
    comm_hosts *h = w->hosts;
    err why = {.code = OK};
    const int leaving = atomic_load(&h->leaving);
    if (comm_failure_known(w->failure)) {
        (void)comm_hosts_publish(w, NULL);
        return true;
    }
    if (leaving == CLOSES || (leaving == LEAVES && count_end(w))) return true;
    comm_hosts_search(w);
    const status got = comm_hosts_take(w, HOSTS_SLICE_MS, &why);
    if (got != OK && got != E_PEER) lose_store(w, &why);
    return got != E_PEER;
}

static const comm_host *own_host(const world *w)
{
    const comm_host *h = w->hosts->table->items;
    while (h->first != w->first_rank) h++;
    return h;
}

static void *watch(void *arg)
{
    world *w = arg;
    while (!look(w)) continue;
    atomic_store(&w->hosts->left, 1);
    return NULL;
}

status comm_hosts_watch(world *w, err *e)
{
    status result = OK;
    sigset_t before;
    comm_hosts *h = w->hosts;
    if (!h || w->first != 0) return OK;
    const int64_t limit_ms = atomic_load(&w->watchdog->limit_ms);
    TRY(comm_hosts_set_on_disconnect(w, own_host(w), limit_ms > 0 ? limit_ms + SILENT_MS : 0, e));
    // No network can cut the host of rank 0 off from its own store. A busy machine may take long to answer.
    if (w->first_rank == 0) comm_store_tcp_wait_long(h->store);
    h->searcher = (comm_searcher){.watchdog = w->watchdog,
                                  .failure = w->failure,
                                  .last_calls = &w->last_calls,
                                  .first = w->first_rank,
                                  .ranks = w->ranks,
                                  .describer = w->first,
                                  .steps = -1};
    atomic_store(&w->watchdog->searches, 1);
    proc_block_signals(&before);
    errno = pthread_create(&h->watcher, NULL, watch, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    h->watches = errno == 0;
    if (!h->watches) result = err_errno(e, "cannot start the thread that watches the other hosts");
done:
    return result;
}

bool comm_hosts_leave(world *w)
{
    comm_hosts *h = w->hosts;
    if (!h || !h->watches) return true;
    atomic_store(&h->leaving, LEAVES);
    return atomic_load(&h->left) != 0;
}

void comm_hosts_close(world *w)
{
    comm_hosts *h = w->hosts;
    if (!h) return;
    atomic_store(&h->leaving, CLOSES);
    if (h->watches) pthread_join(h->watcher, NULL);
    comm_store_close(h->store);
    store_process_close(&h->kept);
    if (!w->arena) free((comm_host_table *)h->table);
    free(h);
    w->hosts = NULL;
}
