// schedule.c -- turns a stage's list of forward and backward passes into instructions: batches,
// weights and gradients get a slot before a block uses them, and their slot is freed as soon as no
// pass uses them. See schedule.h. Called by the trainer, the planner and the users of the
// simulator.
//
// The stage's passes become *visits* of single blocks. Before each visit come the instructions that
// provide its inputs, and those that unshard the weights of the next visit. After it come the
// instructions that need its results.
#include "parallel/schedule_private.h"

#include "base/alloc.h"
#include "base/size.h"
#include "parallel/instructions.h"

#include <stdlib.h>

static schedule_instr *add(schedule_builder *b, schedule_instr x)
{
    schedule *s = b->s;
    if (alloc_grow(&s->instr, &s->room, (size_t)s->count + 1, sizeof *s->instr, "a schedule",
                   NULL) != OK) {
        b->no_memory = true;
        return &b->discarded;
    }
    s->instr[s->count] = x;
    return &s->instr[s->count++];
}

static bool is_swapped(const schedule_builder *b, int bucket, plan_state what)
{
    return plan_is_swapped(plan_group_of(b->p, bucket), what);
}

// ---- Weights. `v` is the number of a visit; one after the last is allowed.

static bool visit_uses(const schedule_builder *b, int v, int bucket)
{
    return v >= 0 && v < b->visits && plan_block_uses(b->p, b->visit[v].block, bucket);
}

// The buckets of the visit's block; none after the last visit.
static plan_buckets buckets_of(const schedule_builder *b, int v)
{
    return v < b->visits ? plan_buckets_of(b->p, b->visit[v].block) : (plan_buckets){NULL, 0};
}

static void swap_in_weights(schedule_builder *b, int v)
{
    const plan_buckets l = buckets_of(b, v);
    for (int i = 0; i < l.count; i++) {
        const int k = l.items[i];
        if (!is_swapped(b, k, PLAN_WEIGHTS)) continue;
        if (b->weight_slot[k] >= 0 || b->swapped_in[k] >= 0) continue;
        if (visit_uses(b, v - 1, k)) continue; // the previous visit unshards the bucket for both
        if (b->post_forward[k] && b->visit[v].kind != PIPE_FORWARD) continue;
        const plan_layout shard = plan_group_of(b->p, k)->weight;
        const int slot = schedule_state_take(b, PLAN_WEIGHTS, b->p->bucket[k].count[shard]);
        if (slot < 0) return;
        b->swapped_in[k] = slot;
        b->state[PLAN_WEIGHTS].busy[slot] = true;
        add(b, (schedule_instr){.kind = SWAP_IN, .index = k, .slot = slot, .what = PLAN_WEIGHTS});
    }
}

static void unshard(schedule_builder *b, int v)
{
    const plan *p = b->p;
    const plan_buckets l = buckets_of(b, v);
    for (int i = 0; i < l.count; i++) {
        const int k = l.items[i], state = b->swapped_in[k];
        if (!plan_group_of(p, k)->weight_slots || b->weight_slot[k] >= 0) continue;
        b->weight_slot[k] = schedule_slot_take(&b->weights, plan_weight_slot(p, k));
        b->no_memory = b->no_memory || b->weight_slot[k] < 0;
        add(b, (schedule_instr){.kind = UNSHARD,
                                .index = k,
                                .slot = b->weight_slot[k],
                                .state = {state, -1, -1},
                                .post_forward =
                                    b->post_forward[k] && b->visit[v].kind != PIPE_FORWARD});
        if (state >= 0) b->state[PLAN_WEIGHTS].busy[state] = false;
        b->swapped_in[k] = -1;
    }
}

// Whether the i-th bucket of the visit's block stays unsharded after the visit. It does when the
// next visit uses it too, and with reshard_after_forward 0 from a forward to the next backward.
static bool stays_unsharded(const schedule_builder *b, int v, int i)
{
    if (visit_uses(b, v + 1, buckets_of(b, v).items[i])) return true;
    if (b->p->o.strategy.reshard_after_forward || b->s->pass == PASS_EVAL) return false;
    return b->after[b->first_after[v] + (size_t)i] & VISIT_NEXT_IS_BACKWARD;
}

static bool has_backward(const schedule_builder *b, int bucket)
{
    for (int k = b->p->o.first_backward; k < b->p->o.blocks; k++)
        if (plan_block_uses(b->p, k, bucket)) return true;
    return false;
}

// Whether the post-forward group begins to keep shards of the bucket for its backward.
static bool keeps_for_backward(const schedule_builder *b, int bucket)
{
    return plan_group_of(b->p, bucket)->keeps_post_forward_shards && b->s->pass == PASS_TRAIN &&
           !b->post_forward[bucket] && has_backward(b, bucket);
}

static void reshard(schedule_builder *b, int v)
{
    const plan_buckets l = buckets_of(b, v);
    for (int i = 0; i < l.count; i++) {
        const int k = l.items[i], slot = b->weight_slot[k];
        if (slot < 0 || stays_unsharded(b, v, i)) continue;
        if (keeps_for_backward(b, k)) {
            add(b, (schedule_instr){.kind = RESHARD_POST_FORWARD, .index = k, .slot = slot});
            b->post_forward[k] = true;
        }
        add(b, (schedule_instr){.kind = RESHARD, .index = k, .slot = slot});
        schedule_slot_give(&b->weights, slot);
        b->weight_slot[k] = -1;
    }
}

// ---- Gradients

static void alloc_gradients(schedule_builder *b, const schedule_visit *v)
{
    const plan *p = b->p;
    const plan_buckets l = plan_buckets_of(p, v->block);
    for (int i = 0; i < l.count; i++) {
        const int k = l.items[i];
        const plan_group *g = plan_group_of(p, k);
        if (!visit_writes(b, v, k) || !g->gradient_slots || b->gradient_slot[k] >= 0) continue;
        const int slot = schedule_slot_take(&b->gradients, p->bucket[k].count[LAYOUT_FULL]);
        b->no_memory = b->no_memory || slot < 0;
        b->gradient_slot[k] = slot;
        // The sum of earlier micro-batches is swapped out and continues in the slot.
        const bool continues = g->gradient == LAYOUT_FULL && v->micro > 0;
        add(b, (schedule_instr){.kind = continues ? SWAP_IN : ALLOC_GRAD,
                                .index = k,
                                .micro = v->micro,
                                .slot = slot,
                                .full = true,
                                .what = PLAN_GRADIENTS});
    }
}

static void give_gradient_slot(schedule_builder *b, int bucket)
{
    if (b->gradient_slot[bucket] >= 0) schedule_slot_give(&b->gradients, b->gradient_slot[bucket]);
    b->gradient_slot[bucket] = -1;
}

// Which reduction of a bucket it is: of a use by itself, of a micro-batch, or the last one of the step.
typedef enum reduction { REDUCE_SECOND_USE, REDUCE_MICRO, REDUCE_LAST } reduction;

static void reduce(schedule_builder *b, int bucket, int micro, reduction which)
{
    const bool swapped = is_swapped(b, bucket, PLAN_GRADIENTS);
    const plan_layout shard = plan_group_of(b->p, bucket)->optimizer;
    int state = -1;
    if (swapped) state = schedule_state_take(b, PLAN_GRADIENTS, b->p->bucket[bucket].count[shard]);
    add(b,
        (schedule_instr){
            .kind = REDUCE_GRAD,
            .index = bucket,
            .micro = micro,
            .slot = b->gradient_slot[bucket],
            .state = {[PLAN_WEIGHTS] = -1, [PLAN_GRADIENTS] = state, [PLAN_OPTIMIZER_STATE] = -1},
            .second_use = which == REDUCE_SECOND_USE,
            .last = which == REDUCE_LAST});
    if (swapped)
        add(b, (schedule_instr){
                   .kind = SWAP_OUT, .index = bucket, .slot = state, .what = PLAN_GRADIENTS});
    give_gradient_slot(b, bucket);
}

// Ends the gradients of the buckets that the visit completes for its micro-batch. They are reduced
// if this is the last micro-batch or the plan reduces after each; otherwise a sum that is swapped goes
// back. Buckets with tied weights wait for REDUCE_TIED_GRAD at the end of the step. Where the two uses are on
// one stage and reduced one by one, the last reduction adds their shards.
static void end_gradients(schedule_builder *b, int number)
{
    const plan *p = b->p;
    const schedule_visit *v = &b->visit[number];
    const bool last = v->micro == p->o.micros - 1;
    const plan_buckets l = buckets_of(b, number);
    for (int i = 0; i < l.count; i++) {
        const int k = l.items[i];
        const plan_group *g = plan_group_of(p, k);
        const bool due = last || g->gradient != LAYOUT_FULL, split = p->bucket[k].second_use >= 0;
        if (g->o.frozen || !visit_writes(b, v, k)) continue;
        if (b->after[b->first_after[number] + (size_t)i] & VISIT_MORE_GRADIENTS) continue;
        if (visit_is_second_use(b, v, k)) {
            reduce(b, k, v->micro, REDUCE_SECOND_USE);
        } else if (due && !(last && plan_bucket_is_tied(p, k))) {
            if (split) reduce(b, k, v->micro, REDUCE_MICRO);
            if (last || !split) reduce(b, k, v->micro, last ? REDUCE_LAST : REDUCE_MICRO);
        } else if (!due && g->gradient_slots) {
            add(b, (schedule_instr){.kind = SWAP_OUT,
                                    .index = k,
                                    .slot = b->gradient_slot[k],
                                    .full = true,
                                    .what = PLAN_GRADIENTS});
            give_gradient_slot(b, k);
        }
    }
}

// ---- State for the update

// Takes a state slot for update `i` and swaps the bucket's state in.
static void swap_in_for_update(schedule_builder *b, plan_state what, int i)
{
    const int bucket = b->updates.bucket[i];
    const plan_group *g = plan_group_of(b->p, bucket);
    if (!plan_updates_in_slot(g, what)) return;
    // 16-bit weights are rounded from the fp32 master weights, so they are only written.
    const bool reads = what != PLAN_WEIGHTS || g->o.compute == F32;
    const int slot = schedule_state_take(b, what, b->p->bucket[bucket].count[g->optimizer]);
    b->updates.slot[what][i] = slot;
    if (reads)
        add(b, (schedule_instr){.kind = SWAP_IN, .index = bucket, .slot = slot, .what = what});
}

// Swaps in the state of the first `count` updates, as far as it has no slot yet.
static void swap_in_first(schedule_builder *b, plan_state what, int count)
{
    for (int *n = &b->updates.slots[what]; *n < count && *n < b->updates.count; ++*n)
        swap_in_for_update(b, what, *n);
}

// The optimizer state of the first updates is swapped in while the last micro-batch runs backward. Its
// slots hold nothing before, and what they held in the step before has been written meanwhile.
static void swap_in_optimizer_state(schedule_builder *b, const schedule_visit *v)
{
    if (b->s->pass == PASS_TRAIN && v->kind != PIPE_FORWARD && v->micro == b->p->o.micros - 1)
        swap_in_first(b, PLAN_OPTIMIZER_STATE, b->state_slots);
}

// ---- Activation gradients and messages

static void free_act_grad(schedule_builder *b, int slot)
{
    if (slot >= 0) b->act_grad.busy[slot] = false;
}

// Takes a slot that holds no gradient. Slots are taken in turn, so that a slot whose value is being sent
// is overwritten as late as possible. Where sends wait, more gradients may wait than there are slots.
static int take_act_grad(schedule_builder *b)
{
    schedule *s = b->s;
    for (int i = 0; i < s->act_grad_slots; i++) {
        const int slot = ++b->act_grad.turn % s->act_grad_slots;
        if (b->act_grad.busy[slot]) continue;
        b->act_grad.busy[slot] = true;
        return slot;
    }
    if (alloc_grow(&b->act_grad.busy, &b->act_grad.room, (size_t)s->act_grad_slots + 1,
                   sizeof *b->act_grad.busy, "a schedule", NULL) != OK) {
        b->no_memory = true;
        return -1;
    }
    b->act_grad.busy[s->act_grad_slots] = true;
    return s->act_grad_slots++;
}

static bool is_split(const schedule_visit *v)
{
    return v->wgrad >= 0;
}

// Does the block's dgrad compute the gradient of its input?
static bool has_input_grad(const schedule_builder *b, const schedule_visit *v)
{
    return v->block > b->p->o.first_backward;
}

static bool is_dgrad(const schedule_visit *v)
{
    return v->kind == PIPE_BACKWARD || v->kind == PIPE_BACKWARD_INPUT;
}

static bool begins_chunk(const schedule_builder *b, const schedule_visit *v)
{
    return v->block == b->p->chunk_first[plan_chunk_of(b->p, v->block)];
}

// The slot of the gradient that a message brings to a chunk, and later of the one that leaves it.
static int *border_grad(schedule_builder *b, int block, int micro)
{
    const int chunk = plan_chunk_of(b->p, block) / b->p->o.mesh.size[AXIS_PP];
    return &b->messages.border_grad[(size_t)chunk * (size_t)b->p->o.micros + (size_t)micro];
}

// Sets the slot from which the visit reads the output gradient, and the slot to which it writes the
// input gradient. Within a chunk whose backward is split, both are in the wgrad slot.
static void assign_act_grads(schedule_builder *b, const schedule_visit *v, schedule_instr *x)
{
    x->grad_in = x->grad_out = -1;
    if (!is_dgrad(v)) return;
    if (v->received) b->act_grad.current = *border_grad(b, v->block, v->micro);
    x->grad_in = b->act_grad.current;
    const bool writes = has_input_grad(b, v) && (!is_split(v) || begins_chunk(b, v));
    if (writes && b->p->blocks.input_grad_in_place[v->block] && !is_split(v))
        x->grad_out = x->grad_in;
    else if (writes)
        x->grad_out = take_act_grad(b);
    if (x->grad_in != x->grad_out) free_act_grad(b, x->grad_in);
    b->act_grad.current = x->grad_out;
    if (!begins_chunk(b, v)) return;
    *border_grad(b, v->block, v->micro) = x->grad_out; // until it is sent
    b->act_grad.current = -1;
}

static bool is_gradient(const schedule_instr *message, instr_rendezvous waits_for)
{
    const instr_peers *p = &instr_row_of(message->kind)->peers;
    return p->channel == CHANNEL_GRADIENTS && p->waits_for == waits_for;
}

// Adds the messages before message `until`. Slots that a group frees are free when it has ended.
static void add_messages(schedule_builder *b, int until)
{
    for (; b->messages.added < until; b->messages.added++) {
        schedule_instr *x = add(b, b->messages.items[b->messages.added]);
        int *const slot = border_grad(b, x->index, x->micro);
        x->grad_in = x->grad_out = -1;
        if (is_gradient(x, WAITS_FOR_SENDER)) {
            *slot = x->wgrad_slot >= 0 ? -1 : take_act_grad(b);
            x->grad_out = *slot;
        } else if (is_gradient(x, WAITS_FOR_RECEIVER)) {
            x->grad_in = *slot;
        }
        for (int i = b->messages.added; !x->with_next && i >= 0; i--) {
            const schedule_instr *y = &b->messages.items[i];
            if (i < b->messages.added && !y->with_next) break;
            if (is_gradient(y, WAITS_FOR_RECEIVER))
                free_act_grad(b, *border_grad(b, y->index, y->micro));
        }
    }
}

// ---- The start of a step

// The host reads the batches, so all are loaded before anything else: what follows waits for nothing
// that the host has yet to do. In an evaluation the caller uploads the batch.
static void load(schedule_builder *b)
{
    for (int i = 0; plan_reads_batches(b->p) && i < b->p->o.micros; i++)
        add(b, (schedule_instr){.kind = LOAD_BATCH, .micro = i});
    add(b, (schedule_instr){.kind = LOAD_STEP});
}

// ---- One visit

static void add_visit(schedule_builder *b, int number)
{
    const schedule_visit *v = &b->visit[number];
    swap_in_optimizer_state(b, v);
    add_messages(b, v->messages_before);
    swap_in_weights(b, number);
    unshard(b, number);
    // Adds instructions of the last one only, but before the first visit.
    for (int i = 1; i < b->state_slots; i++) swap_in_weights(b, number + i);
    unshard(b, number + 1);
    alloc_gradients(b, v);
    schedule_instr *x = add(b, (schedule_instr){.kind = instr_computing(visit_computes(v)),
                                                .micro = v->micro,
                                                .index = v->block,
                                                .slot = v->act,
                                                .wgrad_slot = v->wgrad});
    assign_act_grads(b, v, x);
    reshard(b, number);
    add_messages(b, v->messages_after);
    end_gradients(b, number);
}

// ---- The end of a step

// Gradients of tied weights are summed over the first and the last stage before their last
// reduction. Where they are reduced after every micro-batch, their reduced shards are summed.
static void reduce_tied(schedule_builder *b)
{
    const plan *p = b->p;
    const int last = p->o.micros - 1;
    for (int k = 0; k < p->buckets; k++) {
        const plan_group *g = plan_group_of(p, k);
        if (g->o.frozen || !plan_bucket_is_tied(p, k)) continue;
        const bool sharded = g->gradient != LAYOUT_FULL && last > 0;
        if (sharded) reduce(b, k, last, REDUCE_MICRO);
        add(b, (schedule_instr){.kind = REDUCE_TIED_GRAD, .index = k, .slot = b->gradient_slot[k]});
        reduce(b, k, last, REDUCE_LAST);
    }
}

static void update_bucket(schedule_builder *b, int i)
{
    const schedule_updates *u = &b->updates;
    const int bucket = u->bucket[i];
    schedule_instr *x =
        add(b, (schedule_instr){.kind = OPTIMIZER_STEP,
                                .index = bucket,
                                .on_host = plan_group_of(b->p, bucket)->updates_on_host});
    for (int t = 0; t < PLAN_STATES; t++) x->state[t] = u->slot[t][i];
    for (int t = 0; t < PLAN_STATES; t++)
        if (u->slot[t][i] >= 0 && t != PLAN_GRADIENTS)
            add(b, (schedule_instr){.kind = SWAP_OUT,
                                    .index = bucket,
                                    .slot = u->slot[t][i],
                                    .what = (plan_state)t});
    add(b, (schedule_instr){.kind = ALL_GATHER_UPDATED, .index = bucket});
}

// A slot is filled again after the update that follows its own. So a file has another write to do while
// the host waits for the write of the slot.
static void update(schedule_builder *b)
{
    for (int i = 0; i < b->updates.count; i++) {
        for (int t = 0; t < PLAN_STATES; t++)
            swap_in_first(b, (plan_state)t, b->state_slots + (i > 0 ? i - 1 : 0));
        update_bucket(b, i);
    }
}

// Between steps the first state slot is the staging buffer, so it must hold the largest bucket. State
// that the host updates where it lies has no other slot.
static void grow_first_slot(schedule_builder *b, plan_state what)
{
    schedule_slots *const s = &b->s->state[what];
    int64_t most = 0;
    for (int k = 0; k < b->p->buckets; k++) {
        const plan_group *g = plan_group_of(b->p, k);
        const plan_layout l = what == PLAN_WEIGHTS ? g->weight : g->optimizer;
        if (plan_is_swapped(g, what)) most = size_max(most, b->p->bucket[k].count[l]);
    }
    if (s->count == 0 && most > 0 && b->s->pass == PASS_TRAIN) schedule_state_take(b, what, most);
    if (s->count > 0) s->elements[0] = most;
}

// Between stages a gradient stays in its slot until the other stage has read it, so that there are
// more slots. A stage without a backward needs none.
static int act_grad_slots(const plan *p)
{
    const int stages = p->o.mesh.size[AXIS_PP], last_chunk = p->chunks - stages + p->coord[AXIS_PP];
    if (p->chunk_first[last_chunk + 1] <= p->o.first_backward) return 0;
    return stages > 1 ? 4 : 2;
}

status schedule_make(const plan *p, schedule_pass pass, schedule *out, err *e)
{
    status result = OK;
    schedule_builder b = {.p = p,
                          .s = out,
                          .act_grad = {.current = -1},
                          .weights = {.sizes = &out->weights},
                          .gradients = {.sizes = &out->gradients}};
    *out = (schedule){.pass = pass, .act_grad_slots = act_grad_slots(p)};
    TRY(schedule_builder_open(&b, e));
    if (pass == PASS_TRAIN) load(&b);
    for (int i = 0; i < b.visits && !b.no_memory; i++) add_visit(&b, i);
    if (pass == PASS_TRAIN && !b.no_memory) {
        reduce_tied(&b);
        for (int t = 0; t < PLAN_STATES; t++) swap_in_first(&b, (plan_state)t, b.state_slots);
        add(&b, (schedule_instr){.kind = CLIP_GRAD_NORM});
        update(&b);
    }
    for (int t = 0; t < PLAN_STATES && !b.no_memory; t++) grow_first_slot(&b, (plan_state)t);
    if (b.no_memory) FAIL(E_MEMORY, "no memory for a schedule");
done:
    schedule_builder_close(&b);
    if (result != OK) schedule_clear(out);
    return result;
}

void schedule_clear(schedule *s)
{
    free(s->instr);
    free(s->call);
    free(s->act_slots);
    free(s->wgrad_slots);
    free(s->weights.elements);
    free(s->gradients.elements);
    for (int t = 0; t < PLAN_STATES; t++) free(s->state[t].elements);
    *s = (schedule){0};
}
