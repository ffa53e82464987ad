// p2p_memory.c -- the memory of the communicator p2p (p2p.h): device memory, whose handles ranks exchange
// in comm_share, and which stays while another rank may still read it. Called through the table of comm.h.
#include "comm/p2p/p2p_private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { END_WAIT_MS = 1000, IMPORTS_WAIT_MS = 10000 };

status p2p_alloc(comm *c, device *d, size_t bytes, void **out, err *e)
{
    status result = OK;
    p2p_rank *own = p2p_of(c)->own;
    *out = NULL;
    TRY(alloc_grow(&own->block, &own->room, own->blocks + 1, sizeof *own->block,
                   "the memory of a communicator", e));
    TRY(device_alloc(d, MEMORY_ZEROED, bytes, out, e));
    own->block[own->blocks++] = (p2p_block){*out, bytes};
done:
    return result;
}

void p2p_release(comm *c, device *d, void *p, size_t bytes)
{
    p2p_rank *own = p2p_of(c)->own;
    size_t i = 0;
    p2p_end(own);
    while (i < own->blocks && own->block[i].ptr != p) i++;
    if (i < own->blocks) own->block[i] = own->block[--own->blocks];
    device_release(d, MEMORY_ZEROED, p, bytes);
}

// Counts this rank, and waits until all ranks are counted. A rank that was killed never is.
static bool await_all(const p2p_rank *own, _Atomic int *count, int most_ms)
{
    const struct timespec one_ms = {0, 1000 * 1000};
    const comm_failure *f = own->world->failure;
    atomic_fetch_add(count, 1);
    for (int i = 0; i < most_ms && atomic_load(count) < own->world->ranks; i++) {
        if (i >= END_WAIT_MS && comm_failure_known(f)) break;
        nanosleep(&one_ms, NULL);
    }
    return atomic_load(count) >= own->world->ranks;
}

// A rank that closes its streams after a failure comes here, too, and has then no work with the memory
// of others.
void p2p_end(p2p_rank *own)
{
    if (own->has_ended || !own->failure || !comm_failure_known(own->world->failure)) return;
    own->has_ended = true;
    await_all(own, &own->failure->ranks, END_WAIT_MS);
}

bool p2p_end_imports(const p2p_rank *own)
{
    return own->failure && await_all(own, &own->failure->closed, IMPORTS_WAIT_MS);
}

// ---- comm_share

// One round of the exchange.
typedef struct share_header {
    uint64_t blocks; // of the rank, in all rounds
    device_handle handle[];
} share_header;

enum { SHARED_AT_ONCE = 256 };
_Static_assert(sizeof(share_header) + SHARED_AT_ONCE * sizeof(device_handle) <= STAGING_BYTES,
               "a staging area has room for a round");

static size_t left_of(size_t blocks, size_t first)
{
    return blocks <= first ? 0 : blocks - first < SHARED_AT_ONCE ? blocks - first : SHARED_AT_ONCE;
}

// Shows the blocks from `first` on, and imports those of the others. *most receives the largest number
// of blocks of a rank.
static status share_round(const p2p_comm *c, share_header *header, size_t first, size_t *most,
                          err *e)
{
    status result = OK;
    const p2p_rank *own = c->own;
    comm_local *host = p2p_host(c);
    const size_t mine = left_of(own->blocks, first);
    const local_call call = p2p_host_call(c, &(comm_call){.kind = CALL_SHARE});
    header->blocks = own->blocks;
    for (size_t i = 0; i < mine; i++)
        TRY(p2p_export(c, own->block[first + i].ptr, own->block[first + i].bytes,
                       &header->handle[i], e));
    host->running = &call;
    TRY(local_announce(host, NULL, header,
                       sizeof *header + (size_t)SHARED_AT_ONCE * sizeof *header->handle, e));
    for (int r = 0; r < c->base.size; r++) {
        const share_header *s = (const void *)local_staging(host, r, host->round);
        if (s->blocks > *most) *most = s->blocks;
        for (size_t i = 0; r != c->base.rank && i < left_of(s->blocks, first); i++) {
            void *ptr;
            TRY(p2p_import(c, &s->handle[i], &ptr, e));
        }
    }
done:
    return result;
}

status p2p_share(p2p_comm *c, err *e)
{
    status result = OK;
    size_t most = 1;
    share_header *header = NULL;
    TRY(p2p_check(c, e));
    if (c->base.size == 1) return OK;
    TRY(alloc_zeroed(&header, 1, sizeof *header + SHARED_AT_ONCE * sizeof *header->handle,
                     "the memory of a communicator", e));
    for (size_t first = 0; first < most; first += SHARED_AT_ONCE)
        TRY(share_round(c, header, first, &most, e));
done:
    free(header);
    return result;
}
