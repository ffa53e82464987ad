// order.c -- see order.h. Notes for every value and every slot the last instruction of each stream that wrote it and
// that used it.
#include "parallel/replay/order.h"

#include "base/alloc.h"
#include "parallel/instructions.h"

#include <stdlib.h>
#include <string.h>

static const char WHAT[] = "the order of a list";

// The last instruction of each stream; -1: none.
typedef struct order_last {
    int of[STREAMS];
} order_last;

// The values of one group of slots, or the results of one resource.
typedef struct order_values {
    order_last *written; // [slots], or for results [owners]
    order_last *used;    // [slots]
    int *slot;           // [owners] the slot that an owner took last
} order_values;

typedef struct order_list {
    const plan *p;
    const schedule *s;
    schedule_order *out;
    order_values *values[RESOURCES]; // [groups of slots], or one for results
    int now;                         // the instruction
    bool *waits;                     // [count] of it; false between instructions
} order_list;

static device_stream_kind stream_of(const order_list *l, int instr)
{
    return instr_row_of(l->s->instr[instr].kind)->stream;
}

static status wait_for(order_list *l, int instr, err *e)
{
    status result = OK;
    schedule_order *o = l->out;
    const int have = o->first[l->now + 1];
    if (instr < 0 || l->waits[instr] || stream_of(l, instr) == stream_of(l, l->now)) return OK;
    TRY(alloc_grow(&o->wait, &o->room, (size_t)have + 1, sizeof *o->wait, WHAT, e));
    l->waits[instr] = true;
    o->wait[have] = instr;
    o->first[l->now + 1] = have + 1;
done:
    return result;
}

static status wait_for_all(order_list *l, const order_last *last, err *e)
{
    status result = OK;
    for (int k = 0; k < STREAMS; k++) TRY(wait_for(l, last->of[k], e));
done:
    return result;
}

static int place_of(const order_values *v, const instr_use *u)
{
    if (u->resource >= RES_SLOTS) return u->owner;
    return u->any_slot ? v->slot[u->owner] : u->slot;
}

static status find_waits(void *given, const instr_use *u, err *e)
{
    order_list *l = given;
    const order_values *v = &l->values[u->resource][u->group];
    if (u->access == ACCESS_ALLOCATE) return wait_for_all(l, &v->used[place_of(v, u)], e);
    if (u->access == ACCESS_WRITE || u->access == ACCESS_PRECEDE) return OK;
    return wait_for_all(l, &v->written[place_of(v, u)], e);
}

static status note_use(void *given, const instr_use *u, err *e)
{
    const order_list *l = given;
    order_values *v = &l->values[u->resource][u->group];
    const device_stream_kind stream = stream_of(l, l->now);
    (void)e;
    if (u->access == ACCESS_PRECEDE) return OK;
    if (u->access == ACCESS_ALLOCATE) v->slot[u->owner] = u->slot;
    const int place = place_of(v, u);
    if (u->access != ACCESS_READ && u->access != ACCESS_FREE) v->written[place].of[stream] = l->now;
    if (u->resource < RES_SLOTS) v->used[place].of[stream] = l->now;
    return OK;
}

// A message starts after the passes before it, and the passes behind a receive wait for it (train/messages.c).
static status wait_for_messages(order_list *l, order_last *last, int *received, err *e)
{
    status result = OK;
    const schedule_instr *x = &l->s->instr[l->now];
    const device_stream_kind stream = stream_of(l, l->now);
    if (instr_is_message(x)) TRY(wait_for(l, last->of[STREAM_COMPUTE], e));
    if (stream == STREAM_COMPUTE) TRY(wait_for(l, *received, e));
    if (instr_row_of(x->kind)->peers.waits_for == WAITS_FOR_SENDER) *received = l->now;
    last->of[stream] = l->now;
done:
    return result;
}

static status find_all(order_list *l, err *e)
{
    status result = OK;
    schedule_order *o = l->out;
    order_last last = {{-1, -1, -1}};
    int received = -1;
    for (l->now = 0; l->now < l->s->count; l->now++) {
        const schedule_instr *x = &l->s->instr[l->now];
        o->first[l->now + 1] = o->first[l->now];
        TRY(instr_each_use(l->p, l->s, x, find_waits, l, e));
        TRY(wait_for_messages(l, &last, &received, e));
        TRY(instr_each_use(l->p, l->s, x, note_use, l, e));
        for (int i = o->first[l->now]; i < o->first[l->now + 1]; i++) l->waits[o->wait[i]] = false;
    }
done:
    return result;
}

static status open_lasts(order_last **out, int count, err *e)
{
    status result = OK;
    TRY(alloc_array(out, (size_t)count, sizeof **out, WHAT, e));
    memset(*out, -1, (size_t)count * sizeof **out);
done:
    return result;
}

static status open_list(order_list *l, err *e)
{
    status result = OK;
    for (instr_resource r = 0; r < RESOURCES; r++) {
        const int groups = instr_slot_groups(l->p, r), owners = instr_owners(l->p, r);
        TRY(alloc_zeroed(&l->values[r], (size_t)groups, sizeof *l->values[r], WHAT, e));
        if (r >= RES_SLOTS) TRY(open_lasts(&l->values[r]->written, owners, e));
        for (int i = 0; r < RES_SLOTS && i < groups; i++) {
            order_values *v = &l->values[r][i];
            TRY(open_lasts(&v->written, instr_slot_count(l->s, r, i), e));
            TRY(open_lasts(&v->used, instr_slot_count(l->s, r, i), e));
            TRY(alloc_zeroed(&v->slot, (size_t)owners, sizeof *v->slot, WHAT, e));
        }
    }
done:
    return result;
}

static void close_list(order_list *l)
{
    for (instr_resource r = 0; r < RESOURCES; r++) {
        for (int i = 0; l->values[r] && i < instr_slot_groups(l->p, r); i++) {
            free(l->values[r][i].written);
            free(l->values[r][i].used);
            free(l->values[r][i].slot);
        }
        free(l->values[r]);
    }
    free(l->waits);
}

status schedule_order_make(const plan *p, const schedule *s, schedule_order *out, err *e)
{
    status result = OK;
    order_list l = {.p = p, .s = s, .out = out};
    *out = (schedule_order){.count = s->count};
    TRY(alloc_zeroed(&out->first, (size_t)s->count + 1, sizeof *out->first, WHAT, e));
    TRY(alloc_zeroed(&l.waits, (size_t)s->count, sizeof *l.waits, WHAT, e));
    TRY(open_list(&l, e));
    TRY(find_all(&l, e));
done:
    close_list(&l);
    return result;
}

void schedule_order_clear(schedule_order *o)
{
    free(o->first);
    free(o->wait);
    *o = (schedule_order){.count = 0};
}
