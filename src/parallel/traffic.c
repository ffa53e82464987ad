// traffic.c -- counts the bytes that a rank sends in a step. See traffic.h. Called by the trainer
// when it makes a plan. It follows the redistribution steps that train/redistribute.c and
// train/compress.c execute, and knows no strategy by name.
#include "parallel/traffic.h"

#include "parallel/hook.h"

static double ring(int ranks, double payload)
{
    return 2 * payload * (ranks - 1) / ranks;
}

// The number of elements of a segment that this rank sends: those of the other ranks' shards. In an
// all-reduce it sends them twice.
static double segment_elements(const plan *p, const plan_redistribution_step *x,
                               const comm_segment *s)
{
    int64_t first;
    const int64_t own = comm_segment_shard(s, plan_group_index(p, x->group), &first);
    return (double)(s->count - own) * (x->collective == REDISTRIBUTE_ALL_REDUCE ? 2 : 1);
}

static double step_elements(const plan *p, const plan_redistribution_step *x, const plan_bucket *b,
                            plan_layout array)
{
    double elements = 0;
    if (!x->segment) return ring(x->ranks, (double)b->count[array]);
    for (int i = b->first_row; i < b->first_row + b->rows; i++)
        elements += segment_elements(p, x, &x->segment[i]);
    return elements;
}

static void count_redistribution(plan *p, const plan_redistribution *m, int bucket, dtype t)
{
    for (int i = 0; i < m->count; i++)
        p->sent_bytes[m->step[i].group] +=
            (double)dtype_bytes(t) * step_elements(p, &m->step[i], &p->bucket[bucket], m->layout);
}

// ---- Gradients

// Rows that the hook does not compress are reduced one by one.
static void count_rows(plan *p, const plan_redistribution *m, int bucket, dtype t)
{
    const plan_bucket *b = &p->bucket[bucket];
    for (int i = 0; i < m->count; i++)
        for (int k = b->first_row; k < b->first_row + b->rows; k++) {
            const comm_segment s = hook_row_segment(p, m, i, k);
            p->sent_bytes[m->step[i].group] +=
                (double)dtype_bytes(t) * segment_elements(p, &m->step[i], &s);
        }
}

static void count_factors(plan *p, int bucket, dtype t)
{
    const plan_bucket *b = &p->bucket[bucket];
    double elements = 0;
    for (int i = b->first_row; i < b->first_row + b->rows; i++)
        elements += (double)hook_factor_elements(p, &p->row[p->order[i]]);
    // Every rank that has a shard or a replica of the rows sends its factors to the others.
    const int group = (int)plan_group_axes(plan_group_of(p, bucket));
    p->sent_bytes[group] += ring(plan_group_ranks(p, group), elements * (double)dtype_bytes(t));
}

static void count_gradients(plan *p, const plan_redistribution *m, int bucket)
{
    const dtype t = hook_type(p);
    if (p->o.strategy.hook.kind == HOOK_POWERSGD)
        count_rows(p, m, bucket, t);
    else
        count_redistribution(p, m, bucket, t);
    if (hook_sends_factors(p, plan_group_of(p, bucket), m)) count_factors(p, bucket, t);
}

static void count_partial(plan *p, const plan_bucket *b)
{
    for (int i = b->first_row; i < b->first_row + b->rows; i++) {
        const plan_row *r = &p->row[p->order[i]];
        if (r->tp_partial)
            p->sent_bytes[MESH_AXIS(AXIS_TP)] +=
                ring(p->o.mesh.size[AXIS_TP], 4 * (double)r->count);
    }
}

// ---- By what an instruction sends

typedef struct traffic_step {
    plan *p;
    const schedule_instr *x;
    const traffic_block *block; // of the instruction's block
    double agreed;
} traffic_step;

static void count_nothing(const traffic_step *s)
{
    (void)s;
}

static void count_pass(const traffic_step *s)
{
    const int computes = instr_row_of(s->x->kind)->computes;
    s->p->sent_bytes[MESH_AXIS(AXIS_TP)] += s->block->tp[computes];
    s->p->sent_bytes[MESH_AXIS(AXIS_CP)] += s->block->cp[computes];
}

static void count_output(const traffic_step *s)
{
    s->p->sent_bytes[MESH_AXIS(AXIS_PP)] += s->block->output;
}

static void count_input_grad(const traffic_step *s)
{
    s->p->sent_bytes[MESH_AXIS(AXIS_PP)] += s->block->input;
}

static void count_weights(const traffic_step *s)
{
    const plan_group *g = plan_group_of(s->p, s->x->index);
    count_redistribution(
        s->p, s->x->post_forward ? &g->redistribute.unshard_post_forward : &g->redistribute.unshard,
        s->x->index, g->o.compute);
}

static void count_updated_weights(const traffic_step *s)
{
    const plan_group *g = plan_group_of(s->p, s->x->index);
    count_redistribution(s->p, &g->redistribute.all_gather_updated, s->x->index, g->o.compute);
}

static void count_reduced_gradients(const traffic_step *s)
{
    plan *p = s->p;
    const schedule_instr *x = s->x;
    const plan_group *g = plan_group_of(p, x->index);
    const bool swapped = plan_is_swapped(g, PLAN_GRADIENTS), slot = x->slot >= 0;
    if (slot || g->gradient == LAYOUT_FULL) count_partial(p, &p->bucket[x->index]);
    if (slot) count_gradients(p, &g->redistribute.reduce_micro_batch, x->index);
    if (!slot || g->gradient == LAYOUT_FULL || (!swapped && x->last))
        count_gradients(p, &g->redistribute.reduce_step, x->index);
}

static void count_tied_gradients(const traffic_step *s)
{
    plan *p = s->p;
    const plan_bucket *b = &p->bucket[s->x->index];
    const plan_layout l = s->x->slot < 0 ? p->group[b->group].gradient : LAYOUT_FULL;
    for (int i = b->first_row; i < b->first_row + b->rows; i++) {
        const plan_row *r = &p->row[p->order[i]];
        if (r->tied)
            p->sent_bytes[GROUP_TIED] +=
                ring(2, 4 * (double)plan_local_shard(p, r, l, p->coord).count);
    }
}

static void count_agreed(const traffic_step *s)
{
    s->p->sent_bytes[GROUP_WORLD] += ring(s->p->o.mesh.ranks, s->agreed);
}

static void (*const COUNT[PAYLOADS])(const traffic_step *s) = {
    [SENDS_NOTHING] = count_nothing,
    [SENDS_PASS] = count_pass,
    [SENDS_OUTPUT] = count_output,
    [SENDS_INPUT_GRAD] = count_input_grad,
    [SENDS_WEIGHTS] = count_weights,
    [SENDS_UPDATED_WEIGHTS] = count_updated_weights,
    [SENDS_GRADIENTS] = count_reduced_gradients,
    [SENDS_TIED_GRADIENTS] = count_tied_gradients,
    [SENDS_AGREED] = count_agreed,
};

// ---- Which instructions send or receive

static bool passes_communicate(const plan *p, const schedule_instr *x)
{
    (void)x;
    return p->o.mesh.size[AXIS_TP] > 1 || p->o.mesh.size[AXIS_CP] > 1;
}

static bool weights_communicate(const plan *p, const schedule_instr *x)
{
    const plan_redistributions *r = &plan_group_of(p, x->index)->redistribute;
    return (x->post_forward ? r->unshard_post_forward : r->unshard).count > 0;
}

static bool updated_communicate(const plan *p, const schedule_instr *x)
{
    return plan_group_of(p, x->index)->redistribute.all_gather_updated.count > 0;
}

static bool gradients_communicate(const plan *p, const schedule_instr *x)
{
    const plan_redistributions *r = &plan_group_of(p, x->index)->redistribute;
    return r->reduce_micro_batch.count > 0 || r->reduce_step.count > 0 ||
           p->o.mesh.size[AXIS_TP] > 1;
}

static bool ranks_communicate(const plan *p, const schedule_instr *x)
{
    (void)x;
    return p->o.mesh.ranks > 1;
}

static bool (*const COMMUNICATES[PAYLOADS])(const plan *p, const schedule_instr *x) = {
    [SENDS_PASS] = passes_communicate,
    [SENDS_OUTPUT] = ranks_communicate,
    [SENDS_INPUT_GRAD] = ranks_communicate,
    [SENDS_WEIGHTS] = weights_communicate,
    [SENDS_UPDATED_WEIGHTS] = updated_communicate,
    [SENDS_GRADIENTS] = gradients_communicate,
    [SENDS_TIED_GRADIENTS] = ranks_communicate,
    [SENDS_AGREED] = ranks_communicate,
};

bool traffic_communicates(const plan *p, const schedule_instr *x)
{
    const instr_row *row = instr_row_of(x->kind);
    if (row->peers.meeting == MEETS_SENDER) return true;
    return COMMUNICATES[row->sends] && COMMUNICATES[row->sends](p, x);
}

void traffic_count(plan *p, const schedule *s, const traffic_block *blocks, double agreed)
{
    for (int k = 0; k < PROCESS_GROUPS; k++) p->sent_bytes[k] = 0;
    for (int i = 0; i < s->count; i++) {
        const schedule_instr *x = &s->instr[i];
        COUNT[instr_row_of(x->kind)->sends](&(traffic_step){p, x, &blocks[x->index], agreed});
    }
}

int traffic_groups(const double sent[PROCESS_GROUPS], int out[PROCESS_GROUPS])
{
    int count = 0;
    for (int a = 0; a < AXES; a++) out[count++] = MESH_AXIS(a);
    out[count++] = GROUP_POST_FORWARD;
    out[count++] = GROUP_TIED;
    for (int k = 1; k <= AXES_ALL; k++) {
        const bool one_axis = (k & (k - 1)) == 0;
        if (!one_axis && (k == AXES_DATA || sent[k] > 0)) out[count++] = k;
    }
    out[count++] = GROUP_WORLD;
    return count;
}

const char *process_group_name(const mesh *m, int group, char out[MESH_NAME_BYTES])
{
    if (group == GROUP_POST_FORWARD) return "post_forward";
    if (group == GROUP_TIED) return "tied";
    if (group == GROUP_WORLD) return "world";
    if (group == AXES_DATA) return "dp";
    for (int a = 0; a < AXES; a++)
        if (group == (int)MESH_AXIS(a)) return axis_name((axis)a);
    return mesh_group_name(m, (mesh_axes)group, out);
}

double traffic_total(const plan *p)
{
    double sum = 0;
    for (int k = 0; k < PROCESS_GROUPS; k++) sum += p->sent_bytes[k];
    return sum;
}
