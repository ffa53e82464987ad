// bound.c -- see bound.h. session/plan/ calls it for each layout that may win.
#include "planner/bound.h"

#include "base/alloc.h"
#include "graph/op.h"
#include "parallel/calls.h"
#include "parallel/instructions.h"
#include "planner/groups.h"
#include "planner/step_private.h"

#include <math.h>
#include <stdlib.h>

// ---- Passes

typedef struct bound_trace {
    const planner_machine *machine;
    plan place; // of rank 0, for its process groups alone
    planner_groups groups;
} bound_trace;

// Seconds of the collectives of nodes first … last-1.
static double calls_of_nodes(bound_trace *t, const graph *g, const graph_node_list *l, int first,
                             int last)
{
    const planner_costs *costs = &t->machine->costs;
    double sum = 0;
    for (int i = first; i < last; i++) {
        graph_call c;
        if (!graph_call_of(g, l->node[i], &c)) continue;
        const planner_group *group = planner_groups_find(&t->groups, &t->place, MESH_AXIS(c.over),
                                                         t->machine->ranks_per_host);
        const comm_call call = {
            .kind = c.kind, .type = c.type, .segment = c.segment, .segments = c.segments};
        const double bytes = (double)c.count * (double)dtype_bytes(c.type);
        sum += costs->call(costs->given, group, &call, bytes).seconds;
    }
    return sum;
}

static void add_block(bound_trace *t, const planner_block_cost *c, int block, planner_passes *out)
{
    const graph_node_list *back = &c->g->backward;
    const int split = c->g->split.dgrad_nodes;
    out->forward[block] =
        c->forward.claim.seconds + calls_of_nodes(t, c->g, &c->g->forward, 0, c->g->forward.count);
    out->dgrad[block] = c->dgrad.claim.seconds + calls_of_nodes(t, c->g, back, 0, split);
    out->wgrad[block] = c->wgrad.claim.seconds + calls_of_nodes(t, c->g, back, split, back->count);
    out->all += out->forward[block] + out->dgrad[block] + out->wgrad[block];
}

status planner_passes_open(const model *m, const planner_machine *machine, planner_passes *out,
                           err *e)
{
    status result = OK;
    const planner_step x = {.model = m, .machine = machine};
    planner_step_costs costs = {.x = &x};
    bound_trace t = {.machine = machine, .place = {.o = {.mesh = m->position.mesh}}};
    double **const arrays[] = {&out->forward, &out->dgrad, &out->wgrad};
    *out = (planner_passes){.blocks = m->blocks};
    for (int k = 0; k < 3; k++)
        TRY(alloc_zeroed(arrays[k], (size_t)m->blocks, sizeof **arrays[k], "the costs of blocks",
                         e));
    TRY(planner_step_costs_open(&x, &costs, e));
    for (int b = 0; b < m->blocks; b++) {
        const planner_block_cost *c = costs.block;
        while (c->g != m->block[b].g) c++;
        add_block(&t, c, b, out);
    }
done:
    planner_step_costs_close(&costs);
    return result;
}

void planner_passes_clear(planner_passes *p)
{
    free(p->forward);
    free(p->dgrad);
    free(p->wgrad);
    *p = (planner_passes){.blocks = 0};
}

double planner_pipeline_fill(const strategy_pipeline *s, int stages, double all, double wgrad)
{
    // Stages need not be equal, and the first may begin its last passes early.
    const double sure = 0.95;
    if (stages == 1) return 0;
    const double each = s->schedule == PIPE_ZB            ? all - 2 * wgrad
                        : s->schedule == PIPE_INTERLEAVED ? all / s->virtual_stages
                                                          : all;
    return sure * fmax(0, each) * (stages - 1) / stages;
}

// ---- A stage

typedef struct bound_sums {
    double stream[STREAMS]; // busy seconds
    planner_groups groups;
    double passes, wgrad; // of the passes of one micro-batch, with their calls
} bound_sums;

static double passes_of(const planner_passes *p, unsigned computes, int block)
{
    return (computes & COMPUTES_FORWARD ? p->forward[block] : 0) +
           (computes & COMPUTES_DGRAD ? p->dgrad[block] : 0) +
           (computes & COMPUTES_WGRAD ? p->wgrad[block] : 0);
}

// Messages are left out: several of them may run at once.
static double calls_of(const plan *p, const schedule *list, const schedule_instr *i,
                       const planner_machine *m, planner_groups *groups)
{
    double sum = 0;
    for (int k = i->first_call; k < i->first_call + i->calls; k++) {
        const schedule_call *c = &list->call[k];
        if (c->steps == STEPS_BEFORE_POWERSGD) continue;
        const planner_group *g = planner_groups_find(groups, p, c->group, m->ranks_per_host);
        sum += m->costs.call(m->costs.given, g, &c->call, c->bytes).seconds;
    }
    return sum;
}

static void add_instr(const plan *p, const schedule *list, const schedule_instr *i,
                      const planner_passes *passes, const planner_step_costs *costs, bound_sums *s)
{
    const instr_row *row = instr_row_of(i->kind);
    const planner_machine *m = costs->x->machine;
    const bool is_pass = row->subject == ABOUT_BLOCK && row->computes;
    double seconds = is_pass || instr_is_message(i) ? 0 : calls_of(p, list, i, m, &s->groups);
    if (is_pass)
        seconds = passes_of(passes, row->computes, i->index);
    else
        seconds += planner_step_work(costs, 0, i).claim.seconds;
    s->stream[row->stream] += seconds;
    if (!is_pass || i->micro > 0) return;
    s->passes += seconds;
    if (row->computes == COMPUTES_WGRAD) s->wgrad += seconds;
}

double planner_stage_bound(const plan *p, const schedule *list, const planner_passes *passes,
                           const planner_machine *m)
{
    const int stages = p->o.mesh.size[AXIS_PP];
    const planner_step x = {.plan = &p, .list = &list, .stages = 1, .machine = m};
    const planner_step_costs costs = {.x = &x};
    bound_sums s = {.passes = 0};
    double busiest = 0, all = 0;
    for (int i = 0; i < list->count; i++) add_instr(p, list, &list->instr[i], passes, &costs, &s);
    s.stream[STREAM_COMPUTE] +=
        planner_pipeline_fill(&p->o.strategy.pipeline, stages, stages * s.passes, stages * s.wgrad);
    for (int k = 0; k < STREAMS; k++) {
        busiest = fmax(busiest, s.stream[k]);
        all += s.stream[k];
    }
    return (m->costs.streams_apart ? busiest : all) + m->costs.step_s;
}
