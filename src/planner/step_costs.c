// step_costs.c -- the work of an instruction as one claim: the kernels of its pass, of its bucket, or the bytes that it
// moves. See step_private.h. Called by step.c. It knows no machine: the machine's costs say how long a kernel takes.
#include "planner/step_private.h"

#include "base/alloc.h"
#include "graph/execute.h"
#include "parallel/hook.h"
#include "parallel/instructions.h"

#include <math.h>
#include <stdlib.h>

void planner_sum_add(planner_sum *s, const planner_claim *claim, int kernels)
{
    const double before = s->claim.seconds, all = before + claim->seconds;
    for (int r = 0; r < PLANNER_RESOURCES && all > 0; r++)
        s->claim.share[r] = (s->claim.share[r] * before + claim->share[r] * claim->seconds) / all;
    s->claim.seconds = all;
    s->kernels += kernels;
}

static void add_kernel(const planner_costs *costs, const kernel_call *call, planner_sum *s)
{
    const kernel_cost k = kernel_cost_of(call);
    planner_claim claim = costs->kernel(costs->given, &k);
    claim.seconds *= costs->factor;
    planner_sum_add(s, &claim, 1);
}

// ---- The passes of blocks

typedef struct costs_visit {
    const planner_costs *costs;
    planner_sum *sum;
} costs_visit;

static void take_call(void *arg, const kernel_call *call)
{
    const costs_visit *v = arg;
    add_kernel(v->costs, call, v->sum);
}

static void visit(const planner_costs *costs, const graph *g, const graph_node_list *l, int from,
                  int to, planner_sum *sum)
{
    costs_visit v = {costs, sum};
    for (int i = from; i < to; i++)
        graph_visit_node(g, l->node[i],
                         &(graph_visitor){.take = take_call, .arg = &v, .typical = true});
}

status planner_step_costs_open(const planner_step *x, planner_step_costs *out, err *e)
{
    status result = OK;
    const planner_costs *costs = &x->machine->costs;
    const model *m = x->model;
    *out = (planner_step_costs){.x = x};
    TRY(alloc_zeroed(&out->block, (size_t)m->graphs, sizeof *out->block, "the costs of blocks", e));
    for (int i = 0; i < m->graphs; i++) {
        planner_block_cost *b = &out->block[i];
        const graph *g = b->g = m->graph[i];
        visit(costs, g, &g->forward, 0, g->forward.count, &b->forward);
        visit(costs, g, &g->backward, 0, g->split.dgrad_nodes, &b->dgrad);
        visit(costs, g, &g->backward, g->split.dgrad_nodes, g->backward.count, &b->wgrad);
    }
done:
    return result;
}

void planner_step_costs_close(planner_step_costs *c)
{
    free(c->block);
    *c = (planner_step_costs){.block = NULL};
}

static void add_pass(const planner_step_costs *c, unsigned computes, int block, planner_sum *out)
{
    const graph *g = c->x->model->block[block].g;
    const planner_block_cost *b = c->block;
    while (b->g != g) b++;
    if (computes & COMPUTES_FORWARD) planner_sum_add(out, &b->forward.claim, b->forward.kernels);
    if (computes & COMPUTES_DGRAD) planner_sum_add(out, &b->dgrad.claim, b->dgrad.kernels);
    if (computes & COMPUTES_WGRAD) planner_sum_add(out, &b->wgrad.claim, b->wgrad.kernels);
}

// ---- The work of an instruction that is no pass

typedef struct costs_work {
    const planner_step_costs *c;
    const plan *p;
    const schedule_instr *i;
    planner_sum *out;
} costs_work;

static void add(const costs_work *w, const kernel_call *call)
{
    add_kernel(&w->c->x->machine->costs, call, w->out);
}

static void add_transfer(const costs_work *w, planner_transfer what, double bytes)
{
    const planner_costs *costs = &w->c->x->machine->costs;
    const planner_claim claim = costs->transfer(costs->given, what, bytes);
    planner_sum_add(w->out, &claim, 0);
}

// An address that nobody reads: a cost reads only whether there is one.
static void *somewhere(void)
{
    static const float here = 0;
    return (void *)(uintptr_t)&here;
}

static void add_elements(const costs_work *w, double count, bool sums)
{
    kernel_call call = {.kind = K_ADD};
    call.u.add = (kernel_add_args){.count = (int64_t)count,
                                   .a = somewhere(),
                                   .b = sums ? somewhere() : NULL,
                                   .y = somewhere(),
                                   .type = F32};
    if (count > 0) add(w, &call);
}

static void load_batch(const costs_work *w)
{
    const model *m = w->c->x->model;
    if (!m) return; // a bound
    add_transfer(w, TRANSFER_TO_DEVICE, (double)(m->batch * m->seq) * 2 * sizeof(int32_t));
}

static void read_tier(const costs_work *w)
{
    add_transfer(w, TRANSFER_READ, (double)plan_bucket_swap_bytes(w->p, w->i->index, w->i->what));
}

static void write_tier(const costs_work *w)
{
    add_transfer(w, TRANSFER_WRITE, (double)plan_bucket_swap_bytes(w->p, w->i->index, w->i->what));
}

// The matrices that PowerSGD sends as two factors: one product for each of them, one that puts the sum back, and what it
// keeps of the error.
static void factor_rows(const costs_work *w, const plan_bucket *b)
{
    for (int k = b->first_row; k < b->first_row + b->rows; k++) {
        const plan_row *r = &w->p->row[w->p->order[k]];
        if (!hook_factors_row(w->p, r)) continue;
        const int64_t rank = hook_rank(w->p, r);
        kernel_call product = {.kind = K_MATMUL}, orthogonal = {.kind = K_ORTHOGONALIZE};
        product.u.matmul = (kernel_matmul_args){.m = r->rows, .n = rank, .k = r->cols, .type = F32};
        orthogonal.u.orthogonalize =
            (kernel_orthogonalize_args){.rows = r->rows, .cols = rank, .x = somewhere()};
        for (int times = 0; times < 3; times++) add(w, &product);
        add(w, &orthogonal);
        add_elements(w, (double)r->count, true);
    }
}

// Gradients that are kept as shards are added to those of earlier micro-batches. After the last one each rank squares its
// share of the reduced ones.
static void reduce(const costs_work *w)
{
    const plan_bucket *b = &w->p->bucket[w->i->index];
    const plan_group *g = plan_group_of(w->p, w->i->index);
    const mesh_axes over = plan_group_axes(g);
    const double full = (double)b->count[LAYOUT_FULL];
    kernel_call squares = {.kind = K_SUM_SQUARES};
    if (w->i->slot >= 0 && g->gradient != LAYOUT_FULL && w->i->micro > 0)
        add_elements(w, (double)b->count[g->gradient], true);
    if (hook_compresses(w->p)) factor_rows(w, b);
    if (!w->i->last && w->i->slot >= 0) return;
    squares.u.sum_squares =
        (kernel_sum_squares_args){.count = (int64_t)(full / mesh_group_size(&w->p->o.mesh, over)),
                                  .x = somewhere(),
                                  .type = F32};
    add(w, &squares);
}

static void update(const costs_work *w)
{
    const plan_group *g = plan_group_of(w->p, w->i->index);
    kernel_call call = {.kind = K_UPDATE};
    const bool low = g->o.compute != F32;
    call.u.update = (kernel_update_args){.count = w->p->bucket[w->i->index].count[g->optimizer],
                                         .w = somewhere(),
                                         .m = g->o.has_m ? somewhere() : NULL,
                                         .v = g->o.has_v ? somewhere() : NULL,
                                         .g = somewhere(),
                                         .average = g->o.has_average ? somewhere() : NULL,
                                         .low = low ? somewhere() : NULL,
                                         .low_type = g->o.compute,
                                         .rule = g->o.has_v ? UPDATE_ADAMW : UPDATE_SGD};
    add(w, &call);
}

// Gathered or not, NF4 rows are unpacked.
static void unshard(const costs_work *w)
{
    const plan_bucket *b = &w->p->bucket[w->i->index];
    const plan_group *g = plan_group_of(w->p, w->i->index);
    for (int k = b->first_row; k < b->first_row + b->rows && g->o.storage == STORAGE_NF4; k++) {
        const plan_row *r = &w->p->row[w->p->order[k]];
        kernel_call call = {.kind = K_UNPACK_NF4};
        call.u.unpack_nf4 = (kernel_unpack_nf4_args){.rows = r->rows,
                                                     .cols = r->cols,
                                                     .packed = somewhere(),
                                                     .y = somewhere(),
                                                     .type = g->o.compute};
        add(w, &call);
    }
}

static void (*const WORK[INSTRS])(const costs_work *w) = {
    [LOAD_BATCH] = load_batch, [SWAP_IN] = read_tier,     [SWAP_OUT] = write_tier,
    [REDUCE_GRAD] = reduce,    [OPTIMIZER_STEP] = update, [UNSHARD] = unshard,
};

planner_sum planner_step_work(const planner_step_costs *c, int stage, const schedule_instr *i)
{
    planner_sum out = {.kernels = 0};
    const instr_row *row = instr_row_of(i->kind);
    const planner_costs *costs = &c->x->machine->costs;
    if (row->subject == ABOUT_BLOCK && row->computes) add_pass(c, row->computes, i->index, &out);
    if (WORK[i->kind]) WORK[i->kind](&(costs_work){c, c->x->plan[stage], i, &out});
    // A device does not start a kernel before the host has issued it.
    out.claim.seconds = fmax(out.claim.seconds, costs->issue_s * out.kernels);
    return out;
}
