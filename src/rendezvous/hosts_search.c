// hosts_search.c -- a search for the rank that keeps the others waiting, between hosts. See hosts.h and search.h. Called
// by the thread of hosts_watch.c on every host.
//
// The search lies in the store. The host of the rank that is looked at makes the next step, and sets the key when that
// goes to another host. The first search of the run is the only one, so all hosts name the same rank.
#include "rendezvous/hosts_private.h"

static bool is_local(const world *w, int rank)
{
    return rank >= w->first_rank && rank < w->first_rank + w->ranks;
}

// A rank of this host has waited too long. Where a search has begun, that one is taken.
static void begin(world *w, const char *key)
{
    comm_hosts *h = w->hosts;
    comm_search found;
    if (h->has_asked || atomic_load(&w->watchdog->asks) != 2) return;
    h->has_asked = comm_store_compare(h->store, key, (store_value){0},
                                      (store_value){&w->watchdog->search, sizeof found}, &found,
                                      sizeof found, NULL, HOSTS_CALL_MS, NULL) == OK;
}

void comm_hosts_search(world *w)
{
    comm_hosts *h = w->hosts;
    comm_search x;
    char key[STORE_KEY_BYTES];
    size_t bytes = 0;
    comm_hosts_key(h, "search", 0, key);
    begin(w, key);
    if (comm_store_get(h->store, key, &x, sizeof x, &bytes, 0, NULL) != OK || bytes != sizeof x)
        return;
    while (is_local(w, x.rank) && !comm_failure_known(w->failure)) {
        if (!comm_search_look(&h->searcher, &x)) return;
        (void)comm_store_set(h->store, key, &x, sizeof x, HOSTS_CALL_MS, NULL);
    }
}
