// layout.c -- gives every value a place: which values share memory, which are kept for the
// backward, and where in the shared work area the others lie. All sizes of a step are known from
// here on.
//
// Two values of one list share a root when an op writes its result over an input that dies there.
// Roots with overlapping lifetimes never overlap in memory: first fit over roots in order of size.
#include "graph/op.h"

#include "base/alloc.h"

#include <stdlib.h>

enum { REGION_ALIGN = 64 };

// The lifetime of a root in one list: node numbers, inclusive.
typedef struct span {
    graph_value *root;
    int first, last;
} span;

typedef struct layout {
    graph *g;
    const graph_node_list *list;
    int *first, *last; // by value id, of the list at hand; -1 when not in it
} layout;

static graph_value *root_of(graph_value *v)
{
    while (v->root != v) v = v->root;
    return v;
}

static size_t align_up(size_t n)
{
    return (n + REGION_ALIGN - 1) / REGION_ALIGN * REGION_ALIGN;
}

static void note(layout *l, const graph_value *v, int at)
{
    if (!v) return;
    if (l->first[v->id] < 0) l->first[v->id] = at;
    l->last[v->id] = at;
}

static void lifetimes(layout *l)
{
    for (int i = 0; i < l->g->values; i++) l->first[i] = l->last[i] = -1;
    for (int i = 0; i < l->list->count; i++) {
        const graph_node *n = l->list->node[i];
        for (int k = 0; k < NODE_INPUTS; k++) note(l, n->in[k], i);
        for (int k = 0; k < NODE_OUTPUTS; k++) note(l, n->out[k], i);
    }
}

// The last node at which any value that shares this memory is used.
static int root_last(const layout *l, const graph_value *root)
{
    int last = -1;
    for (int i = 0; i < l->g->values; i++)
        if (root_of(l->g->value[i]) == root && l->last[i] > last) last = l->last[i];
    return last;
}

static bool used_later(const layout *l, const graph_node *n, int at, const graph_value *root,
                       int as)
{
    if (root_last(l, root) > at) return true;
    for (int k = 0; k < NODE_INPUTS; k++) // the same memory under two inputs
        if (k != as && n->in[k] && root_of(n->in[k]) == root) return true;
    return false;
}

// Does this memory hold a value that the backward list will read?
static bool is_kept(const graph *g, const graph_value *root)
{
    for (int i = 0; i < g->values; i++)
        if (g->value[i]->place == REGION_SAVED && root_of(g->value[i]) == root) return true;
    return false;
}

// Memory that this list may write over: of its own work values, or the gradient handed in.
static bool may_overwrite(const graph_value *root)
{
    return root->place == REGION_NONE || root->place == REGION_WORKSPACE ||
           root->place == REGION_OUTPUT_GRAD;
}

static status share_memory(layout *l, bool backward, err *e)
{
    for (int i = 0; i < l->list->count; i++) {
        graph_node *n = l->list->node[i];
        const graph_op_info *o = graph_op_find(n->op);
        graph_value *out = n->out[0];
        if (o->is_view) {
            out->root = root_of(n->in[0]), out->view = n->in[0]->view;
            continue;
        }
        if (!out || out->root != out || (out->place == REGION_OUTPUT && o->must_alias < 0))
            continue;
        for (int k = 0; k < NODE_INPUTS; k++) {
            graph_value *in = n->in[k];
            bool must = o->must_alias == k;
            if (!in || !(must || (o->may_alias >> k & 1))) continue;
            graph_value *root = root_of(in);
            bool free_to = out->place != REGION_OUTPUT &&
                           (in->producer || in->place == REGION_OUTPUT_GRAD) &&
                           may_overwrite(root) && !used_later(l, n, i, root, k) &&
                           graph_value_bytes(root) >= graph_value_bytes(out) &&
                           (backward || !is_kept(l->g, root));
            if (must && !free_to)
                return err_set(
                    e, E_USAGE,
                    "model graph: %s (node %d) works in place, but its input is used elsewhere",
                    o->name, i);
            if (!free_to) continue;
            out->root = root;
            break;
        }
    }
    return OK;
}

static int compare_spans(const void *a, const void *b)
{
    const span *x = a, *y = b;
    size_t m = graph_value_bytes(x->root), n = graph_value_bytes(y->root);
    if (m != n) return m < n ? 1 : -1;
    return x->root->id - y->root->id;
}

// First fit: the lowest offset that is free of every span already placed which lives at the same
// time.
static size_t place_span(const span *placed, int count, const span *s)
{
    size_t at = 0, bytes = align_up(graph_value_bytes(s->root));
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < count; i++) {
            const span *p = &placed[i];
            size_t from = p->root->offset, to = from + align_up(graph_value_bytes(p->root));
            if (p->last < s->first || s->last < p->first || at + bytes <= from || to <= at)
                continue;
            at = to;
            moved = true;
        }
    }
    return at;
}

// Read by the second half of the backward, made or handed in before it.
static bool is_held(const layout *l, const graph_value *root)
{
    int half = l->g->dgrad_nodes;
    return l->list == &l->g->backward && l->g->splits_backward && root_last(l, root) >= half &&
           (l->first[root->id] < half || root->place == REGION_OUTPUT_GRAD);
}

static void place_held(const layout *l)
{
    graph *g = l->g;
    for (int i = 0; i < g->values; i++) {
        graph_value *v = g->value[i];
        if (v->root != v || v->place != REGION_NONE || l->first[i] < 0 || !is_held(l, v)) continue;
        v->place = REGION_SAVED_FOR_WGRAD;
        v->offset = g->saved_for_wgrad_bytes;
        g->saved_for_wgrad_bytes += align_up(graph_value_bytes(v));
    }
    g->output_grad_saved = g->output && g->output->grad && is_held(l, g->output->grad);
}

// Places all WORK roots of the list; *out is the size of the area.
static status pack_work(layout *l, size_t *out, err *e)
{
    status result = OK;
    span *spans = NULL;
    TRY(alloc_zeroed(&spans, (size_t)l->g->values, sizeof *spans, "a graph", e));
    int count = 0;
    size_t most = 0;
    for (int i = 0; i < l->g->values; i++) {
        graph_value *v = l->g->value[i];
        if (v->root != v || v->place != REGION_NONE || l->first[i] < 0) continue;
        v->place = REGION_WORKSPACE;
        spans[count++] = (span){v, l->first[i], root_last(l, v)};
    }
    qsort(spans, (size_t)count, sizeof *spans, compare_spans);
    for (int i = 0; i < count; i++) {
        spans[i].root->offset = place_span(spans, i, &spans[i]);
        size_t end = spans[i].root->offset + align_up(graph_value_bytes(spans[i].root));
        if (end > most) most = end;
    }
    *out = most;
done:
    free(spans);
    return result;
}

static void save(graph *g, graph_value *v)
{
    if (!v || !v->producer || v->producer->recomputed) return;
    for (int f = 0; f < g->forward.count; f++)
        if (g->forward.node[f] == v->producer && v->place == REGION_NONE) v->place = REGION_SAVED;
}

// Forward values that the backward list reads, and the gradient of the input where it is the loss
// itself that takes it: then the block before reads it.
static void mark_saved(graph *g)
{
    for (int i = 0; i < g->backward.count; i++)
        for (int k = 0; k < NODE_INPUTS; k++) save(g, g->backward.node[i]->in[k]);
    if (g->input) save(g, g->input->grad);
}

static void place_saved(graph *g)
{
    for (int i = 0; i < g->values; i++) { // a root is kept when any value in its memory is
        graph_value *v = g->value[i], *root = root_of(v);
        if (v->place == REGION_SAVED && root->place == REGION_NONE) root->place = REGION_SAVED;
    }
    for (int i = 0; i < g->values; i++) {
        graph_value *v = g->value[i];
        if (v->root != v || v->place != REGION_SAVED) continue;
        v->offset = g->saved_bytes;
        g->saved_bytes += align_up(graph_value_bytes(v));
    }
}

// In a decoding graph the memory of attention's input is the cache itself: rows of keys and values
// (and queries).
static void place_cache(graph *g)
{
    for (int i = 0; i < g->forward.count; i++) {
        if (g->forward.node[i]->op != OP_ATTENTION) continue;
        graph_value *root = root_of(g->forward.node[i]->in[0]);
        root->place = REGION_CACHE;
        root->offset = g->cache_row_bytes;
        g->cache_row_bytes += (size_t)graph_value_cols(root) * dtype_bytes(root->type);
    }
}

// The gradient of the input may have taken over the memory of the output's gradient.
static void place_din(graph *g)
{
    if (!g->input || !g->input->grad) return;
    graph_value *root = root_of(g->input->grad);
    g->input_grad_in_place = root->place == REGION_OUTPUT_GRAD;
    if (!g->input_grad_in_place && root->place == REGION_NONE) root->place = REGION_INPUT_GRAD;
}

static void settle(graph *g)
{
    for (int i = 0; i < g->values; i++) {
        graph_value *v = g->value[i], *root = root_of(v);
        v->root = root;
        v->place = root->place;
        v->offset = root->offset;
    }
}

status graph_layout(graph *g, err *e)
{
    status result = OK;
    layout l = {.g = g, .list = &g->forward};
    size_t backward = 0;
    TRY(alloc_zeroed(&l.first, (size_t)g->values, sizeof(int), "a graph", e));
    TRY(alloc_zeroed(&l.last, (size_t)g->values, sizeof(int), "a graph", e));
    if (g->output) g->output->place = REGION_OUTPUT;
    if (g->logits) g->logits->place = REGION_OUTPUT;
    mark_saved(g);
    lifetimes(&l);
    TRY(share_memory(&l, false, e));
    if (g->mode == GRAPH_DECODE) place_cache(g);
    place_saved(g);
    TRY(pack_work(&l, &g->workspace_bytes, e));

    l.list = &g->backward;
    lifetimes(&l);
    TRY(share_memory(&l, true, e));
    place_din(g);
    place_held(&l);
    TRY(pack_work(&l, &backward, e));
    if (backward > g->workspace_bytes) g->workspace_bytes = backward;

    settle(g);
    if (g->input) g->input_bytes = align_up(graph_value_bytes(g->input));
    if (g->output) g->output_bytes = align_up(graph_value_bytes(g->output));
    if (g->logits) g->output_bytes = align_up(graph_value_bytes(g->logits));
done:
    free(l.first);
    free(l.last);
    return result;
}
