// verify_slots.c -- who is in which slot while a list is proved: micro-batches, gathered buckets,
// gradients, and state on its way between a file and its use. Called by verify.c. Deliberately does
// not know when an instruction may run otherwise.
#include "parallel/verify_private.h"

#include <stdlib.h>

bool verify_slots_open(verify_slots *k, int count, int whos)
{
    *k = (verify_slots){.count = count};
    k->who = malloc(((size_t)count + 1) * sizeof *k->who);
    k->left = calloc((size_t)count + 1, sizeof *k->left);
    k->slot = malloc(((size_t)whos + 1) * sizeof *k->slot);
    for (int i = 0; k->who && i < count; i++) k->who[i] = -1;
    for (int i = 0; k->slot && i < whos; i++) k->slot[i] = -1;
    return k->who && k->left && k->slot;
}

void verify_slots_close(verify_slots *k)
{
    free(k->who);
    free(k->left);
    free(k->slot);
}

int verify_slots_find(const verify_slots *k, int who)
{
    const int slot = k->slot[who];
    return slot >= 0 && k->who[slot] == who ? slot : -1;
}

void verify_slots_put(verify_slots *k, int slot, int who)
{
    k->who[slot] = who;
    k->slot[who] = slot;
}

status verify_slot(const verify_list *c, int slot, int count, const char *what, err *e)
{
    if (slot < 0 || slot >= count) REFUSE("found %s slot %d; valid: below %d", what, slot, count);
    return OK;
}

// ---- Slots of activations, and of what lies between the halves of a backward

status verify_enter(const verify_list *c, verify_slots *k, int slot, int micro, const char *what,
                    err *e)
{
    status result = OK;
    TRY(verify_slot(c, slot, k->count, what, e));
    if (k->who[slot] >= 0 && k->who[slot] != micro)
        REFUSE("%s slot %d still has micro %d", what, slot, k->who[slot]);
    verify_slots_put(k, slot, micro);
    k->left[slot]++;
done:
    return result;
}

status verify_there(const verify_list *c, const verify_slots *k, int slot, int micro,
                    const char *what, err *e)
{
    status result = OK;
    TRY(verify_slot(c, slot, k->count, what, e));
    if (k->who[slot] != micro) REFUSE("%s slot %d does not have micro %d", what, slot, micro);
done:
    return result;
}

void verify_leave(verify_slots *k, int slot)
{
    if (--k->left[slot] == 0) k->who[slot] = -1;
}

// ---- Slots of buckets

status verify_take_bucket(const verify_list *c, verify_slots *k, const schedule_instr *x,
                          const char *what, err *e)
{
    status result = OK;
    TRY(verify_slot(c, x->slot, k->count, what, e));
    if (k->who[x->slot] >= 0)
        REFUSE("%s slot %d still has bucket %d", what, x->slot, k->who[x->slot]);
    if (verify_slots_find(k, x->index) >= 0)
        REFUSE("bucket %d is in %s slot %d already", x->index, what,
               verify_slots_find(k, x->index));
    verify_slots_put(k, x->slot, x->index);
done:
    return result;
}

status verify_bucket_there(const verify_list *c, const verify_slots *k, const schedule_instr *x,
                           const char *what, err *e)
{
    status result = OK;
    TRY(verify_slot(c, x->slot, k->count, what, e));
    if (k->who[x->slot] != x->index)
        REFUSE("%s slot %d does not have bucket %d", what, x->slot, x->index);
done:
    return result;
}

// ---- Slots between a file and their use

status verify_put_state(verify_list *c, plan_state what, int slot, int bucket, bool to_write,
                        err *e)
{
    status result = OK;
    verify_slots *k = &c->state[what];
    TRY(verify_slot(c, slot, k->count, "state", e));
    if (k->left[slot] && (k->who[slot] != bucket || !to_write))
        REFUSE("%s slot %d still has those of bucket %d to be written", plan_state_name(what), slot,
               k->who[slot]);
    verify_slots_put(k, slot, bucket);
    k->left[slot] = to_write;
done:
    return result;
}

static status check_state(const verify_list *c, plan_state what, int slot, int bucket, err *e)
{
    status result = OK;
    const verify_slots *k = &c->state[what];
    TRY(verify_slot(c, slot, k->count, "state", e));
    if (k->who[slot] != bucket)
        REFUSE("%s slot %d does not have bucket %d", plan_state_name(what), slot, bucket);
done:
    return result;
}

// An update reads all of its state, but for weights that are rounded from what the optimizer keeps.
status verify_update_state(verify_list *c, const schedule_instr *x, err *e)
{
    status result = OK;
    for (int t = 0; t < PLAN_STATES; t++) {
        if (x->state[t] < 0) continue;
        if (t != PLAN_WEIGHTS || c->p->o.compute == F32)
            TRY(check_state(c, (plan_state)t, x->state[t], x->index, e));
        if (t != PLAN_GRADIENTS)
            TRY(verify_put_state(c, (plan_state)t, x->state[t], x->index, true, e));
    }
done:
    return result;
}

status verify_swap(verify_list *c, const schedule_instr *x, err *e)
{
    status result = OK;
    if (x->full && x->kind == SWAP_IN)
        return verify_take_bucket(c, &c->gradients, x, "gradient", e);
    if (x->full) {
        TRY(verify_bucket_there(c, &c->gradients, x, "gradient", e));
        c->gradients.who[x->slot] = -1;
        return OK;
    }
    if (x->what < 0 || x->what >= PLAN_STATES)
        REFUSE("found state %d; valid: below %d", x->what, PLAN_STATES);
    if (x->kind == SWAP_IN) return verify_put_state(c, x->what, x->slot, x->index, false, e);
    TRY(check_state(c, x->what, x->slot, x->index, e));
    c->state[x->what].left[x->slot] = 0;
done:
    return result;
}
