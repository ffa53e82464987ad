// arena.c -- allocates memory that all ranks of one machine see at one address. It keeps a sorted
// list of the used extents of the arena, allocates by first fit, and rounds sizes up to pages.
//
// Called for the buffers of comm_alloc, for the state of process groups, and for the rings of
// channels. It does not know the use of an extent. Allocations are rare, so the search is linear, and
// each change writes the list anew beside the old one. One store then makes the new list the valid
// one. So a rank that dies during a change leaves the old list.
#include "rendezvous/arena.h"

#include "base/size.h"
#include "rendezvous/lock.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

typedef struct arena_extent {
    size_t offset, bytes; // of the arena
} arena_extent;

typedef struct arena_list {
    int used;
    arena_extent *extents; // [most], sorted by offset
} arena_list;

// The head lies in shared memory, in front of the extents of both lists.
struct comm_arena {
    comm_lock lock;
    char *memory;
    size_t bytes;
    int most; // extents
    _Atomic int valid;
    arena_list lists[2];
};

size_t comm_arena_bytes(int buffers)
{
    return sizeof(comm_arena) + 2 * (size_t)buffers * sizeof(arena_extent);
}

status comm_arena_open(void *header, int buffers, void *memory, size_t bytes, comm_arena **out,
                       err *e)
{
    status result = OK;
    comm_arena *a = header;
    *out = NULL;
    a->most = buffers;
    a->lists[0].extents = (arena_extent *)(a + 1);
    a->lists[1].extents = a->lists[0].extents + buffers;
    a->memory = memory;
    a->bytes = bytes;
    TRY(comm_lock_init(&a->lock, e));
    madvise(memory, bytes, MADV_DONTDUMP);
    *out = a;
done:
    return result;
}

bool comm_arena_holds(const comm_arena *a, const void *p)
{
    const char *byte = p;
    return byte >= a->memory && byte < a->memory + a->bytes;
}

static arena_list *valid_list(comm_arena *a)
{
    return &a->lists[atomic_load(&a->valid)];
}

// Makes the valid list one without its extents [from, from + removed), and with *added (NULL: none)
// in their place.
static void change_list(comm_arena *a, int from, int removed, const arena_extent *added)
{
    const int next = !atomic_load(&a->valid);
    const arena_list *old = valid_list(a);
    arena_list *new = &a->lists[next];
    arena_extent *to = new->extents + from;
    memcpy(new->extents, old->extents, (size_t)from * sizeof *to);
    if (added) *to++ = *added;
    memcpy(to, old->extents + from + removed, (size_t)(old->used - from - removed) * sizeof *to);
    new->used = old->used - removed + (added != NULL);
    atomic_store(&a->valid, next);
}

// Finds the first hole of `bytes`. Returns the index in the list that its extent gets, or -1, and
// its offset in the arena.
static int find_hole(comm_arena *a, size_t bytes, size_t *offset)
{
    const arena_list *list = valid_list(a);
    size_t end = 0;
    if (list->used == a->most) return -1;
    for (int i = 0; i < list->used; i++) {
        if (list->extents[i].offset - end >= bytes) {
            *offset = end;
            return i;
        }
        end = list->extents[i].offset + list->extents[i].bytes;
    }
    *offset = end;
    return a->bytes - end >= bytes ? list->used : -1;
}

// Returns the index of the extent at `offset`, or -1.
static int find_extent(comm_arena *a, size_t offset)
{
    const arena_list *list = valid_list(a);
    int low = 0, high = list->used;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (list->extents[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < list->used && list->extents[low].offset == offset ? low : -1;
}

status comm_arena_take(comm_arena *a, size_t bytes, bool touch, void **out, err *e)
{
    status result = OK;
    arena_extent extent = {0};
    *out = NULL;
    if (bytes > a->bytes)
        FAIL(E_FIT, "%zu bytes of shared memory were asked for; the limit is %zu", bytes, a->bytes);
    extent.bytes = bytes ? size_align(bytes, PAGE) : PAGE;
    comm_lock_take(&a->lock, LOCK_FOR_EVER);
    const int i = find_hole(a, extent.bytes, &extent.offset), used = valid_list(a)->used;
    if (i >= 0) change_list(a, i, 0, &extent);
    comm_lock_give(&a->lock);
    if (i < 0)
        FAIL(E_FIT, "no %zu bytes of shared memory are left (%d buffers)", extent.bytes, used);
    // Linux before 5.14 does not know this advice. Pages are then taken at their first use.
    if (touch && madvise(a->memory + extent.offset, extent.bytes, MADV_POPULATE_WRITE) != 0 &&
        errno != EINVAL) {
        comm_arena_give(a, a->memory + extent.offset);
        FAIL(E_FIT, "the system has no %zu bytes of memory left for shared buffers", extent.bytes);
    }
    *out = a->memory + extent.offset;
done:
    return result;
}

void comm_arena_give(comm_arena *a, void *p)
{
    if (!p) return;
    comm_lock_take(&a->lock, LOCK_FOR_EVER);
    const int i = find_extent(a, (size_t)((char *)p - a->memory));
    if (i >= 0) {
        // Gives the pages back. The next extent at this offset starts with zeros.
        madvise(p, valid_list(a)->extents[i].bytes, MADV_REMOVE);
        change_list(a, i, 1, NULL);
    }
    comm_lock_give(&a->lock);
}

status comm_arena_alloc(comm_arena *a, device *d, size_t bytes, void **out, err *e)
{
    status result = OK;
    TRY(comm_arena_take(a, bytes, true, out, e));
    d->allocations++;
    device_count_taken(d, bytes);
done:
    return result;
}

void comm_arena_release(comm_arena *a, device *d, void *p, size_t bytes)
{
    comm_arena_give(a, p);
    device_count_given(d, bytes);
}
