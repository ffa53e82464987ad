// op_linear.c -- a linear layer: one matrix product in the forward, two and a column sum in the
// backward. The product may end with the activation that follows the layer.
//
//   x [rows, in]   w [out, in]   bias [out]   y [rows, out]
//
//   linear               in x, w, bias                    out y    y = x w^T + bias
//   linear_activation    in x, w, bias                    out y    y = f(z), z = x w^T + bias
//                                                         out z    NULL where nothing else reads it
//   linear_grad_input    in dy, w, earlier gradient of x  out dx   dx = earlier gradient + dy w
//                        in dy, w, NULL, z                out dz   dz = f'(z) dy w, where x = f(z)
//   linear_grad_weight   in dy, x                                  dw += dy^T x
//                                                                  dbias += sum of the rows of dy
// Each gradient is computed only where it is wanted: x requires one, or the parameter trains.
// linear_grad_weight has no x where the weight is frozen.
//
// A weight that is sharded by rows gives each rank columns of y, and one that is sharded by columns gives
// each rank a summand of y.
#include "graph/op.h"

graph_value *build_linear(graph *g, graph_value *x, graph_value *w, graph_value *bias)
{
    if (graph_value_cols(x) != graph_value_cols(w) || (bias && bias->dim[0] != w->dim[0]))
        graph_misuse(g, "linear: x has %lld columns, the weight is [%lld, %lld], the bias has %lld",
                     (long long)graph_value_cols(x), (long long)w->dim[0],
                     (long long)graph_value_cols(w), (long long)(bias ? bias->dim[0] : 0));
    const mesh_axes rows = graph_sharded_over(g, w, 0), cols = graph_sharded_over(g, w, 1);
    if (x->sharding.cols != cols)
        graph_misuse(g,
                     "linear: the columns of %s are sharded over the tensor-parallel ranks, those "
                     "of %s are not",
                     cols ? "the weight" : "x", cols ? "x" : "the weight");
    x = graph_as_compute(g, x);
    if (rows) x = graph_copy_to(g, x, rows);
    graph_node *n = graph_new_node(g, OP_LINEAR);
    n->in[0] = x, n->in[1] = w, n->in[2] = bias;
    graph_set_output(
        n, 0,
        graph_new_value(g, "linear", g->type, 2, (int64_t[]){graph_value_rows(x), w->dim[0]}));
    n->out[0]->sharding = (graph_sharding){x->sharding.rows, rows};
    n->attr.u.skip_bias = graph_rank(g, cols) != 0;
    graph_note_use(g, w, x->sharding.rows);
    if (bias) graph_note_use(g, bias, n->out[0]->sharding.rows);
    graph_value *y = graph_add_adapters(g, x, w, n->out[0]);
    return cols ? graph_reduce_from(g, y, cols) : y;
}

// The product of a linear layer.
static kernel_call linear_call(const graph_run *run, const graph_node *n)
{
    const graph_value *in = n->in[0], *w = n->in[1], *y = n->out[0];
    return (kernel_call){.kind = K_MATMUL,
                         .u.matmul = {.m = graph_value_rows(in),
                                      .n = w->dim[0],
                                      .k = graph_value_cols(w),
                                      .a = graph_run_ptr(run, in),
                                      .lda = graph_value_cols(in),
                                      .b = graph_run_ptr(run, w),
                                      .ldb = graph_value_cols(w),
                                      .trans_b = true,
                                      .c = graph_run_ptr(run, y),
                                      .ldc = graph_value_cols(y),
                                      .bias = graph_run_ptr(run, n->in[2]),
                                      .type = w->type,
                                      .c_type = y->type}};
}

static void linear_launch(const graph_run *run, const graph_node *n)
{
    kernel_call c = linear_call(run, n);
    if (n->attr.u.skip_bias) c.u.matmul.bias = NULL;
    graph_launch(run, n, &c);
}

// A node that runs again gives what the backward list computes from z elsewhere, where only the activation
// runs again (derive.c): so the results do not depend on what is recomputed.
static void linear_activation_launch(const graph_run *run, const graph_node *n)
{
    kernel_call c = linear_call(run, n);
    c.u.matmul.epilogue = EPILOGUE_ACTIVATION;
    c.u.matmul.act = n->attr.u.act;
    c.u.matmul.aux = graph_run_ptr(run, n->out[1]);
    c.u.matmul.act_of_aux = n->recomputed;
    graph_launch(run, n, &c);
}

// The activation alone, of z.
static graph_node linear_activation_again(const graph_node *n)
{
    graph_node act = *n;
    act.op = OP_ACTIVATION;
    act.in[0] = n->out[1];
    act.in[1] = act.in[2] = act.out[1] = NULL;
    return act;
}

// Derives the gradients of x, w and bias from that of the layer's result.
static void derive_from(graph *g, const graph_node *n, graph_value *dy)
{
    graph_value *x = n->in[0], *w = n->in[1], *bias = n->in[2];
    if (graph_requires_grad(x)) {
        // Where x has a gradient already, the product adds to it.
        graph_node *d = graph_new_grad_node(g, OP_LINEAR_GRAD_INPUT, n);
        d->in[0] = dy, d->in[1] = w, d->in[2] = x->grad;
        graph_set_output(d, 0, graph_new_like(g, "linear dx", x));
        x->grad = d->out[0];
    }
    const int dw = graph_trained_param(g, w), dbias = graph_trained_param(g, bias);
    if (dw < 0 && dbias < 0) return;
    graph_node *d = graph_new_grad_node(g, OP_LINEAR_GRAD_WEIGHT, n);
    d->in[0] = dy, d->in[1] = dw < 0 ? NULL : x;
    d->param[0] = dw, d->param[1] = dbias;
}

static void linear_derive(graph *g, graph_node *n)
{
    derive_from(g, n, n->out[0]->grad);
}

static void linear_activation_derive(graph *g, graph_node *n)
{
    graph_value *z = n->out[1];
    graph_derive_activation(g, n, n->out[0]->grad, z);
    derive_from(g, n, z->grad);
}

static void linear_grad_input_launch(const graph_run *run, const graph_node *n)
{
    const graph_value *dy = n->in[0], *w = n->in[1], *sum = n->in[2], *z = n->in[3],
                      *dx = n->out[0];
    if (sum) graph_run_copy(run, dx, sum);
    kernel_call c = {.kind = K_MATMUL};
    c.u.matmul = (kernel_matmul_args){.m = graph_value_rows(dy),
                                      .n = graph_value_cols(w),
                                      .k = w->dim[0],
                                      .a = graph_run_ptr(run, dy),
                                      .lda = graph_value_cols(dy),
                                      .b = graph_run_ptr(run, w),
                                      .ldb = graph_value_cols(w),
                                      .c = graph_run_ptr(run, dx),
                                      .ldc = graph_value_cols(dx),
                                      .type = w->type,
                                      .c_type = dx->type,
                                      .aux = graph_run_ptr(run, z),
                                      .epilogue = z ? EPILOGUE_ACTIVATION_GRAD : EPILOGUE_NONE,
                                      .act = z ? n->attr.u.act : ACT_GELU,
                                      .accumulate = sum != NULL};
    graph_launch(run, n, &c);
}

static void launch_weight_grad(const graph_run *run, const graph_node *n)
{
    const graph_value *dy = n->in[0], *in = n->in[1];
    bool accumulate;
    float *dw = graph_run_grad(run, n->param[0], &accumulate);
    kernel_call c = {.kind = K_MATMUL};
    c.u.matmul = (kernel_matmul_args){.m = graph_value_cols(dy),
                                      .n = graph_value_cols(in),
                                      .k = graph_value_rows(in),
                                      .a = graph_run_ptr(run, dy),
                                      .lda = graph_value_cols(dy),
                                      .trans_a = true,
                                      .b = graph_run_ptr(run, in),
                                      .ldb = graph_value_cols(in),
                                      .c = dw,
                                      .ldc = graph_value_cols(in),
                                      .type = in->type,
                                      .c_type = F32,
                                      .accumulate = accumulate};
    graph_launch(run, n, &c);
}

// A kernel of its own: cuBLASLt's bias gradient beside a product overwrites its result and cannot add to it, and
// a sum that is overwritten at first and added to later must have one order.
static void launch_bias_grad(const graph_run *run, const graph_node *n)
{
    const graph_value *dy = n->in[0];
    bool accumulate;
    float *db = graph_run_grad(run, n->param[1], &accumulate);
    kernel_call c = {.kind = K_BIAS_GRAD};
    c.u.bias_grad = (kernel_bias_grad_args){.rows = graph_value_rows(dy),
                                            .cols = graph_value_cols(dy),
                                            .dy = graph_run_ptr(run, dy),
                                            .db = db,
                                            .type = dy->type,
                                            .accumulate = accumulate};
    graph_launch(run, n, &c);
}

static void linear_grad_weight_launch(const graph_run *run, const graph_node *n)
{
    if (n->param[0] >= 0) launch_weight_grad(run, n);
    if (n->param[1] >= 0) launch_bias_grad(run, n);
}

static double linear_flops(const graph *g, const graph_node *n)
{
    (void)g;
    return 2.0 * (double)graph_value_rows(n->in[0]) * (double)graph_value_cols(n->in[0]) *
           (double)n->in[1]->dim[0];
}

// Of either gradient: a product over all columns of both inputs. The gradient of a bias alone is no
// product.
static double linear_grad_flops(const graph *g, const graph_node *n)
{
    (void)g;
    if (!n->in[1]) return 0;
    return 2.0 * (double)graph_value_rows(n->in[0]) * (double)graph_value_cols(n->in[0]) *
           (double)graph_value_cols(n->in[1]);
}

const graph_op_info op_linear = {.derive = linear_derive,
                                 .launch = linear_launch,
                                 .has_weight = true,
                                 .is_linear = true,
                                 .flops = linear_flops,
                                 .recompute = 3};
const graph_op_info op_linear_activation = {.derive = linear_activation_derive,
                                            .launch = linear_activation_launch,
                                            .again = linear_activation_again,
                                            .is_linear = true,
                                            .flops = linear_flops,
                                            .recompute = 3};
const graph_op_info op_linear_grad_input = {
    .launch = linear_grad_input_launch, .flops = linear_grad_flops, .may_alias = 1u << 2};
const graph_op_info op_linear_grad_weight = {.launch = linear_grad_weight_launch,
                                             .flops = linear_grad_flops};
