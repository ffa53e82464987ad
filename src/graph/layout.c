// layout.c -- gives every value its memory: a region and an offset. Decides which values share
// memory, which forward values are saved for the backward, and where in the workspace the others
// lie. Every size of a step is known afterwards.
//
// Called by graph_finish. When an op writes its result over an input that no later node reads, the
// result and the input share a root, the value that stands for the memory. Roots whose lifetimes
// overlap never overlap in memory. The workspace is packed by first fit, the largest roots first.
//
// Does not know the regions' addresses (execute.h), nor how many micro-batches are in flight.
#include "base/size.h"
#include "graph/op.h"

#include "base/alloc.h"

#include <stdlib.h>

enum { REGION_ALIGN = 64 };

// The lifetime of a root in one list: positions of its first and last node.
typedef struct graph_lifetime {
    graph_value *root;
    int first, last;
} graph_lifetime;

typedef struct graph_layout_pass {
    graph *g;
    const graph_node_list *list; // the list that is laid out
    int *first, *last; // [values] lifetimes in the list; -1: the list does not use the value
} graph_layout_pass;

static graph_value *root_of(graph_value *v)
{
    while (v->root != v) v = v->root;
    return v;
}

static size_t aligned_bytes(const graph_value *v)
{
    return size_align(graph_value_bytes(v), REGION_ALIGN);
}

static void extend_lifetime(graph_layout_pass *l, const graph_value *v, int position)
{
    if (!v) return;
    if (l->first[v->id] < 0) l->first[v->id] = position;
    l->last[v->id] = position;
}

static void find_lifetimes(graph_layout_pass *l)
{
    for (int i = 0; i < l->g->values.count; i++) l->first[i] = l->last[i] = -1;
    for (int i = 0; i < l->list->count; i++) {
        const graph_node *n = l->list->node[i];
        for (int k = 0; k < NODE_INPUTS; k++) extend_lifetime(l, n->in[k], i);
        for (int k = 0; k < NODE_OUTPUTS; k++) extend_lifetime(l, n->out[k], i);
        extend_lifetime(l, n->workspace, i);
    }
}

// The last node that uses any value of this memory.
static int root_last(const graph_layout_pass *l, const graph_value *root)
{
    int last = -1;
    for (int i = 0; i < l->g->values.count; i++)
        if (root_of(l->g->values.value[i]) == root && l->last[i] > last) last = l->last[i];
    return last;
}

// Does anything but input `input` of node n, which is at `position`, still read this memory?
static bool is_read_again(const graph_layout_pass *l, const graph_node *n, int position,
                          const graph_value *root, int input)
{
    if (root_last(l, root) > position) return true;
    for (int k = 0; k < NODE_INPUTS; k++)
        if (k != input && n->in[k] && root_of(n->in[k]) == root) return true;
    return false;
}

// Does this memory hold a forward value that the backward list will read?
static bool is_saved(const graph *g, const graph_value *root)
{
    for (int i = 0; i < g->values.count; i++)
        if (g->values.value[i]->region == REGION_SAVED && root_of(g->values.value[i]) == root)
            return true;
    return false;
}

// May the list overwrite this memory? It may overwrite its own scratch and the output gradient.
static bool may_overwrite(const graph_value *root)
{
    return root->region == REGION_NONE || root->region == REGION_WORKSPACE ||
           root->region == REGION_OUTPUT_GRAD;
}

// May output `out` of node n, which is at `position`, lie in the memory of input k? Both then have one type:
// threads write an element over the one that they have read.
static bool may_share(const graph_layout_pass *l, int position, const graph_value *out, int k,
                      bool backward)
{
    const graph_node *n = l->list->node[position];
    const graph_value *in = n->in[k], *root = root_of(n->in[k]);
    for (int i = 0; i < NODE_OUTPUTS; i++)
        if (n->out[i] && n->out[i] != out && root_of(n->out[i]) == root) return false;
    return out->region != REGION_OUTPUT && (in->producer || in->region == REGION_OUTPUT_GRAD) &&
           may_overwrite(root) && !is_read_again(l, n, position, root, k) &&
           in->type == out->type && graph_value_bytes(root) >= graph_value_bytes(out) &&
           (backward || !is_saved(l->g, root));
}

// Gives an output the root of the first of the inputs `may` that it may share memory with.
static void share_output(const graph_layout_pass *l, int position, graph_value *out, unsigned may,
                         bool backward)
{
    const graph_node *n = l->list->node[position];
    if (!out || out->root != out) return;
    for (int k = 0; k < NODE_INPUTS; k++) {
        if (!n->in[k] || !(may >> k & 1) || !may_share(l, position, out, k, backward)) continue;
        out->root = root_of(n->in[k]);
        return;
    }
}

// Gives outputs the root of an input where the op's row allows or demands it.
static status share_memory(graph_layout_pass *l, bool backward, err *e)
{
    for (int i = 0; i < l->list->count; i++) {
        graph_node *n = l->list->node[i];
        const graph_op_info *o = graph_op_find(n->op);
        graph_value *out = n->out[0];
        if (o->is_view) {
            out->root = root_of(n->in[0]), out->view_offset = n->in[0]->view_offset;
            continue;
        }
        share_output(l, i, n->out[3], o->may_alias_3, backward);
        share_output(l, i, out, o->must_alias | o->may_alias, backward);
        if (o->must_alias && out->root == out)
            return err_set(
                e, E_USAGE,
                "model graph: %s (node %d) works in place, but its input is used elsewhere",
                graph_op_name(n->op), i);
    }
    return OK;
}

static int compare_lifetimes(const void *a, const void *b)
{
    const graph_lifetime *x = a, *y = b;
    size_t x_bytes = graph_value_bytes(x->root), y_bytes = graph_value_bytes(y->root);
    if (x_bytes != y_bytes) return x_bytes < y_bytes ? 1 : -1;
    return x->root->id - y->root->id;
}

// Only workspaces of kernels have the type U8.
static size_t alignment_of(const graph_value *v)
{
    return v->type == U8 ? KERNEL_WORKSPACE_ALIGN : REGION_ALIGN;
}

// Returns the lowest offset at which root s overlaps no placed root that lives at the same time.
static size_t first_fit(const graph_lifetime *placed, int count, const graph_lifetime *s)
{
    size_t offset = 0, bytes = aligned_bytes(s->root);
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < count; i++) {
            const graph_lifetime *p = &placed[i];
            size_t from = p->root->offset, to = from + aligned_bytes(p->root);
            if (p->last < s->first || s->last < p->first || offset + bytes <= from || to <= offset)
                continue;
            offset = size_align(to, alignment_of(s->root));
            moved = true;
        }
    }
    return offset;
}

// Does wgrad read this memory, which dgrad or the next block wrote?
static bool is_saved_for_wgrad(const graph_layout_pass *l, const graph_value *root)
{
    int wgrad = l->g->split.dgrad_nodes; // wgrad's first node
    return l->list == &l->g->backward && l->g->split.on && root_last(l, root) >= wgrad &&
           (l->first[root->id] < wgrad || root->region == REGION_OUTPUT_GRAD);
}

static void place_saved_for_wgrad(const graph_layout_pass *l)
{
    graph *g = l->g;
    for (int i = 0; i < g->values.count; i++) {
        graph_value *v = g->values.value[i];
        if (v->root != v || v->region != REGION_NONE || l->first[i] < 0 ||
            !is_saved_for_wgrad(l, v))
            continue;
        v->region = REGION_SAVED_FOR_WGRAD;
        v->offset = g->bytes.saved_for_wgrad;
        g->bytes.saved_for_wgrad += aligned_bytes(v);
    }
    g->split.saves_output_grad =
        g->output && g->output->grad && is_saved_for_wgrad(l, g->output->grad);
}

// Places the list's roots that have no region yet in the workspace; *out is its size.
static status pack_workspace(graph_layout_pass *l, size_t *out, err *e)
{
    status result = OK;
    graph_lifetime *lifetimes = NULL;
    TRY(alloc_zeroed(&lifetimes, (size_t)l->g->values.count, sizeof *lifetimes, "a graph", e));
    int count = 0;
    size_t most = 0;
    for (int i = 0; i < l->g->values.count; i++) {
        graph_value *v = l->g->values.value[i];
        if (v->root != v || v->region != REGION_NONE || l->first[i] < 0) continue;
        v->region = REGION_WORKSPACE;
        lifetimes[count++] = (graph_lifetime){v, l->first[i], root_last(l, v)};
    }
    qsort(lifetimes, (size_t)count, sizeof *lifetimes, compare_lifetimes);
    for (int i = 0; i < count; i++) {
        lifetimes[i].root->offset = first_fit(lifetimes, i, &lifetimes[i]);
        size_t end = lifetimes[i].root->offset + aligned_bytes(lifetimes[i].root);
        if (end > most) most = end;
    }
    *out = most;
done:
    free(lifetimes);
    return result;
}

static void save_value(graph *g, graph_value *v)
{
    if (!v || !v->producer || v->producer->recomputed) return;
    for (int f = 0; f < g->forward.count; f++)
        if (g->forward.node[f] == v->producer && v->region == REGION_NONE) v->region = REGION_SAVED;
}

// Saves the forward values that the backward list reads. Where the loss itself computes the input
// gradient in the forward, that is saved too: the backward of the block before reads it.
static void mark_saved(graph *g)
{
    for (int i = 0; i < g->backward.count; i++)
        for (int k = 0; k < NODE_INPUTS; k++) save_value(g, g->backward.node[i]->in[k]);
    if (g->input) save_value(g, g->input->grad);
}

static void place_saved(graph *g)
{
    for (int i = 0; i < g->values.count; i++) { // a root is saved when any value in its memory is
        graph_value *v = g->values.value[i], *root = root_of(v);
        if (v->region == REGION_SAVED && root->region == REGION_NONE) root->region = REGION_SAVED;
    }
    for (int i = 0; i < g->values.count; i++) {
        graph_value *v = g->values.value[i];
        if (v->root != v || v->region != REGION_SAVED) continue;
        v->offset = g->bytes.saved;
        g->bytes.saved += aligned_bytes(v);
    }
}

// In a decoding graph the input of attention lives in the cache: each token's row holds its queries,
// keys and values. States have a region of their own.
static void place_cache(graph *g)
{
    for (int i = 0; i < g->forward.count; i++) {
        const graph_node *n = g->forward.node[i];
        if (graph_op_find(n->op)->keeps_state) {
            n->out[1]->region = REGION_STATE;
            n->out[1]->offset = g->bytes.state;
            g->bytes.state += aligned_bytes(n->out[1]);
        }
        if (!graph_op_find(n->op)->cache_window) continue;
        graph_value *root = root_of(n->in[0]);
        root->region = REGION_CACHE;
        root->offset = g->bytes.cache_row;
        g->bytes.cache_row += (size_t)graph_value_cols(root) * dtype_bytes(root->type);
    }
}

static graph_cache find_cache(const graph *g)
{
    const int64_t all = g->sequences.cache_rows;
    int64_t window = 0;
    for (int i = 0; i < g->forward.count; i++) {
        const graph_node *n = g->forward.node[i];
        const graph_op_info *o = graph_op_find(n->op);
        const int64_t seen = o->cache_window ? o->cache_window(n) : 0;
        if (o->cache_window && seen == 0) return (graph_cache){.rows = all, .most = all};
        window = size_max(window, seen);
    }
    const int64_t most = size_align(window, GRAPH_CACHE_STEP), rows = 2 * most + GRAPH_CACHE_STEP;
    if (window == 0 || rows >= all) return (graph_cache){.rows = all, .most = all};
    return (graph_cache){.rows = rows, .most = most, .window = window};
}

// The input gradient may share the memory of the output gradient; else it has a region of its own.
static void place_input_grad(graph *g)
{
    if (!g->input || !g->input->grad) return;
    graph_value *root = root_of(g->input->grad);
    g->input_grad.in_place = root->region == REGION_OUTPUT_GRAD;
    if (!g->input_grad.in_place && root->region == REGION_NONE) root->region = REGION_INPUT_GRAD;
}

static void resolve_roots(graph *g)
{
    for (int i = 0; i < g->values.count; i++) {
        graph_value *v = g->values.value[i], *root = root_of(v);
        v->root = root;
        v->region = root->region;
        v->offset = root->offset;
    }
}

// ---- Workspaces of kernels

typedef struct workspace_sum {
    const graph *g;
    size_t most;
} workspace_sum;

static void take_call(void *arg, const kernel_call *c)
{
    workspace_sum *w = arg;
    const size_t bytes = kernel_workspace_bytes(w->g->needs, c);
    if (bytes > w->most) w->most = bytes;
}

// Gives the nodes of the list a value for the workspace of their kernels, one for all of a node's, which
// run one after the other.
static void add_workspaces(graph *g, const graph_node_list *l)
{
    for (int i = 0; i < l->count; i++) {
        workspace_sum w = {.g = g};
        graph_visit_node(g, l->node[i], &(graph_visitor){.take = take_call, .arg = &w});
        if (w.most == 0) continue;
        l->node[i]->workspace =
            graph_new_value(g, "workspace", U8, 1, (int64_t[]){(int64_t)w.most});
        l->node[i]->workspace->producer = l->node[i];
    }
}

status graph_layout(graph *g, err *e)
{
    status result = OK;
    graph_layout_pass l = {.g = g, .list = &g->forward};
    size_t backward = 0;
    g->cache = find_cache(g);
    if (g->needs) add_workspaces(g, &g->forward), add_workspaces(g, &g->backward);
    TRY(graph_first_error(g, e));
    TRY(alloc_zeroed(&l.first, (size_t)g->values.count, sizeof(int), "a graph", e));
    TRY(alloc_zeroed(&l.last, (size_t)g->values.count, sizeof(int), "a graph", e));
    if (g->output) g->output->region = REGION_OUTPUT;
    if (g->logits) g->logits->region = REGION_OUTPUT;
    mark_saved(g);
    find_lifetimes(&l);
    TRY(share_memory(&l, false, e));
    if (g->mode == GRAPH_DECODE) place_cache(g);
    place_saved(g);
    TRY(pack_workspace(&l, &g->bytes.workspace, e));

    l.list = &g->backward;
    find_lifetimes(&l);
    TRY(share_memory(&l, true, e));
    place_input_grad(g);
    place_saved_for_wgrad(&l);
    TRY(pack_workspace(&l, &backward, e));
    if (backward > g->bytes.workspace) g->bytes.workspace = backward;

    resolve_roots(g);
    if (g->input) g->bytes.input = aligned_bytes(g->input);
    if (g->output) g->bytes.output = aligned_bytes(g->output);
    if (g->logits) g->bytes.output = aligned_bytes(g->logits);
done:
    free(l.first);
    free(l.last);
    return result;
}
