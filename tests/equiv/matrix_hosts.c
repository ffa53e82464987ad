// matrix_hosts.c -- see matrix_hosts.h. Called by matrix_run.c.
#include "equiv/matrix_hosts.h"

#include "patience.h"
#include "rendezvous/store_tcp.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OPEN_MS = 300000 };

status matrix_hosts_open(int ranks, int second, bool as_threads, matrix_hosts *h, err *e)
{
    status result = OK;
    *h = (matrix_hosts){.ranks = ranks, .second = second, .started = {-1, -1}};
    if (second == 0) return test_world_open(ranks, as_threads, &h->world[0], e);
    h->store =
        mmap(NULL, sizeof *h->store, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (h->store == MAP_FAILED || pipe(h->started) != 0) abort();
    TRY(net_secret_draw(&h->secret, e));
    TRY(test_world_open(second, false, &h->world[0], e));
    TRY(test_world_open(ranks - second, false, &h->world[1], e));
    h->world[1]->first_rank = second;
    for (int i = 0; i < 2; i++) h->world[i]->secret = h->secret;
done:
    return result;
}

status matrix_hosts_start(matrix_hosts *h, err *e)
{
    status result = OK;
    net_address local;
    if (!h->world[1]) return OK;
    TRY(net_address_resolve("127.0.0.1", 0, &local, e));
    TRY(store_server_open(&local, &h->secret, &h->server, h->store, e));
    close(h->started[1]);
    h->started[1] = -1;
done:
    return result;
}

void matrix_hosts_close(matrix_hosts *h)
{
    store_server_close(h->server);
    for (int i = 0; i < 2; i++) {
        if (h->started[i] >= 0) close(h->started[i]);
        world_close(h->world[i]);
    }
    if (h->store) munmap(h->store, sizeof *h->store);
}

// The store's thread starts after the forks, so a rank waits for it.
static void await_start(const matrix_hosts *h)
{
    char nothing;
    close(h->started[1]);
    while (read(h->started[0], &nothing, 1) > 0) continue;
}

status matrix_hosts_enter(const matrix_hosts *h, int rank, device *d, comm_store **store,
                          comm_options *out, err *e)
{
    status result = OK;
    const int host = h->world[1] && rank >= h->second;
    *store = NULL;
    *out = test_world_options(h->world[host], rank, d);
    if (!h->world[1]) return OK;
    await_start(h);
    TRY(comm_store_tcp_open(h->store, &h->secret, OPEN_MS, store, e));
    out->size = h->ranks;
    out->store = *store;
    out->deadline_ms = OPEN_MS;
done:
    return result;
}
