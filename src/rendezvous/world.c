// world.c -- opens what the ranks of one machine share, before they start. See world.h.
//
// Called by the starting process (launch/) and by attach.c. It does not know how ranks are started, and it does not
// know any collective.
#include "rendezvous/world.h"

#include "base/alloc.h"
#include "base/proc.h"
#include "base/size.h"
#include "rendezvous/hosts.h"
#include "rendezvous/peers.h"
#include "rendezvous/world_private.h"

#include <stdlib.h>
#include <unistd.h>

// Sizes for each rank, besides a fixed part: buffers of the arena, and keys of the store. A split
// takes three keys at most for each rank.
enum { BUFFERS = 1 << 15, BUFFERS_EACH = 128, KEYS = 256, KEYS_EACH = 8 };

// Offsets of the parts in the mapping. The arena's buffers come last.
typedef struct world_parts {
    size_t failure, stop, watchdog, ended, secret, store, arena, buffers;
    int keys, most_buffers;
} world_parts;

static world_parts parts_of(int ranks)
{
    world_parts p = {.keys = KEYS + KEYS_EACH * ranks,
                     .most_buffers = BUFFERS + BUFFERS_EACH * ranks};
    p.stop = size_align(sizeof(comm_failure), 64);
    p.watchdog = p.stop + size_align(sizeof(comm_stop), 64);
    p.ended = p.watchdog + size_align(comm_watchdog_bytes(ranks), 64);
    p.secret = p.ended + size_align((size_t)ranks * sizeof(int), 64);
    p.store = p.secret + size_align(sizeof(net_secret), 64);
    p.arena = p.store + (ranks > 1 ? size_align(comm_store_page_bytes(p.keys), 64) : 0);
    p.buffers = size_align(p.arena + (ranks > 1 ? comm_arena_bytes(p.most_buffers) : 0), 1 << 16);
    return p;
}

size_t world_header_bytes(int ranks)
{
    return parts_of(ranks).buffers;
}

static status check_ranks(int ranks, err *e)
{
    if (ranks >= 1 && ranks <= WORLD_MOST_RANKS) return OK;
    return err_set(e, E_USAGE, "%d ranks on one machine: valid are 1 to %d", ranks,
                   WORLD_MOST_RANKS);
}

status world_make(const comm_mapping *m, int ranks, err *e)
{
    status result = OK;
    const world_parts p = parts_of(ranks);
    comm_arena *arena;
    TRY(net_secret_draw((net_secret *)(m->memory + p.secret), e));
    if (ranks == 1) return OK;
    TRY(comm_store_page_make(m->memory + p.store, p.keys, e));
    TRY(comm_arena_open(m->memory + p.arena, p.most_buffers, m->memory + p.buffers,
                        (m->bytes - p.buffers) & ~(size_t)4095, &arena, e));
done:
    return result;
}

status world_enter(comm_mapping *m, int ranks, world **out, err *e)
{
    status result = OK;
    const world_parts p = parts_of(ranks);
    world *w = NULL;
    *out = NULL;
    TRY(alloc_zeroed(&w, 1, sizeof *w, "what ranks share", e));
    *w = (world){.ranks = ranks,
                 .all_ranks = ranks,
                 .count = ranks,
                 .spin = ranks <= proc_usable_cores(),
                 .failure = (comm_failure *)(m->memory + p.failure),
                 .stop = (comm_stop *)(m->memory + p.stop),
                 .watchdog = (comm_watchdog *)(m->memory + p.watchdog),
                 .ended = (_Atomic int *)(m->memory + p.ended),
                 .secret = *(const net_secret *)(m->memory + p.secret),
                 .mapping.fd = -1};
    if (ranks > 1) {
        w->arena = (comm_arena *)(m->memory + p.arena);
        TRY(comm_store_page_open(m->memory + p.store, &w->store, e));
    }
    w->mapping = *m;
    *m = (comm_mapping){.fd = -1};
    *out = w;
    w = NULL;
done:
    world_close(w);
    return result;
}

status world_open(int ranks, bool as_threads, world **out, err *e)
{
    status result = OK;
    comm_mapping m = {.fd = -1};
    *out = NULL;
    TRY(check_ranks(ranks, e));
    TRY(comm_mapping_open(world_header_bytes(ranks), ranks > 1, 0, &m, e));
    TRY(world_make(&m, ranks, e));
    TRY(world_enter(&m, ranks, out, e));
    (*out)->as_threads = as_threads;
done:
    comm_mapping_close(&m);
    return result;
}

void world_close(world *w)
{
    if (!w) return;
    comm_hosts_close(w);
    if (w->last_calls.recorder) w->last_calls.close(w->last_calls.recorder);
    comm_peers_close(w);
    comm_store_close(w->store);
    comm_mapping_close(&w->mapping);
    free(w);
}
