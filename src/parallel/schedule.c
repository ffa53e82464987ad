// schedule.c -- turns a stage's list of forward and backward passes into instructions: data,
// weights and gradients are brought when a block needs them, kept while it does, and given away as
// soon as they may be. See schedule.h. Called by the trainer, the planner and the simulator's
// users.
//
// First the stage's passes become *visits* of single blocks; then each visit is preceded by what it
// needs (its gradient from the next stage, its buckets) and by the gathers of the visit after it,
// and followed by what it makes possible.
#include "parallel/schedule_private.h"

#include "base/alloc.h"

#include <stdlib.h>

// False when memory lacks.
static bool grow(builder *b, void *array, size_t *room, int count, size_t size)
{
    if (alloc_grow(array, room, (size_t)count, size, "", NULL) != OK) b->failed = true;
    return !b->failed;
}

static schedule_instr *add(builder *b, schedule_instr x)
{
    schedule *s = b->s;
    if (!grow(b, &s->instr, &s->room, s->count + 1, sizeof *s->instr)) return &b->no_instr;
    s->instr[s->count] = x;
    return &s->instr[s->count++];
}

// ---- Weights

static bool needs(const builder *b, int at, int bucket)
{
    return at < b->visits && plan_block_uses(b->p, b->visit[at].block, bucket);
}

// The buckets of a visit's block; none after the last visit.
static plan_buckets buckets_of(const builder *b, int at)
{
    return at < b->visits ? plan_buckets_of(b->p, b->visit[at].block) : (plan_buckets){NULL, 0};
}

// May this state slot be filled? Not while its weights are still to be gathered, nor while it is
// one of the last that were, which may be on their way from or to the file.
static bool state_free(const builder *b, plan_state what, int slot)
{
    return !b->state_busy[what][slot] && b->turn[what] - b->state_used[what][slot] >= STATE_SLOTS;
}

static int state_grow(builder *b, plan_state what)
{
    schedule_slots *s = &b->s->state[what];
    const int slot = s->count;
    if (!grow(b, &s->elements, &b->state_room[0][what], slot + 1, sizeof *s->elements) ||
        !grow(b, &b->state_busy[what], &b->state_room[1][what], slot + 1, sizeof **b->state_busy) ||
        !grow(b, &b->state_used[what], &b->state_room[2][what], slot + 1, sizeof **b->state_used))
        return -1;
    s->elements[slot] = 0;
    b->state_busy[what][slot] = false;
    return s->count++;
}

// The state slot for so many elements: of those that are free the one that has to grow least, so
// that one large bucket costs one large slot. -1 when memory lacks.
static int state_turn(builder *b, plan_state what, int64_t elements)
{
    schedule_slots *s = &b->s->state[what];
    int best = -1;
    b->turn[what]++;
    for (int i = 0; i < s->count; i++)
        if (state_free(b, what, i) &&
            (best < 0 || llabs(s->elements[i] - elements) < llabs(s->elements[best] - elements)))
            best = i;
    if (best < 0) best = state_grow(b, what);
    if (best < 0) return best;
    if (s->elements[best] < elements) s->elements[best] = elements;
    b->state_used[what][best] = b->turn[what];
    return best;
}

static bool in_file(const builder *b, plan_state what)
{
    return b->p->o.strategy.offload.tier[what] == TIER_FILE;
}

static void fetch_weights(builder *b, int at)
{
    const plan_buckets l = buckets_of(b, at);
    for (int i = 0; in_file(b, PLAN_WEIGHTS) && i < l.count; i++) {
        const int k = l.items[i];
        if (b->weight_slot[k] >= 0 || b->fetched[k] >= 0) continue;
        if (b->kept[k] && b->visit[at].kind != PIPE_FORWARD) continue;
        b->fetched[k] = state_turn(b, PLAN_WEIGHTS, b->p->bucket[k].count[b->p->weight]);
        if (b->failed) return;
        b->state_busy[PLAN_WEIGHTS][b->fetched[k]] = true;
        add(b, (schedule_instr){
                   .kind = SWAP_IN, .index = k, .slot = b->fetched[k], .what = PLAN_WEIGHTS});
    }
}

static void gather(builder *b, int at)
{
    const plan *p = b->p;
    const plan_buckets l = buckets_of(b, at);
    for (int i = 0; p->weight_slots && i < l.count; i++) {
        const int k = l.items[i];
        if (b->weight_slot[k] >= 0) continue;
        b->weight_slot[k] = schedule_slot_take(&b->weights, p->bucket[k].count[LAYOUT_FULL]);
        add(b, (schedule_instr){.kind = UNSHARD,
                                .index = k,
                                .slot = b->weight_slot[k],
                                .state = {b->fetched[k], -1, -1},
                                .post_forward = b->kept[k] && b->visit[at].kind != PIPE_FORWARD});
        if (b->fetched[k] >= 0) b->state_busy[PLAN_WEIGHTS][b->fetched[k]] = false;
        b->fetched[k] = -1;
    }
}

// Is the i-th bucket of the visit's block wanted again before anything else would be gathered in
// its place? With reshard 0 it is kept from a forward to the next backward.
static bool keeps(const builder *b, int at, int i)
{
    if (needs(b, at + 1, buckets_of(b, at).items[i])) return true;
    if (b->p->o.strategy.reshard_after_forward || b->what == PASS_EVAL) return false;
    return b->after[b->first_after[at] + (size_t)i] & NEXT_IS_BACKWARD;
}

// Only what this visit used can have become superfluous by it.
static void release(builder *b, int at)
{
    const plan_buckets l = buckets_of(b, at);
    for (int i = 0; b->p->weight_slots && i < l.count; i++) {
        const int k = l.items[i], slot = b->weight_slot[k];
        if (slot < 0 || keeps(b, at, i)) continue;
        if (b->p->keeps_post_forward_shards && b->what == PASS_TRAIN && !b->kept[k]) {
            add(b, (schedule_instr){.kind = RESHARD_POST_FORWARD, .index = k, .slot = slot});
            b->kept[k] = true;
        }
        add(b, (schedule_instr){.kind = RESHARD, .index = k, .slot = slot});
        schedule_slot_give(&b->weights, slot);
        b->weight_slot[k] = -1;
    }
}

// ---- Gradients

// The loss takes its gradients in the forward; norms theirs in the first half of a backward.
static bool touches_gradients(const builder *b, const visit *v)
{
    return b->what == PASS_TRAIN && (v->kind != PIPE_FORWARD || v->block == b->p->o.blocks - 1);
}

static void claim_gradients(builder *b, const visit *v)
{
    const plan *p = b->p;
    const plan_buckets l = plan_buckets_of(p, v->block);
    for (int i = 0; p->gradient_slots && touches_gradients(b, v) && i < l.count; i++) {
        const int k = l.items[i];
        if (b->gradient_slot[k] >= 0) continue;
        int slot = schedule_slot_take(&b->gradients, p->bucket[k].count[LAYOUT_FULL]);
        b->gradient_slot[k] = slot;
        // Sums over micro-batches go on where the file has them.
        bool goes_on = p->gradient == LAYOUT_FULL && v->micro > 0;
        add(b, (schedule_instr){.kind = goes_on ? SWAP_IN : ALLOC_GRAD,
                                .index = k,
                                .micro = v->micro,
                                .slot = slot,
                                .full = true,
                                .what = PLAN_GRADIENTS});
    }
}

static void give_gradient_slot(builder *b, int bucket)
{
    if (b->gradient_slot[bucket] >= 0) schedule_slot_give(&b->gradients, b->gradient_slot[bucket]);
    b->gradient_slot[bucket] = -1;
}

// A reduced bucket, of the step's last micro-batch or of one before.
static void reduce(builder *b, int bucket, int micro, bool last)
{
    const plan *p = b->p;
    schedule_instr *x = add(b, (schedule_instr){.kind = REDUCE_GRAD,
                                                .index = bucket,
                                                .micro = micro,
                                                .slot = b->gradient_slot[bucket],
                                                .state = {-1, -1, -1},
                                                .last = last});
    if (in_file(b, PLAN_GRADIENTS)) {
        int slot = state_turn(b, PLAN_GRADIENTS, p->bucket[bucket].count[p->optimizer]);
        x->state[PLAN_GRADIENTS] = slot;
        add(b, (schedule_instr){
                   .kind = SWAP_OUT, .index = bucket, .slot = slot, .what = PLAN_GRADIENTS});
    }
    give_gradient_slot(b, bucket);
}

static bool has_tied(const plan *p, int bucket)
{
    for (int i = 0; i < p->bucket[bucket].rows; i++)
        if (p->row[p->order[p->bucket[bucket].first_row + i]].tied) return true;
    return false;
}

// Buckets whose gradients of this micro-batch are complete: reduced when that is due, kept in the
// file when the sum goes on there. What two stages share waits for REDUCE_TIED_GRAD at the end.
static void end_gradients(builder *b, int at)
{
    const plan *p = b->p;
    const visit *v = &b->visit[at];
    const bool last = v->micro == p->o.micros - 1, due = last || p->gradient != LAYOUT_FULL;
    const plan_buckets l = buckets_of(b, at);
    for (int i = 0; visit_ends_gradients(v) && i < l.count; i++) {
        const int k = l.items[i];
        if (b->after[b->first_after[at] + (size_t)i] & MORE_GRADIENTS) continue;
        if (due && !(last && has_tied(p, k))) {
            reduce(b, k, v->micro, last);
        } else if (!due && p->gradient_slots) {
            add(b, (schedule_instr){.kind = SWAP_OUT,
                                    .index = k,
                                    .slot = b->gradient_slot[k],
                                    .full = true,
                                    .what = PLAN_GRADIENTS});
            give_gradient_slot(b, k);
        }
    }
}

// ---- One visit

static void receive(builder *b, const visit *v)
{
    const plan *p = b->p;
    const int part = plan_part_of(p, v->block), pp = p->o.mesh.size[AXIS_PP];
    if (v->kind == PIPE_FORWARD && v->block == p->chunk_first[part] && part > 0)
        add(b, (schedule_instr){.kind = RECV_ACT,
                                .micro = v->micro,
                                .index = v->block,
                                .slot = v->act,
                                .peer = (part - 1) % pp});
    bool takes = v->kind == PIPE_BACKWARD || v->kind == PIPE_BACKWARD_INPUT;
    if (takes && v->block == p->chunk_first[part + 1] - 1 && part + 1 < p->chunks)
        add(b, (schedule_instr){.kind = RECV_GRAD,
                                .micro = v->micro,
                                .index = v->block,
                                .slot = v->act,
                                .wgrad_slot = v->held,
                                .peer = (part + 1) % pp});
}

static void send(builder *b, const visit *v)
{
    const plan *p = b->p;
    const int part = plan_part_of(p, v->block), pp = p->o.mesh.size[AXIS_PP];
    if (v->kind == PIPE_FORWARD && v->block == p->chunk_first[part + 1] - 1 && part + 1 < p->chunks)
        add(b, (schedule_instr){.kind = SEND_ACT,
                                .micro = v->micro,
                                .index = v->block,
                                .slot = v->act,
                                .peer = (part + 1) % pp});
    bool gives = v->kind == PIPE_BACKWARD || v->kind == PIPE_BACKWARD_INPUT;
    if (gives && v->block == p->chunk_first[part] && part > 0)
        add(b, (schedule_instr){.kind = SEND_GRAD,
                                .micro = v->micro,
                                .index = v->block,
                                .slot = v->act,
                                .wgrad_slot = v->held,
                                .peer = (part - 1) % pp});
}

// Batches come and go in the order of micro-batches, so that they take slots in turn. An evaluation
// brings its own.
static void load(builder *b, const visit *v)
{
    const bool reads = v->block == 0 || v->block == b->p->o.blocks - 1;
    if (!reads || v->kind != PIPE_FORWARD || v->micro < b->loaded || b->what == PASS_EVAL) return;
    b->loaded = v->micro + 1;
    if (b->loaded - b->done > b->s->batch_slots) b->s->batch_slots = b->loaded - b->done;
    add(b, (schedule_instr){.kind = LOAD_BATCH, .micro = v->micro});
}

// The batch is done with after the first block's last pass; where that block is elsewhere, after
// the loss.
static void end_batch(builder *b, const visit *v)
{
    const bool first_here = plan_has_block(b->p, 0);
    if (first_here ? v->block == 0 && visit_ends_gradients(v)
                   : v->block == b->p->o.blocks - 1 && v->kind == PIPE_FORWARD)
        b->done = v->micro + 1;
}

static schedule_instr_kind kind_of(const visit *v)
{
    static const schedule_instr_kind kind[] = {[PIPE_FORWARD] = FORWARD,
                                               [PIPE_BACKWARD] = BACKWARD,
                                               [PIPE_BACKWARD_INPUT] = BACKWARD_INPUT,
                                               [PIPE_BACKWARD_WEIGHT] = BACKWARD_WEIGHT};
    return kind[v->kind];
}

static void add_visit(builder *b, int at)
{
    const visit *v = &b->visit[at];
    load(b, v);
    receive(b, v);
    fetch_weights(b, at);
    gather(b, at);
    fetch_weights(b, at + 1); // before the first visit; later it has been fetched
    fetch_weights(b, at + 2);
    gather(b, at + 1);
    claim_gradients(b, v);
    add(b, (schedule_instr){.kind = kind_of(v),
                            .micro = v->micro,
                            .index = v->block,
                            .slot = v->act,
                            .wgrad_slot = v->held});
    release(b, at);
    send(b, v);
    end_gradients(b, at);
    end_batch(b, v);
}

// ---- The end of a step

// What two stages have summands of is summed before it is reduced; where it was reduced after every
// micro-batch, what is kept of it.
static void tie(builder *b)
{
    const plan *p = b->p;
    const int last = p->o.micros - 1;
    for (int k = 0; k < p->buckets; k++) {
        if (!has_tied(p, k)) continue;
        const bool in_parts = p->gradient != LAYOUT_FULL && last > 0;
        if (in_parts) reduce(b, k, last, false);
        add(b, (schedule_instr){.kind = REDUCE_TIED_GRAD, .index = k, .slot = b->gradient_slot[k]});
        reduce(b, k, last, true);
    }
}

static int fetch_state(builder *b, plan_state what, int bucket)
{
    const plan *p = b->p;
    if (!in_file(b, what) || bucket >= p->buckets) return -1;
    // What is to be written only needs a place.
    bool reads = what != PLAN_WEIGHTS || p->o.compute == F32;
    int slot = state_turn(b, what, p->bucket[bucket].count[p->optimizer]);
    if (reads)
        add(b, (schedule_instr){.kind = SWAP_IN, .index = bucket, .slot = slot, .what = what});
    return slot;
}

static void update(builder *b)
{
    int slot[2][PLAN_STATES];
    for (int t = 0; t < PLAN_STATES; t++) slot[0][t] = fetch_state(b, (plan_state)t, 0);
    for (int k = 0; k < b->p->buckets; k++) {
        const int *now = slot[k & 1];
        for (int t = 0; t < PLAN_STATES; t++)
            slot[~k & 1][t] = fetch_state(b, (plan_state)t, k + 1);
        schedule_instr *x = add(b, (schedule_instr){.kind = OPTIMIZER_STEP, .index = k});
        for (int t = 0; t < PLAN_STATES; t++) x->state[t] = now[t];
        for (int t = 0; t < PLAN_STATES; t++)
            if (now[t] >= 0 && t != PLAN_GRADIENTS)
                add(b, (schedule_instr){
                           .kind = SWAP_OUT, .index = k, .slot = now[t], .what = (plan_state)t});
        add(b, (schedule_instr){.kind = ALL_GATHER_UPDATED, .index = k});
    }
}

// Between steps any bucket is brought into the first state slot.
static void widen_first(schedule_slots *s)
{
    for (int i = 1; i < s->count; i++)
        if (s->elements[i] > s->elements[0]) s->elements[0] = s->elements[i];
}

status schedule_make(const plan *p, schedule_pass what, schedule *out, err *e)
{
    status result = OK;
    builder b = {.p = p,
                 .s = out,
                 .what = what,
                 .weights = {.sizes = &out->weights},
                 .gradients = {.sizes = &out->gradients}};
    *out = (schedule){.instr = NULL};
    TRY(builder_open(&b, e));
    for (int i = 0; i < b.visits && !b.failed; i++) add_visit(&b, i);
    if (what == PASS_TRAIN) {
        tie(&b);
        add(&b, (schedule_instr){.kind = CLIP_GRAD_NORM});
        update(&b);
    }
    if (b.failed || b.weights.failed || b.gradients.failed)
        FAIL(E_MEMORY, "no memory for a schedule");
    for (int t = 0; t < PLAN_STATES; t++) widen_first(&out->state[t]);
    // One more than is used at once, so that the next is copied while this one is computed on.
    out->batch_slots++;
    for (int i = 0; i < out->count; i++)
        if (out->instr[i].kind == LOAD_BATCH)
            out->instr[i].slot = out->instr[i].micro % out->batch_slots;
done:
    builder_close(&b);
    if (result != OK) schedule_clear(out);
    return result;
}

void schedule_clear(schedule *s)
{
    free(s->instr);
    free(s->act_slots);
    free(s->wgrad_slots);
    free(s->weights.elements);
    free(s->gradients.elements);
    for (int t = 0; t < PLAN_STATES; t++) free(s->state[t].elements);
    *s = (schedule){0};
}
