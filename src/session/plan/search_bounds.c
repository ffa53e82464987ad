// search_bounds.c -- the cheap half of the search: one trace for all layouts of the same graphs, and what follows from it
// without a plan. See search_private.h.
#include "session/plan/search_private.h"

#include "base/alloc.h"
#include "base/proc.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

// ---- Threads

typedef struct search_team {
    search_task_fn *task;
    void *arg;
    size_t count;
    atomic_size_t next;
} search_team;

static void *work(void *arg)
{
    search_team *t = arg;
    for (size_t i = atomic_fetch_add(&t->next, 1); i < t->count; i = atomic_fetch_add(&t->next, 1))
        t->task(t->arg, i);
    return NULL;
}

void search_each(size_t count, search_task_fn *task, void *arg)
{
    enum { THREADS_MOST = 32 };
    pthread_t thread[THREADS_MOST];
    search_team t = {.task = task, .arg = arg, .count = count};
    int started = 0;
    const int cores = proc_usable_cores(), most = cores < THREADS_MOST ? cores : THREADS_MOST;
    // A thread that does not start leaves its work to the others.
    while (started < most - 1 && (size_t)started + 1 < count &&
           pthread_create(&thread[started], NULL, work, &t) == 0)
        started++;
    work(&t);
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
}

// ---- Graphs

static bool has_graphs(const search_graphs *g, const layout *l)
{
    return g->tp == l->size[AXIS_TP] && g->cp == l->size[AXIS_CP] &&
           g->micro_batch == l->micro_batch && g->recompute == l->recompute &&
           g->sequence_parallel == l->sequence_parallel;
}

static status find_graphs(const layouts *all, search_graphs *g, size_t *count, int *of)
{
    for (size_t i = 0; i < all->count; i++) {
        const layout *l = &all->item[i];
        size_t k = i > 0 ? (size_t)of[i - 1] : 0;
        if (k >= *count || !has_graphs(&g[k], l))
            for (k = 0; k < *count && !has_graphs(&g[k], l);) k++;
        if (k == *count)
            g[(*count)++] = (search_graphs){.tp = l->size[AXIS_TP],
                                            .cp = l->size[AXIS_CP],
                                            .micro_batch = l->micro_batch,
                                            .recompute = l->recompute,
                                            .sequence_parallel = l->sequence_parallel};
        of[i] = (int)k;
    }
    return OK;
}

typedef struct search_traces {
    const search_of *x;
    const layouts *all;
    const int *of;
    search_graphs *g;
} search_traces;

static void take_model(const search_of *x, const model *m, search_graphs *g)
{
    for (int b = 0; b < m->blocks; b++) {
        g->wgrad += g->passes.wgrad[b];
        if (b > 0 && b + 1 < m->blocks) g->saved += (double)m->block[b].g->bytes.saved;
    }
    (void)x;
    g->params = model_param_count(m);
}

// Opens the graphs of one layout of them.
static void trace(void *arg, size_t task)
{
    const search_traces *t = arg;
    search_graphs *g = &t->g[task];
    status result = OK;
    err *e = &g->why;
    trainer_options o = {0};
    model *m = NULL;
    job changed;
    size_t i = 0;
    while (t->of[i] != (int)task) i++;
    layout_apply(t->x->j, &t->all->item[i], &changed);
    TRY(session_options(&changed, t->x->in, t->x->ranks, &o, e));
    TRY(session_open_model(&o, &m, e));
    TRY(planner_passes_open(m, t->x->o->machine, &g->passes, e));
    take_model(t->x, m, g);
done:
    g->refused = result;
    model_close(m);
    session_options_clear(&o);
}

status search_graphs_open(const search_of *x, const layouts *all, search_graphs **out,
                          size_t *count, int **of, err *e)
{
    status result = OK;
    *out = NULL, *of = NULL, *count = 0;
    TRY(alloc_zeroed(out, all->count, sizeof **out, "the search of a layout", e));
    TRY(alloc_zeroed(of, all->count, sizeof **of, "the search of a layout", e));
    TRY(find_graphs(all, *out, count, *of));
    search_traces t = {x, all, *of, *out};
    search_each(*count, trace, &t);
    for (size_t i = 0; i < *count; i++) {
        const search_graphs *g = &(*out)[i];
        const bool is_plain = g->refused == OK || g->refused == E_USAGE || g->refused == E_FIT;
        if (!is_plain) FAIL(g->refused, "%s", g->why.text);
    }
done:
    return result;
}

void search_graphs_close(search_graphs *g, size_t count)
{
    for (size_t i = 0; i < count; i++) planner_passes_clear(&g[i].passes);
    free(g);
}

// ---- Bounds

static double micros_of(const search_of *x, const layout *l)
{
    const double data = (double)l->size[AXIS_DP_REPLICATE] * l->size[AXIS_DP_SHARD];
    return (double)x->j->train.global_batch / data / (double)l->micro_batch;
}

// How the ranks of dp_shard and cp lie on hosts, where hosts divide the mesh or the mesh hosts; else ranks is 0.
static planner_group shards_of(const layout *l, int ranks_per_host)
{
    const int tp = l->size[AXIS_TP], each = ranks_per_host > 0 ? ranks_per_host : 1 << 30;
    planner_group g = {.ranks = l->size[AXIS_DP_SHARD] * l->size[AXIS_CP]};
    const int per_host = tp > each ? 1 : each / tp;
    if ((each % tp && tp % each) || (g.ranks % per_host && per_host % g.ranks))
        return (planner_group){.ranks = 0};
    g.per_host = per_host < g.ranks ? per_host : g.ranks;
    g.hosts = g.ranks / g.per_host;
    g.neighbours = (tp < each ? tp : each) * (per_host / g.per_host);
    return g;
}

static double call_seconds(const search_of *x, const planner_group *g, comm_call_kind kind,
                           dtype type, double elements)
{
    const planner_costs *costs = &x->o->machine->costs;
    const double bytes = elements * (double)dtype_bytes(type);
    const comm_call c = {.kind = kind,
                         .type = type,
                         .count =
                             (size_t)(kind == CALL_ALL_REDUCE ? elements : elements / g->ranks)};
    return costs->call(costs->given, g, &c, bytes).seconds;
}

// What a stage sends for its parameters, as if it had a mean share of them and sent them at once. Sums over replicas are
// left out.
static double least_traffic(const search_of *x, const layout *l, const search_graphs *g)
{
    const job *j = x->j;
    const double each = (double)g->params / l->size[AXIS_TP] / l->size[AXIS_PP];
    const planner_group group = shards_of(l, x->o->machine->ranks_per_host);
    const bool shards_weights = l->dp->weight == SHARD;
    const bool once = l->dp->gradient != SHARD || l->no_sync;
    const double micros = micros_of(x, l), gathers = j->strategy.reshard_after_forward ? 1.9 : 1;
    const dtype sums = j->strategy.reduce_dtype;
    // Groups may freeze parameters, and hooks compress gradients.
    if (group.ranks <= 1 || j->groups || j->strategy.hook.kind != HOOK_NONE) return 0;
    if (l->dp->optimizer != SHARD) return call_seconds(x, &group, CALL_ALL_REDUCE, sums, each);
    return (once ? 1 : micros) * call_seconds(x, &group, CALL_REDUCE_SCATTER, sums, each) +
           (shards_weights ? gathers * micros : 1) *
               call_seconds(x, &group, CALL_ALL_GATHER, job_dtype(j), each);
}

double search_least_seconds(const search_of *x, const layout *l, const search_graphs *g)
{
    const int pp = l->size[AXIS_PP];
    const strategy_pipeline p = {.schedule = l->schedule, .virtual_stages = l->virtual_stages};
    const double passes = g->passes.all / pp * micros_of(x, l) +
                          planner_pipeline_fill(&p, pp, g->passes.all, g->wgrad);
    const double traffic = least_traffic(x, l, g);
    return x->o->machine->costs.streams_apart ? fmax(passes, traffic) : passes + traffic;
}

// A mean over the stages is not above the largest. 1f1b saves the activations of pp - s micro-batches on stage s.
static double least_activations(const search_of *x, const layout *l, const search_graphs *g)
{
    const int pp = l->size[AXIS_PP];
    const double micros = micros_of(x, l);
    double alive = 0;
    for (int s = 0; s < pp; s++) alive += fmin(pp - s, micros) / pp;
    return g->saved / pp * alive;
}

// Parameters that tensor parallelism does not shard, tied weights and padding are more.
double search_least_bytes(const search_of *x, const layout *l, const search_graphs *g)
{
    const job *j = x->j;
    const double each = (double)g->params / l->size[AXIS_TP] / l->size[AXIS_PP];
    const double shards = (double)l->size[AXIS_DP_SHARD] * l->size[AXIS_CP];
    const double weight = (double)dtype_bytes(job_dtype(j)), master = job_dtype(j) == F32 ? 0 : 4;
    const double optimizer = master + 4.0 * optim_state_tensors(&j->optimizer);
    double state = 0;
    // Groups may freeze parameters, or compute in other types.
    if (l->tiers == TIERS_DEVICE && !j->groups) {
        state = weight / (l->dp->weight == SHARD ? shards : 1) +
                4 / (l->dp->gradient == SHARD && !l->no_sync ? shards : 1) +
                optimizer / (l->dp->optimizer == SHARD ? shards : 1);
    }
    return state * each + least_activations(x, l, g);
}
