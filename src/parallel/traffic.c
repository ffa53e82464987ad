// traffic.c -- the bytes that a rank sends in a step. See traffic.h. Called by the trainer where it
// makes a plan. It walks the same moves as bucket.c and compress.c, and knows no strategy's name.
#include "parallel/traffic.h"

#include "parallel/compress.h"
#include "parallel/powersgd.h"

static double ring(int ranks, double payload)
{
    return 2 * payload * (ranks - 1) / ranks;
}

static int rank_on(const plan *p, int link)
{
    return link == LINK_NEIGHBOURS ? p->at[AXIS_DP_SHARD] % p->o.reshard : p->at[link];
}

// Elements of a bucket's segments that are other ranks'.
static double others(const plan *p, const plan_move *x, const bucket_range *b)
{
    double elements = 0;
    for (int i = b->first_row; i < b->first_row + b->rows; i++) {
        int64_t first;
        elements += (double)(x->segment[i].count -
                             comm_segment_part(&x->segment[i], rank_on(p, x->axis), &first));
    }
    return elements;
}

static double move_elements(const plan *p, const plan_move *x, const bucket_range *b, level array)
{
    const bool sums_all = x->how == MOVE_ALL_REDUCE;
    if (!x->segment) return ring(p->o.mesh.size[x->axis], (double)b->count[array]);
    return (sums_all ? 2 : 1) * others(p, x, b);
}

static void count_moves(plan *p, const plan_moves *m, int bucket, dtype t)
{
    for (int i = 0; i < m->count; i++)
        p->moved[m->at[i].axis] +=
            (double)dtype_bytes(t) * move_elements(p, &m->at[i], &p->bucket[bucket], m->array);
}

// ---- Gradients

// Elements of row r that a move leaves to other ranks, where it is moved by itself.
static double row_elements(const plan *p, const plan_move *x, int at, level array)
{
    const plan_row *r = &p->row[p->order[at]];
    const int64_t count = plan_span(p, r, array, p->at).count, parts = p->o.mesh.size[x->axis];
    int64_t first;
    comm_segment s = {.count = count, .chunk = (count + parts - 1) / parts};
    if (x->segment) s = x->segment[at];
    return (double)(s.count - comm_segment_part(&s, rank_on(p, x->axis), &first)) *
           (x->how == MOVE_ALL_REDUCE ? 2 : 1);
}

// As compress.c: rows that PowerSGD does not take are moved by themselves.
static void count_rest(plan *p, const plan_moves *m, int bucket, dtype t)
{
    const bucket_range *b = &p->bucket[bucket];
    for (int i = 0; i < m->count; i++)
        for (int k = b->first_row; k < b->first_row + b->rows; k++)
            if (!powersgd_takes(p, &p->row[p->order[k]]))
                p->moved[m->at[i].axis] +=
                    (double)dtype_bytes(t) * row_elements(p, &m->at[i], k, m->array);
}

static void count_factors(plan *p, int bucket, dtype t)
{
    const bucket_range *b = &p->bucket[bucket];
    double elements = 0;
    for (int i = b->first_row; i < b->first_row + b->rows; i++)
        elements += (double)powersgd_factor_elements(p, &p->row[p->order[i]]);
    p->moved[LINK_DATA] += ring(mesh_data_ranks(&p->o.mesh), elements * (double)dtype_bytes(t));
}

static void count_gradients(plan *p, const plan_moves *m, int bucket)
{
    const dtype t = compress_type(p);
    if (m->count == 0) return;
    if (p->o.hook.kind != HOOK_POWERSGD) {
        count_moves(p, m, bucket, t);
        return;
    }
    count_rest(p, m, bucket, t);
    if (m == &p->micro || p->micro.count == 0) count_factors(p, bucket, t);
}

static void count_partial(plan *p, const bucket_range *b)
{
    for (int i = b->first_row; i < b->first_row + b->rows; i++) {
        const plan_row *r = &p->row[p->order[i]];
        if (r->tp_partial) p->moved[AXIS_TP] += ring(p->o.mesh.size[AXIS_TP], 4 * (double)r->count);
    }
}

static void count_reduce(plan *p, const instr *x)
{
    const bool in_file = p->o.tier[TIERED_GRADIENTS] == TIER_FILE, slot = x->slot >= 0;
    if (slot || p->gradient == LEVEL_WHOLE) count_partial(p, &p->bucket[x->index]);
    if (slot) count_gradients(p, &p->micro, x->index);
    if (!slot || p->gradient == LEVEL_WHOLE || (!in_file && x->last))
        count_gradients(p, &p->step, x->index);
}

static void count_tie(plan *p, const instr *x)
{
    const bucket_range *b = &p->bucket[x->index];
    const level l = x->slot < 0 ? p->gradient : LEVEL_WHOLE;
    for (int i = b->first_row; i < b->first_row + b->rows; i++) {
        const plan_row *r = &p->row[p->order[i]];
        if (r->tied) p->moved[LINK_TIE] += ring(2, 4 * (double)plan_span(p, r, l, p->at).count);
    }
}

void traffic_count(plan *p, const schedule *s, const block_traffic *blocks, double agreed)
{
    for (int k = 0; k < LINKS; k++) p->moved[k] = 0;
    for (int i = 0; i < s->count; i++) {
        const instr *x = &s->at[i];
        const block_traffic *b = &blocks[x->index];
        if (x->kind == GATHER)
            count_moves(p, x->kept ? &p->regather : &p->gather, x->index, p->o.compute);
        if (x->kind == PUBLISH) count_moves(p, &p->publish, x->index, p->o.compute);
        if (x->kind == REDUCE) count_reduce(p, x);
        if (x->kind == TIE) count_tie(p, x);
        if (x->kind == CLIP) p->moved[LINK_ALL] += ring(p->o.mesh.ranks, agreed);
        if (x->kind == SEND_ACT) p->moved[AXIS_PP] += b->output;
        if (x->kind == SEND_GRAD) p->moved[AXIS_PP] += b->input;
        if (x->kind == FORWARD) p->moved[AXIS_TP] += b->forward;
        if (x->kind == BACKWARD) p->moved[AXIS_TP] += b->backward;
        if (x->kind == BACKWARD_INPUT) p->moved[AXIS_TP] += b->backward_input;
        if (x->kind == BACKWARD_WEIGHT) p->moved[AXIS_TP] += b->backward_weight;
    }
}

const char *link_name(int link)
{
    static const char *const more[] = {"neighbours", "tie", "data", "all"};
    return link < AXES ? axis_name((axis)link) : more[link - AXES];
}

double traffic_total(const plan *p)
{
    double sum = 0;
    for (int k = 0; k < LINKS; k++) sum += p->moved[k];
    return sum;
}
