// peers.c -- see peers.h. Called by launch/, by the commands whose processes another program started, and by
// world_close. It does not know how the connections were made.
#define _GNU_SOURCE // POLLRDHUP
#include "rendezvous/peers.h"

#include "rendezvous/hosts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// A process that waits for rank 0 looks for a failure each SLICE_MS.
enum { SLICE_MS = 20 };

// The message of rank 0. The data lie in the arena, at one address in all processes of this host.
typedef struct peers_broadcast {
    const void *data;
    size_t bytes;
    const comm_host_table *hosts; // NULL: there is one host
} peers_broadcast;

int comm_peers_count(const world *w)
{
    return w->peers ? w->peers->count : 0;
}

void comm_peers_poll(const world *w, struct pollfd *fds)
{
    for (int i = 0; i < comm_peers_count(w); i++)
        fds[i] = (struct pollfd){.fd = w->peers->items[i].fd, .events = POLLRDHUP};
}

static void end_connection(world *w, comm_peer *p)
{
    char doing[COMM_DOING_BYTES];
    close(p->fd);
    p->fd = -1;
    if (atomic_load(&w->ended[p->rank])) return;
    comm_watchdog_describe(w->watchdog, w->first, p->rank, "was", &w->last_calls, doing,
                           sizeof doing);
    comm_failure_set_exited(w->failure, w->first_rank + p->rank, p->pid, doing);
}

bool comm_peers_check(world *w)
{
    bool any = false;
    for (int i = 0; i < comm_peers_count(w); i++) {
        comm_peer *p = &w->peers->items[i];
        struct pollfd fd = {.fd = p->fd, .events = POLLRDHUP};
        if (p->fd < 0) continue;
        if (poll(&fd, 1, 0) > 0 && fd.revents)
            end_connection(w, p);
        else
            any = true;
    }
    return any;
}

status comm_peers_broadcast(world *w, const void *data, size_t bytes, err *e)
{
    status result = OK;
    void *copy = NULL;
    TRY(comm_arena_take(w->arena, bytes, true, &copy, e));
    memcpy(copy, data, bytes);
    const peers_broadcast message = {
        .data = copy, .bytes = bytes, .hosts = w->hosts ? w->hosts->table : NULL};
    // A process that is lost is noticed by comm_peers_check.
    for (int i = 0; i < comm_peers_count(w); i++)
        if (w->peers->items[i].fd >= 0)
            (void)send(w->peers->items[i].fd, &message, sizeof message,
                       MSG_NOSIGNAL | MSG_DONTWAIT);
done:
    return result;
}

status comm_peers_receive(world *w, const void **data, size_t *bytes, err *e)
{
    comm_peer *p = &w->peers->items[0];
    peers_broadcast message;
    for (;;) {
        struct pollfd fd = {.fd = p->fd, .events = POLLIN};
        if (comm_failure_known(w->failure)) return comm_failure_error(w->failure, e);
        if (poll(&fd, 1, SLICE_MS) <= 0) continue;
        const ssize_t got = recv(p->fd, &message, sizeof message, MSG_DONTWAIT);
        if (got == (ssize_t)sizeof message) break;
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        end_connection(w, p);
        if (!comm_failure_known(w->failure))
            return err_set(e, E_PEER, "rank 0 left before the run began");
    }
    if (w->hosts) w->hosts->table = message.hosts;
    *data = message.data;
    *bytes = message.bytes;
    return OK;
}

void comm_peers_close(world *w)
{
    for (int i = 0; i < comm_peers_count(w); i++)
        if (w->peers->items[i].fd >= 0) close(w->peers->items[i].fd);
    free(w->peers);
    w->peers = NULL;
}

void comm_peers_leave(world *w)
{
    for (int r = w->first; r < w->first + w->count; r++) atomic_store(&w->ended[r], 1);
}
