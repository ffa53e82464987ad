// local_round.c -- the rounds of a process group (see local_group.h): every rank posts its call and
// waits for the posts of all other ranks.
//
// Called by the collectives of local_collective.c and local_segments.c. It compares the ranks'
// calls. It does not know what a collective does between two rounds.
#include "base/clock.h"
#include "base/proc.h"
#include "comm/local/local.h"

#include <string.h>

enum { SHARED_ROUNDS = 64 };

static comm_post *next_post(const comm_local *local)
{
    return &local->group->members[local->base.rank].posts[(local->round + 1) & 1];
}

// The kernel leaves two ranks on one core while another program has the other core, and each round then costs
// changes of threads. So a rank that waits again and again for a lower rank of its own core moves once. Only the
// higher rank moves, so that not both do.
static void leave_shared_core(comm_local *local, int awaited)
{
    const doorbell *other = &local_post(local, awaited)->doorbell;
    if (awaited > local->base.rank || doorbell_read(other) == local->round ||
        !doorbell_shares_core(other) || ++local->shared_rounds < SHARED_ROUNDS)
        return;
    local->shared_rounds = 0;
    proc_leave_core(proc_core());
}

status local_meet(comm_local *local, err *e)
{
    comm_post *mine = next_post(local);
    doorbell_ring(&mine->doorbell, ++local->round);
    for (int i = 1; i < local->base.size; i++) {
        const int awaited = (local->base.rank + i) % local->base.size;
        if (local->limits.spin) leave_shared_core(local, awaited);
        doorbell *other = &local_post(local, awaited)->doorbell;
        if (doorbell_read(other) == local->round) continue;
        const local_wait wait = {local->running, awaited,
                                 comm_signature_name(&local->running->signature)};
        const doorbell_limits limits = local_limits(&wait);
        if (!doorbell_wait_for(other, local->round, &limits)) return local_wait_error(&wait, e);
    }
    return OK;
}

// Refuses calls that differ. Every rank names the first pair of ranks whose calls differ.
static status check_same_call(comm_local *local, err *e)
{
    const comm_signature *first = &local_post(local, 0)->call;
    for (int r = 1; r < local->base.size; r++) {
        const comm_signature *p = &local_post(local, r)->call;
        char a[CALL_TEXT_BYTES], b[CALL_TEXT_BYTES];
        if (memcmp(first, p, sizeof *p) == 0) continue;
        if ((first->kind == CALL_LEAVE || p->kind == CALL_LEAVE) &&
            comm_failure_await(local->world->failure))
            return comm_failure_error(local->world->failure, e);
        err why;
        memset(&why, 0, sizeof why);
        err_set(&why, E_INTERNAL, "rank %d %s while rank %d %s", local_rank_of(local, 0),
                comm_signature_describe(first, a), local_rank_of(local, r),
                comm_signature_describe(p, b));
        comm_failure_set(local->world->failure, -1, &why); // -1: either of the two may be wrong
        return err_set(e, E_INTERNAL, "%s", why.text);
    }
    return OK;
}

// How long this rank has waited for the last one. Of ranks that came at one time the lowest counts.
static void note_arrivals(const comm_local *local, int64_t arrived_ns)
{
    const comm_post *last = local_post(local, 0);
    for (int r = 1; r < local->base.size; r++)
        if (local_post(local, r)->arrived_ns > last->arrived_ns) last = local_post(local, r);
    if (last->arrived_ns <= arrived_ns) return;
    local->arrival->waited_ns = last->arrived_ns - arrived_ns;
    local->arrival->last = last->arrived_by;
}

status local_announce(comm_local *local, void *shared, const void *shown, size_t shown_bytes,
                      err *e)
{
    status result = OK;
    comm_post *p = next_post(local);
    p->call = local->running->signature;
    p->buffer = local_sees(local, shared) ? shared : NULL;
    p->arrived_by = local->arrival ? local->arrival->by : -1;
    if (shown_bytes)
        memcpy(shown_bytes <= POST_DATA_BYTES
                   ? (char *)p->data
                   : local_staging(local, local->base.rank, local->round + 1),
               shown, shown_bytes);
    const int64_t arrived_ns = p->arrived_ns = local->arrival ? clock_ns() : 0;
    TRY(local_meet(local, e));
    TRY(check_same_call(local, e));
    if (local->arrival) note_arrivals(local, arrived_ns);
done:
    return result;
}

void local_leave(comm_local *local)
{
    comm_post *p = next_post(local);
    atomic_store(&local->group->members[local->base.rank].left, 1);
    if (local_has_failed(local)) return;
    p->call.kind = CALL_LEAVE;
    p->buffer = NULL;
    doorbell_ring(&p->doorbell, local->round + 1);
}
