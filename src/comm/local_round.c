// local_round.c -- rounds of a group: every rank posts what it calls and waits for the posts of all
// others. See shared.h.
//
// Called by the collectives of local_collective.c and local_segments.c, whose calls are compared
// here. Knows nothing of what a collective does between two rounds.
#include "comm/local.h"
#include "comm/reduce.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { TEXT = 160 };

static post *next_post(const local *l)
{
    return &l->group->members[l->base.rank].posts[(l->round + 1) & 1];
}

status local_meet(local *l, err *e)
{
    static const char *const names[] = {
        [CALL_BARRIER] = "barrier",
        [CALL_ALL_REDUCE] = "all_reduce",
        [CALL_REDUCE_SCATTER] = "reduce_scatter",
        [CALL_ALL_GATHER] = "all_gather",
        [CALL_ALL_GATHER_SEGMENTS] = "all_gather",
        [CALL_REDUCE_SCATTER_SEGMENTS] = "reduce_scatter",
        [CALL_BROADCAST] = "broadcast",
    };
    post *mine = next_post(l);
    doorbell_ring(&mine->doorbell, ++l->round);
    for (int i = 1; i < l->base.size; i++) {
        const int awaited = (l->base.rank + i) % l->base.size;
        if (doorbell_wait_for(&local_post(l, awaited)->doorbell, l->round, l->world)) continue;
        return local_wait_error(l->running, awaited, names[l->running->kind], e);
    }
    return OK;
}

static void describe_segments(char out[TEXT], const post *p)
{
    const bool reduces = p->kind == CALL_REDUCE_SCATTER_SEGMENTS;
    snprintf(out, TEXT, "calls %s of %llu %s%s%s%s in %d segments (list %08x%s)",
             reduces ? "reduce_scatter" : "all_gather", (unsigned long long)p->count,
             dtype_name((dtype)p->type), reduces ? " (" : "",
             reduces ? reduce_op_name((reduce_op)p->op) : "", reduces ? ")" : "", p->root,
             (unsigned)p->hash, p->in_place ? ", in place" : "");
}

static const char *describe(char out[TEXT], const post *p)
{
    const char *type = dtype_name((dtype)p->type), *op = reduce_op_name((reduce_op)p->op);
    const unsigned long long count = p->count;
    if (p->kind == CALL_LEAVE)
        snprintf(out, TEXT, "leaves the group");
    else if (p->kind == CALL_BARRIER)
        snprintf(out, TEXT, "calls barrier");
    else if (p->kind == CALL_BROADCAST)
        snprintf(out, TEXT, "calls broadcast of %llu bytes from %d", count, p->root);
    else if (p->kind == CALL_ALL_GATHER)
        snprintf(out, TEXT, "calls all_gather of %llu %s", count, type);
    else if (p->kind == CALL_ALL_GATHER_SEGMENTS || p->kind == CALL_REDUCE_SCATTER_SEGMENTS)
        describe_segments(out, p);
    else
        snprintf(out, TEXT, "calls %s of %llu %s (%s)",
                 p->kind == CALL_ALL_REDUCE ? "all_reduce" : "reduce_scatter", count, type, op);
    return out;
}

// Ranks whose calls differ would compute nonsense: the first pair is named on every rank.
static status check_same_call(local *l, err *e)
{
    const size_t from = offsetof(post, kind), bytes = offsetof(post, at) - offsetof(post, kind);
    const post *first = local_post(l, 0);
    for (int r = 1; r < l->base.size; r++) {
        const post *p = local_post(l, r);
        char a[TEXT], b[TEXT];
        if (memcmp((const char *)first + from, (const char *)p + from, bytes) == 0) continue;
        if ((first->kind == CALL_LEAVE || p->kind == CALL_LEAVE) && world_leaver_failed(l->world))
            return world_peer_error(l->world, e);
        err why;
        memset(&why, 0, sizeof why);
        err_set(&why, E_INTERNAL, "rank %d %s while rank %d %s", l->group->world_rank[0],
                describe(a, first), l->group->world_rank[r], describe(b, p));
        world_fail(l->world, -1, &why); // which of the two is wrong, nobody can tell
        return err_set(e, E_INTERNAL, "%s", why.text);
    }
    return OK;
}

status local_announce(const call *k, void *shared, const void *shown, size_t shown_bytes, err *e)
{
    status result = OK;
    local *l = k->comm;
    post *p = next_post(l);
    p->kind = (uint8_t)k->kind;
    p->type = (uint8_t)k->type;
    p->op = (uint8_t)k->op;
    p->in_place = k->in_place;
    p->root = k->root + k->segment_count; // a call has one of them
    p->count = k->count;
    p->hash = k->hash;
    p->at = world_sees(l->world, shared) ? shared : NULL;
    if (shown_bytes)
        memcpy(shown_bytes <= POST_DATA_BYTES ? (char *)p->data
                                              : local_stage(l, l->base.rank, l->round + 1),
               shown, shown_bytes);
    TRY(local_meet(l, e));
    TRY(check_same_call(l, e));
done:
    return result;
}

void local_leave(local *l)
{
    post *p = next_post(l);
    atomic_store(&l->group->members[l->base.rank].left, 1);
    if (world_has_failed(l->world)) return;
    p->kind = CALL_LEAVE;
    p->at = NULL;
    doorbell_ring(&p->doorbell, l->round + 1);
}
