// search.c -- see search.h. Best first: the layout with the lowest bound is looked at more closely, until its time is
// predicted, and nothing that is left can be below the best two. It looks at several at a time, on several threads, and
// always at the same ones.
#include "session/plan/search.h"

#include "base/alloc.h"
#include "session/plan/search_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUND = 16 }; // layouts that are looked at together

typedef enum node_state {
    NODE_TRACED,  // its bound is that of its graphs
    NODE_PLANNED, // its bound is that of its first stage, which fits
    NODE_ENDED,
} node_state;

typedef struct search_node {
    const layout *l;
    const search_graphs *g;
    double bound; // seconds
    node_state state;
} search_node;

typedef struct search_look {
    search_node *node;
    search_end end; // where it ended
    status result;
    err why;
    search_found found;
} search_look;

typedef struct search_walk {
    const search_of *x;
    layouts all;
    search_graphs *graphs;
    size_t graphs_count;
    int *of;
    search_node *node;
    search_node **heap; // [heaped] the lowest bound first
    size_t heaped;
    search_look look[ROUND];
    double limit; // seconds: what is not below it cannot win, at the begin of the round
    search_result *out;
} search_walk;

// ---- A heap of nodes. Equal bounds keep the order of the layouts.

static bool is_before(const search_node *a, const search_node *b)
{
    return a->bound != b->bound ? a->bound < b->bound : a < b;
}

static void push(search_walk *w, search_node *n)
{
    size_t i = w->heaped++;
    for (; i > 0 && is_before(n, w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = n;
}

static search_node *pop(search_walk *w)
{
    search_node *top = w->heap[0], *last = w->heap[--w->heaped];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= w->heaped) break;
        if (child + 1 < w->heaped && is_before(w->heap[child + 1], w->heap[child])) child++;
        if (!is_before(w->heap[child], last)) break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return top;
}

// ---- One layout

static bool is_refusal(status s)
{
    return s == E_USAGE || s == E_FIT;
}

// Plans one stage of a layout. *bound receives its least seconds, *fits whether it fits.
static status plan_stage(const search_walk *w, const search_node *n, const job *changed, int stage,
                         double *bound, bool *fits, err *e)
{
    status result = OK;
    const search_of *x = w->x;
    trainer_options o = {0};
    plan *p = NULL;
    schedule s = {0};
    uint64_t params;
    double flops;
    TRY(session_options(changed, x->in, x->ranks, &o, e));
    o.place.rank = mesh_rank(&o.mesh, (const int[AXES]){[AXIS_PP] = stage});
    TRY(memory_estimate_plan(&o, x->o->base, &p, &s, &params, &flops, e));
    const memory_estimate m = {.total = plan_bytes(p), .host_total = plan_host_bytes(p)};
    *fits = memory_estimate_fits(&m, x->o->budget, x->o->base);
    *bound = planner_stage_bound(p, &s, &n->g->passes, x->o->machine);
done:
    schedule_clear(&s);
    plan_free(p);
    session_options_clear(&o);
    return result;
}

// The first stage has most activations.
static status plan_first(const search_walk *w, search_look *k, const job *changed, err *e)
{
    status result = OK;
    search_node *n = k->node;
    double bound = 0;
    bool fits = false;
    TRY(plan_stage(w, n, changed, 0, &bound, &fits, e));
    n->bound = fmax(n->bound, bound);
    n->state = fits ? NODE_PLANNED : NODE_ENDED;
    k->end = SEARCH_TOO_LARGE;
done:
    return result;
}

// The last stage has the logits. The other stages are planned for memory only where the time may win.
static status predict(const search_walk *w, search_look *k, const job *changed, err *e)
{
    status result = OK;
    const search_of *x = w->x;
    search_found *f = &k->found;
    const int last = k->node->l->size[AXIS_PP] - 1;
    double bound = 0;
    bool fits = true;
    k->node->state = NODE_ENDED;
    k->end = SEARCH_TOO_LARGE;
    f->layout = *k->node->l;
    if (last > 0) TRY(plan_stage(w, k->node, changed, last, &bound, &fits, e));
    if (!fits) goto done;
    k->end = bound < w->limit ? SEARCH_PREDICTED : SEARCH_SLOWER;
    if (k->end == SEARCH_SLOWER) goto done;
    TRY(x->o->predict(changed, x->in, x->ranks, x->o->machine, &f->prediction, e));
    if (f->prediction.step_s > w->limit) goto done;
    TRY(memory_estimate_of(changed, x->in, x->ranks, x->o->base, &f->estimate, e));
    if (!memory_estimate_fits(&f->estimate, x->o->budget, x->o->base)) k->end = SEARCH_TOO_LARGE;
done:
    return result;
}

static void look_at(void *arg, size_t task)
{
    search_walk *w = arg;
    search_look *k = &w->look[task];
    job changed;
    layout_apply(w->x->j, k->node->l, &changed);
    k->why = (err){.code = OK};
    k->found.estimate.ranks = 0;
    k->result = k->node->state == NODE_TRACED ? plan_first(w, k, &changed, &k->why)
                                              : predict(w, k, &changed, &k->why);
    if (!is_refusal(k->result)) return;
    k->end = k->result == E_FIT ? SEARCH_TOO_LARGE : SEARCH_IMPOSSIBLE;
    k->node->state = NODE_ENDED;
}

// ---- The walk

static void end_layout(search_walk *w, search_end end, const char *why)
{
    search_result *out = w->out;
    if (end == SEARCH_IMPOSSIBLE && !out->ended[end])
        snprintf(out->refused, sizeof out->refused, "%.*s", TEXT_CUT(why, sizeof out->refused - 1));
    out->ended[end]++;
}

// Of two that are equally fast, the one with fewer bytes is better.
static bool is_better(const search_found *a, const search_found *b)
{
    const double now = a->prediction.step_s, before = b->prediction.step_s;
    return now != before ? now < before : a->estimate.total < b->estimate.total;
}

static void take_found(search_result *out, const search_found *f)
{
    if (f->estimate.ranks == 0) return; // it was too slow to look at its memory
    if (!out->has_best || is_better(f, &out->best)) {
        out->second = out->best;
        out->has_second = out->has_best;
        out->best = *f;
        out->has_best = true;
    } else if (!out->has_second || is_better(f, &out->second)) {
        out->second = *f;
        out->has_second = true;
    }
}

static double limit_of(const search_result *out)
{
    return out->has_second ? out->second.prediction.step_s : INFINITY;
}

static status take_look(search_walk *w, const search_look *k, err *e)
{
    if (k->result != OK && !is_refusal(k->result)) return err_set(e, k->result, "%s", k->why.text);
    if (k->node->state == NODE_ENDED) {
        end_layout(w, k->end, k->why.text);
        if (k->end == SEARCH_PREDICTED) take_found(w->out, &k->found);
    } else {
        push(w, k->node);
    }
    return OK;
}

static status walk(search_walk *w, err *e)
{
    status result = OK;
    while (w->heaped > 0 && w->heap[0]->bound < limit_of(w->out)) {
        size_t count = 0;
        w->limit = limit_of(w->out);
        while (count < ROUND && w->heaped > 0 && w->heap[0]->bound < w->limit)
            w->look[count++].node = pop(w);
        search_each(count, look_at, w);
        for (size_t i = 0; i < count; i++) TRY(take_look(w, &w->look[i], e));
    }
    w->out->ended[SEARCH_SLOWER] += w->heaped;
    w->heaped = 0;
done:
    return result;
}

// Leaves out what the model refuses, and what does not fit by a closed form.
static void begin(search_walk *w)
{
    const search_of *x = w->x;
    for (size_t i = 0; i < w->all.count; i++) {
        const layout *l = &w->all.item[i];
        const search_graphs *g = &w->graphs[w->of[i]];
        w->node[i] = (search_node){.l = l, .g = g};
        if (g->refused != OK)
            end_layout(w, g->refused == E_FIT ? SEARCH_TOO_LARGE : SEARCH_IMPOSSIBLE, g->why.text);
        else if (search_least_bytes(x, l, g) > (double)x->o->budget)
            end_layout(w, SEARCH_TOO_LARGE, "");
        else {
            w->node[i].bound = search_least_seconds(x, l, g);
            push(w, &w->node[i]);
        }
    }
}

static status search_tiers(const search_of *x, layout_tiers least, layout_tiers most,
                           search_result *out, err *e)
{
    status result = OK;
    search_walk *w = NULL;
    const layouts_of of = {.j = x->j,
                           .in = x->in,
                           .ranks = x->ranks,
                           .ranks_per_host = x->o->machine->ranks_per_host,
                           .keeps_mesh = x->o->keeps_mesh,
                           .least = least,
                           .most = most};
    TRY(alloc_zeroed(&w, 1, sizeof *w, "the search of a layout", e));
    w->x = x;
    w->out = out;
    TRY(layouts_make(&of, &w->all, e));
    out->tried += w->all.count;
    if (w->all.count == 0) goto done;
    TRY(alloc_zeroed(&w->node, w->all.count, sizeof *w->node, "the search of a layout", e));
    TRY(alloc_zeroed(&w->heap, w->all.count, sizeof(search_node *), "the search of a layout", e));
    TRY(search_graphs_open(x, &w->all, &w->graphs, &w->graphs_count, &w->of, e));
    begin(w);
    TRY(walk(w, e));
done:
    if (w) {
        search_graphs_close(w->graphs, w->graphs_count);
        layouts_clear(&w->all);
        free(w->node);
        free(w->heap);
        free(w->of);
        free(w);
    }
    return result;
}

status search_run(const job *j, const session_inputs *in, const search_options *o,
                  search_result *out, err *e)
{
    status result = OK;
    const search_of x = {.j = j, .in = in, .o = o, .ranks = j->launch.ranks};
    *out = (search_result){.tried = 0};
    TRY(search_tiers(&x, TIERS_DEVICE, TIERS_DEVICE, out, e));
    if (!out->has_best) TRY(search_tiers(&x, TIERS_OPTIMIZER_HOST, TIERS_ALL_HOST, out, e));
    if (!out->has_best) TRY(search_tiers(&x, TIERS_OPTIMIZER_FILE, TIERS_WEIGHTS_FILE, out, e));
done:
    return result;
}
