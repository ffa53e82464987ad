// verify.c -- proves the instruction lists of a pipeline before they run. Called where a schedule is
// made ready for a trainer or is explained. Messages between stages are replay.c's; here one list at
// a time is followed, with what it says to be where. Deliberately does not know how lists are
// built: it trusts no order that schedule.c intends.
#include "parallel/verify.h"

#include "parallel/verify_private.h"

#include <stdlib.h>

static int stages_of(const verify_list *c)
{
    return c->p->o.mesh.size[AXIS_PP];
}

static unsigned char *did(const verify_list *c, int micro, int block)
{
    return &c->did[micro * c->p->o.blocks + block];
}

static int chunk_of(const verify_list *c, const schedule_instr *x)
{
    return plan_part_of(c->p, x->index) / stages_of(c);
}

// ---- One instruction

static status check_micro(const verify_list *c, const schedule_instr *x, err *e)
{
    if (x->micro < 0 || x->micro >= c->p->o.micros)
        REFUSE("valid micro-batches: 0 to %d", c->p->o.micros - 1);
    return OK;
}

static status check_block(const verify_list *c, const schedule_instr *x, err *e)
{
    if (x->index < 0 || x->index >= c->p->o.blocks || !plan_has_block(c->p, x->index))
        REFUSE("block %d is not on this stage", x->index);
    return OK;
}

static status check_weights(const verify_list *c, const schedule_instr *x, err *e)
{
    const plan_buckets l = plan_buckets_of(c->p, x->index);
    for (int i = 0; c->p->weight_slots && i < l.count; i++)
        if (verify_slots_find(&c->weights, l.items[i]) < 0)
            REFUSE("the weights of bucket %d are not gathered", l.items[i]);
    return OK;
}

// An evaluation's batch is there before its list begins.
static status check_batch(const verify_list *c, const schedule_instr *x, err *e)
{
    if (c->trains && verify_slots_find(&c->batch, x->micro) < 0)
        REFUSE("the batch of micro %d is not loaded", x->micro);
    return OK;
}

// Passes that add to gradients: the loss does in its forward, norms in the first half of backward.
static status check_gradients(const verify_list *c, const schedule_instr *x, err *e)
{
    const plan_buckets l = plan_buckets_of(c->p, x->index);
    for (int i = 0; i < l.count; i++) {
        const int k = l.items[i];
        if (c->bucket[k] & REDUCED) REFUSE("bucket %d was reduced for the last time before", k);
        if (c->p->gradient_slots && verify_slots_find(&c->gradients, k) < 0)
            REFUSE("the gradients of bucket %d have no slot", k);
    }
    return OK;
}

static status check_forward(verify_list *c, const schedule_instr *x, err *e)
{
    status result = OK;
    const int b = x->index, last = c->p->o.blocks - 1;
    unsigned char *now = did(c, x->micro, b);
    verify_slots *act = &c->act[chunk_of(c, x)];
    if (*now & RAN) REFUSE("it ran before");
    if (b == 0 || b == last) TRY(check_batch(c, x, e));
    if (b > 0 && !(*now & RECEIVED) && !(*did(c, x->micro, b - 1) & RAN))
        REFUSE("its input is not there: block %d has not run and nothing was received", b - 1);
    TRY(check_weights(c, x, e));
    TRY(verify_enter(c, act, x->slot, x->micro, "activation", e));
    if (c->trains && b == last) TRY(check_gradients(c, x, e));
    if (*now & RECEIVED) verify_leave(act, x->slot); // the input is the block's from now on
    *now |= RAN;
done:
    return result;
}

static status check_backward_input(verify_list *c, const schedule_instr *x, err *e)
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
    TRY(verify_there(c, &c->act[chunk_of(c, x)], x->slot, x->micro, "activation", e));
    if (x->kind == BACKWARD_INPUT)
        TRY(verify_enter(c, &c->held[chunk_of(c, x)], x->wgrad_slot, x->micro, "held", e));
    *now |= RAN_INPUT;
done:
    return result;
}

static status check_backward_weight(verify_list *c, const schedule_instr *x, err *e)
{
    status result = OK;
    unsigned char *now = did(c, x->micro, x->index);
    verify_slots *act = &c->act[chunk_of(c, x)], *held = &c->held[chunk_of(c, x)];
    if (!(*now & RAN_INPUT)) REFUSE("the gradient of its input has not been taken");
    if (*now & RAN_WEIGHT) REFUSE("it ran before");
    if (x->index == 0) TRY(check_batch(c, x, e));
    TRY(check_gradients(c, x, e));
    TRY(check_weights(c, x, e));
    TRY(verify_there(c, act, x->slot, x->micro, "activation", e));
    verify_leave(act, x->slot);
    if (x->kind == BACKWARD_WEIGHT) {
        TRY(verify_there(c, held, x->wgrad_slot, x->micro, "held", e));
        verify_leave(held, x->wgrad_slot);
    }
    *now |= RAN_WEIGHT;
done:
    return result;
}

static status check_message(verify_list *c, const schedule_instr *x, err *e)
{
    status result = OK;
    unsigned char *now = did(c, x->micro, x->index);
    if (x->kind == RECV_ACT) {
        TRY(verify_enter(c, &c->act[chunk_of(c, x)], x->slot, x->micro, "activation", e));
        *now |= RECEIVED;
    }
    if (x->kind == RECV_GRAD) *now |= GOT_GRADIENT;
    if (x->kind == SEND_ACT && !(*now & RAN)) REFUSE("the block has not run");
    if (x->kind == SEND_GRAD && !(*now & RAN_INPUT)) REFUSE("the block has not run backward");
done:
    return result;
}

static status check_pass(verify_list *c, const schedule_instr *x, err *e)
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

static status check_load(verify_list *c, const schedule_instr *x, err *e)
{
    status result = OK;
    TRY(check_micro(c, x, e));
    TRY(verify_slot(c, x->slot, c->batch.count, "batch", e));
    verify_slots_put(&c->batch, x->slot, x->micro);
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
static status check_reduce(verify_list *c, const schedule_instr *x, err *e)
{
    status result = OK;
    unsigned char *now = &c->bucket[x->index];
    if (*now & REDUCED) REFUSE("bucket %d was reduced for the last time before", x->index);
    if (c->p->gradient_slots && (x->slot >= 0 || !(*now & KEPT)))
        TRY(verify_bucket_there(c, &c->gradients, x, "gradient", e));
    if (x->slot < 0 && verify_slots_find(&c->gradients, x->index) >= 0)
        REFUSE("gradient slot %d has more of bucket %d", verify_slots_find(&c->gradients, x->index),
               x->index);
    if (x->kind == REDUCE_TIED_GRAD) {
        *now |= TIED;
        return OK;
    }
    if (x->last && is_tied(c->p, x->index) && !(*now & TIED))
        REFUSE("its REDUCE_TIED_GRAD has not run");
    if (c->p->gradient_slots && x->slot >= 0) c->gradients.who[x->slot] = -1;
    if (x->state[PLAN_GRADIENTS] >= 0)
        TRY(verify_put_state(c, PLAN_GRADIENTS, x->state[PLAN_GRADIENTS], x->index, true, e));
    *now |= x->last ? REDUCED : KEPT;
done:
    return result;
}

static status check_clip(verify_list *c, err *e)
{
    if (c->clips++) REFUSE("it is the second in this list");
    for (int k = 0; k < c->p->buckets; k++)
        if (!(c->bucket[k] & REDUCED)) REFUSE("bucket %d is not reduced", k);
    return OK;
}

static status check_update(verify_list *c, const schedule_instr *x, err *e)
{
    status result = OK;
    unsigned char *now = &c->bucket[x->index];
    if (x->kind == OPTIMIZER_STEP && !c->clips) REFUSE("CLIP_GRAD_NORM has not run");
    if (x->kind == ALL_GATHER_UPDATED && !(*now & UPDATED))
        REFUSE("its OPTIMIZER_STEP has not run");
    unsigned char bit = x->kind == OPTIMIZER_STEP ? UPDATED : PUBLISHED;
    if (*now & bit) REFUSE("it ran before");
    *now |= bit;
    if (x->kind == OPTIMIZER_STEP) TRY(verify_update_state(c, x, e));
done:
    return result;
}

// Weights that are in a file are gathered from the slot that they were fetched into, once; or from
// the parts that neighbours have.
static status check_gather(verify_list *c, const schedule_instr *x, err *e)
{
    if (x->post_forward && !(c->bucket[x->index] & ASIDE))
        REFUSE("its RESHARD_POST_FORWARD has not run");
    if (!x->post_forward && c->p->o.strategy.offload.tier[PLAN_WEIGHTS] == TIER_FILE) {
        const int slot = verify_slots_find(&c->state[PLAN_WEIGHTS], x->index);
        if (slot < 0) REFUSE("its weights are not fetched");
        c->state[PLAN_WEIGHTS].who[slot] = -1;
    }
    return verify_take_bucket(c, &c->weights, x, "weight", e);
}

static status check_keep(verify_list *c, const schedule_instr *x, err *e)
{
    status result = OK;
    if (!c->p->keeps_post_forward_shards) REFUSE("no weights are kept among neighbours");
    TRY(verify_bucket_there(c, &c->weights, x, "weight", e));
    c->bucket[x->index] |= ASIDE;
done:
    return result;
}

static status check_bucket(verify_list *c, const schedule_instr *x, err *e)
{
    status result = OK;
    if (x->index < 0 || x->index >= c->p->buckets)
        REFUSE("found bucket %d; valid: below %d", x->index, c->p->buckets);
    switch (x->kind) {
    case UNSHARD:
        return check_gather(c, x, e);
    case RESHARD_POST_FORWARD:
        return check_keep(c, x, e);
    case RESHARD:
        TRY(verify_bucket_there(c, &c->weights, x, "weight", e));
        c->weights.who[x->slot] = -1;
        break;
    case SWAP_IN:
    case SWAP_OUT:
        return verify_swap(c, x, e);
    case ALLOC_GRAD:
        return verify_take_bucket(c, &c->gradients, x, "gradient", e);
    case REDUCE_TIED_GRAD:
    case REDUCE_GRAD:
        return check_reduce(c, x, e);
    default:
        return check_update(c, x, e);
    }
done:
    return result;
}

static status check_one(verify_list *c, const schedule_instr *x, err *e)
{
    switch (x->kind) {
    case LOAD_BATCH:
        return check_load(c, x, e);
    case CLIP_GRAD_NORM:
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
        if (s->instr[i].kind == CLIP_GRAD_NORM) return true;
    return false;
}

// Nothing was left out, and nothing is left behind.
static status check_complete(const verify_list *c, err *e)
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
            return err_set(e, E_INTERNAL,
                           "stage %d: its list has no ALL_GATHER_UPDATED of bucket %d", c->at.stage,
                           k);
    for (int k = 0; k < c->p->buckets; k++)
        if (verify_slots_find(&c->weights, k) >= 0 || verify_slots_find(&c->gradients, k) >= 0)
            return err_set(e, E_INTERNAL, "stage %d: at its list's end bucket %d still has a slot",
                           c->at.stage, k);
    for (int t = 0; t < PLAN_STATES; t++)
        for (int i = 0; i < c->state[t].count; i++)
            if (c->state[t].left[i])
                return err_set(e, E_INTERNAL,
                               "stage %d: its list has no SWAP_OUT of %s of bucket %d", c->at.stage,
                               plan_state_name((plan_state)t), c->state[t].who[i]);
    return OK;
}

static status open_check(verify_list *c, err *e)
{
    const schedule *s = c->s;
    const int micros = c->p->o.micros, buckets = c->p->buckets;
    bool good = verify_slots_open(&c->batch, s->batch_slots, micros) &
                verify_slots_open(&c->weights, s->weights.count, buckets) &
                verify_slots_open(&c->gradients, s->gradients.count, buckets);
    for (int t = 0; t < PLAN_STATES; t++)
        good &= verify_slots_open(&c->state[t], s->state[t].count, buckets);
    c->chunks = c->p->chunks / stages_of(c);
    c->did = calloc((size_t)c->p->o.micros * (size_t)c->p->o.blocks, 1);
    c->bucket = calloc((size_t)c->p->buckets + 1, 1);
    c->act = calloc((size_t)c->chunks, sizeof *c->act);
    c->held = calloc((size_t)c->chunks, sizeof *c->held);
    good = good && c->did && c->bucket && c->act && c->held;
    for (int i = 0; good && i < c->chunks; i++)
        good = verify_slots_open(&c->act[i], s->act_slots[i], micros) &
               verify_slots_open(&c->held[i], s->wgrad_slots[i], micros);
    return good ? OK : err_set(e, E_MEMORY, "no memory to check a schedule");
}

static void close_check(verify_list *c)
{
    for (int i = 0; i < c->chunks; i++) {
        if (c->act) verify_slots_close(&c->act[i]);
        if (c->held) verify_slots_close(&c->held[i]);
    }
    free(c->act);
    free(c->held);
    verify_slots_close(&c->batch);
    verify_slots_close(&c->weights);
    verify_slots_close(&c->gradients);
    for (int t = 0; t < PLAN_STATES; t++) verify_slots_close(&c->state[t]);
    free(c->did);
    free(c->bucket);
}

static status check_list(const schedule *const *of_stage, const plan *p, int stage, err *e)
{
    status result = OK;
    verify_list c = {.of_stage = of_stage,
                     .s = of_stage[stage],
                     .p = p,
                     .at = {.stage = stage},
                     .trains = trains(of_stage[stage])};
    TRY(open_check(&c, e));
    for (; c.at.number < c.s->count; c.at.number++) TRY(check_one(&c, &c.s->instr[c.at.number], e));
    TRY(check_complete(&c, e));
done:
    close_check(&c);
    return result;
}

status schedule_verify(const schedule *const *of_stage, const plan *const *plan_of_stage,
                       int stages, err *e)
{
    status result = OK;
    TRY(schedule_replay(of_stage, stages, NULL, NULL, e));
    for (int i = 0; i < stages; i++) TRY(check_list(of_stage, plan_of_stage[i], i, e));
done:
    return result;
}
