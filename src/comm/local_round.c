// local_round.c -- the rounds of a process group (see local_group.h): every rank posts its call and
// waits for the posts of all other ranks.
//
// Called by the collectives of local_collective.c and local_segments.c. It compares the ranks'
// calls. It does not know what a collective does between two rounds.
#include "comm/local.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { TEXT = 160 };

static comm_post *next_post(const comm_local *local)
{
    return &local->group->members[local->base.rank].posts[(local->round + 1) & 1];
}

status local_meet(comm_local *local, err *e)
{
    static const char *const names[] = {
        [CALL_BARRIER] = "barrier",
        [CALL_SPLIT] = "split",
        [CALL_SHARE] = "share",
        [CALL_ALL_REDUCE] = "all_reduce",
        [CALL_REDUCE_SCATTER] = "reduce_scatter",
        [CALL_ALL_GATHER] = "all_gather",
        [CALL_ALL_GATHER_SEGMENTS] = "all_gather",
        [CALL_REDUCE_SCATTER_SEGMENTS] = "reduce_scatter",
        [CALL_BROADCAST] = "broadcast",
    };
    comm_post *mine = next_post(local);
    doorbell_ring(&mine->doorbell, ++local->round);
    for (int i = 1; i < local->base.size; i++) {
        const int awaited = (local->base.rank + i) % local->base.size;
        if (doorbell_wait_for(&local_post(local, awaited)->doorbell, local->round, &local->limits))
            continue;
        return local_wait_error(local->running, awaited, names[local->running->kind], e);
    }
    return OK;
}

static void describe_segments(char out[TEXT], const comm_post *p)
{
    const bool reduces = p->kind == CALL_REDUCE_SCATTER_SEGMENTS;
    snprintf(out, TEXT, "calls %s of %llu %s%s%s%s in %d segments (list %08x%s)",
             reduces ? "reduce_scatter" : "all_gather", (unsigned long long)p->count,
             dtype_name((dtype)p->type), reduces ? " (" : "",
             reduces ? reduce_op_name((comm_reduce_op)p->op) : "", reduces ? ")" : "", p->root,
             (unsigned)p->hash, p->in_place ? ", in place" : "");
}

static const char *describe(char out[TEXT], const comm_post *p)
{
    const char *type = dtype_name((dtype)p->type), *op = reduce_op_name((comm_reduce_op)p->op);
    const unsigned long long count = p->count;
    if (p->kind == CALL_LEAVE)
        snprintf(out, TEXT, "leaves the group");
    else if (p->kind == CALL_BARRIER)
        snprintf(out, TEXT, "calls barrier");
    else if (p->kind == CALL_SPLIT)
        snprintf(out, TEXT, "calls split");
    else if (p->kind == CALL_SHARE)
        snprintf(out, TEXT, "calls share");
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

// Refuses calls that differ. Every rank names the first pair of ranks whose calls differ.
static status check_same_call(comm_local *local, err *e)
{
    const size_t from = offsetof(comm_post, kind),
                 bytes = offsetof(comm_post, buffer) - offsetof(comm_post, kind);
    const comm_post *first = local_post(local, 0);
    for (int r = 1; r < local->base.size; r++) {
        const comm_post *p = local_post(local, r);
        char a[TEXT], b[TEXT];
        if (memcmp((const char *)first + from, (const char *)p + from, bytes) == 0) continue;
        if ((first->kind == CALL_LEAVE || p->kind == CALL_LEAVE) &&
            comm_failure_await(local->world->failure))
            return comm_failure_error(local->world->failure, e);
        err why;
        memset(&why, 0, sizeof why);
        err_set(&why, E_INTERNAL, "rank %d %s while rank %d %s", local->group->world_rank[0],
                describe(a, first), local->group->world_rank[r], describe(b, p));
        comm_failure_set(local->world->failure, -1, &why); // -1: either of the two may be wrong
        return err_set(e, E_INTERNAL, "%s", why.text);
    }
    return OK;
}

status local_announce(const comm_call *call, void *shared, const void *shown, size_t shown_bytes,
                      err *e)
{
    status result = OK;
    comm_local *local = call->local;
    comm_post *p = next_post(local);
    p->kind = (uint8_t)call->kind;
    p->type = (uint8_t)call->type;
    p->op = (uint8_t)call->op;
    p->in_place = call->in_place;
    p->root = call->root + call->segment_count; // one of the two is 0
    p->count = call->count;
    p->hash = call->hash;
    p->buffer = local_sees(local, shared) ? shared : NULL;
    if (shown_bytes)
        memcpy(shown_bytes <= POST_DATA_BYTES
                   ? (char *)p->data
                   : local_staging(local, local->base.rank, local->round + 1),
               shown, shown_bytes);
    TRY(local_meet(local, e));
    TRY(check_same_call(local, e));
done:
    return result;
}

void local_leave(comm_local *local)
{
    comm_post *p = next_post(local);
    atomic_store(&local->group->members[local->base.rank].left, 1);
    if (local_has_failed(local)) return;
    p->kind = CALL_LEAVE;
    p->buffer = NULL;
    doorbell_ring(&p->doorbell, local->round + 1);
}
