// step_state.c -- instructions that move weights, gradients and optimizer state: between the
// placements of the plan and between memory and files. Called through the table in step.c. What is
// moved where stands in the plan; no strategy has a name here.
#include "train/redistribute.h"
#include "train/state.h"

#include <stddef.h>

static bool in_file(const trainer *t, plan_state what)
{
    return t->plan->o.strategy.offload.tier[what] == TIER_FILE;
}

// ---- Files. Requests are issued on the copy stream, and waited for there too, when they are due.

typedef struct request {
    trainer *t;
    bucket_slot *s;
    plan_state what;
    bool write;
    int bucket;
    uint64_t offset;
    size_t bytes;
} request;

static status start_request(void *arg, err *e)
{
    status result = OK;
    const request *r = arg;
    tier *file = r->t->tier[r->what];
    tier_ticket *flushed = &r->t->flushed[r->what][r->bucket];
    if (r->s->ticket) TRY(tier_wait(file, r->s->ticket, e));
    if (*flushed) TRY(tier_wait(file, *flushed, e)); // from another slot, perhaps
    if (r->write)
        TRY(tier_write(file, r->offset, r->s->at, r->bytes, &r->s->ticket, e));
    else
        TRY(tier_read(file, r->offset, r->s->at, r->bytes, &r->s->ticket, e));
    *flushed = r->write ? r->s->ticket : 0;
done:
    return result;
}

static status end_request(void *arg, err *e)
{
    const request *r = arg;
    return r->s->ticket ? tier_wait(r->t->tier[r->what], r->s->ticket, e) : OK;
}

size_t trainer_state_bytes(const trainer *t, plan_state what)
{
    if (what == PLAN_WEIGHTS) return trainer_weight_bytes(t);
    if (what == PLAN_GRADIENTS) return sizeof(float);
    return sizeof(float) * (size_t)(t->plan->o.state_tensors + (t->o.precision != F32));
}

// The level at which a bucket lies in the file.
static plan_layout file_level(const trainer *t, plan_state what)
{
    if (what == PLAN_WEIGHTS) return t->plan->weight;
    return what == PLAN_GRADIENTS ? t->plan->gradient : t->plan->optimizer;
}

uint64_t trainer_file_at(const trainer *t, plan_state what, int bucket)
{
    const int64_t first = bucket < t->plan->buckets
                              ? t->plan->bucket[bucket].first[file_level(t, what)]
                              : t->plan->elements[file_level(t, what)];
    return (uint64_t)first * trainer_state_bytes(t, what);
}

size_t trainer_file_bytes(const trainer *t, plan_state what, int bucket)
{
    return (size_t)(trainer_file_at(t, what, bucket + 1) - trainer_file_at(t, what, bucket));
}

static bucket_slot *slot_of(trainer *t, const schedule_instr *x)
{
    return x->full ? &t->gradient_slot[x->slot] : &t->state_slot[x->what][x->slot];
}

static request request_of(trainer *t, const schedule_instr *x, bool write)
{
    const plan *p = t->plan;
    size_t bytes = trainer_file_bytes(t, x->what, x->index);
    // What is left of a sum over micro-batches is this rank's part.
    if (x->what == PLAN_GRADIENTS && !x->full)
        bytes = (size_t)p->bucket[x->index].count[p->optimizer] * sizeof(float);
    return (request){.t = t,
                     .s = slot_of(t, x),
                     .what = x->what,
                     .write = write,
                     .bucket = x->index,
                     .offset = trainer_file_at(t, x->what, x->index),
                     .bytes = bytes};
}

status run_swap_in(trainer *t, const schedule_instr *x, err *e)
{
    (void)e;
    const request r = request_of(t, x, false);
    device_stream *copy = t->stream[STREAM_COPY];
    trainer_ops(t)->wait(copy, r.s->freed);
    trainer_ops(t)->call(copy, start_request, &r, sizeof r);
    if (!x->full) return OK;
    // Sums over micro-batches go on in a gradient slot.
    trainer_ops(t)->call(copy, end_request, &r, sizeof r);
    trainer_ops(t)->record(r.s->filled, copy);
    t->gradient_of[x->index] = x->slot;
    return OK;
}

status run_swap_out(trainer *t, const schedule_instr *x, err *e)
{
    (void)e;
    const request r = request_of(t, x, true);
    device_stream *copy = t->stream[STREAM_COPY];
    trainer_order(t, t->computed, t->stream[STREAM_COMPUTE], copy);
    trainer_order(t, t->reduced, t->stream[STREAM_COMM], copy);
    trainer_ops(t)->call(copy, start_request, &r, sizeof r);
    if (x->full) { // the slot is another bucket's next
        trainer_ops(t)->call(copy, end_request, &r, sizeof r);
        t->gradient_of[x->index] = -1;
    }
    trainer_ops(t)->record(r.s->freed, copy);
    return OK;
}

status trainer_await_slot(trainer *t, plan_state what, int number, device_stream *on, err *e)
{
    (void)e;
    bucket_slot *s = &t->state_slot[what][number];
    const request r = {.t = t, .s = s, .what = what};
    trainer_ops(t)->call(t->stream[STREAM_COPY], end_request, &r, sizeof r);
    trainer_ops(t)->record(s->filled, t->stream[STREAM_COPY]);
    trainer_ops(t)->wait(on, s->filled);
    return OK;
}

// ---- Weights

// From the small group: the parts that RESHARD_POST_FORWARD has put aside.
static status unshard_post_forward(trainer *t, const schedule_instr *x, bucket_slot *to, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    device_stream *on = t->stream[STREAM_COMM];
    const size_t at = (size_t)p->bucket[x->index].first[LAYOUT_POST_FORWARD];
    TRY(redistribute_bucket(p, &p->unshard_post_forward, x->index,
                            t->kept + at * trainer_weight_bytes(t), to->at, t->o.precision, t->axis,
                            on, e));
    trainer_ops(t)->record(to->filled, on);
    t->weight_of[x->index] = x->slot;
done:
    return result;
}

status run_reshard_post_forward(trainer *t, const schedule_instr *x, err *e)
{
    (void)e;
    const plan *p = t->plan;
    const plan_bucket *b = &p->bucket[x->index];
    const size_t item = trainer_weight_bytes(t);
    for (int i = 0; i < b->rows; i++) {
        const plan_row *r = &p->row[p->order[b->first_row + i]];
        const plan_shard s = plan_local_shard(p, r, LAYOUT_POST_FORWARD, p->coord);
        const int64_t from = r->offset[LAYOUT_FULL] - b->first[LAYOUT_FULL] + s.first;
        trainer_ops(t)->copy(
            t->stream[STREAM_COMPUTE], t->kept + (size_t)r->offset[LAYOUT_POST_FORWARD] * item,
            t->weight_slot[x->slot].at + (size_t)from * item, (size_t)s.count * item);
    }
    return OK;
}

status run_unshard(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const plan_bucket *b = &p->bucket[x->index];
    device_stream *on = t->stream[STREAM_COMM];
    bucket_slot *to = &t->weight_slot[x->slot];
    const size_t item = trainer_weight_bytes(t);
    const char *own = t->weights ? t->weights + (size_t)b->first[p->weight] * item : NULL;
    int from = -1;
    trainer_ops(t)->wait(on, to->freed);
    trainer_order(t, t->computed, t->stream[STREAM_COMPUTE], on);
    if (x->post_forward) return unshard_post_forward(t, x, to, e);
    if (in_file(t, PLAN_WEIGHTS)) {
        from = x->state[PLAN_WEIGHTS];
        TRY(trainer_await_slot(t, PLAN_WEIGHTS, from, on, e));
        own = t->state_slot[PLAN_WEIGHTS][from].at;
    }
    if (p->unshard.count > 0)
        TRY(redistribute_bucket(p, &p->unshard, x->index, own, to->at, t->o.precision, t->axis, on,
                                e));
    else
        trainer_ops(t)->copy(on, to->at, own, (size_t)b->count[LAYOUT_FULL] * item);
    if (from >= 0) trainer_ops(t)->record(t->state_slot[PLAN_WEIGHTS][from].freed, on);
    trainer_ops(t)->record(to->filled, on);
    t->weight_of[x->index] = x->slot;
done:
    return result;
}

status run_reshard(trainer *t, const schedule_instr *x, err *e)
{
    (void)e;
    trainer_ops(t)->record(t->weight_slot[x->slot].freed, t->stream[STREAM_COMPUTE]);
    t->weight_of[x->index] = -1;
    return OK;
}

status run_all_gather_updated(trainer *t, const schedule_instr *x, err *e)
{
    const plan *p = t->plan;
    if (p->all_gather_updated.count == 0) return OK;
    char *at = t->weights + (size_t)p->bucket[x->index].first[p->weight] * trainer_weight_bytes(t);
    return redistribute_bucket(p, &p->all_gather_updated, x->index, NULL, at, t->o.precision,
                               t->axis, t->stream[STREAM_COMPUTE], e);
}

// ---- Gradients

status run_alloc_grad(trainer *t, const schedule_instr *x, err *e)
{
    (void)e;
    const plan_bucket *b = &t->plan->bucket[x->index];
    bucket_slot *s = &t->gradient_slot[x->slot];
    trainer_ops(t)->wait(t->stream[STREAM_COMPUTE], s->freed);
    trainer_ops(t)->record(s->filled, t->stream[STREAM_COMPUTE]);
    t->gradient_of[x->index] = x->slot;
    for (int i = 0; i < b->rows; i++) t->grad_written[t->plan->order[b->first_row + i]] = false;
    return OK;
}

// Bucket b's gradients as they are summed up on this rank: whole, or parts that are to be summed
// on.
static float *gradients_of(trainer *t, int bucket, int slot_number)
{
    if (slot_number >= 0) return (float *)(void *)t->gradient_slot[slot_number].at;
    return t->gradients + t->plan->bucket[bucket].first[t->plan->gradient];
}

// Where row r lies in a bucket that starts at `at`, laid out as an array of that level.
static float *row_at(const plan *p, const plan_row *r, float *at, plan_layout array)
{
    return at + (r->offset[array] - p->bucket[r->bucket].first[array]);
}

static void launch_add(device_stream *on, float *to, const float *from, int64_t count)
{
    kernel_call c = {.kind = K_ADD};
    c.u.add = (kernel_add_args){
        .count = count, .a = to, .b = from, .y = to, .alpha = 1, .beta = 1, .type = F32};
    device_launch(on, &c);
}

// The sums of one rank: rows without a gradient are zero, second gradients are added, and what
// tensor-parallel ranks have summands of is summed.
static status complete(trainer *t, const schedule_instr *x, float *at, device_stream *on, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const plan_bucket *b = &p->bucket[x->index];
    for (int i = 0; i < b->rows; i++) {
        const int row = p->order[b->first_row + i];
        const plan_row *r = &p->row[row];
        float *g = row_at(p, r, at, LAYOUT_FULL);
        if (!t->grad_written[row]) {
            kernel_call c = {.kind = K_FILL};
            c.u.fill = (kernel_fill_args){g, r->count * (int64_t)sizeof *g};
            device_launch(on, &c);
        }
        if (r->tied_grad >= 0 && x->last && t->tied_grad_written[row])
            launch_add(on, g, t->tied_grads + r->tied_grad, r->count);
        if (r->tp_partial)
            TRY(comm_all_reduce(t->axis[AXIS_TP], g, (size_t)r->count, F32, REDUCE_SUM, on, e));
    }
done:
    return result;
}

static status sum_over_ranks(trainer *t, const plan_redistribution *m, int bucket, float *at,
                             err *e)
{
    device_stream *on = t->stream[STREAM_COMM];
    if (m->count == 0) return OK;
    if (t->compressor)
        return compress_redistribute(t->compressor, m, bucket, at, t->steps_done, on, e);
    return redistribute_bucket(t->plan, m, bucket, NULL, at, F32, t->axis, on, e);
}

// This rank's parts out of a slot, into the array of gradients as they are kept (or a state slot).
static void keep_parts(trainer *t, const schedule_instr *x, float *from, float *to,
                       plan_layout want)
{
    const plan *p = t->plan;
    const plan_bucket *b = &p->bucket[x->index];
    device_stream *on = t->stream[STREAM_COMM];
    for (int i = 0; i < b->rows; i++) {
        const plan_row *r = &p->row[p->order[b->first_row + i]];
        const plan_shard s = plan_local_shard(p, r, want, p->coord);
        float *own = row_at(p, r, to, want);
        const float *part = row_at(p, r, from, LAYOUT_FULL) + s.first;
        if (s.count == 0) continue;
        if (x->micro > 0 && p->gradient != LAYOUT_FULL)
            launch_add(on, own, part, s.count);
        else
            trainer_ops(t)->copy(on, own, part, (size_t)s.count * sizeof *own);
    }
}

// From a slot: summed over ranks, then kept as this rank's parts.
static status reduce_slot(trainer *t, const schedule_instr *x, float *at, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const int file = in_file(t, PLAN_GRADIENTS) ? x->state[PLAN_GRADIENTS] : -1;
    float *to;
    TRY(sum_over_ranks(t, &p->reduce_micro_batch, x->index, at, e));
    if (p->gradient == LAYOUT_FULL) TRY(sum_over_ranks(t, &p->reduce_step, x->index, at, e));
    if (file >= 0) {
        bucket_slot *s = &t->state_slot[PLAN_GRADIENTS][file];
        TRY(trainer_await_slot(t, PLAN_GRADIENTS, file, t->stream[STREAM_COMM], e));
        to = (float *)(void *)s->at;
        keep_parts(t, x, at, to, p->optimizer);
        // Parts on one axis may yet be summands on the other.
        if (p->gradient != LAYOUT_FULL) TRY(sum_over_ranks(t, &p->reduce_step, x->index, to, e));
        trainer_add_squares(t, x->index, to, p->optimizer, t->stream[STREAM_COMM]);
    } else {
        to = t->gradients + p->bucket[x->index].first[p->gradient];
        keep_parts(t, x, at, to, p->gradient);
        if (x->last && p->gradient != LAYOUT_FULL)
            TRY(sum_over_ranks(t, &p->reduce_step, x->index, to, e));
        if (x->last) trainer_add_squares(t, x->index, to, p->gradient, t->stream[STREAM_COMM]);
    }
    trainer_ops(t)->record(t->gradient_slot[x->slot].freed, t->stream[STREAM_COMM]);
    t->gradient_of[x->index] = -1;
done:
    return result;
}

status run_reduce_grad(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    device_stream *on = t->stream[STREAM_COMM];
    float *at = gradients_of(t, x->index, x->slot);
    trainer_order(t, t->computed, t->stream[STREAM_COMPUTE], on);
    if (t->inspecting) {
        if (x->slot >= 0) t->gradient_of[x->index] = -1;
        return trainer_inspect(t, x->index, at, e);
    }
    if (x->slot >= 0 || p->gradient == LAYOUT_FULL) TRY(complete(t, x, at, on, e));
    if (x->slot >= 0) {
        TRY(reduce_slot(t, x, at, e));
    } else {
        TRY(sum_over_ranks(t, &p->reduce_step, x->index, at, e));
        trainer_add_squares(t, x->index, at, p->gradient, on);
    }
done:
    return result;
}

// Weights that two stages have: what both computed is the gradient. Kept whole or in a slot by now.
status run_reduce_tied_grad(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const plan_bucket *b = &p->bucket[x->index];
    device_stream *on = t->stream[STREAM_COMM];
    const plan_layout l = x->slot < 0 ? p->gradient : LAYOUT_FULL;
    float *at = gradients_of(t, x->index, x->slot);
    if (t->inspecting) return OK;
    trainer_order(t, t->computed, t->stream[STREAM_COMPUTE], on);
    for (int i = 0; i < b->rows; i++) {
        const plan_row *r = &p->row[p->order[b->first_row + i]];
        const plan_shard s = plan_local_shard(p, r, l, p->coord);
        if (r->tied)
            TRY(comm_all_reduce(t->tie, row_at(p, r, at, l), (size_t)s.count, F32, REDUCE_SUM, on,
                                e));
    }
done:
    return result;
}
