// memory.c -- counts memory, then allocates it. See memory.h. Called by trainer.c and by every
// object of the trainer.
#include "train/memory.h"

#include "base/alloc.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

typedef enum memory_owner { OWNED_BY_DEVICE, OWNED_BY_COMM, OWNED_BY_HEAP } memory_owner;

typedef struct memory_piece {
    memory_owner owner;
    device_memory_kind kind;
    size_t bytes;
    void *ptr;
} memory_piece;

struct trainer_memory {
    plan *plan;
    // Both are NULL while memory is counted.
    device *device;
    comm *comm;
    memory_piece *piece; // [count]
    int count;
    size_t room;
};

status memory_open(plan *p, trainer_memory **out, err *e)
{
    const status result = alloc_zeroed(out, 1, sizeof **out, "the trainer", e);
    if (result == OK) (*out)->plan = p;
    return result;
}

void memory_start(trainer_memory *m, device *d, comm *c)
{
    m->device = d;
    m->comm = c;
}

void memory_close(trainer_memory *m)
{
    if (!m) return;
    for (int i = m->count - 1; i >= 0; i--) {
        const memory_piece *x = &m->piece[i];
        if (x->owner == OWNED_BY_HEAP)
            free(x->ptr);
        else if (x->owner == OWNED_BY_COMM)
            comm_release(m->comm, m->device, x->ptr, x->bytes);
        else
            device_release(m->device, x->kind, x->ptr, x->bytes);
    }
    free(m->piece);
    free(m);
}

bool memory_is_counting(const trainer_memory *m)
{
    return m->device == NULL;
}

static status reserve_piece(trainer_memory *m, err *e)
{
    return alloc_grow(&m->piece, &m->room, (size_t)m->count + 1, sizeof *m->piece, "the trainer",
                      e);
}

static void keep_piece(trainer_memory *m, memory_piece x, void *out)
{
    m->piece[m->count++] = x;
    memcpy(out, &x.ptr, sizeof x.ptr);
}

status memory_take(trainer_memory *m, plan_category c, memory_source from, size_t bytes, void *out,
                   err *e)
{
    if (memory_is_counting(m)) {
        const bool of_host = from == FROM_HOST && m->plan->o.strategy.offload.host_is_apart;
        uint64_t *const sum = of_host ? &m->plan->host_bytes[c] : &m->plan->bytes[c];
        *sum = size_add(*sum, bytes);
        return OK;
    }
    return memory_take_planned(m, from, bytes, out, e);
}

status memory_take_planned(trainer_memory *m, memory_source from, size_t bytes, void *out, err *e)
{
    static const device_memory_kind kind[] = {[FROM_DEVICE] = MEMORY_DEVICE,
                                              [FROM_HOST] = MEMORY_HOST,
                                              [FROM_ZEROED] = MEMORY_ZEROED,
                                              [FROM_SHARED] = MEMORY_DEVICE};
    status result = OK;
    memory_piece x = {.owner = from == FROM_SHARED ? OWNED_BY_COMM : OWNED_BY_DEVICE,
                      .kind = kind[from],
                      .bytes = bytes};
    if (memory_is_counting(m) || bytes == 0) return OK;
    TRY(reserve_piece(m, e));
    if (from == FROM_SHARED)
        TRY(comm_alloc(m->comm, m->device, bytes, &x.ptr, e));
    else
        TRY(device_alloc(m->device, x.kind, bytes, &x.ptr, e));
    keep_piece(m, x, out);
done:
    return result;
}

status memory_table(trainer_memory *m, size_t count, size_t item, void *out, err *e)
{
    status result = OK;
    memory_piece x = {.owner = OWNED_BY_HEAP};
    if (memory_is_counting(m)) return OK;
    TRY(reserve_piece(m, e));
    TRY(alloc_zeroed(&x.ptr, count, item, "the trainer", e));
    keep_piece(m, x, out);
done:
    return result;
}
