// check_slots.c -- who is in which slot while a list is proved: micro-batches, gathered buckets,
// gradients, and state on its way between a file and its use. Called by check.c. Deliberately does
// not know when an instruction may run otherwise.
#include "parallel/check_private.h"

#include <stdlib.h>

bool keepers_open(keepers *k, int count, int whos)
{
    *k = (keepers){.count = count};
    k->who = malloc(((size_t)count + 1) * sizeof *k->who);
    k->left = calloc((size_t)count + 1, sizeof *k->left);
    k->slot = malloc(((size_t)whos + 1) * sizeof *k->slot);
    for (int i = 0; k->who && i < count; i++) k->who[i] = -1;
    for (int i = 0; k->slot && i < whos; i++) k->slot[i] = -1;
    return k->who && k->left && k->slot;
}

void keepers_close(keepers *k)
{
    free(k->who);
    free(k->left);
    free(k->slot);
}

int keepers_find(const keepers *k, int who)
{
    const int slot = k->slot[who];
    return slot >= 0 && k->who[slot] == who ? slot : -1;
}

void keepers_put(keepers *k, int slot, int who)
{
    k->who[slot] = who;
    k->slot[who] = slot;
}

status check_slot(const list_check *c, int slot, int count, const char *what, err *e)
{
    if (slot < 0 || slot >= count) REFUSE("found %s slot %d; valid: below %d", what, slot, count);
    return OK;
}

// ---- Slots of activations, and of what lies between the halves of a backward

status check_enter(const list_check *c, keepers *k, int slot, int micro, const char *what, err *e)
{
    status result = OK;
    TRY(check_slot(c, slot, k->count, what, e));
    if (k->who[slot] >= 0 && k->who[slot] != micro)
        REFUSE("%s slot %d still has micro %d", what, slot, k->who[slot]);
    keepers_put(k, slot, micro);
    k->left[slot]++;
done:
    return result;
}

status check_there(const list_check *c, const keepers *k, int slot, int micro, const char *what,
                   err *e)
{
    status result = OK;
    TRY(check_slot(c, slot, k->count, what, e));
    if (k->who[slot] != micro) REFUSE("%s slot %d does not have micro %d", what, slot, micro);
done:
    return result;
}

void check_leave(keepers *k, int slot)
{
    if (--k->left[slot] == 0) k->who[slot] = -1;
}

// ---- Slots of buckets

status check_take_bucket(const list_check *c, keepers *k, const instr *x, const char *what, err *e)
{
    status result = OK;
    TRY(check_slot(c, x->slot, k->count, what, e));
    if (k->who[x->slot] >= 0)
        REFUSE("%s slot %d still has bucket %d", what, x->slot, k->who[x->slot]);
    if (keepers_find(k, x->index) >= 0)
        REFUSE("bucket %d is in %s slot %d already", x->index, what, keepers_find(k, x->index));
    keepers_put(k, x->slot, x->index);
done:
    return result;
}

status check_bucket_there(const list_check *c, const keepers *k, const instr *x, const char *what,
                          err *e)
{
    status result = OK;
    TRY(check_slot(c, x->slot, k->count, what, e));
    if (k->who[x->slot] != x->index)
        REFUSE("%s slot %d does not have bucket %d", what, x->slot, x->index);
done:
    return result;
}

// ---- Slots between a file and their use

status check_put_state(list_check *c, tiered what, int slot, int bucket, bool to_write, err *e)
{
    status result = OK;
    keepers *k = &c->state[what];
    TRY(check_slot(c, slot, k->count, "state", e));
    if (k->left[slot] && (k->who[slot] != bucket || !to_write))
        REFUSE("%s slot %d still has those of bucket %d to be written", tiered_name(what), slot,
               k->who[slot]);
    keepers_put(k, slot, bucket);
    k->left[slot] = to_write;
done:
    return result;
}

static status check_state(const list_check *c, tiered what, int slot, int bucket, err *e)
{
    status result = OK;
    const keepers *k = &c->state[what];
    TRY(check_slot(c, slot, k->count, "state", e));
    if (k->who[slot] != bucket)
        REFUSE("%s slot %d does not have bucket %d", tiered_name(what), slot, bucket);
done:
    return result;
}

// An update reads all of its state, but for weights that are rounded from what the optimizer keeps.
status check_update_state(list_check *c, const instr *x, err *e)
{
    status result = OK;
    for (int t = 0; t < TIERED; t++) {
        if (x->state[t] < 0) continue;
        if (t != TIERED_WEIGHTS || c->p->o.compute == F32)
            TRY(check_state(c, (tiered)t, x->state[t], x->index, e));
        if (t != TIERED_GRADIENTS)
            TRY(check_put_state(c, (tiered)t, x->state[t], x->index, true, e));
    }
done:
    return result;
}

status check_travel(list_check *c, const instr *x, err *e)
{
    status result = OK;
    if (x->whole && x->kind == FETCH) return check_take_bucket(c, &c->gradients, x, "gradient", e);
    if (x->whole) {
        TRY(check_bucket_there(c, &c->gradients, x, "gradient", e));
        c->gradients.who[x->slot] = -1;
        return OK;
    }
    if (x->what < 0 || x->what >= TIERED)
        REFUSE("found state %d; valid: below %d", x->what, TIERED);
    if (x->kind == FETCH) return check_put_state(c, x->what, x->slot, x->index, false, e);
    TRY(check_state(c, x->what, x->slot, x->index, e));
    c->state[x->what].left[x->slot] = 0;
done:
    return result;
}
