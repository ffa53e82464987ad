// op_pointwise.c -- activations, gated activations (Shazeer 2020), sums, dropout and conversions
// between the compute type and the F32 residual. All but the gated ones map [rows, cols] to
// [rows, cols] element by element; glu maps [rows, 2 * cols] to [rows, cols]. The inputs of a
// gradient node are dy, then x.
#include "graph/op.h"

graph_value *build_activation(graph *g, graph_value *x, kernel_activation act)
{
    graph_node *n = graph_new_node(g, OP_ACTIVATION);
    n->in[0] = x;
    n->attr.u.act = act;
    graph_set_output(n, 0, graph_new_like(g, "activation", x));
    return n->out[0];
}

static void activation_launch(const graph_run *run, const graph_node *n)
{
    kernel_call c = {.kind = K_ACTIVATION};
    c.u.activation = (kernel_activation_args){.count = graph_value_count(n->in[0]),
                                              .x = graph_run_ptr(run, n->in[0]),
                                              .y = graph_run_ptr(run, n->out[0]),
                                              .act = n->attr.u.act,
                                              .type = n->in[0]->type};
    graph_launch(run, n, &c);
}

void graph_derive_activation(graph *g, const graph_node *n, graph_value *dy, graph_value *x)
{
    graph_node *d = graph_new_grad_node(g, OP_ACTIVATION_GRAD, n);
    d->in[0] = dy, d->in[1] = x;
    graph_set_output(d, 0, graph_new_like(g, "activation dx", x));
    graph_accumulate_grad(g, x, d->out[0]);
}

static void activation_derive(graph *g, graph_node *n)
{
    graph_derive_activation(g, n, n->out[0]->grad, n->in[0]);
}

static void activation_grad_launch(const graph_run *run, const graph_node *n)
{
    kernel_call c = {.kind = K_ACTIVATION_GRAD};
    c.u.activation = (kernel_activation_args){.count = graph_value_count(n->in[1]),
                                              .dy = graph_run_ptr(run, n->in[0]),
                                              .x = graph_run_ptr(run, n->in[1]),
                                              .y = graph_run_ptr(run, n->out[0]),
                                              .act = n->attr.u.act,
                                              .type = n->in[1]->type};
    graph_launch(run, n, &c);
}

graph_value *build_glu(graph *g, graph_value *x, kernel_activation act)
{
    if (graph_value_cols(x) % 2)
        graph_misuse(g, "glu: %lld columns are not gate and up", (long long)graph_value_cols(x));
    graph_sections(g, x, "glu: gate and up", 2,
                   (int64_t[]){graph_value_cols(x) / 2, graph_value_cols(x) / 2});
    graph_node *n = graph_new_node(g, OP_GLU);
    n->in[0] = x;
    n->attr.u.act = act;
    graph_set_output(n, 0,
                     graph_new_value(g, "glu", x->type, 2,
                                     (int64_t[]){graph_value_rows(x), graph_value_cols(x) / 2}));
    n->out[0]->sharding = x->sharding;
    return n->out[0];
}

static void glu_launch(const graph_run *run, const graph_node *n)
{
    kernel_call c = {.kind = K_GLU};
    c.u.glu = (kernel_glu_args){.rows = graph_value_rows(n->out[0]),
                                .cols = graph_value_cols(n->out[0]),
                                .x = graph_run_ptr(run, n->in[0]),
                                .y = graph_run_ptr(run, n->out[0]),
                                .act = n->attr.u.act,
                                .type = n->in[0]->type};
    graph_launch(run, n, &c);
}

static void glu_derive(graph *g, graph_node *n)
{
    graph_node *d = graph_new_grad_node(g, OP_GLU_GRAD, n);
    d->in[0] = n->out[0]->grad, d->in[1] = n->in[0];
    graph_set_output(d, 0, graph_new_like(g, "glu dx", n->in[0]));
    graph_accumulate_grad(g, n->in[0], d->out[0]);
}

static void glu_grad_launch(const graph_run *run, const graph_node *n)
{
    kernel_call c = {.kind = K_GLU_GRAD};
    c.u.glu = (kernel_glu_args){.rows = graph_value_rows(n->in[0]),
                                .cols = graph_value_cols(n->in[0]),
                                .dy = graph_run_ptr(run, n->in[0]),
                                .x = graph_run_ptr(run, n->in[1]),
                                .y = graph_run_ptr(run, n->out[0]),
                                .act = n->attr.u.act,
                                .type = n->in[1]->type};
    graph_launch(run, n, &c);
}

graph_value *build_add(graph *g, graph_value *a, graph_value *b, double alpha, double beta)
{
    if (graph_value_rows(a) != graph_value_rows(b) || graph_value_cols(a) != graph_value_cols(b) ||
        a->sharding.rows != b->sharding.rows || a->sharding.cols != b->sharding.cols)
        graph_misuse(g, "add: operands of different sizes");
    if (a->type != b->type && a->type != F32)
        graph_misuse(g, "add: the residual must be the first operand");
    graph_node *n = graph_new_node(g, OP_ADD);
    n->in[0] = a, n->in[1] = b;
    n->attr.u.add.alpha = (float)alpha, n->attr.u.add.beta = (float)beta;
    graph_set_output(n, 0, graph_new_like(g, "sum", a));
    return n->out[0];
}

graph_value *build_scaled(graph *g, graph_value *x, graph_value *factor)
{
    if (factor->param < 0 || !g->param[factor->param].constant || graph_value_count(factor) != 1)
        graph_misuse(g, "scaled: the factor must be a constant parameter of one number");
    graph_node *n = graph_new_node(g, OP_ADD);
    n->in[0] = x, n->in[2] = factor;
    n->attr.u.add.alpha = 1;
    if (factor->param >= 0) graph_note_use(g, factor, 0);
    graph_set_output(n, 0, graph_new_like(g, "scaled", x));
    return n->out[0];
}

static void add_launch(const graph_run *run, const graph_node *n)
{
    const graph_value *other = n->in[1] ? n->in[1] : n->in[2];
    kernel_call c = {.kind = K_ADD};
    c.u.add = (kernel_add_args){.count = graph_value_count(n->in[0]),
                                .a = graph_run_ptr(run, n->in[0]),
                                .b = graph_run_ptr(run, n->in[1]),
                                .y = graph_run_ptr(run, n->out[0]),
                                .factor = graph_run_ptr(run, n->in[2]),
                                .alpha = n->attr.u.add.alpha,
                                .beta = n->attr.u.add.beta,
                                .type = other ? other->type : n->in[0]->type,
                                .residual_fp32 = other && n->in[0]->type != other->type};
    graph_launch(run, n, &c);
}

// dy converted to the type of the value that it is the gradient of.
static graph_value *grad_as_type(graph *g, const graph_node *n, graph_value *dy, dtype type)
{
    if (dy->type == type) return dy;
    graph_node *d = graph_new_grad_node(g, OP_CONVERT, n);
    d->in[0] = dy;
    graph_set_output(d, 0, graph_new_value(g, "converted gradient", type, dy->dims, dy->dim));
    d->out[0]->sharding = dy->sharding;
    return d->out[0];
}

// factor * dy, with the node's factor in memory, too; dy itself where the factor is 1.
static graph_value *grad_scaled(graph *g, const graph_node *n, graph_value *dy, float factor)
{
    if (factor == 1 && !n->in[2]) return dy; // both operands then share the value as their gradient
    graph_node *d = graph_new_grad_node(g, OP_ADD, n);
    d->in[0] = dy, d->in[2] = n->in[2];
    d->attr.u.add.alpha = factor;
    graph_set_output(d, 0, graph_new_like(g, "scaled gradient", dy));
    return d->out[0];
}

static void add_derive(graph *g, graph_node *n)
{
    const float factor[2] = {n->attr.u.add.alpha, n->attr.u.add.beta};
    for (int i = 0; i < 2; i++) {
        if (!graph_requires_grad(n->in[i])) continue;
        graph_value *dx = grad_scaled(g, n, n->out[0]->grad, factor[i]);
        graph_accumulate_grad(g, n->in[i], grad_as_type(g, n, dx, n->in[i]->type));
    }
}

static graph_value *build_convert(graph *g, graph_value *x, dtype type)
{
    if (x->type == type) return x;
    graph_node *n = graph_new_node(g, OP_CONVERT);
    n->in[0] = x;
    graph_set_output(n, 0, graph_new_value(g, "converted", type, x->dims, x->dim));
    n->out[0]->sharding = x->sharding;
    return n->out[0];
}

graph_value *graph_as_compute(graph *g, graph_value *x)
{
    return build_convert(g, x, g->type);
}

graph_value *build_as_residual(graph *g, graph_value *x)
{
    return build_convert(g, x, F32);
}

static void convert_launch(const graph_run *run, const graph_node *n)
{
    kernel_call c = {.kind = K_CONVERT};
    c.u.convert = (kernel_convert_args){.count = graph_value_count(n->in[0]),
                                        .src = graph_run_ptr(run, n->in[0]),
                                        .dst = graph_run_ptr(run, n->out[0]),
                                        .src_type = n->in[0]->type,
                                        .dst_type = n->out[0]->type};
    graph_launch(run, n, &c);
}

static void convert_derive(graph *g, graph_node *n)
{
    graph_accumulate_grad(g, n->in[0], grad_as_type(g, n, n->out[0]->grad, n->in[0]->type));
}

graph_value *build_dropout(graph *g, graph_value *x, double p)
{
    if (p == 0 || g->mode != GRAPH_TRAIN) return x;
    if (p < 0 || p >= 1) graph_misuse(g, "dropout: %g is not in [0, 1)", p);
    if (x->sharding.cols)
        graph_misuse(g, "dropout: the columns of x are sharded over the tensor-parallel ranks");
    return graph_drop(g, x, p);
}

graph_value *graph_drop(graph *g, graph_value *x, double p)
{
    graph_node *n = graph_new_node(g, OP_DROPOUT);
    n->in[0] = x;
    n->attr.u.dropout = (float)p;
    graph_set_output(n, 0, graph_new_like(g, "dropout", x));
    return n->out[0];
}

static void launch_dropout(const graph_run *run, const graph_node *n, const graph_value *residual,
                           const graph_value *x)
{
    kernel_call c = {.kind = K_DROPOUT};
    const int64_t cols = graph_value_cols(x);
    const mesh_axes over = n->out[0]->sharding.cols;
    c.u.dropout = (kernel_dropout_args){
        .rows = graph_value_rows(x),
        .cols = cols,
        .first_col = cols * graph_rank(run->g, over),
        .full_cols = cols * graph_ranks(run->g, over),
        .row_tokens = graph_run_tokens(run, x),
        .x = graph_run_ptr(run, x),
        .residual = graph_run_ptr(run, residual),
        .y = graph_run_ptr(run, n->out[0]),
        .p = n->attr.u.dropout,
        .draw = graph_run_draw(run, n),
        .type = residual ? x->type : n->out[0]->type,
        .residual_fp32 = x->type != n->out[0]->type,
    };
    graph_launch(run, n, &c);
}

static void dropout_launch(const graph_run *run, const graph_node *n)
{
    launch_dropout(run, n, NULL, n->in[0]);
}

// Derives the gradient of x, whose result has the gradient dy: the same mask on dy.
static void derive_dropout(graph *g, const graph_node *n, graph_value *x, graph_value *dy)
{
    if (!graph_requires_grad(x)) return;
    graph_node *d = graph_new_grad_node(g, OP_DROPOUT, n);
    d->in[0] = dy;
    graph_set_output(d, 0, graph_new_like(g, "dropout dx", x));
    graph_accumulate_grad(g, x, d->out[0]);
}

static void dropout_derive(graph *g, graph_node *n)
{
    derive_dropout(g, n, n->in[0], n->out[0]->grad);
}

static void dropout_add_launch(const graph_run *run, const graph_node *n)
{
    launch_dropout(run, n, n->in[0], n->in[1]);
}

static void dropout_add_derive(graph *g, graph_node *n)
{
    graph_accumulate_grad(g, n->in[0], n->out[0]->grad);
    derive_dropout(g, n, n->in[1], n->out[0]->grad);
}

const graph_op_info op_activation = {
    .derive = activation_derive, .launch = activation_launch, .recompute = 1};
const graph_op_info op_activation_grad = {.launch = activation_grad_launch, .may_alias = 1};
const graph_op_info op_glu = {.derive = glu_derive, .launch = glu_launch, .recompute = 1};
const graph_op_info op_glu_grad = {.launch = glu_grad_launch, .may_alias = 1u << 1};
const graph_op_info op_add = {
    .derive = add_derive, .launch = add_launch, .may_alias = 3, .recompute = 3};
const graph_op_info op_convert = {
    .derive = convert_derive, .launch = convert_launch, .recompute = 1};
const graph_op_info op_dropout_add = {
    .derive = dropout_add_derive, .launch = dropout_add_launch, .may_alias = 3, .recompute = 3};
const graph_op_info op_dropout = {
    .derive = dropout_derive, .launch = dropout_launch, .may_alias = 1, .recompute = 3};
