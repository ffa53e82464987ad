// op_context_parallel.c -- context parallelism: each rank of a group has some tokens of every
// sequence (Dubey et al. 2024, section 3.3.2). Most ops compute a row from that row alone. Attention
// reads the keys and values of earlier tokens too, so it gathers those of all tokens, and sums their
// gradients over the ranks. A convolution does the same with its input.
//
// A sequence is cut into 2n chunks for n ranks, and rank i has chunks i and 2n-1-i. So all ranks have
// the same share of the causal work. With two ranks:
//
//   chunk   0  1  2  3
//   rank    0  1  1  0
//
//   qkv, dqkv   [rows, (heads + 2 * kv_heads) * head_dim]         rows of this rank
//   kv, d_kv    [batch * full_seq, 2 * kv_heads * head_dim]       all tokens, in order of positions
//
//   gather_from_cp   in qkv          out kv                   copy to the rank's places, all-gather
//   scatter_to_cp    in d_kv, dqkv   out dqkv, in place       reduce-scatter, copy from the places
//
// kv is gathered again in the backward; it is never saved. Called by op_attention.c and op_conv.c, and
// through the table of ops.
//
// d_kv has the compute type. A rank sums it in fp32 over its queries and rounds it once, and the
// reduce-scatter sums in fp32 and rounds once. So 16-bit gradients are rounded once more than those of
// one rank. An fp32 d_kv would avoid that, but it would move twice the bytes.
#include "base/alloc.h"
#include "graph/op.h"

kernel_tokens graph_tokens(int64_t seq, int ranks, int rank)
{
    if (ranks == 1) return kernel_tokens_from(seq, 0);
    const int64_t chunk = seq / (2 * ranks);
    return (kernel_tokens){.seq = 2 * chunk,
                           .full_seq = seq,
                           .chunk = chunk,
                           .start = {rank * chunk, (2 * ranks - 1 - rank) * chunk}};
}

void graph_shard_sequences(graph *g, int64_t seq)
{
    const int ranks = g->position.mesh.size[AXIS_CP];
    const bool divides = ranks == 1 || seq % (2 * ranks) == 0;
    if (ranks > 1 && seq == 1)
        graph_not_divisible(g, "parallel.cp %d: this model has no sequences; valid: 1", ranks);
    else if (!divides)
        graph_not_divisible(
            g,
            "data.seq_len of %lld does not divide over 2 x parallel.cp %d; valid: a "
            "multiple of %d",
            (long long)seq, ranks, 2 * ranks);
    g->sequences.tokens = graph_tokens(seq, divides ? ranks : 1, g->position.coord[AXIS_CP]);
}

// Two segments for each sequence: the first half, of which the ranks have one chunk each in their
// order, and the second half, of which they have one chunk each in the reverse order.
static const comm_segment *new_segments(graph *g, int64_t cols)
{
    const kernel_tokens *t = &g->sequences.tokens;
    const size_t count = 2 * (size_t)g->batch;
    graph_segments *s = NULL;
    if (!graph_check(g, alloc_zeroed(&s, 1, sizeof *s + count * sizeof *s->segment, "", NULL)))
        return NULL;
    for (size_t i = 0; i < count; i++)
        s->segment[i] = (comm_segment){.full_offset = (int64_t)i * (t->full_seq / 2) * cols,
                                       .count = t->full_seq / 2 * cols,
                                       .shard_count = t->chunk * cols,
                                       .reversed = i % 2};
    s->next = g->sequences.segments;
    g->sequences.segments = s;
    return s->segment;
}

graph_value *graph_gather_from_cp(graph *g, graph_value *qkv, int64_t first_col, int64_t cols)
{
    graph_node *n = graph_new_axis_node(g, OP_GATHER_FROM_CP, qkv);
    n->attr.u.over.axis = AXIS_CP;
    n->attr.u.over.first_col = first_col, n->attr.u.over.cols = cols;
    n->attr.u.over.segment = new_segments(g, cols);
    n->attr.u.over.segments = 2 * (int)g->batch;
    graph_set_output(n, 0,
                     graph_new_value(g, "gathered columns", qkv->type, 2,
                                     (int64_t[]){g->batch * g->sequences.tokens.full_seq, cols}));
    n->out[0]->sharding =
        (graph_sharding){qkv->sharding.rows & ~MESH_AXIS(AXIS_CP), qkv->sharding.cols};
    return n->out[0];
}

graph_value *graph_scatter_to_cp(graph *g, const graph_node *gather, graph_value *d_kv,
                                 graph_value *dqkv)
{
    graph_node *d = graph_new_grad_node(g, OP_SCATTER_TO_CP, gather);
    d->in[0] = d_kv, d->in[1] = dqkv;
    graph_set_output(d, 0, graph_new_like(g, dqkv->name, dqkv));
    return d->out[0];
}

// The copy between this rank's rows of qkv and their places in kv, of which the caller fills in the
// addresses. `here` are the rows of qkv, `places` those of kv.
typedef struct cp_rows {
    int64_t rows, stride;
    char *keys; // of row 0 of qkv
    kernel_tokens here, places;
} cp_rows;

static cp_rows cp_rows_of(const graph_run *run, const graph_node *n, const graph_value *qkv)
{
    const int64_t rows = graph_value_rows(qkv);
    const size_t skip = (size_t)n->attr.u.over.first_col * dtype_bytes(qkv->type);
    return (cp_rows){.rows = rows,
                     .stride = graph_value_cols(qkv),
                     .keys = (char *)graph_run_ptr(run, qkv) + skip,
                     .here = kernel_tokens_from(rows, 0),
                     .places = graph_run_tokens(run, qkv)};
}

static status gather_from_cp_run(const graph_run *run, const graph_node *n, err *e)
{
    const graph_value *kv = n->out[0];
    const cp_rows r = cp_rows_of(run, n, n->in[0]);
    void *all = graph_run_ptr(run, kv);
    kernel_call c = {.kind = K_COPY_ROWS};
    c.u.copy_rows = (kernel_copy_rows_args){.rows = r.rows,
                                            .cols = n->attr.u.over.cols,
                                            .src = r.keys,
                                            .dst = all,
                                            .src_stride = r.stride,
                                            .dst_stride = n->attr.u.over.cols,
                                            .src_rows = r.here,
                                            .dst_rows = r.places,
                                            .type = kv->type};
    graph_launch(run, n, &c);
    if (graph_is_visited(run)) return OK;
    return comm_all_gather_segments(run->comm[AXIS_CP], n->attr.u.over.segment,
                                    n->attr.u.over.segments, NULL, all, kv->type, run->stream, e);
}

// The sums of this rank's tokens replace its summands in d_kv, which nothing reads later.
static status scatter_to_cp_run(const graph_run *run, const graph_node *n, err *e)
{
    status result = OK;
    const graph_value *d_kv = n->in[0];
    const cp_rows r = cp_rows_of(run, n, n->out[0]);
    void *all = graph_run_ptr(run, d_kv);
    if (!graph_is_visited(run))
        TRY(comm_reduce_scatter_segments(run->comm[AXIS_CP], n->attr.u.over.segment,
                                         n->attr.u.over.segments, all, NULL, d_kv->type, REDUCE_SUM,
                                         run->stream, e));
    kernel_call c = {.kind = K_COPY_ROWS};
    c.u.copy_rows = (kernel_copy_rows_args){.rows = r.rows,
                                            .cols = n->attr.u.over.cols,
                                            .src = all,
                                            .dst = r.keys,
                                            .src_stride = n->attr.u.over.cols,
                                            .dst_stride = r.stride,
                                            .src_rows = r.places,
                                            .dst_rows = r.here,
                                            .type = d_kv->type};
    graph_launch(run, n, &c);
done:
    return result;
}

// Attention appends scatter_to_cp itself: only it knows which columns of dqkv it has not written.
static void gather_from_cp_derive(graph *g, graph_node *n)
{
    (void)g, (void)n;
}

const graph_op_info op_gather_from_cp = {.derive = gather_from_cp_derive,
                                         .run = gather_from_cp_run,
                                         .call = CALL_ALL_GATHER,
                                         .recompute = 1};
const graph_op_info op_scatter_to_cp = {
    .run = scatter_to_cp_run, .call = CALL_REDUCE_SCATTER, .must_alias = 1u << 1};
