// op_low_rank.c -- low-rank adapters of linear layers (LoRA, Hu et al. 2021). A linear layer adds them, so no family
// names them. For each piece of a weight that has one:
//
//   y[:, piece] += t B^T   with t = scale * (dropout(x) A^T)   A [rank, in]   B [rows of the piece, rank]
//
// A is an ordinary linear layer, so its gradients are those of op_linear.c, which adds that of x to what x has.
//
//   low_rank               in y, B, t    out y    y with t B^T added to the piece's columns
//   low_rank_grad_input    in dy, B      out dt   dt = dy[:, piece] B
//   low_rank_grad_weight   in dy, t               dB += dy[:, piece]^T t
//
// Where the weight is sharded by rows, B has the same rows, and each rank's gradient of A is a summand. Where it is
// sharded by columns, so is A: t is this rank's summand, as y is, and so is the gradient of B.
#include "graph/op.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Gives a node that was appended last a number of the adapters' own, so that the others have those of the graph without
// adapters, and with them its random numbers.
static graph_node *own_number(graph *g, graph_node *n)
{
    enum { FIRST = 1 << 15 }; // of 16 bits
    g->tracing.next_number--;
    n->number = FIRST + g->tracing.adapter_nodes++;
    return n;
}

// Declares a factor called as the piece, with `suffix` in place of its ".weight".
static graph_value *declare(graph *g, const graph_piece *p, const char *suffix, int64_t rows,
                            int64_t cols, graph_init init)
{
    char name[PARAM_NAME_BYTES];
    const size_t bytes = strlen(p->name), end = strlen(".weight");
    const bool ends = bytes > end && strcmp(p->name + bytes - end, ".weight") == 0;
    const int stem = (int)(ends ? bytes - end : bytes);
    if (snprintf(name, sizeof name, "%.*s.%s", stem, p->name, suffix) >= (int)sizeof name)
        graph_misuse(g, "the name of %s is too long for that of an adapter", p->name);
    // The bound of PEFT's A, kaiming_uniform_ with a = sqrt(5).
    graph_value *w =
        build_weight(g, name, rows, cols, init, init == INIT_UNIFORM ? 1 / sqrt((double)cols) : 0);
    g->param[w->param].is_adapter = true;
    g->param[w->param].adapts.param = -1;
    return w;
}

// scale * (x a^T). `over`: each rank's gradient of a is a summand.
static graph_value *project(graph *g, graph_value *x, graph_value *a, float scale, mesh_axes over)
{
    graph_node *n = own_number(g, graph_new_node(g, OP_LINEAR));
    n->in[0] = x, n->in[1] = a;
    graph_set_output(
        n, 0,
        graph_new_value(g, "low rank", g->type, 2, (int64_t[]){graph_value_rows(x), a->dim[0]}));
    n->out[0]->sharding.rows = x->sharding.rows;
    graph_note_use(g, a, x->sharding.rows | over);
    if (scale == 1) return n->out[0];
    graph_node *s = own_number(g, graph_new_node(g, OP_ADD));
    s->in[0] = n->out[0];
    s->attr.u.add.alpha = scale;
    graph_set_output(s, 0, graph_new_like(g, "scaled", n->out[0]));
    return s->out[0];
}

static graph_value *add_adapter(graph *g, graph_value *x, const graph_value *w, int piece,
                                graph_value *y)
{
    // By value: a declaration may move them.
    const graph_param p = g->param[w->param];
    const graph_piece k = p.piece[piece];
    const mesh_axes rows = graph_sharded_over(g, w, 0), cols = graph_sharded_over(g, w, 1);
    int64_t first;
    graph_value *a = declare(g, &k, "lora_A.weight", k.adapter.rank, p.dim[1], INIT_UNIFORM);
    build_roles(g, a, ROLE_NONE, p.roles[1]);
    graph_value *b = declare(g, &k, "lora_B.weight", k.rows, k.adapter.rank, INIT_ZEROS);
    if (g->first_error.code != OK) return y;
    g->param[b->param].roles[0] = p.roles[0];
    g->param[b->param].adapts.param = w->param, g->param[b->param].adapts.piece = piece;
    memcpy(g->param[b->param].piece[0].run, k.run, sizeof k.run);
    b->dim[0] = graph_piece_rows(g, w, piece, &first);
    if (k.adapter.dropout > 0 && g->mode == GRAPH_TRAIN) {
        x = graph_drop(g, x, k.adapter.dropout);
        own_number(g, x->producer);
    }
    graph_value *t = project(g, x, a, k.adapter.scale, rows);
    graph_node *n = own_number(g, graph_new_node(g, OP_LOW_RANK));
    n->in[0] = y, n->in[1] = b, n->in[2] = t;
    n->attr.u.low_rank.first_col = first, n->attr.u.low_rank.cols = b->dim[0];
    graph_set_output(n, 0, graph_new_like(g, "adapted", y));
    graph_note_use(g, b, y->sharding.rows | cols);
    return n->out[0];
}

graph_value *graph_add_adapters(graph *g, graph_value *x, const graph_value *w, graph_value *y)
{
    if (!g->tracing.find_adapter) return y;
    for (int i = 0; i < g->param[w->param].pieces; i++) {
        graph_piece *k = &g->param[w->param].piece[i];
        k->takes_adapter = true;
        k->adapter = g->tracing.find_adapter(g->tracing.adapter_arg, k->name);
        if (k->adapter.rank > 0) y = add_adapter(g, x, w, i, y);
    }
    return y;
}

// Takes over the sections of the weight's piece whose rows the factor has.
static void take_sections(graph *g, graph_param *b)
{
    const graph_param *w = &g->param[b->adapts.param];
    int64_t begin = 0, section = 0;
    for (int i = 0; i < b->adapts.piece; i++) begin += w->piece[i].rows;
    for (int i = 0; i < w->sections; section += w->section[i++].rows)
        if (section >= begin && section < begin + b->dim[0])
            b->section[b->sections++] = w->section[i];
}

void graph_shard_adapters(graph *g)
{
    for (int i = 0; i < g->params; i++) {
        graph_param *p = &g->param[i];
        if (!p->is_adapter) continue;
        p->sections = 0;
        if (p->adapts.param >= 0)
            take_sections(g, p);
        else
            p->section[p->sections++] = (graph_part){p->dim[0], 0};
    }
}

// The first column of the piece in y or its gradient.
static char *piece_ptr(const graph_run *run, const graph_node *n, const graph_value *y)
{
    char *begin = graph_run_ptr(run, y);
    return begin + (size_t)n->attr.u.low_rank.first_col * dtype_bytes(y->type);
}

static void low_rank_launch(const graph_run *run, const graph_node *n)
{
    const graph_value *b = n->in[1], *t = n->in[2], *y = n->out[0];
    graph_run_copy(run, y, n->in[0]);
    kernel_call c = {.kind = K_MATMUL};
    c.u.matmul = (kernel_matmul_args){.m = graph_value_rows(t),
                                      .n = b->dim[0],
                                      .k = graph_value_cols(t),
                                      .a = graph_run_ptr(run, t),
                                      .lda = graph_value_cols(t),
                                      .b = graph_run_ptr(run, b),
                                      .ldb = graph_value_cols(b),
                                      .trans_b = true,
                                      .c = piece_ptr(run, n, y),
                                      .ldc = graph_value_cols(y),
                                      .type = b->type,
                                      .c_type = y->type,
                                      .accumulate = true};
    graph_launch(run, n, &c);
}

static void low_rank_derive(graph *g, graph_node *n)
{
    graph_value *y = n->in[0], *b = n->in[1], *t = n->in[2], *dy = n->out[0]->grad;
    const int db = graph_trained_param(g, b);
    graph_accumulate_grad(g, y, dy);
    if (graph_requires_grad(t)) {
        graph_node *d = graph_new_grad_node(g, OP_LOW_RANK_GRAD_INPUT, n);
        d->in[0] = dy, d->in[1] = b;
        graph_set_output(d, 0, graph_new_like(g, "low rank gradient", t));
        graph_accumulate_grad(g, t, d->out[0]);
    }
    if (db < 0) return;
    graph_node *d = graph_new_grad_node(g, OP_LOW_RANK_GRAD_WEIGHT, n);
    d->in[0] = dy, d->in[1] = t;
    d->param[0] = db;
}

static void low_rank_grad_input_launch(const graph_run *run, const graph_node *n)
{
    const graph_value *dy = n->in[0], *b = n->in[1], *dt = n->out[0];
    kernel_call c = {.kind = K_MATMUL};
    c.u.matmul = (kernel_matmul_args){.m = graph_value_rows(dy),
                                      .n = graph_value_cols(b),
                                      .k = b->dim[0],
                                      .a = piece_ptr(run, n, dy),
                                      .lda = graph_value_cols(dy),
                                      .b = graph_run_ptr(run, b),
                                      .ldb = graph_value_cols(b),
                                      .c = graph_run_ptr(run, dt),
                                      .ldc = graph_value_cols(dt),
                                      .type = b->type,
                                      .c_type = dt->type};
    graph_launch(run, n, &c);
}

static void low_rank_grad_weight_launch(const graph_run *run, const graph_node *n)
{
    const graph_value *dy = n->in[0], *t = n->in[1];
    bool accumulate;
    float *db = graph_run_grad(run, n->param[0], &accumulate);
    kernel_call c = {.kind = K_MATMUL};
    c.u.matmul = (kernel_matmul_args){.m = n->attr.u.low_rank.cols,
                                      .n = graph_value_cols(t),
                                      .k = graph_value_rows(t),
                                      .a = piece_ptr(run, n, dy),
                                      .lda = graph_value_cols(dy),
                                      .trans_a = true,
                                      .b = graph_run_ptr(run, t),
                                      .ldb = graph_value_cols(t),
                                      .c = db,
                                      .ldc = graph_value_cols(t),
                                      .type = t->type,
                                      .c_type = F32,
                                      .accumulate = accumulate};
    graph_launch(run, n, &c);
}

// Of each of the three: one product over the rows, the piece's columns and the rank.
static double product_flops(const graph_node *n, int64_t rank)
{
    return 2.0 * (double)graph_value_rows(n->in[0]) * (double)n->attr.u.low_rank.cols *
           (double)rank;
}

static double low_rank_flops(const graph *g, const graph_node *n)
{
    (void)g;
    return product_flops(n, graph_value_cols(n->in[1])); // B, or t
}

const graph_op_info op_low_rank = {.derive = low_rank_derive,
                                   .launch = low_rank_launch,
                                   .flops = low_rank_flops,
                                   .keeps_cols = true,
                                   .may_alias = 1,
                                   .recompute = 3};
const graph_op_info op_low_rank_grad_input = {.launch = low_rank_grad_input_launch,
                                              .flops = low_rank_flops};
const graph_op_info op_low_rank_grad_weight = {.launch = low_rank_grad_weight_launch,
                                               .flops = low_rank_flops};
