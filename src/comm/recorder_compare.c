// recorder_compare.c -- compares each collective with those of the other members of its group, before it
// runs (checks.desync). Called by recorder.c.
//
// On one machine every member publishes its call and waits until all have published the call of the same
// sequence number. A member is at most one collective ahead of the others, so two slots of each are enough. Where
// a group has members on other machines, too, all of them then gather the calls of all by the communicator.
#include "base/alloc.h"
#include "comm/recorder_private.h"

#include <stdio.h>
#include <string.h>

enum { ACTIVITY_BYTES = 96 };

status comm_record_find_peers(comm *c, err *e)
{
    status result = OK;
    comm_recording *x = c->recording;
    const comm_recorder *r = x->recorder;
    const uint64_t key = atomic_load(&x->group->key);
    const size_t size = (size_t)c->size;
    const comm_call barrier = {.kind = CALL_BARRIER};
    TRY(alloc_zeroed(&x->peer_ranks, size, sizeof *x->peer_ranks, "the ranks of a group", e));
    TRY(alloc_zeroed(&x->peers, size, sizeof(comm_record_group *), "the ranks of a group", e));
    TRY(c->ops->issue(c, &barrier, NULL, e)); // all have written their rows
    for (int rank = 0; rank < r->o.ranks; rank++) {
        comm_record_group *groups = comm_recorder_rank(r, rank)->groups;
        for (int i = 0; i < RECORDER_GROUPS; i++) {
            if (atomic_load(&groups[i].key) != key) continue;
            const int member = atomic_load(&groups[i].rank);
            x->peers[member] = &groups[i];
            x->peer_ranks[member] = rank;
        }
    }
    bool elsewhere = false;
    for (size_t i = 0; i < size; i++) elsewhere |= !x->peers[i];
    if (elsewhere)
        TRY(alloc_zeroed(&x->gathered, size, sizeof *x->gathered, "the calls of a group", e));
    TRY(c->ops->issue(c, &barrier, NULL, e)); // all have found them, and rows may be used again
done:
    return result;
}

// "rank 1 calls all_gather of 512 fp32 (as UNSHARD bucket 3)". In another process the function that describes
// activities may lie elsewhere, so it is that of rank `own` of this machine.
static void describe(const comm_recorder *r, int own, const comm_record_side *s, char *out,
                     size_t room)
{
    const comm_record_entry *x = &s->entry;
    char call[CALL_TEXT_BYTES], words[ACTIVITY_BYTES] = "";
    void (*describe_what)(uint64_t, char *, size_t) =
        atomic_load(&r->o.watchdog->activities[own].describe);
    if (describe_what && x->what) describe_what(x->what, words, sizeof words);
    snprintf(out, room, "rank %d %s%s%s%s", (int)s->rank, comm_signature_describe(&x->call, call),
             words[0] ? " (as " : "", words, words[0] ? ")" : "");
}

static comm_record_side side_of(const comm_recording *x, int rank, const comm_record_entry *entry)
{
    return (comm_record_side){.entry = *entry, .rank = x->recorder->o.first_rank + rank};
}

// All name the pair in the same order.
static status differ(comm *c, const comm_record_side *a, const comm_record_side *b, err *e)
{
    const comm_recording *x = c->recording;
    const comm_recorder *r = x->recorder;
    char low[CALL_TEXT_BYTES + ACTIVITY_BYTES + 32], high[sizeof low];
    err why = {0};
    describe(r, x->rank, a->rank < b->rank ? a : b, low, sizeof low);
    describe(r, x->rank, a->rank < b->rank ? b : a, high, sizeof high);
    err_set(&why, E_INTERNAL, "desync in operation %llu%s%s: %s; %s",
            (unsigned long long)a->entry.sequence, c->label ? " over " : "",
            c->label ? c->label : "", low, high);
    comm_failure_set(r->o.failure, -1, &why); // -1: either of the two may be wrong
    return err_set(e, E_INTERNAL, "%s", why.text);
}

static status differ_here(comm *c, int member, const comm_record_entry *mine,
                          const comm_record_entry *theirs, err *e)
{
    const comm_recording *x = c->recording;
    const comm_record_side own = side_of(x, x->rank, mine),
                           other = side_of(x, x->peer_ranks[member], theirs);
    return differ(c, &own, &other, e);
}

// The error of a wait for a member that ended without its call.
static status absent(comm *c, int member, const comm_record_entry *mine, const comm_wait *wait,
                     err *e)
{
    const comm_recording *x = c->recording;
    const comm_recorder *r = x->recorder;
    comm_failure *f = r->o.failure;
    const comm_record_entry leaves = {.call = {.kind = CALL_LEAVE}};
    const comm_record_group *g = x->peers[member];
    const bool left = atomic_load(&g->left) || atomic_load(&g->key) != atomic_load(&x->group->key);
    if (left && !comm_failure_await(f)) return differ_here(c, member, mine, &leaves, e);
    return comm_watchdog_error(r->o.watchdog, f, wait, e);
}

static void idle(void *arg)
{
    const comm_wait *wait = arg;
    comm_watchdog_wait(wait->last_calls->recorder->o.watchdog, wait);
}

static status await(comm *c, int member, const comm_record_entry *mine, comm_record_entry *theirs,
                    err *e)
{
    const comm_recording *x = c->recording;
    comm_record_group *g = x->peers[member];
    const comm_recorder *r = x->recorder;
    const comm_last_calls calls = {.recorder = x->recorder, .describe = comm_recorder_describe};
    const comm_wait wait = {.waiting = r->o.first_rank + x->rank,
                            .awaited = r->o.first_rank + x->peer_ranks[member],
                            .first = r->o.first_rank,
                            .ranks = r->o.ranks,
                            .what = mine->what,
                            .call = comm_signature_name(&mine->call),
                            .label = c->label,
                            .last_calls = &calls};
    doorbell_limits limits = r->limits;
    limits.idle = idle;
    limits.idle_arg = (void *)(uintptr_t)&wait;
    const uint32_t target = (uint32_t)mine->sequence;
    uint64_t id;
    uint32_t now;
    while ((int32_t)((now = doorbell_read(&g->published)) - target) < 0)
        if (!doorbell_wait(&g->published, now, &g->left, &limits))
            return absent(c, member, mine, &wait, e);
    return comm_record_read(&g->next[target & 1], theirs, &id) && id == mine->sequence
               ? OK
               : absent(c, member, mine, &wait, e);
}

// Waits for the members of this machine, and compares with each.
static status compare_here(comm *c, const comm_record_entry *mine, err *e)
{
    status result = OK;
    const comm_recording *x = c->recording;
    comm_record_group *own = x->group;
    comm_record_write(&own->next[mine->sequence & 1], mine->sequence, mine);
    doorbell_ring(&own->published, (uint32_t)mine->sequence);
    for (int i = 1; i < c->size; i++) {
        const int member = (c->rank + i) % c->size;
        comm_record_entry theirs;
        if (!x->peers[member]) continue; // of another machine
        TRY(await(c, member, mine, &theirs, e));
        if (memcmp(&mine->call, &theirs.call, sizeof theirs.call) != 0)
            return differ_here(c, member, mine, &theirs, e);
    }
done:
    return result;
}

// Every member gets the same calls, so all name the same pair.
static status compare_everywhere(comm *c, const comm_record_entry *mine, err *e)
{
    status result = OK;
    const comm_recording *x = c->recording;
    const comm_record_side own = side_of(x, x->rank, mine), *all = x->gathered;
    const comm_call call = {CALL_COMPARE, .type = U8, .count = sizeof own, .in = &own,
                            .out = x->gathered};
    TRY(c->ops->issue(c, &call, NULL, e));
    for (int r = 1; r < c->size; r++)
        if (memcmp(&all[r].entry.call, &all[0].entry.call, sizeof all[r].entry.call) != 0)
            return differ(c, &all[0], &all[r], e);
done:
    return result;
}

status comm_record_compare(comm *c, const comm_record_entry *mine, err *e)
{
    status result = OK;
    TRY(compare_here(c, mine, e));
    if (c->recording->gathered) TRY(compare_everywhere(c, mine, e));
done:
    return result;
}
