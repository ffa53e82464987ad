// graph.c -- builds a graph: values, nodes and parameters. Called by model families, by the build_*
// functions of the ops, and by derive.c. Knows nothing of what an op computes.
#include "graph/graph.h"

#include "base/alloc.h"
#include "base/size.h"
#include "graph/op.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const char WHAT[] = "a graph of the model";

static bool grow(graph *g, void *array, int count, size_t *room, size_t item)
{
    return graph_check(g, alloc_grow(array, room, (size_t)count + 1, item, WHAT, NULL));
}

bool graph_check(graph *g, status s)
{
    if (s != OK && g->first_error.code == OK) err_set(&g->first_error, s, "no memory for %s", WHAT);
    return s == OK;
}

status graph_open(const graph_options *o, graph **out, err *e)
{
    status result = OK;
    graph *g = NULL;
    TRY(alloc_zeroed(&g, 1, sizeof *g, WHAT, e));
    // Parameter 0 is there whatever fails later, see build_weight.
    TRY(alloc_grow(&g->param, &g->param_room, 1, sizeof *g->param, WHAT, e));
    g->param[0] = (graph_param){.pieces = 0};
    g->mode = o->mode, g->type = o->type, g->batch = o->batch;
    g->needs = o->needs, g->numerics = o->numerics, g->sequences.cache_rows = o->cache_rows;
    g->split.on = o->splits_backward && o->mode == GRAPH_TRAIN;
    g->input_grad.unused = o->input_needs_no_grad;
    g->sequences.documents = o->documents;
    g->loss = o->loss;
    g->tracing.find_adapter = o->find_adapter, g->tracing.adapter_arg = o->adapter_arg;
    if (o->documents && o->mode == GRAPH_DECODE)
        graph_misuse(g, "packed documents: decoding takes one document at a time");
    g->position = o->position;
    g->position.mesh = mesh_of_sizes(o->position.mesh.size);
    g->position.sequence_parallel &= g->position.mesh.size[AXIS_TP] > 1;
    graph_shard_sequences(g, o->seq);
    *out = g;
    g = NULL;
done:
    graph_close(g);
    return result;
}

static void free_nodes(graph_node_list *l)
{
    for (int i = 0; i < l->count; i++) free(l->node[i]);
    free(l->node);
}

void graph_close(graph *g)
{
    if (!g) return;
    for (int i = 0; i < g->values.count; i++) free(g->values.value[i]);
    for (int i = 0; i < g->params || i < 1; i++) free(g->param ? g->param[i].piece : NULL);
    free_nodes(&g->forward);
    free_nodes(&g->backward);
    free(g->values.value);
    free(g->param);
    free((void *)(uintptr_t)g->rope.frequency);
    for (graph_table *t = g->sequences.table, *next; t; t = next) next = t->next, free(t);
    free(g);
}

void graph_misuse(graph *g, const char *format, ...)
{
    if (g->first_error.code != OK) return;
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    err_set(&g->first_error, E_USAGE, "model graph: %s", text);
}

void graph_node_list_add(graph *g, graph_node_list *l, graph_node *n)
{
    if (grow(g, &l->node, l->count, &l->room, sizeof *l->node))
        l->node[l->count++] = n;
    else
        free(n);
}

graph_node *graph_add_node(graph *g, graph_node_list *l, graph_op kind)
{
    graph_node *n = NULL;
    if (!graph_check(g, alloc_zeroed(&n, 1, sizeof *n, WHAT, NULL)) ||
        !grow(g, &l->node, l->count, &l->room, sizeof *l->node)) {
        free(n);
        n = &g->tracing.no_node;
        *n = (graph_node){.number = 0};
    } else {
        l->node[l->count++] = n;
    }
    n->op = kind;
    n->param[0] = n->param[1] = -1;
    return n;
}

graph_node *graph_new_node(graph *g, graph_op kind)
{
    graph_node *n = graph_add_node(g, &g->forward, kind);
    n->number = g->tracing.next_number++;
    return n;
}

// The largest value. With this limit the bytes of a whole graph fit in 64 bits.
static const uint64_t VALUE_BYTES = UINT64_C(1) << 48;

// Notes a value with an impossible size. A value that is too large gets sizes of 1, so that later
// products of sizes cannot overflow.
static void check_value(graph *g, graph_value *v)
{
    uint64_t bytes = dtype_bytes(v->type);
    for (int i = 0; i < v->dims; i++) {
        if (v->dim[i] <= 0)
            graph_misuse(g, "%s has a dimension of %lld", v->name, (long long)v->dim[i]);
        bytes = size_mul(bytes, v->dim[i] < 1 ? 1 : (uint64_t)v->dim[i]);
    }
    if (bytes <= VALUE_BYTES) return;
    if (g->first_error.code == OK)
        err_set(&g->first_error, E_FIT,
                "%s of %lld x %lld elements is larger than 256 TiB; valid: smaller sizes of the "
                "model, a smaller train.micro_batch or data.seq_len",
                v->name, (long long)v->dim[0], (long long)(v->dims > 1 ? v->dim[1] : 1));
    for (int i = 0; i < v->dims; i++) v->dim[i] = 1;
}

graph_value *graph_new_value(graph *g, const char *name, dtype type, int dims, const int64_t *dim)
{
    graph_value *v = NULL;
    if (!graph_check(g, alloc_zeroed(&v, 1, sizeof *v, WHAT, NULL)) ||
        !grow(g, &g->values.value, g->values.count, &g->values.room, sizeof(graph_value *))) {
        free(v);
        v = &g->tracing.no_value;
        *v = (graph_value){.id = 0};
    } else {
        v->id = g->values.count;
        g->values.value[g->values.count++] = v;
    }
    v->name = name, v->type = type, v->dims = dims, v->param = v == &g->tracing.no_value ? 0 : -1,
    v->root = v;
    // One that stands for a value has sizes by which may be divided.
    for (int i = 0; i < GRAPH_DIMS; i++)
        v->dim[i] = v == &g->tracing.no_value ? 1 : i < dims ? dim[i] : 0;
    check_value(g, v);
    return v;
}

graph_value *graph_new_like(graph *g, const char *name, const graph_value *v)
{
    graph_value *new = graph_new_value(g, name, v->type, v->dims, v->dim);
    new->sharding = v->sharding;
    return new;
}

void graph_set_output(graph_node *n, int output, graph_value *v)
{
    n->out[output] = v;
    v->producer = n;
}

int64_t graph_value_cols(const graph_value *v)
{
    return v->dim[v->dims - 1];
}

int64_t graph_value_rows(const graph_value *v)
{
    int64_t rows = 1;
    for (int i = 0; i < v->dims - 1; i++) rows *= v->dim[i];
    return rows;
}

int64_t graph_param_cols(const graph_param *p)
{
    return p->dims == 2 ? p->dim[1] : 1;
}

int64_t graph_value_count(const graph_value *v)
{
    return graph_value_rows(v) * graph_value_cols(v);
}

size_t graph_value_bytes(const graph_value *v)
{
    return (size_t)graph_value_count(v) * dtype_bytes(v->type);
}

int64_t graph_rows(const graph *g)
{
    return g->batch * g->sequences.tokens.seq;
}

mesh_axes graph_row_sharding(const graph *g)
{
    const mesh_axes tp = g->position.sequence_parallel ? MESH_AXIS(AXIS_TP) : 0;
    return mesh_axes_in_use(&g->position.mesh, (AXES_GRAPH & AXES_TOKENS) | tp);
}

graph_value *build_input(graph *g, int64_t cols)
{
    const int64_t rows = graph_rows(g);
    const int parts = g->position.sequence_parallel ? g->position.mesh.size[AXIS_TP] : 1;
    if (rows % parts)
        graph_not_divisible(g,
                            "with parallel.sequence_parallel the %lld tokens of a micro-batch must "
                            "divide over parallel.tp %d",
                            (long long)rows, parts);
    g->input = graph_new_value(g, "input", g->type, 2, (int64_t[]){rows / parts, cols});
    g->input->sharding.rows = graph_row_sharding(g);
    g->input->region = REGION_INPUT;
    return g->input;
}

graph_value *build_residual(graph *g, int64_t cols)
{
    graph_value *x = build_input(g, cols);
    x->type = F32;
    return x;
}

graph_value *build_ids(graph *g)
{
    g->ids = graph_new_value(g, "ids", I32, 1, (int64_t[]){graph_rows(g)});
    g->ids->sharding.rows = graph_row_sharding(g) & ~MESH_AXIS(AXIS_TP);
    g->ids->region = REGION_IDS;
    return g->ids;
}

graph_value *build_features(graph *g, int64_t cols)
{
    g->ids = graph_new_value(g, "features", g->type, 2, (int64_t[]){graph_rows(g), cols});
    g->ids->sharding.rows = graph_row_sharding(g) & ~MESH_AXIS(AXIS_TP);
    g->ids->region = REGION_IDS;
    return g->ids;
}

void build_output(graph *g, graph_value *x)
{
    if (!x->producer) graph_misuse(g, "the output of a block must be computed by it");
    if (x->sharding.rows != graph_row_sharding(g) || x->sharding.cols)
        graph_misuse(g,
                     "the output of a block must have been reduced over the tensor-parallel ranks");
    g->output = x;
}

static void add_piece(graph *g, graph_param *p, const char *name, int64_t rows)
{
    if (!grow(g, &p->piece, p->pieces, &p->piece_room, sizeof *p->piece)) return;
    graph_piece *piece = &p->piece[p->pieces++];
    *piece = (graph_piece){.rows = rows};
    snprintf(piece->name, sizeof piece->name, "%s", name);
}

graph_value *build_weight(graph *g, const char *name, int64_t rows, int64_t cols, graph_init init,
                          double std)
{
    const bool fits = grow(g, &g->param, g->params, &g->param_room, sizeof *g->param);
    const int index = fits ? g->params++ : 0;
    graph_param *p = &g->param[index];
    if (!fits) free(p->piece);
    *p = (graph_param){.dims = cols ? 2 : 1,
                       .dim = {rows, cols},
                       .init = init,
                       .std = (float)std,
                       .type = g->type};
    snprintf(p->name, sizeof p->name, "%s", name);
    add_piece(g, p, name, rows);
    graph_value *v = graph_new_value(g, p->name, g->type, p->dims, p->dim);
    v->name = "weight";
    v->param = index;
    v->region = REGION_PARAM;
    return v;
}

void build_constant(graph *g, graph_value *param)
{
    g->param[param->param].constant = true;
}

void build_scalar(graph *g, graph_value *param)
{
    graph_param *p = &g->param[param->param];
    if (p->dims != 1 || p->dim[0] != 1)
        graph_misuse(g, "%s: a tensor without dimensions has one number", p->name);
    p->dims = 0;
}

void build_transposed(graph *g, graph_value *param)
{
    graph_param *p = &g->param[param->param];
    for (int i = 0; i < p->pieces; i++) p->piece[i].transposed = true;
}

void build_conv_weight(graph *g, graph_value *param)
{
    g->param[param->param].piece[0].is_conv = true;
}

void build_piece(graph *g, graph_value *param, const char *name, int64_t rows)
{
    graph_param *p = &g->param[param->param];
    // build_weight made one piece of the parameter's own name; the first piece replaces it.
    bool first = p->pieces == 1 && strcmp(p->piece[0].name, p->name) == 0;
    if (first) p->pieces = 0;
    add_piece(g, p, name, rows);
}

void build_turns(graph *g, graph_value *param, const int64_t run[PARAM_SECTIONS])
{
    graph_param *p = &g->param[param->param];
    const int last = p->pieces - 1;
    int64_t turn = 0;
    if (last < 0) return;
    for (int i = 0; i < PARAM_SECTIONS; i++) turn += run[i];
    if (turn < 1 || p->piece[last].rows % turn || p->piece[last].transposed)
        graph_misuse(g, "%s: %lld rows cannot be turns of %lld rows", p->name,
                     (long long)p->piece[last].rows, (long long)turn);
    else
        memcpy(p->piece[last].run, run, sizeof p->piece[last].run);
}

void build_interleaved(graph *g, graph_value *param, int64_t run)
{
    build_turns(g, param, (int64_t[PARAM_SECTIONS]){run, run});
}

int64_t graph_loss_chunk_rows(const graph *g, int64_t vocab)
{
    // At least two chunks, each of at most 64 MiB of F32 logits, and all of nearly equal size. A device
    // may ask for larger ones.
    enum { BUDGET = 64 << 20, ALIGN = 16 };
    int64_t rows = graph_rows(g), most = BUDGET / (vocab * 4);
    if (most < ALIGN) most = ALIGN;
    if (most > (rows + 1) / 2) most = (rows + 1) / 2;
    if (g->needs && g->needs->loss_rows > most) most = g->needs->loss_rows;
    if (most > rows) most = rows;
    int64_t chunks = (rows + most - 1) / most, even = (rows + chunks - 1) / chunks;
    return (int64_t)size_align((uint64_t)even, ALIGN);
}

static bool writes_gradient(const graph_node_list *l, int p)
{
    for (int i = 0; i < l->count; i++)
        if (l->node[i]->param[0] == p || l->node[i]->param[1] == p) return true;
    return false;
}

bool graph_gives_gradient(const graph *g, int p)
{
    // A loss writes gradients in the forward.
    return writes_gradient(&g->backward, p) || writes_gradient(&g->forward, p);
}

bool graph_has_backward(const graph *g)
{
    return g->backward.count > 0;
}

static status check_pieces(const graph *g, err *e)
{
    for (int i = 0; i < g->params; i++) {
        const graph_param *p = &g->param[i];
        int64_t rows = 0;
        for (int j = 0; j < p->pieces; j++) rows += p->piece[j].rows;
        if (rows != p->dim[0])
            return err_set(e, E_USAGE, "model graph: the pieces of %s have %lld rows, it has %lld",
                           p->name, (long long)rows, (long long)p->dim[0]);
    }
    return OK;
}

status graph_first_error(const graph *g, err *e)
{
    if (g->first_error.code != OK && e) *e = g->first_error;
    return g->first_error.code;
}

// FLOPs of a list; what is recomputed does not count.
static double list_flops(const graph *g, const graph_node_list *l)
{
    double sum = 0;
    for (int i = 0; i < l->count; i++) {
        const graph_op_info *o = graph_op_find(l->node[i]->op);
        if (o->flops && !l->node[i]->recomputed) sum += o->flops(g, l->node[i]);
    }
    return sum;
}

// An op that would mix the documents of a sequence is refused.
static void check_documents(graph *g)
{
    for (int i = 0; g->sequences.documents && i < g->forward.count; i++) {
        const graph_op op = g->forward.node[i]->op;
        const graph_op_info *o = graph_op_find(op);
        if (o->has_time && !o->takes_documents)
            graph_misuse(g, "%s: takes no packed documents; valid: a sequence of one document",
                         graph_op_name(op));
    }
}

status graph_finish(graph *g, recompute_mode recompute, err *e)
{
    status result = OK;
    graph_check_shards(g);
    check_documents(g);
    TRY(graph_first_error(g, e));
    TRY(check_pieces(g, e));
    graph_fuse(g);
    TRY(graph_convert_params(g, e));
    graph_fuse_linears(g);
    if (g->mode == GRAPH_TRAIN) {
        TRY(graph_derive(g, e));
        TRY(graph_plan_recompute(g, recompute, e));
        if (g->split.on) TRY(graph_split_backward(g, e));
    }
    g->flops.forward = list_flops(g, &g->forward);
    g->flops.backward = list_flops(g, &g->backward);
    graph_fuse_lists(g);
    TRY(graph_layout(g, e));
done:
    return result;
}
