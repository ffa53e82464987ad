// schedule_slots.c -- chooses slots for buckets: which slot an unsharded bucket or a bucket's state takes,
// and how large it becomes. Called by schedule.c. It knows neither visits nor instructions.
#include "parallel/schedule_private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static const char WHAT[] = "a schedule";

// ---- Slots of varying size

// The position in p->free of a slot with so many elements and this number, or where to insert it.
static int free_position(const schedule_slot_pool *p, int64_t elements, int slot)
{
    int low = 0, high = p->free_count;
    while (low < high) {
        const int middle = low + (high - low) / 2, other = p->free[middle];
        const int64_t size = p->sizes->elements[other];
        if (size < elements || (size == elements && other < slot))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int take_new(schedule_slot_pool *p, int64_t elements)
{
    schedule_slots *s = p->sizes;
    const size_t need = (size_t)s->count + 1;
    if (alloc_grow(&s->elements, &p->size_room, need, sizeof *s->elements, WHAT, NULL) != OK ||
        alloc_grow(&p->free, &p->free_room, need, sizeof *p->free, WHAT, NULL) != OK)
        return -1;
    s->elements[s->count] = elements;
    return s->count++;
}

int schedule_slot_take(schedule_slot_pool *p, int64_t elements)
{
    int64_t *const size = p->sizes->elements;
    const int above = free_position(p, elements, -1); // the first that is large enough
    if (p->free_count == 0) return take_new(p, elements);
    int best = above;
    if (above > 0) {
        const int64_t below = size[p->free[above - 1]];
        const int first = free_position(p, below, -1); // of the slots of that size
        const int64_t lacks = elements - below,
                      over = above < p->free_count ? size[p->free[above]] - elements : INT64_MAX;
        if (lacks < over || (lacks == over && p->free[first] < p->free[above])) best = first;
    }
    const int slot = p->free[best];
    memmove(&p->free[best], &p->free[best + 1], (size_t)(--p->free_count - best) * sizeof *p->free);
    if (size[slot] < elements) size[slot] = elements;
    return slot;
}

void schedule_slot_give(schedule_slot_pool *p, int slot)
{
    const int i = free_position(p, p->sizes->elements[slot], slot);
    memmove(&p->free[i + 1], &p->free[i], (size_t)(p->free_count++ - i) * sizeof *p->free);
    p->free[i] = slot;
}

// ---- State slots

// Whether a state slot may be filled. It may not while UNSHARD has yet to read it, or while it is
// one of the slots that were filled last, which may still be read from or written to the file.
static bool state_slot_is_free(const schedule_builder *b, plan_state what, int slot)
{
    const schedule_state_slots *s = &b->state[what];
    return !s->busy[slot] && s->turn - s->used[slot] >= b->state_slots;
}

// Makes room for so many items in an array; false: no memory.
static bool grow(schedule_builder *b, void *array, size_t *room, int count, size_t size)
{
    const bool grown = alloc_grow(array, room, (size_t)count, size, WHAT, NULL) == OK;
    b->no_memory = b->no_memory || !grown;
    return grown;
}

// Returns the number of a new state slot, or -1 when out of memory.
static int add_state_slot(schedule_builder *b, plan_state what)
{
    schedule_slots *s = &b->s->state[what];
    const int slot = s->count;
    size_t *const room = b->state[what].room;
    if (!grow(b, &s->elements, &room[0], slot + 1, sizeof *s->elements) ||
        !grow(b, &b->state[what].busy, &room[1], slot + 1, sizeof *b->state[what].busy) ||
        !grow(b, &b->state[what].used, &room[2], slot + 1, sizeof *b->state[what].used))
        return -1;
    s->elements[slot] = 0;
    b->state[what].busy[slot] = false;
    return s->count++;
}

int schedule_state_take(schedule_builder *b, plan_state what, int64_t elements)
{
    schedule_slots *s = &b->s->state[what];
    int best = -1;
    b->state[what].turn++;
    for (int i = 0; i < s->count; i++)
        if (state_slot_is_free(b, what, i) &&
            (best < 0 || llabs(s->elements[i] - elements) < llabs(s->elements[best] - elements)))
            best = i;
    if (best < 0) best = add_state_slot(b, what);
    if (best < 0) return -1;
    if (s->elements[best] < elements) s->elements[best] = elements;
    b->state[what].used[best] = b->state[what].turn;
    return best;
}
