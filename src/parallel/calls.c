// calls.c -- lists the calls of a schedule. See calls.h. Called by the trainer when it has made a list. It
// follows the plan's redistribution steps, and knows no strategy by name.
#include "parallel/calls.h"

#include "base/alloc.h"
#include "device/kernel_step.h"
#include "parallel/hook.h"
#include "parallel/instructions.h"

#include <stdlib.h>

// ---- Bytes

// Fills the bytes of a call, of which all else is known.
static void fill_bytes(const plan *p, schedule_call *c)
{
    const comm_call *k = &c->call;
    const int ranks = plan_group_ranks(p, c->group);
    const bool of_shards =
        !k->segment && comm_call_row_of(k->kind)->in != comm_call_row_of(k->kind)->out;
    double elements = (double)comm_call_elements(k) * (of_shards ? ranks : 1);
    for (int r = 0; k->in_counts && r < ranks; r++) elements += (double)k->in_counts[r];
    c->bytes = elements * (double)dtype_bytes(k->type);
    c->sent = comm_call_traffic(k, plan_group_index(p, c->group), ranks);
}

// ---- Redistributions

// Lists the calls of one step of a redistribution over these segments. A sum over segments takes two calls: a
// reduce-scatter gives each rank the sum of its shards, then an all-gather gives all ranks the full sum.
static int list_step(const plan *p, const plan_redistribution *m, int step, int bucket,
                     const comm_segment *segments, const calls_use *use, schedule_call *out)
{
    const plan_redistribution_step *x = &m->step[step];
    const plan_bucket *b = &p->bucket[bucket];
    const bool gathers = x->collective == REDISTRIBUTE_ALL_GATHER,
               scatters = x->collective == REDISTRIBUTE_REDUCE_SCATTER;
    schedule_call c = {
        .call = {.type = use->type, .in_place = segments}, .group = x->group, .array = use->array};
    int count = 0;
    if (segments)
        c.call.segment = segments + b->first_row, c.call.segments = b->rows;
    else
        c.call.count = (size_t)b->count[m->layout];
    if (use->apart && ((gathers && step == 0) || (scatters && step == m->count - 1)))
        c.call.in_place = false;
    c.call.kind = segments ? CALL_REDUCE_SCATTER : CALL_ALL_REDUCE;
    if (!gathers) out[count++] = c;
    c.call.kind = CALL_ALL_GATHER;
    if (segments && !scatters) out[count++] = c;
    for (int i = 0; i < count; i++) fill_bytes(p, &out[i]);
    return count;
}

int calls_redistribute(const plan *p, const plan_redistribution *m, int bucket, calls_use use,
                       schedule_call out[CALLS_MOST])
{
    int count = 0;
    for (int i = 0; i < m->count; i++)
        count += list_step(p, m, i, bucket, m->step[i].segment, &use, out + count);
    return count;
}

// Marks calls as one compressed redistribution. Returns their number.
static int compress(schedule_call *c, int count, schedule_call_steps steps)
{
    for (int i = 0; i < count; i++) {
        c[i].compressed = true, c[i].steps = steps;
        c[i].starts = i == 0, c[i].ends = i == count - 1;
    }
    return count;
}

// Every rank that has a shard or a replica of the rows sums its factors with the others.
static int list_factors(const plan *p, int bucket, schedule_call_array array, int64_t count,
                        schedule_call *out)
{
    if (count == 0) return 0;
    *out = (schedule_call){
        .call = {.kind = CALL_ALL_REDUCE, .type = hook_type(p), .count = (size_t)count},
        .group = (int)plan_group_axes(plan_group_of(p, bucket)),
        .array = array};
    fill_bytes(p, out);
    return compress(out, 1, STEPS_OF_POWERSGD);
}

int calls_reduce(const plan *p, const plan_redistribution *m, int bucket, calls_use use,
                 schedule_call out[CALLS_MOST])
{
    const strategy_hook *hook = &p->o.strategy.hook;
    int count = 0, rest = 0;
    int64_t left, right;
    use.type = hook_type(p);
    if (!hook_compresses(p)) return calls_redistribute(p, m, bucket, use, out);
    if (hook->kind != HOOK_POWERSGD)
        return compress(out, calls_redistribute(p, m, bucket, use, out), STEPS_ALL);
    if (hook->start_step > 0)
        count = compress(out, calls_redistribute(p, m, bucket, use, out), STEPS_BEFORE_POWERSGD);
    for (int i = 0; hook_leaves_rows(p, bucket) && i < m->count; i++)
        rest += list_step(p, m, i, bucket, m->step[i].rest, &use, out + count + rest);
    count += compress(out + count, rest, STEPS_OF_POWERSGD);
    if (!hook_sends_factors(p, plan_group_of(p, bucket), m)) return count;
    hook_factors(p, bucket, &left, &right);
    count += list_factors(p, bucket, IN_LEFT_FACTORS, left, out + count);
    return count + list_factors(p, bucket, IN_RIGHT_FACTORS, right, out + count);
}

// ---- By what an instruction communicates

typedef struct calls_builder {
    schedule *s;
    const plan *p;
    const calls_block *blocks;
    int *first_pass; // [blocks] the first call of the passes of a block in s->call
    size_t room;
    status result; // of the allocations so far; nothing is added after a failure
    err *e;
} calls_builder;

static void add(calls_builder *b, const schedule_call *c, int count)
{
    schedule *s = b->s;
    if (b->result == OK)
        b->result = alloc_grow(&s->call, &b->room, (size_t)(s->calls + count), sizeof *s->call,
                               "the calls of a schedule", b->e);
    if (b->result != OK) return;
    for (int i = 0; i < count; i++) s->call[s->calls++] = c[i];
}

static void add_one(calls_builder *b, schedule_call c)
{
    fill_bytes(b->p, &c);
    add(b, &c, 1);
}

static void add_all_reduce(calls_builder *b, int group, dtype type, int64_t count,
                           schedule_call_array array, int64_t offset)
{
    add_one(b,
            (schedule_call){.call = {.kind = CALL_ALL_REDUCE, .type = type, .count = (size_t)count},
                            .group = group,
                            .array = array,
                            .offset = offset});
}

static void list_nothing(calls_builder *b, schedule_instr *x)
{
    (void)b, (void)x;
}

// All passes of a block with the same work make the same calls.
static void list_pass(calls_builder *b, schedule_instr *x)
{
    const unsigned computes = instr_row_of(x->kind)->computes;
    if (!b->blocks) return;
    const calls_block *k = &b->blocks[x->index];
    x->first_call = b->first_pass[x->index];
    if (!(computes & COMPUTES_FORWARD)) x->first_call += k->forward;
    if (computes == COMPUTES_WGRAD) x->first_call += k->dgrad;
    x->calls = (computes & COMPUTES_FORWARD ? k->forward : 0) +
               (computes & COMPUTES_DGRAD ? k->dgrad : 0) +
               (computes & COMPUTES_WGRAD ? k->wgrad : 0);
}

static void list_message(calls_builder *b, const schedule_instr *x, calls_value v)
{
    const bool sends = instr_row_of(x->kind)->peers.waits_for == WAITS_FOR_RECEIVER;
    add_one(b, (schedule_call){.call = {.kind = sends ? CALL_SEND : CALL_RECV,
                                        .type = v.type,
                                        .count = (size_t)v.count},
                               .group = MESH_AXIS(AXIS_PP),
                               .array = IN_VALUES});
}

static void list_output(calls_builder *b, schedule_instr *x)
{
    list_message(b, x, b->blocks ? b->blocks[x->index].output : (calls_value){F32, 0});
}

static void list_input(calls_builder *b, schedule_instr *x)
{
    list_message(b, x, b->blocks ? b->blocks[x->index].input : (calls_value){F32, 0});
}

static void add_gather(calls_builder *b, const schedule_instr *x, const plan_redistribution *m,
                       bool apart)
{
    const dtype type = plan_array_type(plan_group_of(b->p, x->index), ARRAY_WEIGHTS);
    const calls_use use = {type, apart, IN_BUCKET};
    schedule_call c[CALLS_MOST];
    add(b, c, calls_redistribute(b->p, m, x->index, use, c));
}

static void list_weights(calls_builder *b, schedule_instr *x)
{
    const plan_redistributions *r = &plan_group_of(b->p, x->index)->redistribute;
    add_gather(b, x, x->post_forward ? &r->unshard_post_forward : &r->unshard, true);
}

static void list_updated_weights(calls_builder *b, schedule_instr *x)
{
    add_gather(b, x, &plan_group_of(b->p, x->index)->redistribute.all_gather_updated, false);
}

// The gradients of rows that are PARTIAL over other axes than those of their group, or over the ranks that share them.
static void list_partial(calls_builder *b, const schedule_instr *x)
{
    const plan_bucket *k = &b->p->bucket[x->index];
    for (int i = k->first_row; i < k->first_row + k->rows; i++) {
        const plan_row *r = &b->p->row[b->p->order[i]];
        if (r->partial)
            add_all_reduce(b, (int)r->partial, F32, r->count, IN_BUCKET, r->offset[LAYOUT_FULL]);
        if (r->shared < r->count)
            add_all_reduce(b, GROUP_SHARED, F32, r->count - r->shared, IN_BUCKET,
                           r->offset[LAYOUT_FULL] + r->shared);
    }
}

// Is the last step of m a reduce-scatter to shards of this layout?
static bool scatters_to(const plan_redistribution *m, plan_layout l)
{
    const plan_redistribution_step *last = m->count > 0 ? &m->step[m->count - 1] : NULL;
    return last && last->collective == REDISTRIBUTE_REDUCE_SCATTER && last->to == l;
}

static void add_reduction(calls_builder *b, const schedule_instr *x, const plan_redistribution *m,
                          schedule_call_array array, bool apart)
{
    schedule_call c[CALLS_MOST];
    add(b, c, calls_reduce(b->p, m, x->index, (calls_use){F32, apart, array}, c));
}

// Full gradients are reduced in their slot or array. The last reduce-scatter from a slot writes where the shards
// are kept, unless they are added to earlier ones. Shards that are still PARTIAL on one level are summed over it
// after the last micro-batch.
static void list_gradients(calls_builder *b, schedule_instr *x)
{
    const plan_group *g = plan_group_of(b->p, x->index);
    const plan_redistributions *r = &g->redistribute;
    const bool slot = x->slot >= 0, full = g->gradient == LAYOUT_FULL, adds = x->micro > 0 && !full;
    const plan_redistribution *last = full ? &r->reduce_step : &r->reduce_micro_batch;
    const bool apart =
        slot && !adds && !hook_compresses(b->p) && scatters_to(last, plan_gradient_layout(g));
    if (slot || full) list_partial(b, x);
    if (slot && full) add_reduction(b, x, &r->reduce_micro_batch, IN_BUCKET, false);
    if (slot || full) add_reduction(b, x, last, IN_BUCKET, apart);
    if (!full && (!slot || x->last || plan_is_swapped(g, PLAN_GRADIENTS)))
        add_reduction(b, x, &r->reduce_step, IN_SHARDS, false);
}

static void list_tied_gradients(calls_builder *b, schedule_instr *x)
{
    const plan *p = b->p;
    const plan_bucket *k = &p->bucket[x->index];
    const plan_layout l = x->slot < 0 ? plan_group_of(p, x->index)->gradient : LAYOUT_FULL;
    for (int i = k->first_row; i < k->first_row + k->rows; i++) {
        const plan_row *r = &p->row[p->order[i]];
        if (r->tied)
            add_all_reduce(b, GROUP_TIED, F32, plan_local_shard(p, r, l, p->coord).count, IN_BUCKET,
                           r->offset[l]);
    }
}

static void list_sums(calls_builder *b, schedule_instr *x)
{
    (void)x;
    const int64_t sums = kernel_step_sums(b->p->o.preferences, b->p->o.norm_groups);
    if (b->p->o.mesh.ranks > 1) add_all_reduce(b, GROUP_WORLD, F64, sums, IN_SUMS, 0);
}

static void (*const LIST[PAYLOADS])(calls_builder *b, schedule_instr *x) = {
    [PAYLOAD_NONE] = list_nothing,        [PAYLOAD_PASS] = list_pass,
    [PAYLOAD_OUTPUT] = list_output,       [PAYLOAD_INPUT] = list_input,
    [PAYLOAD_WEIGHTS] = list_weights,     [PAYLOAD_UPDATED_WEIGHTS] = list_updated_weights,
    [PAYLOAD_GRADIENTS] = list_gradients, [PAYLOAD_TIED_GRADIENTS] = list_tied_gradients,
    [PAYLOAD_SUMS] = list_sums,
};

// The calls of passes come first, block by block.
static void list_blocks(calls_builder *b)
{
    for (int i = 0; b->blocks && i < b->p->o.blocks; i++) {
        const calls_block *k = &b->blocks[i];
        b->first_pass[i] = b->s->calls;
        for (int c = 0; plan_has_block(b->p, i) && c < k->forward + k->dgrad + k->wgrad; c++)
            add_one(b, k->call[c]);
    }
}

status calls_list(schedule *s, const plan *p, const calls_block *blocks, err *e)
{
    status result = OK;
    calls_builder b = {.s = s, .p = p, .blocks = blocks, .e = e};
    TRY(alloc_zeroed(&b.first_pass, (size_t)p->o.blocks, sizeof *b.first_pass,
                     "the calls of a schedule", e));
    list_blocks(&b);
    for (int i = 0; i < s->count; i++) {
        schedule_instr *x = &s->instr[i];
        const int before = s->calls;
        x->first_call = before;
        LIST[instr_row_of(x->kind)->payload](&b, x);
        if (s->calls > before) x->calls = s->calls - before;
    }
    result = b.result;
done:
    free(b.first_pass);
    return result;
}
