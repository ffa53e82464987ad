// op_linear.c -- y = x w^T + b and its gradients: three matrix products and a column sum.
//   x [rows, in]   w [out, in]   b [out]   y [rows, out]
#include "graph/op.h"

value *build_linear(graph *g, value *x, value *w, value *bias)
{
    if (value_cols(x) != value_cols(w) || (bias && bias->dim[0] != w->dim[0]))
        graph_misuse(g, "linear: x has %lld columns, the weight is [%lld, %lld], the bias has %lld",
                     (long long)value_cols(x), (long long)w->dim[0], (long long)value_cols(w),
                     (long long)(bias ? bias->dim[0] : 0));
    bool rows = graph_splits(g, w, 0), cols = graph_splits(g, w, 1);
    if ((x->cut == CUT_COLS) != cols)
        graph_misuse(g,
                     "linear: the columns of %s are parts over the ranks of a cut, those of %s "
                     "are not",
                     cols ? "the weight" : "x", cols ? "x" : "the weight");
    x = graph_as_compute(g, x);
    if (rows) x = graph_enter(g, x);
    node *n = graph_node(g, OP_LINEAR);
    n->in[0] = x, n->in[1] = w, n->in[2] = bias;
    n->out[0] = graph_value(g, "linear", g->type, 2, (int64_t[]){value_rows(x), w->dim[0]});
    n->out[0]->producer = n;
    n->out[0]->cut = rows ? CUT_COLS : cols ? CUT_NONE : x->cut;
    n->attr.u.other_bias = cols && g->cut.rank != 0;
    graph_note_use(g, w, x);
    if (bias) graph_note_use(g, bias, n->out[0]);
    return cols ? graph_leave(g, n->out[0]) : n->out[0];
}

static status linear_run(const run_context *x, const node *n, err *e)
{
    (void)e;
    const value *in = n->in[0], *w = n->in[1], *y = n->out[0];
    kernel_call c = {.kind = K_MATMUL};
    c.u.matmul = (matmul_args){.m = value_rows(in),
                               .n = w->dim[0],
                               .k = value_cols(w),
                               .a = run_at(x, in),
                               .lda = value_cols(in),
                               .b = run_at(x, w),
                               .ldb = value_cols(w),
                               .trans_b = true,
                               .c = run_at(x, y),
                               .ldc = value_cols(y),
                               .bias = n->attr.u.other_bias ? NULL : run_at(x, n->in[2]),
                               .type = w->type,
                               .c_type = y->type};
    device_launch(x->on, &c);
    return OK;
}

static void linear_derive(graph *g, node *n)
{
    value *x = n->in[0], *w = n->in[1], *bias = n->in[2], *dy = n->out[0]->grad;
    value *dx = NULL;
    if (grad_wanted(x)) {
        // A gradient that x already has is added to by the product itself.
        node *d = grad_node(g, OP_LINEAR_GRAD_INPUT, n);
        d->in[0] = dy, d->in[1] = w, d->in[2] = x->grad;
        d->out[0] = dx = graph_like(g, "linear dx", x);
        dx->producer = d;
        x->grad = dx;
    }
    node *d = grad_node(g, OP_LINEAR_GRAD_WEIGHT, n);
    d->in[0] = dy, d->in[1] = x;
    d->param[0] = w->param;
    d->param[1] = bias ? bias->param : -1;
}

static status linear_grad_input_run(const run_context *x, const node *n, err *e)
{
    (void)e;
    const value *dy = n->in[0], *w = n->in[1], *sum = n->in[2], *dx = n->out[0];
    if (sum && run_at(x, sum) != run_at(x, dx))
        x->on->device->ops->copy(x->on, run_at(x, dx), run_at(x, sum), value_bytes(dx));
    kernel_call c = {.kind = K_MATMUL};
    c.u.matmul = (matmul_args){.m = value_rows(dy),
                               .n = value_cols(w),
                               .k = w->dim[0],
                               .a = run_at(x, dy),
                               .lda = value_cols(dy),
                               .b = run_at(x, w),
                               .ldb = value_cols(w),
                               .c = run_at(x, dx),
                               .ldc = value_cols(dx),
                               .type = w->type,
                               .c_type = dx->type,
                               .accumulate = sum != NULL};
    device_launch(x->on, &c);
    return OK;
}

static status linear_grad_weight_run(const run_context *x, const node *n, err *e)
{
    (void)e;
    const value *dy = n->in[0], *in = n->in[1];
    bool accumulate;
    float *dw = run_grad(x, n->param[0], &accumulate);
    kernel_call c = {.kind = K_MATMUL};
    c.u.matmul = (matmul_args){.m = value_cols(dy),
                               .n = value_cols(in),
                               .k = value_rows(in),
                               .a = run_at(x, dy),
                               .lda = value_cols(dy),
                               .trans_a = true,
                               .b = run_at(x, in),
                               .ldb = value_cols(in),
                               .c = dw,
                               .ldc = value_cols(in),
                               .type = in->type,
                               .c_type = F32,
                               .accumulate = accumulate};
    device_launch(x->on, &c);
    if (n->param[1] < 0) return OK;
    float *db = run_grad(x, n->param[1], &accumulate);
    kernel_call b = {.kind = K_BIAS_GRAD};
    b.u.bias_grad = (bias_grad_args){.rows = value_rows(dy),
                                     .cols = value_cols(dy),
                                     .dy = run_at(x, dy),
                                     .db = db,
                                     .type = dy->type,
                                     .accumulate = accumulate};
    device_launch(x->on, &b);
    return OK;
}

static double linear_flops(const graph *g, const node *n)
{
    (void)g;
    return 2.0 * (double)value_rows(n->in[0]) * (double)value_cols(n->in[0]) *
           (double)n->in[1]->dim[0];
}

static double linear_grad_input_flops(const graph *g, const node *n)
{
    (void)g;
    return 2.0 * (double)value_rows(n->in[0]) * (double)value_cols(n->in[0]) *
           (double)value_cols(n->in[1]);
}

static double linear_grad_weight_flops(const graph *g, const node *n)
{
    (void)g;
    return 2.0 * (double)value_rows(n->in[0]) * (double)value_cols(n->in[0]) *
           (double)value_cols(n->in[1]);
}

const op_info op_linear = {.name = "linear",
                           .derive = linear_derive,
                           .run = linear_run,
                           .flops = linear_flops,
                           .must_alias = -1,
                           .recompute = 3};
const op_info op_linear_grad_input = {.name = "linear_grad_input",
                                      .run = linear_grad_input_run,
                                      .flops = linear_grad_input_flops,
                                      .must_alias = -1,
                                      .may_alias = 1u << 2};
const op_info op_linear_grad_weight = {.name = "linear_grad_weight",
                                       .run = linear_grad_weight_run,
                                       .flops = linear_grad_weight_flops,
                                       .must_alias = -1};
