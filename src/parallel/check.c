// check.c -- proves the instruction lists of a pipeline before they run. Called where a schedule is
// made ready for a trainer or is explained. Messages between stages are walk.c's; here one list at
// a time is followed, with what it says to be where. Deliberately does not know how lists are
// built: it trusts no order that schedule.c intends.
#include "parallel/check.h"

#include "parallel/check_private.h"

#include <stdlib.h>

static int stages_of(const list_check *c)
{
    return c->p->o.mesh.size[AXIS_PP];
}

static unsigned char *did(const list_check *c, int micro, int block)
{
    return &c->did[micro * c->p->o.blocks + block];
}

static int chunk_of(const list_check *c, const instr *x)
{
    return plan_part_of(c->p, x->index) / stages_of(c);
}

// ---- One instruction

static status check_micro(const list_check *c, const instr *x, err *e)
{
    if (x->micro < 0 || x->micro >= c->p->o.micros)
        REFUSE("valid micro-batches: 0 to %d", c->p->o.micros - 1);
    return OK;
}

static status check_block(const list_check *c, const instr *x, err *e)
{
    if (x->index < 0 || x->index >= c->p->o.blocks || !plan_has_block(c->p, x->index))
        REFUSE("block %d is not on this stage", x->index);
    return OK;
}

static status check_weights(const list_check *c, const instr *x, err *e)
{
    const plan_buckets l = plan_buckets_of(c->p, x->index);
    for (int i = 0; c->p->weight_slots && i < l.count; i++)
        if (keepers_find(&c->weights, l.at[i]) < 0)
            REFUSE("the weights of bucket %d are not gathered", l.at[i]);
    return OK;
}

// An evaluation's batch is there before its list begins.
static status check_batch(const list_check *c, const instr *x, err *e)
{
    if (c->trains && keepers_find(&c->batch, x->micro) < 0)
        REFUSE("the batch of micro %d is not loaded", x->micro);
    return OK;
}

// Passes that add to gradients: the loss does in its forward, norms in the first half of backward.
static status check_gradients(const list_check *c, const instr *x, err *e)
{
    const plan_buckets l = plan_buckets_of(c->p, x->index);
    for (int i = 0; i < l.count; i++) {
        const int k = l.at[i];
        if (c->bucket[k] & REDUCED) REFUSE("bucket %d was reduced for the last time before", k);
        if (c->p->gradient_slots && keepers_find(&c->gradients, k) < 0)
            REFUSE("the gradients of bucket %d have no slot", k);
    }
    return OK;
}

static status check_forward(list_check *c, const instr *x, err *e)
{
    status result = OK;
    const int b = x->index, last = c->p->o.blocks - 1;
    unsigned char *now = did(c, x->micro, b);
    keepers *act = &c->act[chunk_of(c, x)];
    if (*now & RAN) REFUSE("it ran before");
    if (b == 0 || b == last) TRY(check_batch(c, x, e));
    if (b > 0 && !(*now & RECEIVED) && !(*did(c, x->micro, b - 1) & RAN))
        REFUSE("its input is not there: block %d has not run and nothing was received", b - 1);
    TRY(check_weights(c, x, e));
    TRY(check_enter(c, act, x->slot, x->micro, "activation", e));
    if (c->trains && b == last) TRY(check_gradients(c, x, e));
    if (*now & RECEIVED) check_leave(act, x->slot); // the input is the block's from now on
    *now |= RAN;
done:
    return result;
}

static status check_backward_input(list_check *c, const instr *x, err *e)
{
    status result = OK;
    const int b = x->index, last = c->p->o.blocks - 1;
    unsigned char *now = did(c, x->micro, b);
    if (!(*now & RAN)) REFUSE("its forward has not run");
    if (*now & RAN_INPUT) REFUSE("it ran before");
    if (b < last && !(*now & GOT_GRADIENT) && !(*did(c, x->micro, b + 1) & RAN_INPUT))
        REFUSE("the gradient of its output is not there: block %d has not run backward and nothing "
               "was received",
               b + 1);
    TRY(check_gradients(c, x, e));
    TRY(check_weights(c, x, e));
    TRY(check_there(c, &c->act[chunk_of(c, x)], x->slot, x->micro, "activation", e));
    if (x->kind == BACKWARD_INPUT)
        TRY(check_enter(c, &c->held[chunk_of(c, x)], x->held, x->micro, "held", e));
    *now |= RAN_INPUT;
done:
    return result;
}

static status check_backward_weight(list_check *c, const instr *x, err *e)
{
    status result = OK;
    unsigned char *now = did(c, x->micro, x->index);
    keepers *act = &c->act[chunk_of(c, x)], *held = &c->held[chunk_of(c, x)];
    if (!(*now & RAN_INPUT)) REFUSE("the gradient of its input has not been taken");
    if (*now & RAN_WEIGHT) REFUSE("it ran before");
    if (x->index == 0) TRY(check_batch(c, x, e));
    TRY(check_gradients(c, x, e));
    TRY(check_weights(c, x, e));
    TRY(check_there(c, act, x->slot, x->micro, "activation", e));
    check_leave(act, x->slot);
    if (x->kind == BACKWARD_WEIGHT) {
        TRY(check_there(c, held, x->held, x->micro, "held", e));
        check_leave(held, x->held);
    }
    *now |= RAN_WEIGHT;
done:
    return result;
}

static status check_message(list_check *c, const instr *x, err *e)
{
    status result = OK;
    unsigned char *now = did(c, x->micro, x->index);
    if (x->kind == RECV_ACT) {
        TRY(check_enter(c, &c->act[chunk_of(c, x)], x->slot, x->micro, "activation", e));
        *now |= RECEIVED;
    }
    if (x->kind == RECV_GRAD) *now |= GOT_GRADIENT;
    if (x->kind == SEND_ACT && !(*now & RAN)) REFUSE("the block has not run");
    if (x->kind == SEND_GRAD && !(*now & RAN_INPUT)) REFUSE("the block has not run backward");
done:
    return result;
}

static status check_pass(list_check *c, const instr *x, err *e)
{
    status result = OK;
    TRY(check_micro(c, x, e));
    TRY(check_block(c, x, e));
    if (x->kind == FORWARD) return check_forward(c, x, e);
    if (x->kind == BACKWARD || x->kind == BACKWARD_INPUT) TRY(check_backward_input(c, x, e));
    if (x->kind == BACKWARD || x->kind == BACKWARD_WEIGHT) TRY(check_backward_weight(c, x, e));
    TRY(check_message(c, x, e));
done:
    return result;
}

static status check_load(list_check *c, const instr *x, err *e)
{
    status result = OK;
    TRY(check_micro(c, x, e));
    TRY(check_slot(c, x->slot, c->batch.count, "batch", e));
    keepers_put(&c->batch, x->slot, x->micro);
done:
    return result;
}

static bool is_tied(const plan *p, int bucket)
{
    for (int i = 0; i < p->bucket[bucket].rows; i++)
        if (p->row[p->order[p->bucket[bucket].first_row + i]].tied) return true;
    return false;
}

// Where they are kept in parts, a slot has what is to be added to them; then none does.
static status check_reduce(list_check *c, const instr *x, err *e)
{
    status result = OK;
    unsigned char *now = &c->bucket[x->index];
    if (*now & REDUCED) REFUSE("bucket %d was reduced for the last time before", x->index);
    if (c->p->gradient_slots && (x->slot >= 0 || !(*now & KEPT)))
        TRY(check_bucket_there(c, &c->gradients, x, "gradient", e));
    if (x->slot < 0 && keepers_find(&c->gradients, x->index) >= 0)
        REFUSE("gradient slot %d has more of bucket %d", keepers_find(&c->gradients, x->index),
               x->index);
    if (x->kind == TIE) {
        *now |= TIED;
        return OK;
    }
    if (x->last && is_tied(c->p, x->index) && !(*now & TIED)) REFUSE("its TIE has not run");
    if (c->p->gradient_slots && x->slot >= 0) c->gradients.who[x->slot] = -1;
    if (x->state[TIERED_GRADIENTS] >= 0)
        TRY(check_put_state(c, TIERED_GRADIENTS, x->state[TIERED_GRADIENTS], x->index, true, e));
    *now |= x->last ? REDUCED : KEPT;
done:
    return result;
}

static status check_clip(list_check *c, err *e)
{
    if (c->clips++) REFUSE("it is the second in this list");
    for (int k = 0; k < c->p->buckets; k++)
        if (!(c->bucket[k] & REDUCED)) REFUSE("bucket %d is not reduced", k);
    return OK;
}

static status check_update(list_check *c, const instr *x, err *e)
{
    status result = OK;
    unsigned char *now = &c->bucket[x->index];
    if (x->kind == UPDATE && !c->clips) REFUSE("CLIP has not run");
    if (x->kind == PUBLISH && !(*now & UPDATED)) REFUSE("its UPDATE has not run");
    unsigned char bit = x->kind == UPDATE ? UPDATED : PUBLISHED;
    if (*now & bit) REFUSE("it ran before");
    *now |= bit;
    if (x->kind == UPDATE) TRY(check_update_state(c, x, e));
done:
    return result;
}

// Weights that are in a file are gathered from the slot that they were fetched into, once; or from
// the parts that neighbours have.
static status check_gather(list_check *c, const instr *x, err *e)
{
    if (x->kept && !(c->bucket[x->index] & ASIDE)) REFUSE("its KEEP has not run");
    if (!x->kept && c->p->o.tier[TIERED_WEIGHTS] == TIER_FILE) {
        const int slot = keepers_find(&c->state[TIERED_WEIGHTS], x->index);
        if (slot < 0) REFUSE("its weights are not fetched");
        c->state[TIERED_WEIGHTS].who[slot] = -1;
    }
    return check_take_bucket(c, &c->weights, x, "weight", e);
}

static status check_keep(list_check *c, const instr *x, err *e)
{
    status result = OK;
    if (!c->p->keeps_parts) REFUSE("no weights are kept among neighbours");
    TRY(check_bucket_there(c, &c->weights, x, "weight", e));
    c->bucket[x->index] |= ASIDE;
done:
    return result;
}

static status check_bucket(list_check *c, const instr *x, err *e)
{
    status result = OK;
    if (x->index < 0 || x->index >= c->p->buckets)
        REFUSE("found bucket %d; valid: below %d", x->index, c->p->buckets);
    switch (x->kind) {
    case GATHER:
        return check_gather(c, x, e);
    case KEEP:
        return check_keep(c, x, e);
    case RELEASE:
        TRY(check_bucket_there(c, &c->weights, x, "weight", e));
        c->weights.who[x->slot] = -1;
        break;
    case FETCH:
    case FLUSH:
        return check_travel(c, x, e);
    case CLAIM:
        return check_take_bucket(c, &c->gradients, x, "gradient", e);
    case TIE:
    case REDUCE:
        return check_reduce(c, x, e);
    default:
        return check_update(c, x, e);
    }
done:
    return result;
}

static status check_one(list_check *c, const instr *x, err *e)
{
    switch (x->kind) {
    case LOAD:
        return check_load(c, x, e);
    case CLIP:
        return check_clip(c, e);
    case RECV_ACT:
    case FORWARD:
    case SEND_ACT:
    case RECV_GRAD:
    case BACKWARD:
    case BACKWARD_INPUT:
    case BACKWARD_WEIGHT:
    case SEND_GRAD:
        return check_pass(c, x, e);
    default:
        return check_bucket(c, x, e);
    }
}

// ---- One list

static bool trains(const schedule *s)
{
    for (int i = 0; i < s->count; i++)
        if (s->at[i].kind == CLIP) return true;
    return false;
}

// Nothing was left out, and nothing is left behind.
static status check_complete(const list_check *c, err *e)
{
    const bool train = c->trains;
    const int micros = train ? c->p->o.micros : 1, want = train ? RAN_WEIGHT : RAN;
    for (int m = 0; m < micros; m++)
        for (int b = 0; b < c->p->o.blocks; b++)
            if (plan_has_block(c->p, b) && !(*did(c, m, b) & want))
                return err_set(e, E_INTERNAL, "stage %d: its list has no %s of micro %d block %d",
                               c->at.stage, train ? "backward" : "forward", m, b);
    for (int k = 0; train && k < c->p->buckets; k++)
        if (!(c->bucket[k] & PUBLISHED))
            return err_set(e, E_INTERNAL, "stage %d: its list has no PUBLISH of bucket %d",
                           c->at.stage, k);
    for (int k = 0; k < c->p->buckets; k++)
        if (keepers_find(&c->weights, k) >= 0 || keepers_find(&c->gradients, k) >= 0)
            return err_set(e, E_INTERNAL, "stage %d: at its list's end bucket %d still has a slot",
                           c->at.stage, k);
    for (int t = 0; t < TIERED; t++)
        for (int i = 0; i < c->state[t].count; i++)
            if (c->state[t].left[i])
                return err_set(e, E_INTERNAL, "stage %d: its list has no FLUSH of %s of bucket %d",
                               c->at.stage, tiered_name((tiered)t), c->state[t].who[i]);
    return OK;
}

static status open_check(list_check *c, err *e)
{
    const schedule *s = c->s;
    const int micros = c->p->o.micros, buckets = c->p->buckets;
    bool good = keepers_open(&c->batch, s->batch_slots, micros) &
                keepers_open(&c->weights, s->weights.count, buckets) &
                keepers_open(&c->gradients, s->gradients.count, buckets);
    for (int t = 0; t < TIERED; t++) good &= keepers_open(&c->state[t], s->state[t].count, buckets);
    c->chunks = c->p->parts / stages_of(c);
    c->did = calloc((size_t)c->p->o.micros * (size_t)c->p->o.blocks, 1);
    c->bucket = calloc((size_t)c->p->buckets + 1, 1);
    c->act = calloc((size_t)c->chunks, sizeof *c->act);
    c->held = calloc((size_t)c->chunks, sizeof *c->held);
    good = good && c->did && c->bucket && c->act && c->held;
    for (int i = 0; good && i < c->chunks; i++)
        good = keepers_open(&c->act[i], s->act_slots[i], micros) &
               keepers_open(&c->held[i], s->held_slots[i], micros);
    return good ? OK : err_set(e, E_IO, "no memory to check a schedule");
}

static void close_check(list_check *c)
{
    for (int i = 0; i < c->chunks; i++) {
        if (c->act) keepers_close(&c->act[i]);
        if (c->held) keepers_close(&c->held[i]);
    }
    free(c->act);
    free(c->held);
    keepers_close(&c->batch);
    keepers_close(&c->weights);
    keepers_close(&c->gradients);
    for (int t = 0; t < TIERED; t++) keepers_close(&c->state[t]);
    free(c->did);
    free(c->bucket);
}

static status check_list(const schedule *const *of_stage, const plan *p, int stage, err *e)
{
    status result = OK;
    list_check c = {.of_stage = of_stage,
                    .s = of_stage[stage],
                    .p = p,
                    .at = {.stage = stage},
                    .trains = trains(of_stage[stage])};
    TRY(open_check(&c, e));
    for (; c.at.number < c.s->count; c.at.number++) TRY(check_one(&c, &c.s->at[c.at.number], e));
    TRY(check_complete(&c, e));
done:
    close_check(&c);
    return result;
}

status schedule_check(const schedule *const *of_stage, const plan *const *plan_of_stage, int stages,
                      err *e)
{
    status result = OK;
    TRY(schedule_walk(of_stage, stages, NULL, NULL, e));
    for (int i = 0; i < stages; i++) TRY(check_list(of_stage, plan_of_stage[i], i, e));
done:
    return result;
}
