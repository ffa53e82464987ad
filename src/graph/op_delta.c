// op_delta.c -- the gated delta rule (Yang et al. 2025) and its gates, as kernel_delta.h specifies them.
//   x, gates   [rows, 2 * heads]; gates are F32
//   qkv        [rows, 2 * key_heads * key_dim + heads * value_dim]   o [rows, heads * value_dim]
//   state      [batch, heads, key_dim, value_dim] F32                 when decoding only
//   all        qkv and gates of all tokens, under context parallelism only
//
//   delta_gates        in x, log_decay, a_bias                out gates
//   delta_gates_grad   in d_gates, x, log_decay, a_bias       out dx
//   delta_rule         in qkv, gates, all qkv, all gates      out o, state
//   delta_rule_grad    in do, qkv, gates, all qkv, all gates  out dqkv, d_gates, those of all tokens
//
// Under tensor parallelism a rank has its heads. Under context parallelism every rank gathers qkv and gates of all
// tokens, as attention gathers keys and values, and goes through the tokens up to its last one: so each rank does nearly the work
// of one rank alone, and only the gathered memory and the other ops are shared. The gradients of all tokens are summands.
#include "graph/mixers.h"
#include "graph/op.h"

#include <math.h>

static void check_heads(graph *g, const graph_value *x, int64_t heads, const char *what)
{
    char valid[96];
    if (x->sharding.rows & MESH_AXIS(AXIS_TP))
        graph_misuse(g, "delta_rule: the rows of x are sharded over the tensor-parallel ranks");
    const int ranks = graph_ranks(g, x->sharding.cols);
    if (heads > 0 && heads % ranks == 0) return;
    graph_not_divisible(g, "%lld %s do not divide over parallel.%s %d; valid: %s", (long long)heads,
                        what, axis_name(mesh_first_axis(x->sharding.cols)), ranks,
                        graph_divisors(heads, valid));
}

// A parameter with a number for each head.
static void use_heads(graph *g, const graph_value *x, const graph_value *w, int64_t heads)
{
    if (w->dim[0] != heads)
        graph_misuse(g, "delta_gates: %lld heads, %lld numbers", (long long)heads,
                     (long long)w->dim[0]);
    graph_note_use(g, w, x->sharding.rows);
}

graph_value *build_delta_gates(graph *g, graph_value *x, graph_value *log_decay,
                               graph_value *a_bias)
{
    const int64_t heads = graph_value_cols(x) / 2;
    graph_sections(g, x, "delta_gates: b and a", 2, (int64_t[]){heads, heads});
    use_heads(g, x, log_decay, heads);
    use_heads(g, x, a_bias, heads);
    graph_node *n = graph_new_node(g, OP_DELTA_GATES);
    n->in[0] = x, n->in[1] = log_decay, n->in[2] = a_bias;
    graph_set_output(n, 0, graph_new_value(g, "gates", F32, x->dims, x->dim));
    n->out[0]->sharding = x->sharding;
    return n->out[0];
}

static kernel_delta_gates_args gates_fill(const graph_run *run, const graph_value *const in[3])
{
    return (kernel_delta_gates_args){.rows = graph_value_rows(in[0]),
                                     .heads = graph_value_cols(in[0]) / 2,
                                     .x = graph_run_ptr(run, in[0]),
                                     .log_decay = graph_run_ptr(run, in[1]),
                                     .a_bias = graph_run_ptr(run, in[2]),
                                     .type = in[0]->type};
}

static void delta_gates_launch(const graph_run *run, const graph_node *n)
{
    const graph_value *const in[] = {n->in[0], n->in[1], n->in[2]};
    kernel_call c = {.kind = K_DELTA_GATES, .u.delta_gates = gates_fill(run, in)};
    c.u.delta_gates.gates = graph_run_ptr(run, n->out[0]);
    graph_launch(run, n, &c);
}

static void delta_gates_derive(graph *g, graph_node *n)
{
    graph_node *d = graph_new_grad_node(g, OP_DELTA_GATES_GRAD, n);
    d->in[0] = n->out[0]->grad;
    for (int i = 0; i < 3; i++) d->in[1 + i] = n->in[i];
    for (int i = 0; i < 2; i++) d->param[i] = graph_trained_param(g, n->in[1 + i]);
    if (!graph_requires_grad(n->in[0])) return;
    graph_set_output(d, 0, graph_new_like(g, "gates dx", n->in[0]));
    graph_accumulate_grad(g, n->in[0], d->out[0]);
}

static void delta_gates_grad_launch(const graph_run *run, const graph_node *n)
{
    const graph_value *const in[] = {n->in[1], n->in[2], n->in[3]};
    kernel_call c = {.kind = K_DELTA_GATES_GRAD, .u.delta_gates = gates_fill(run, in)};
    kernel_delta_gates_args *a = &c.u.delta_gates;
    a->d_gates = graph_run_ptr(run, n->in[0]);
    a->dx = graph_run_ptr(run, n->out[0]);
    if (n->param[0] >= 0)
        a->d_log_decay = graph_run_grad(run, n->param[0], &a->accumulate_d_log_decay);
    if (n->param[1] >= 0) a->d_a_bias = graph_run_grad(run, n->param[1], &a->accumulate_d_a_bias);
    graph_launch(run, n, &c);
}

static void check_sizes(graph *g, const graph_value *qkv, const graph_value *gates,
                        const graph_delta *form, int64_t heads, int64_t key_heads)
{
    const int64_t cols = 2 * key_heads * form->key_dim + heads * form->value_dim;
    if (heads <= 0 || key_heads <= 0 || heads % key_heads || graph_value_cols(qkv) != cols ||
        graph_value_cols(gates) != 2 * heads)
        graph_misuse(g,
                     "delta_rule: %lld heads of %lld and %lld of %lld need %lld columns, found "
                     "%lld, and %lld gates",
                     (long long)heads, (long long)form->value_dim, (long long)key_heads,
                     (long long)form->key_dim, (long long)cols, (long long)graph_value_cols(qkv),
                     (long long)graph_value_cols(gates));
    if (form->key_dim > KERNEL_DELTA_DIM || form->value_dim > KERNEL_DELTA_DIM)
        graph_misuse(g, "delta_rule: heads of %lld and %lld columns; valid: up to %d",
                     (long long)form->key_dim, (long long)form->value_dim, KERNEL_DELTA_DIM);
    if (qkv->type != g->type || gates->type != F32)
        graph_misuse(g, "delta_rule: qkv must have the compute type, and gates come from their op");
    if (g->mode == GRAPH_DECODE && g->batch != 1)
        graph_misuse(g, "delta_rule: decoding takes one sequence at a time");
}

graph_value *build_delta_rule(graph *g, graph_value *qkv, graph_value *gates,
                              const graph_delta *form)
{
    check_heads(g, qkv, form->key_heads, "key heads");
    check_heads(g, qkv, form->heads, "value heads");
    const int64_t heads = graph_local_heads(g, qkv, form->heads),
                  keys = graph_local_heads(g, qkv, form->key_heads),
                  key_cols = keys * form->key_dim;
    graph_sections(g, qkv, "delta_rule: queries, keys and values", 3,
                   (int64_t[]){key_cols, key_cols, heads * form->value_dim});
    check_sizes(g, qkv, gates, form, heads, keys);
    graph_value *const in[] = {qkv, gates};
    graph_value *all[2] = {NULL, NULL};
    if (g->sequences.documents && qkv->sharding.rows & MESH_AXIS(AXIS_CP))
        graph_misuse(g, "delta_rule: packed documents over context-parallel ranks");
    for (int i = 0; i < 2 && qkv->sharding.rows & MESH_AXIS(AXIS_CP); i++)
        all[i] = graph_gather_from_cp(g, in[i], 0, graph_value_cols(in[i]), 0);
    graph_node *n = graph_new_node(g, OP_DELTA_RULE);
    n->in[0] = qkv, n->in[1] = gates, n->in[2] = all[0], n->in[3] = all[1];
    n->attr.u.delta.heads = heads, n->attr.u.delta.key_heads = keys;
    n->attr.u.delta.key_dim = form->key_dim, n->attr.u.delta.value_dim = form->value_dim;
    n->attr.u.delta.scale = (float)(1 / sqrt((double)form->key_dim));
    n->attr.u.delta.eps = (float)form->eps;
    graph_set_output(n, 0,
                     graph_new_value(g, "delta_rule", g->type, 2,
                                     (int64_t[]){graph_value_rows(qkv), heads * form->value_dim}));
    n->out[0]->sharding = qkv->sharding;
    if (g->mode == GRAPH_DECODE)
        graph_set_output(
            n, 1,
            graph_new_value(g, "state", F32, 4,
                            (int64_t[]){g->batch, heads, form->key_dim, form->value_dim}));
    return n->out[0];
}

static kernel_delta_rule_args rule_fill(const graph_run *run, const graph_node *n,
                                        const graph_value *const in[4])
{
    return (kernel_delta_rule_args){.batch = run->g->batch,
                                    .heads = n->attr.u.delta.heads,
                                    .key_heads = n->attr.u.delta.key_heads,
                                    .key_dim = n->attr.u.delta.key_dim,
                                    .value_dim = n->attr.u.delta.value_dim,
                                    .rows = graph_run_tokens(run, in[0]),
                                    .x = graph_run_ptr(run, in[2] ? in[2] : in[0]),
                                    .gates = graph_run_ptr(run, in[3] ? in[3] : in[1]),
                                    .scale = n->attr.u.delta.scale,
                                    .eps = n->attr.u.delta.eps,
                                    .normalize = true,
                                    .type = in[0]->type};
}

static void delta_rule_launch(const graph_run *run, const graph_node *n)
{
    const graph_value *const in[] = {n->in[0], n->in[1], n->in[2], n->in[3]};
    kernel_call c = {.kind = K_DELTA_RULE, .u.delta_rule = rule_fill(run, n, in)};
    c.u.delta_rule.o = graph_run_ptr(run, n->out[0]);
    c.u.delta_rule.state = graph_run_ptr(run, n->out[1]);
    graph_launch(run, n, &c);
}

static void delta_rule_derive(graph *g, graph_node *n)
{
    graph_node *d = graph_new_grad_node(g, OP_DELTA_RULE_GRAD, n);
    d->in[0] = n->out[0]->grad;
    for (int i = 0; i < 4; i++) d->in[1 + i] = n->in[i];
    graph_value *grad[2];
    for (int i = 0; i < 2; i++) {
        graph_set_output(d, i, graph_new_like(g, i ? "d_gates" : "dqkv", n->in[i]));
        if (n->in[2 + i])
            graph_set_output(d, 2 + i, graph_new_like(g, "gradient of all tokens", n->in[2 + i]));
    }
    for (int i = 0; i < 2; i++) {
        grad[i] = d->out[i];
        if (!n->in[2 + i]) continue;
        n->in[2 + i]->grad = d->out[2 + i];
        grad[i] = graph_scatter_to_cp(g, n->in[2 + i]->producer, d->out[2 + i], grad[i]);
    }
    for (int i = 0; i < 2; i++) graph_accumulate_grad(g, n->in[i], grad[i]);
}

static void delta_rule_grad_launch(const graph_run *run, const graph_node *n)
{
    const graph_value *const in[] = {n->in[1], n->in[2], n->in[3], n->in[4]};
    kernel_call c = {.kind = K_DELTA_RULE_GRAD};
    kernel_delta_rule_grad_args *a = &c.u.delta_rule_grad;
    a->fwd = rule_fill(run, n, in);
    a->d_o = graph_run_ptr(run, n->in[0]);
    a->dx = graph_run_ptr(run, n->out[2] ? n->out[2] : n->out[0]);
    a->d_gates = graph_run_ptr(run, n->out[3] ? n->out[3] : n->out[1]);
    graph_launch(run, n, &c);
}

// The products with the state: what k reads and writes, and what q reads. Those within a chunk are not counted.
static double delta_rule_flops(const graph *g, const graph_node *n)
{
    return 6.0 * (double)(g->batch * g->sequences.tokens.seq) * (double)n->attr.u.delta.heads *
           (double)(n->attr.u.delta.key_dim * n->attr.u.delta.value_dim);
}

static double delta_rule_grad_flops(const graph *g, const graph_node *n)
{
    return 2 * delta_rule_flops(g, n);
}

const graph_op_info op_delta_gates = {
    .derive = delta_gates_derive, .launch = delta_gates_launch, .recompute = 1};
const graph_op_info op_delta_gates_grad = {.launch = delta_gates_grad_launch};
const graph_op_info op_delta_rule = {.derive = delta_rule_derive,
                                     .launch = delta_rule_launch,
                                     .keeps_state = true,
                                     .has_time = true,
                                     .takes_documents = true,
                                     .flops = delta_rule_flops,
                                     .recompute = 2};
const graph_op_info op_delta_rule_grad = {.launch = delta_rule_grad_launch,
                                          .flops = delta_rule_grad_flops};
