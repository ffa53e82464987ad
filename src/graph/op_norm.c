// op_norm.c -- layer norm (Ba et al. 2016) and RMS norm (Zhang and Sennrich 2019) of each row.
//   x, y [rows, cols]   gain, bias [cols]   mean, rstd [rows] F32
// x may be the F32 residual; y has the compute type.
//
//   norm        in x, gain, bias                                    out y, rstd, mean
//   add_norm    in x, gain, bias, addend                            out y, rstd, mean, sum
//   norm_grad   in dy, x, gain, rstd, mean, earlier gradient of x   out dx
// add_norm takes the norm of sum = alpha x + beta addend; fuse.c makes it of a sum and a norm.
// Gain and bias may be missing. RMS norm has no mean. dx is the sum with the earlier gradient, where there is one; no dx
// where x requires no gradient. norm_grad has no x, rstd and mean where it computes dbias alone.
#include "graph/op.h"

// Checks that a gain or a bias of a norm of x has its columns, and notes its use. NULL allowed.
static void use_vector(graph *g, const graph_value *x, const graph_value *w)
{
    if (!w) return;
    if (w->dim[0] != graph_value_cols(x))
        graph_misuse(g, "norm: %lld columns, %lld gains", (long long)graph_value_cols(x),
                     (long long)w->dim[0]);
    graph_note_use(g, w, x->sharding.rows);
}

graph_value *build_norm(graph *g, graph_value *x, graph_value *gain, graph_value *bias,
                        const graph_norm *form)
{
    if (x->sharding.cols)
        graph_misuse(g, "norm: the columns of x are sharded over the tensor-parallel ranks");
    use_vector(g, x, gain);
    use_vector(g, x, bias);
    graph_node *n = graph_new_node(g, OP_NORM);
    n->in[0] = x, n->in[1] = gain, n->in[2] = bias;
    n->attr.u.norm.eps = (float)form->eps;
    n->attr.u.norm.is_rms = form->is_rms, n->attr.u.norm.unit_offset = form->unit_offset;
    n->out[0] = graph_new_value(g, "norm", g->type, x->dims, x->dim);
    n->out[1] = graph_new_value(g, "rstd", F32, 1, (int64_t[]){graph_value_rows(x)});
    n->out[2] =
        form->is_rms ? NULL : graph_new_value(g, "mean", F32, 1, (int64_t[]){graph_value_rows(x)});
    for (int i = 0; i < 3; i++)
        if (n->out[i]) n->out[i]->producer = n, n->out[i]->sharding = x->sharding;
    return n->out[0];
}

static void norm_launch(const graph_run *run, const graph_node *n)
{
    kernel_call c = {.kind = K_NORM};
    c.u.norm = (kernel_norm_args){.rows = graph_value_rows(n->in[0]),
                                  .cols = graph_value_cols(n->in[0]),
                                  .x = graph_run_ptr(run, n->in[0]),
                                  .addend = graph_run_ptr(run, n->in[3]),
                                  .sum = graph_run_ptr(run, n->out[3]),
                                  .alpha = n->attr.u.norm.alpha,
                                  .beta = n->attr.u.norm.beta,
                                  .gain = graph_run_ptr(run, n->in[1]),
                                  .bias = graph_run_ptr(run, n->in[2]),
                                  .y = graph_run_ptr(run, n->out[0]),
                                  .rstd = graph_run_ptr(run, n->out[1]),
                                  .mean = graph_run_ptr(run, n->out[2]),
                                  .eps = n->attr.u.norm.eps,
                                  .is_rms = n->attr.u.norm.is_rms,
                                  .unit_offset = n->attr.u.norm.unit_offset,
                                  .residual_fp32 = n->in[0]->type != n->out[0]->type,
                                  .type = n->out[0]->type};
    graph_launch(run, n, &c);
}

static void norm_derive(graph *g, graph_node *n)
{
    graph_value *x = n->in[0];
    graph_node *d = graph_new_grad_node(g, OP_NORM_GRAD, n);
    d->param[0] = graph_trained_param(g, n->in[1]);
    d->param[1] = graph_trained_param(g, n->in[2]);
    d->in[0] = n->out[0]->grad, d->in[2] = n->in[1];
    if (graph_requires_grad(x) || d->param[0] >= 0)
        d->in[1] = x, d->in[3] = n->out[1], d->in[4] = n->out[2];
    if (!graph_requires_grad(x)) return;
    d->in[5] = x->grad;
    graph_set_output(d, 0, graph_new_like(g, "norm dx", x));
    x->grad = d->out[0];
}

static void norm_grad_launch(const graph_run *run, const graph_node *n)
{
    const graph_value *dy = n->in[0], *x = n->in[1], *sum = n->in[5], *dx = n->out[0];
    if (sum) graph_run_copy(run, dx, sum);
    kernel_call c = {.kind = K_NORM_GRAD};
    kernel_norm_grad_args *a = &c.u.norm_grad;
    *a = (kernel_norm_grad_args){.rows = graph_value_rows(dy),
                                 .cols = graph_value_cols(dy),
                                 .dy = graph_run_ptr(run, dy),
                                 .x = graph_run_ptr(run, x),
                                 .gain = graph_run_ptr(run, n->in[2]),
                                 .rstd = graph_run_ptr(run, n->in[3]),
                                 .mean = graph_run_ptr(run, n->in[4]),
                                 .dx = graph_run_ptr(run, dx),
                                 .is_rms = n->attr.u.norm.is_rms,
                                 .unit_offset = n->attr.u.norm.unit_offset,
                                 .accumulate_dx = sum != NULL,
                                 .residual_fp32 = x && x->type != dy->type,
                                 .type = dy->type};
    if (n->param[0] >= 0) a->dgain = graph_run_grad(run, n->param[0], &a->accumulate_dgain);
    if (n->param[1] >= 0) a->dbias = graph_run_grad(run, n->param[1], &a->accumulate_dbias);
    graph_launch(run, n, &c);
}

const graph_op_info op_norm = {.derive = norm_derive,
                               .launch = norm_launch,
                               .has_weight = true,
                               .reads_residual = true,
                               .recompute = 1};
// The sum and y each take the memory of an operand that dies here.
const graph_op_info op_add_norm = {
    .launch = norm_launch, .may_alias = 1u | 1u << 3, .may_alias_3 = 1u | 1u << 3};
// Where x has a gradient already, dx is added to it in its memory.
const graph_op_info op_norm_grad = {.launch = norm_grad_launch, .may_alias = 1u << 5};
