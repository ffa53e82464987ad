// op_qk_norm.c -- norms of the queries and of the keys of attention (Henry et al. 2020; Dehghani et al.
// 2023). The values are copied.
//   qkv, y, dy, dx   [rows, (heads + 2 * kv_heads) * head_dim]   queries, then keys, then values
//   q_gain, k_gain   per head [head_dim], which all heads share; at full width, or of layer norms,
//                    [heads * head_dim] and [kv_heads * head_dim]
//   rstd             [rows, heads + kv_heads] F32, at full width [rows, 2]
//   mean             [rows, heads + kv_heads] F32, of layer norms
//   sums             [rows, 2] F32, scratch: at full width where the heads are sharded
//
//   qk_norm        in qkv, q_gain, k_gain             out y, rstd, sums, mean
//   qk_norm_grad   in dy, qkv, q_gain, k_gain, rstd, mean   out dx, sums
// Gains may be missing. There is no dx where qkv requires no gradient.
//
// Under tensor parallelism each rank has its heads. Per head that is all that a norm needs, and a rank's
// gradient of the shared gain is a summand. At full width a norm spans the heads of all ranks: each rank
// sums its columns, the ranks add these sums, and the gains are sharded with the heads.
#include "graph/op.h"

// Checks that a gain has `cols` elements, and notes its use. `full_width`: each column has its own. NULL allowed.
static void use_gain(graph *g, const graph_value *qkv, const graph_value *gain, int64_t cols,
                     bool full_width)
{
    if (!gain) return;
    if (graph_value_count(gain) != cols)
        graph_misuse(g, "qk_norm: %lld columns, %lld gains", (long long)cols,
                     (long long)graph_value_count(gain));
    if (full_width && graph_sharded_over(g, gain, 0) != qkv->sharding.cols)
        graph_misuse(g, "qk_norm: the gains must be sharded as the heads are");
    graph_note_use(g, gain, qkv->sharding.rows | (full_width ? 0 : qkv->sharding.cols));
    g->param[gain->param].sections = 1,
    g->param[gain->param].section[0] = (graph_part){g->param[gain->param].dim[0], 0};
}

static graph_value *new_sums(graph *g, const graph_value *qkv, bool full_width)
{
    if (!full_width || !qkv->sharding.cols) return NULL;
    return graph_new_value(g, "sums of queries and keys", F32, 2,
                           (int64_t[]){graph_value_rows(qkv), 2});
}

static void check_columns(graph *g, const graph_value *qkv, int64_t heads, int64_t kv_heads,
                          int64_t head_dim)
{
    const int64_t cols = (heads + 2 * kv_heads) * head_dim;
    if (qkv->sharding.rows & MESH_AXIS(AXIS_TP))
        graph_misuse(g, "qk_norm: the rows of qkv are sharded over the tensor-parallel ranks");
    if (heads <= 0 || kv_heads <= 0 || graph_value_cols(qkv) != cols)
        graph_misuse(
            g, "qk_norm: %lld heads, %lld key-value heads of %lld need %lld columns, found %lld",
            (long long)heads, (long long)kv_heads, (long long)head_dim, (long long)cols,
            (long long)graph_value_cols(qkv));
    if (qkv->type != g->type)
        graph_misuse(g, "qk_norm: queries, keys and values must come from a linear layer");
}

graph_value *build_qk_norm(graph *g, graph_value *qkv, const graph_qk_norm *form)
{
    const int64_t heads = graph_local_heads(g, qkv, form->heads),
                  kv_heads = graph_local_heads(g, qkv, form->kv_heads), d = form->head_dim;
    const bool full = form->full_width, own = full || form->layer_norm;
    const int ranks = graph_ranks(g, qkv->sharding.cols);
    char valid[96];
    if (own && form->kv_heads > 0 && form->kv_heads % ranks)
        graph_not_divisible(g,
                            "%lld key-value heads, which are normed together, do not divide over "
                            "parallel.%s %d; valid: %s",
                            (long long)form->kv_heads,
                            axis_name(mesh_first_axis(qkv->sharding.cols)), ranks,
                            graph_divisors(form->kv_heads, valid));
    check_columns(g, qkv, heads, kv_heads, d);
    use_gain(g, qkv, form->q_gain, own ? heads * d : d, own);
    use_gain(g, qkv, form->k_gain, own ? kv_heads * d : d, own);
    graph_node *n = graph_new_node(g, OP_QK_NORM);
    n->in[0] = qkv, n->in[1] = form->q_gain, n->in[2] = form->k_gain;
    n->attr.u.qk_norm.heads = heads, n->attr.u.qk_norm.kv_heads = kv_heads,
    n->attr.u.qk_norm.head_dim = d;
    n->attr.u.qk_norm.eps = (float)form->eps;
    n->attr.u.qk_norm.full_width = full, n->attr.u.qk_norm.layer_norm = form->layer_norm;
    n->attr.u.qk_norm.unit_offset = form->unit_offset;
    graph_set_output(n, 0, graph_new_like(g, "qk_norm", qkv));
    const int64_t groups = full ? 2 : heads + kv_heads;
    graph_set_output(
        n, 1, graph_new_value(g, "rstd", F32, 2, (int64_t[]){graph_value_rows(qkv), groups}));
    n->out[1]->sharding = qkv->sharding;
    n->out[2] = new_sums(g, qkv, full);
    if (n->out[2]) n->out[2]->producer = n;
    if (!form->layer_norm) return n->out[0];
    graph_set_output(n, 3, graph_new_like(g, "mean", n->out[1]));
    return n->out[0];
}

// The ranks add their sums of each group.
static bool qk_norm_find_call(const graph *g, const graph_node *n, graph_call *out)
{
    (void)g;
    const graph_value *sums = n->out[2];
    if (!sums) return false;
    *out = (graph_call){
        .over = AXIS_TP, .kind = CALL_ALL_REDUCE, .type = F32, .count = graph_value_count(sums)};
    return true;
}

// Launches the kernel `k`. Where the ranks share the groups, it sums the groups over them first.
static status launch(const graph_run *run, const graph_node *n, kernel_call *k, err *e)
{
    status result = OK;
    const graph_value *sums = n->out[2];
    if (sums) {
        kernel_call c = *k;
        c.kind = K_QK_NORM_SUMS;
        graph_launch(run, n, &c);
        if (!graph_is_visited(run))
            TRY(comm_all_reduce(run->comm[AXIS_TP], k->u.qk_norm.sums,
                                (size_t)graph_value_count(sums), F32, REDUCE_SUM, run->stream, e));
    }
    graph_launch(run, n, k);
done:
    return result;
}

static kernel_qk_norm_args qk_norm_fill(const graph_run *run, const graph_node *n,
                                        const graph_value *x)
{
    const graph_value *sums = n->out[2];
    return (kernel_qk_norm_args){.rows = graph_value_rows(x),
                                 .heads = n->attr.u.qk_norm.heads,
                                 .kv_heads = n->attr.u.qk_norm.kv_heads,
                                 .head_dim = n->attr.u.qk_norm.head_dim,
                                 .ranks = sums ? graph_ranks(run->g, MESH_AXIS(AXIS_TP)) : 1,
                                 .x = graph_run_ptr(run, x),
                                 .y = graph_run_ptr(run, n->out[0]),
                                 .sums = graph_run_ptr(run, sums),
                                 .eps = n->attr.u.qk_norm.eps,
                                 .full_width = n->attr.u.qk_norm.full_width,
                                 .layer_norm = n->attr.u.qk_norm.layer_norm,
                                 .unit_offset = n->attr.u.qk_norm.unit_offset,
                                 .type = x->type};
}

static status qk_norm_run(const graph_run *run, const graph_node *n, err *e)
{
    kernel_call c = {.kind = K_QK_NORM, .u.qk_norm = qk_norm_fill(run, n, n->in[0])};
    c.u.qk_norm.q_gain = graph_run_ptr(run, n->in[1]);
    c.u.qk_norm.k_gain = graph_run_ptr(run, n->in[2]);
    c.u.qk_norm.rstd = graph_run_ptr(run, n->out[1]);
    c.u.qk_norm.mean = graph_run_ptr(run, n->out[3]);
    return launch(run, n, &c, e);
}

static void qk_norm_derive(graph *g, graph_node *n)
{
    graph_value *qkv = n->in[0];
    graph_node *d = graph_new_grad_node(g, OP_QK_NORM_GRAD, n);
    d->param[0] = graph_trained_param(g, n->in[1]);
    d->param[1] = graph_trained_param(g, n->in[2]);
    d->in[0] = n->out[0]->grad, d->in[1] = qkv, d->in[2] = n->in[1], d->in[3] = n->in[2];
    d->in[4] = n->out[1], d->in[5] = n->out[3];
    if (!graph_requires_grad(qkv)) return;
    graph_set_output(d, 0, graph_new_like(g, "qk_norm dx", qkv));
    d->out[2] = new_sums(g, qkv, n->attr.u.qk_norm.full_width);
    if (d->out[2]) d->out[2]->producer = d;
    graph_accumulate_grad(g, qkv, d->out[0]);
}

static status qk_norm_grad_run(const graph_run *run, const graph_node *n, err *e)
{
    kernel_call c = {.kind = K_QK_NORM_GRAD, .u.qk_norm = qk_norm_fill(run, n, n->in[1])};
    kernel_qk_norm_args *a = &c.u.qk_norm;
    a->dy = graph_run_ptr(run, n->in[0]);
    a->q_gain = graph_run_ptr(run, n->in[2]);
    a->k_gain = graph_run_ptr(run, n->in[3]);
    a->rstd = graph_run_ptr(run, n->in[4]);
    a->mean = graph_run_ptr(run, n->in[5]);
    if (n->param[0] >= 0) a->dq_gain = graph_run_grad(run, n->param[0], &a->accumulate_dq_gain);
    if (n->param[1] >= 0) a->dk_gain = graph_run_grad(run, n->param[1], &a->accumulate_dk_gain);
    return launch(run, n, &c, e);
}

// Rotary positions work in the memory of y, so y is saved where rotated y is, and qkv beside it.
const graph_op_info op_qk_norm = {.derive = qk_norm_derive,
                                  .run = qk_norm_run,
                                  .find_call = qk_norm_find_call,
                                  .may_alias = 1,
                                  .keeps_cols = true,
                                  .recompute = 3};
const graph_op_info op_qk_norm_grad = {
    .run = qk_norm_grad_run, .find_call = qk_norm_find_call, .may_alias = 1};
