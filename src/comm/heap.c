// heap.c -- allocates memory that all ranks of one machine see at one address. It keeps a sorted
// list of used extents of the arena, allocates by first fit, and rounds sizes up to pages.
//
// Called for the buffers of comm_alloc, for the state of process groups, and for the rings of
// channels. It does not know the use of an extent. Allocations are rare, so the search is linear. A
// rank that dies while it holds the lock fails the world, and ranks that wait for the lock notice
// that.
#include "comm/shared.h"

#include "base/size.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

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

// Finds the first hole of `bytes`. Returns the index in the list that its extent gets, or -1, and
// its offset in the arena.
static int heap_hole(const world *w, size_t bytes, size_t *offset)
{
    const comm_heap *h = &w->heap;
    size_t end = 0;
    if (h->used == HEAP_EXTENTS) return -1;
    for (int i = 0; i < h->used; i++) {
        if (h->extents[i].offset - end >= bytes) {
            *offset = end;
            return i;
        }
        end = h->extents[i].offset + h->extents[i].bytes;
    }
    *offset = end;
    return w->arena_bytes - end >= bytes ? h->used : -1;
}

status heap_take(world *w, size_t bytes, bool touch, void **out, err *e)
{
    status result = OK;
    comm_heap *h = &w->heap;
    size_t offset = 0;
    *out = NULL;
    if (bytes > w->arena_bytes)
        FAIL(E_FIT, "%zu bytes of shared memory were asked for; the limit is %zu", bytes,
             w->arena_bytes);
    bytes = bytes ? size_align(bytes, PAGE) : PAGE;
    if (!heap_lock(w)) return world_peer_error(w, e);
    int i = heap_hole(w, bytes, &offset);
    if (i >= 0) {
        memmove(&h->extents[i + 1], &h->extents[i], (size_t)(h->used - i) * sizeof(heap_extent));
        h->extents[i] = (heap_extent){offset, bytes};
        h->used++;
    }
    heap_unlock(w);
    if (i < 0) FAIL(E_FIT, "no %zu bytes of shared memory are left (%d buffers)", bytes, h->used);
    // Linux before 5.14 does not know this advice. Pages are then taken at their first use.
    if (touch && madvise(w->arena + offset, bytes, MADV_POPULATE_WRITE) != 0 && errno != EINVAL) {
        heap_give(w, w->arena + offset);
        FAIL(E_FIT, "the system has no %zu bytes of memory left for shared buffers", bytes);
    }
    *out = w->arena + offset;
done:
    return result;
}

void heap_give(world *w, void *p)
{
    comm_heap *h = &w->heap;
    if (!p) return;
    const size_t offset = (size_t)((char *)p - w->arena);
    if (!heap_lock(w)) return;
    int low = 0, high = h->used;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (h->extents[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < h->used && h->extents[low].offset == offset) {
        // Gives the pages back. The next extent at this offset starts with zeros.
        madvise(p, h->extents[low].bytes, MADV_REMOVE);
        h->used--;
        memmove(&h->extents[low], &h->extents[low + 1],
                (size_t)(h->used - low) * sizeof(heap_extent));
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
