// op_xielu.c -- xIELU (Huang and Schlag 2024), an activation with two learned numbers, element by element.
//   x, y, dy, dx                  [rows, cols]
//   alpha_p, alpha_n, beta, eps   [1]; beta and eps are not trained
//
//   xielu        in x, alpha_p, alpha_n, beta, eps       out y
//   xielu_grad   in dy, x, alpha_p, alpha_n, beta, eps   out dx; none where x requires no gradient
//
// All columns share the two numbers, so under tensor parallelism a rank's gradients of them are summands.
#include "graph/op.h"

graph_value *build_xielu(graph *g, graph_value *x, const graph_xielu *numbers)
{
    graph_value *const number[] = {numbers->alpha_p, numbers->alpha_n, numbers->beta, numbers->eps};
    graph_node *n = graph_new_node(g, OP_XIELU);
    n->in[0] = x;
    for (int i = 0; i < 4; i++) {
        if (graph_value_count(number[i]) != 1)
            graph_misuse(g, "xielu: found %lld numbers, valid is 1",
                         (long long)graph_value_count(number[i]));
        graph_note_use(g, number[i], x->sharding.rows | x->sharding.cols);
        n->in[1 + i] = number[i];
    }
    graph_set_output(n, 0, graph_new_like(g, "xielu", x));
    return n->out[0];
}

// `in`: the node's inputs from x on.
static kernel_xielu_args xielu_fill(const graph_run *run, const graph_node *n,
                                    graph_value *const *in)
{
    return (kernel_xielu_args){.count = graph_value_count(in[0]),
                               .x = graph_run_ptr(run, in[0]),
                               .alpha_p = graph_run_ptr(run, in[1]),
                               .alpha_n = graph_run_ptr(run, in[2]),
                               .beta = graph_run_ptr(run, in[3]),
                               .eps = graph_run_ptr(run, in[4]),
                               .y = graph_run_ptr(run, n->out[0]),
                               .type = in[0]->type};
}

static void xielu_launch(const graph_run *run, const graph_node *n)
{
    kernel_call c = {.kind = K_XIELU, .u.xielu = xielu_fill(run, n, n->in)};
    graph_launch(run, n, &c);
}

static void xielu_derive(graph *g, graph_node *n)
{
    graph_node *d = graph_new_grad_node(g, OP_XIELU_GRAD, n);
    d->param[0] = graph_trained_param(g, n->in[1]);
    d->param[1] = graph_trained_param(g, n->in[2]);
    d->in[0] = n->out[0]->grad;
    for (int i = 0; i < 5; i++) d->in[1 + i] = n->in[i];
    if (!graph_requires_grad(n->in[0])) return;
    graph_set_output(d, 0, graph_new_like(g, "xielu dx", n->in[0]));
    graph_accumulate_grad(g, n->in[0], d->out[0]);
}

static void xielu_grad_launch(const graph_run *run, const graph_node *n)
{
    kernel_call c = {.kind = K_XIELU_GRAD, .u.xielu = xielu_fill(run, n, n->in + 1)};
    kernel_xielu_args *a = &c.u.xielu;
    a->dy = graph_run_ptr(run, n->in[0]);
    if (n->param[0] >= 0) a->d_alpha_p = graph_run_grad(run, n->param[0], &a->accumulate_d_alpha_p);
    if (n->param[1] >= 0) a->d_alpha_n = graph_run_grad(run, n->param[1], &a->accumulate_d_alpha_n);
    graph_launch(run, n, &c);
}

const graph_op_info op_xielu = {.derive = xielu_derive, .launch = xielu_launch, .recompute = 1};
const graph_op_info op_xielu_grad = {.launch = xielu_grad_launch, .may_alias = 1};
