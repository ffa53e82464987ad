// schedule_visits.c -- turns a stage's passes over chunks into visits of single blocks, each with
// the slots of its chunk. Called by schedule_make. All that it knows of buckets is which of them a
// block uses.
#include "parallel/schedule_private.h"

#include "base/alloc.h"
#include "base/size.h"

#include <stdlib.h>

static const char WHAT[] = "a schedule";

// The slots of one chunk. They all have the same size.
typedef struct schedule_chunk_slots {
    int *slot_of; // [micros] the slot of a micro-batch; -1: none
    bool *busy;   // [slots] a micro-batch has the slot
    int count;    // slots that were taken at least once
    int first;    // all slots below it are busy
} schedule_chunk_slots;

static status chunk_slots_open(schedule_chunk_slots *p, int micros, err *e)
{
    status result = OK;
    TRY(alloc_array(&p->slot_of, (size_t)micros, sizeof *p->slot_of, WHAT, e));
    TRY(alloc_zeroed(&p->busy, (size_t)micros, sizeof *p->busy, WHAT, e));
    for (int i = 0; i < micros; i++) p->slot_of[i] = -1;
done:
    return result;
}

static void chunk_slots_close(schedule_chunk_slots *p)
{
    free(p->slot_of);
    free(p->busy);
}

static void chunk_slots_take(schedule_chunk_slots *p, int micro)
{
    int i = p->first;
    while (p->busy[i]) i++;
    p->busy[i] = true;
    p->slot_of[micro] = i;
    p->first = i + 1;
    if (i >= p->count) p->count = i + 1;
}

static void chunk_slots_give(schedule_chunk_slots *p, int micro)
{
    const int i = p->slot_of[micro];
    p->busy[i] = false;
    if (i < p->first) p->first = i;
}

// ---- Visits

// The blocks that a pass of a chunk visits; none where the last is before the first.
typedef struct schedule_span {
    int first, last;
} schedule_span;

// `chunk` is one of the model. Blocks before plan_options.first_backward have no backward.
static schedule_span span_of(const plan *p, pipeline_pass kind, int chunk)
{
    const schedule_span all = {p->chunk_first[chunk], p->chunk_first[chunk + 1] - 1};
    if (kind == PIPE_FORWARD || all.first >= p->o.first_backward) return all;
    return (schedule_span){p->o.first_backward, all.last};
}

static int span_blocks(schedule_span s)
{
    return s.last < s.first ? 0 : s.last - s.first + 1;
}

static int model_chunk(const plan *p, int chunk)
{
    return chunk * p->o.mesh.size[AXIS_PP] + p->coord[AXIS_PP];
}

// The activations of a chunk are saved for its backward, if it has one.
static bool keeps_act(const schedule_builder *b, const pipeline_op *x)
{
    return b->s->pass == PASS_TRAIN &&
           span_blocks(span_of(b->p, PIPE_BACKWARD, model_chunk(b->p, x->chunk))) > 0;
}

// Activations without a backward are needed until they are sent.
static bool releases_act(const schedule_builder *b, const pipeline_op *x)
{
    const bool sent = model_chunk(b->p, x->chunk) + 1 < b->p->chunks;
    return x->kind == PIPE_FORWARD ? !keeps_act(b, x) && !sent
                                   : x->kind == PIPE_BACKWARD || x->kind == PIPE_BACKWARD_WEIGHT;
}

static void visit_chunk(schedule_builder *b, const pipeline_op *x, schedule_chunk_slots *act,
                        schedule_chunk_slots *wgrad)
{
    const schedule_span s = span_of(b->p, x->kind, model_chunk(b->p, x->chunk));
    const int blocks = span_blocks(s);
    if (x->kind == PIPE_FORWARD && !x->received) chunk_slots_take(act, x->micro);
    if (x->kind == PIPE_BACKWARD_INPUT && !x->received) chunk_slots_take(wgrad, x->micro);
    for (int i = 0; i < blocks; i++)
        b->visit[b->visits++] =
            (schedule_visit){.kind = x->kind,
                             .micro = x->micro,
                             .block = x->kind == PIPE_FORWARD ? s.first + i : s.last - i,
                             .act = act->slot_of[x->micro],
                             .wgrad = wgrad->slot_of[x->micro],
                             .messages_before = b->messages.count,
                             .messages_after = b->messages.count,
                             .received = x->received && i == 0};
    if (releases_act(b, x)) chunk_slots_give(act, x->micro);
    if (x->kind == PIPE_BACKWARD_WEIGHT) chunk_slots_give(wgrad, x->micro);
}

unsigned visit_computes(const schedule_visit *v)
{
    static const unsigned what[] = {[PIPE_FORWARD] = COMPUTES_FORWARD,
                                    [PIPE_BACKWARD] = COMPUTES_DGRAD | COMPUTES_WGRAD,
                                    [PIPE_BACKWARD_INPUT] = COMPUTES_DGRAD,
                                    [PIPE_BACKWARD_WEIGHT] = COMPUTES_WGRAD};
    return what[v->kind];
}

// ---- Messages

typedef struct schedule_message_row {
    schedule_instr_kind kind;
    bool sends;
    bool first_block; // it is about the first block of the chunk, not about the last one
    int step;         // 1: to or from the next model chunk, -1: the previous one
} schedule_message_row;

static const schedule_message_row MESSAGES[] = {
    [PIPE_SEND_ACT] = {SEND_ACT, true, false, 1},
    [PIPE_RECV_ACT] = {RECV_ACT, false, true, -1},
    [PIPE_SEND_GRAD] = {SEND_GRAD, true, true, -1},
    [PIPE_RECV_GRAD] = {RECV_GRAD, false, false, 1},
};

// A message takes the slot of the pass that reads it. A group of messages with a send stands right
// after the pass before it, where its receiver waits for it; receives alone stand before the next pass.
static void add_message(schedule_builder *b, const pipeline_op *x, schedule_chunk_slots *act,
                        schedule_chunk_slots *wgrad)
{
    const plan *p = b->p;
    const schedule_message_row *row = &MESSAGES[x->kind];
    const int chunk = model_chunk(p, x->chunk);
    const bool split = pipeline_schedule_splits_backward(p->o.strategy.pipeline.schedule);
    const schedule_instr *before =
        b->messages.count > 0 ? &b->messages.items[b->messages.count - 1] : NULL;
    schedule_visit *last = b->visits > 0 ? &b->visit[b->visits - 1] : NULL;
    const bool joins =
        last && before && before->with_next && last->messages_after == b->messages.count;
    if (x->kind == PIPE_RECV_ACT) chunk_slots_take(act, x->micro);
    if (x->kind == PIPE_RECV_GRAD && split) chunk_slots_take(wgrad, x->micro);
    b->messages.items[b->messages.count++] = (schedule_instr){
        .kind = row->kind,
        .micro = x->micro,
        .index = row->first_block ? p->chunk_first[chunk] : p->chunk_first[chunk + 1] - 1,
        .slot = act->slot_of[x->micro],
        .wgrad_slot = wgrad->slot_of[x->micro],
        .peer = (chunk + row->step) % p->o.mesh.size[AXIS_PP],
        .with_next = x->with_next};
    if (last && (row->sends || joins)) last->messages_after = b->messages.count;
}

// Gives back the slots of activations that a group has sent, and that no backward reads.
static void give_sent(const schedule_builder *b, const pipeline_list *l, int last,
                      schedule_chunk_slots *act)
{
    for (int i = last; i == last || (i >= 0 && l->ops[i].with_next); i--)
        if (l->ops[i].kind == PIPE_SEND_ACT && !keeps_act(b, &l->ops[i]))
            chunk_slots_give(&act[l->ops[i].chunk], l->ops[i].micro);
}

// Lists the passes of an evaluation: each chunk once, in the model's order.
static status eval_list(int chunks, pipeline_list *out, err *e)
{
    const status result = alloc_zeroed(&out->ops, (size_t)chunks, sizeof *out->ops, WHAT, e);
    if (result != OK) return result;
    out->count = chunks;
    for (int c = 0; c < chunks; c++) out->ops[c] = (pipeline_op){.kind = PIPE_FORWARD, .chunk = c};
    return OK;
}

static size_t count_visits(const plan *p, const pipeline_list *l)
{
    size_t count = 0;
    for (int i = 0; i < l->count; i++)
        if (l->ops[i].kind < PIPE_SEND_ACT)
            count +=
                (size_t)span_blocks(span_of(p, l->ops[i].kind, model_chunk(p, l->ops[i].chunk)));
    return count;
}

// Refuses plans whose lists would fill the memory. A list has about two instructions per visit.
static status check_length(const plan *p, err *e)
{
    enum { MOST = 1 << 23 };
    int blocks = 0, passes = 0;
    for (int k = p->coord[AXIS_PP]; k < p->chunks; k += p->o.mesh.size[AXIS_PP]) {
        blocks += span_blocks(span_of(p, PIPE_FORWARD, k));
        passes += span_blocks(span_of(p, PIPE_BACKWARD, k));
    }
    passes += blocks;
    if (size_mul((uint64_t)passes, (uint64_t)p->o.micros) <= MOST) return OK;
    return err_set(e, E_USAGE,
                   "train.global_batch: %d micro-batches of %d blocks are more than %d passes in a "
                   "step; valid: a smaller train.global_batch or a larger train.micro_batch",
                   p->o.micros, blocks, MOST);
}

// The order of passes and messages of this stage. In an evaluation one micro-batch passes through the
// chunks, so sends that wait need no other order.
static status order_of(const schedule_builder *b, pipeline_list *out, err *e)
{
    status result = OK;
    const plan *p = b->p;
    const pipeline_schedule order = p->o.strategy.pipeline.schedule;
    const int own = p->coord[AXIS_PP], stages = p->o.mesh.size[AXIS_PP];
    const bool eval = b->s->pass == PASS_EVAL;
    pipeline_list *passes = NULL;
    pipeline_stages x = {.stages = stages,
                         .virtual_stages = p->chunks / stages,
                         .micros = p->o.micros,
                         .first_backward = p->o.first_backward < p->o.blocks
                                               ? plan_chunk_of(p, p->o.first_backward)
                                               : p->chunks,
                         .sends_wait = p->o.strategy.pipeline.sends_wait && !eval};
    const int lists = x.sends_wait ? stages : 1;
    TRY(alloc_zeroed(&passes, (size_t)lists, sizeof *passes, WHAT, e));
    for (int i = 0; i < lists; i++)
        if (eval)
            TRY(eval_list(x.virtual_stages, &passes[i], e));
        else
            TRY(pipeline_make(order, stages, x.virtual_stages, p->o.micros, x.sends_wait ? i : own,
                              &passes[i], e));
    x.passes = passes;
    TRY(pipeline_add_messages(&x, own, out, e));
done:
    for (int i = 0; passes && i < lists; i++) pipeline_list_clear(&passes[i]);
    free(passes);
    return result;
}

static status make_visits(schedule_builder *b, schedule_chunk_slots *act,
                          schedule_chunk_slots *wgrad, err *e)
{
    status result = OK;
    const plan *p = b->p;
    const int chunks = p->chunks / p->o.mesh.size[AXIS_PP];
    pipeline_list l = {NULL, 0};
    TRY(order_of(b, &l, e));
    TRY(alloc_zeroed(&b->visit, count_visits(p, &l), sizeof *b->visit, WHAT, e));
    TRY(alloc_zeroed(&b->messages.items, (size_t)l.count, sizeof *b->messages.items, WHAT, e));
    for (int i = 0; i < l.count; i++) {
        const pipeline_op *x = &l.ops[i];
        schedule_chunk_slots *own_act = &act[x->chunk], *own_wgrad = &wgrad[x->chunk];
        if (x->kind >= PIPE_SEND_ACT)
            add_message(b, x, own_act, own_wgrad);
        else
            visit_chunk(b, x, own_act, own_wgrad);
        if (x->kind >= PIPE_SEND_ACT && !x->with_next) give_sent(b, &l, i, act);
    }
    for (int c = 0; c < chunks; c++) {
        b->s->act_slots[c] = act[c].count;
        b->s->wgrad_slots[c] = wgrad[c].count;
    }
done:
    pipeline_list_clear(&l);
    return result;
}

bool visit_writes(const schedule_builder *b, const schedule_visit *v, int bucket)
{
    return b->s->pass == PASS_TRAIN &&
           (plan_block_writes(b->p, v->block, bucket) & visit_computes(v)) != 0;
}

// Fills `after`, from the last visit to the first.
static status look_ahead(schedule_builder *b, err *e)
{
    status result = OK;
    const plan *p = b->p;
    const size_t buckets = (size_t)p->buckets;
    size_t count = 0;
    pipeline_pass *next = NULL; // [buckets] the next visit that uses the bucket
    bool *more = NULL;          // [uses, micros, buckets] a later visit adds to its gradients
    TRY(alloc_array(&next, buckets, sizeof *next, WHAT, e));
    const size_t of_use = buckets * (size_t)p->o.micros;
    TRY(alloc_zeroed(&more, 2 * of_use, sizeof *more, WHAT, e));
    TRY(alloc_zeroed(&b->first_after, (size_t)b->visits, sizeof *b->first_after, WHAT, e));
    for (int v = 0; v < b->visits; v++) {
        b->first_after[v] = count;
        count += (size_t)plan_buckets_of(p, b->visit[v].block).count;
    }
    TRY(alloc_zeroed(&b->after, count, sizeof *b->after, WHAT, e));
    for (size_t k = 0; k < buckets; k++) next[k] = PIPE_FORWARD;
    for (int n = b->visits - 1; n >= 0; n--) {
        const schedule_visit *v = &b->visit[n];
        const plan_buckets l = plan_buckets_of(p, v->block);
        for (int i = 0; i < l.count; i++) {
            const bool second_use = visit_is_second_use(b, v, l.items[i]);
            bool *later =
                &more[(second_use ? of_use : 0) + (size_t)v->micro * buckets + (size_t)l.items[i]];
            b->after[b->first_after[n] + (size_t)i] =
                (unsigned char)((next[l.items[i]] != PIPE_FORWARD ? VISIT_NEXT_IS_BACKWARD : 0) |
                                (*later ? VISIT_MORE_GRADIENTS : 0));
            next[l.items[i]] = v->kind;
            *later = *later || visit_writes(b, v, l.items[i]);
        }
    }
done:
    free(next);
    free(more);
    return result;
}

static status minus_ones(int **out, int count, err *e)
{
    const status result = alloc_array(out, (size_t)count, sizeof **out, WHAT, e);
    for (int i = 0; result == OK && i < count; i++) (*out)[i] = -1;
    return result;
}

static status open_updates(schedule_builder *b, err *e)
{
    status result = OK;
    schedule_updates *u = &b->updates;
    TRY(alloc_array(&u->bucket, (size_t)b->p->buckets, sizeof *u->bucket, WHAT, e));
    for (int k = 0; k < b->p->buckets; k++)
        if (!plan_group_of(b->p, k)->o.frozen) u->bucket[u->count++] = k;
    for (int t = 0; t < PLAN_STATES; t++) TRY(minus_ones(&u->slot[t], b->p->buckets, e));
done:
    return result;
}

status schedule_builder_open(schedule_builder *b, err *e)
{
    status result = OK;
    const int chunks = b->p->chunks / b->p->o.mesh.size[AXIS_PP], micros = b->p->o.micros;
    const size_t slots = (size_t)b->s->act_grad_slots;
    b->state_slots =
        b->p->o.strategy.offload.slots ? (int)b->p->o.strategy.offload.slots : STATE_SLOTS;
    if (b->s->pass == PASS_TRAIN) {
        result = check_length(b->p, e);
        if (result != OK) return result;
    }
    schedule_chunk_slots *act = NULL, *wgrad = NULL;
    TRY(alloc_zeroed(&act, (size_t)chunks, sizeof *act, WHAT, e));
    TRY(alloc_zeroed(&wgrad, (size_t)chunks, sizeof *wgrad, WHAT, e));
    TRY(alloc_zeroed(&b->s->act_slots, (size_t)chunks, sizeof(int), WHAT, e));
    TRY(alloc_zeroed(&b->s->wgrad_slots, (size_t)chunks, sizeof(int), WHAT, e));
    TRY(minus_ones(&b->weight_slot, b->p->buckets, e));
    TRY(minus_ones(&b->gradient_slot, b->p->buckets, e));
    TRY(minus_ones(&b->swapped_in, b->p->buckets, e));
    TRY(open_updates(b, e));
    TRY(minus_ones(&b->messages.border_grad, chunks * micros, e));
    TRY(alloc_grow(&b->act_grad.busy, &b->act_grad.room, slots, sizeof *b->act_grad.busy, WHAT, e));
    for (size_t i = 0; i < slots; i++) b->act_grad.busy[i] = false;
    TRY(alloc_zeroed(&b->post_forward, (size_t)b->p->buckets, sizeof *b->post_forward, WHAT, e));
    for (int c = 0; c < chunks; c++) {
        TRY(chunk_slots_open(&act[c], micros, e));
        TRY(chunk_slots_open(&wgrad[c], micros, e));
    }
    TRY(make_visits(b, act, wgrad, e));
    TRY(look_ahead(b, e));
done:
    for (int c = 0; c < chunks; c++) {
        if (act) chunk_slots_close(&act[c]);
        if (wgrad) chunk_slots_close(&wgrad[c]);
    }
    free(act);
    free(wgrad);
    return result;
}

void schedule_builder_close(schedule_builder *b)
{
    free(b->visit);
    free(b->messages.items);
    free(b->messages.border_grad);
    free(b->act_grad.busy);
    free(b->weight_slot);
    free(b->gradient_slot);
    free(b->swapped_in);
    free(b->post_forward);
    free(b->weights.free);
    free(b->gradients.free);
    free(b->first_after);
    free(b->after);
    free(b->updates.bucket);
    for (int t = 0; t < PLAN_STATES; t++) {
        free(b->state[t].busy);
        free(b->state[t].used);
        free(b->updates.slot[t]);
    }
}
