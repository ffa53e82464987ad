// heap.c -- memory that all ranks of one machine see at one address: a sorted list of used extents
// in the arena, first fit, whole pages.
//
// Called for comm_alloc'ed buffers and for the groups' own state; rarely, so the search is a plain
// walk. Knows nothing of who uses a piece. A rank that dies while it holds the lock has failed the
// world; waiters notice that.
#include "comm/shared.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

static const size_t PAGE = 4096;

static bool heap_lock(world *w)
{
    int open = 0;
    while (!atomic_compare_exchange_weak(&w->heap.locked, &open, 1)) {
        if (world_has_failed(w)) return false;
        sched_yield();
        open = 0;
    }
    return true;
}

static void heap_unlock(world *w)
{
    atomic_store(&w->heap.locked, 0);
}

// The first hole of `bytes`: its index in the list, or -1.
static int heap_hole(const world *w, size_t bytes, size_t *at)
{
    const heap *h = &w->heap;
    size_t end = 0;
    if (h->used == HEAP_EXTENTS) return -1;
    for (int i = 0; i < h->used; i++) {
        if (h->extents[i].at - end >= bytes) {
            *at = end;
            return i;
        }
        end = h->extents[i].at + h->extents[i].bytes;
    }
    *at = end;
    return w->arena_bytes - end >= bytes ? h->used : -1;
}

status heap_take(world *w, size_t bytes, bool touch, void **out, err *e)
{
    status result = OK;
    heap *h = &w->heap;
    size_t at = 0;
    *out = NULL;
    if (bytes > w->arena_bytes)
        FAIL(E_FIT, "%zu bytes of shared memory were asked for; the limit is %zu", bytes,
             w->arena_bytes);
    bytes = bytes ? (bytes + PAGE - 1) & ~(PAGE - 1) : PAGE;
    if (!heap_lock(w)) return world_peer_error(w, e);
    int i = heap_hole(w, bytes, &at);
    if (i >= 0) {
        memmove(&h->extents[i + 1], &h->extents[i], (size_t)(h->used - i) * sizeof(extent));
        h->extents[i] = (extent){at, bytes};
        h->used++;
    }
    heap_unlock(w);
    if (i < 0) FAIL(E_FIT, "no %zu bytes of shared memory are left (%d buffers)", bytes, h->used);
    // Kernels before 5.14 do not know this advice; pages are then taken at their first use.
    if (touch && madvise(w->arena + at, bytes, MADV_POPULATE_WRITE) != 0 && errno != EINVAL) {
        heap_give(w, w->arena + at);
        FAIL(E_FIT, "the system has no %zu bytes of memory left for shared buffers", bytes);
    }
    *out = w->arena + at;
done:
    return result;
}

void heap_give(world *w, void *p)
{
    heap *h = &w->heap;
    if (!p) return;
    const size_t at = (size_t)((char *)p - w->arena);
    if (!heap_lock(w)) return;
    int low = 0, high = h->used;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (h->extents[middle].at < at)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < h->used && h->extents[low].at == at) {
        // Gives the pages back and makes the next use of this place start with zeros.
        madvise(p, h->extents[low].bytes, MADV_REMOVE);
        h->used--;
        memmove(&h->extents[low], &h->extents[low + 1], (size_t)(h->used - low) * sizeof(extent));
    }
    heap_unlock(w);
}

status heap_alloc(world *w, device *d, size_t bytes, void **out, err *e)
{
    status result = OK;
    TRY(heap_take(w, bytes, true, out, e));
    d->bytes_now += bytes;
    d->allocations++;
    if (d->bytes_peak < d->bytes_now) d->bytes_peak = d->bytes_now;
done:
    return result;
}

void heap_release(world *w, device *d, void *p, size_t bytes)
{
    heap_give(w, p);
    d->bytes_now -= bytes;
}
