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
//   qkv, dqkv      [rows, (heads + 2 * kv_heads) * head_dim]      rows of this rank
//   kv, d_kv       [batch * full_seq, 2 * kv_heads * head_dim]    all tokens, in order of positions
//   given, taken   [rows for other ranks, of other ranks; the columns of kv]      rank by rank
//
//   gather_from_cp   in qkv          out kv, given, taken                    copy to the rank's places, all-gather
//   scatter_to_cp    in d_kv, dqkv   out dqkv, in place of dqkv, given, taken  reduce-scatter, copy from the places
//
// kv is gathered again in the backward; it is never saved. Called by op_attention.c and op_conv.c, and
// through the table of ops.
//
// With a window a rank needs few tokens of the others: those in the windows of its own. Then the ranks exchange these
// alone in an all-to-all, and the summands of their gradients in another one. A token of rank a that rank b sees lies
// in one of b's two runs of seen tokens, and in one of a's two chunks, so there are up to four runs of them in a
// sequence. The rows of each run are packed into `given`, all sequences of it after one another. The sums of gradients
// have the bits of a reduce-scatter over all ranks.
//
// d_kv has the compute type. A rank sums it in fp32 over its queries and rounds it once, and the
// reduce-scatter sums in fp32 and rounds once. So 16-bit gradients are rounded once more than those of
// one rank. An fp32 d_kv would avoid that, but it would move twice the bytes.
#include "base/alloc.h"
#include "base/size.h"
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

static void *new_table(graph *g, size_t bytes)
{
    graph_table *t = NULL;
    if (!graph_check(g, alloc_zeroed(&t, 1, sizeof *t + bytes, "", NULL))) return NULL;
    t->next = g->sequences.table;
    g->sequences.table = t;
    return t->memory;
}

// Two segments for each sequence: the first half, of which the ranks have one chunk each in their
// order, and the second half, of which they have one chunk each in the reverse order.
static const comm_segment *new_segments(graph *g, int64_t cols)
{
    const kernel_tokens *t = &g->sequences.tokens;
    const size_t count = 2 * (size_t)g->batch;
    comm_segment *s = new_table(g, count * sizeof *s);
    for (size_t i = 0; s && i < count; i++)
        s[i] = (comm_segment){.full_offset = (int64_t)i * (t->full_seq / 2) * cols,
                              .count = t->full_seq / 2 * cols,
                              .shard_count = t->chunk * cols,
                              .reversed = i % 2};
    return s;
}

// ---- The tokens that a rank needs of another one

// Consecutive tokens of a sequence.
typedef struct cp_run {
    int64_t first, count;
} cp_run;

enum { CP_RUNS = 4 };

static cp_run common_run(cp_run a, cp_run b)
{
    const int64_t first = size_max(a.first, b.first),
                  end = size_min(a.first + a.count, b.first + b.count);
    return (cp_run){first, size_max(end - first, 0)};
}

// The tokens that the queries of chunk `chunk` of a rank see, less those that its first chunk sees.
static cp_run seen_run(const kernel_tokens *t, int64_t window, int chunk)
{
    const int64_t least = chunk > 0 ? t->start[0] + t->chunk : 0,
                  first = size_max(t->start[chunk] - window + 1, least);
    return (cp_run){first, t->start[chunk] + t->chunk - first};
}

// The tokens of rank `owner` that rank `reader` sees. Runs may be empty.
static void find_runs(const graph *g, int64_t window, int owner, int reader, cp_run out[CP_RUNS])
{
    const int ranks = g->position.mesh.size[AXIS_CP];
    const int64_t seq = g->sequences.tokens.full_seq;
    const kernel_tokens own = graph_tokens(seq, ranks, owner),
                        reads = graph_tokens(seq, ranks, reader);
    for (int i = 0; i < CP_RUNS; i++)
        out[i] = common_run(seen_run(&reads, window, i / 2), (cp_run){own.start[i % 2], own.chunk});
}

static int64_t tokens_for(const graph *g, int64_t window, int owner, int reader)
{
    cp_run run[CP_RUNS];
    int64_t tokens = 0;
    find_runs(g, window, owner, reader, run);
    for (int i = 0; i < CP_RUNS && owner != reader; i++) tokens += run[i].count;
    return tokens;
}

// Do the ranks need less of each other than all?
static bool exchanges_less(const graph *g, int64_t window)
{
    const int ranks = g->position.mesh.size[AXIS_CP];
    int64_t tokens = 0;
    for (int i = 0; i < ranks * ranks; i++) tokens += tokens_for(g, window, i / ranks, i % ranks);
    return window > 0 && tokens < (ranks - 1) * g->sequences.tokens.full_seq;
}

// The elements for each rank, or from each.
static const size_t *new_counts(graph *g, int64_t window, int64_t cols, bool gives)
{
    const int ranks = g->position.mesh.size[AXIS_CP], here = g->position.coord[AXIS_CP];
    size_t *counts = new_table(g, (size_t)ranks * sizeof *counts);
    for (int r = 0; counts && r < ranks; r++)
        counts[r] =
            (size_t)(g->batch * cols * tokens_for(g, window, gives ? here : r, gives ? r : here));
    return counts;
}

// Gives a node its scratch for the rows that the ranks exchange: on every rank what the largest exchange needs.
static void set_exchanged(graph *g, graph_node *n, dtype type)
{
    const int ranks = g->position.mesh.size[AXIS_CP];
    int64_t most = 0;
    for (int a = 0; a < ranks; a++) {
        int64_t given = 0, taken = 0;
        for (int b = 0; b < ranks; b++) {
            given += tokens_for(g, n->attr.u.over.window, a, b);
            taken += tokens_for(g, n->attr.u.over.window, b, a);
        }
        most = size_max(most, size_max(given, taken));
    }
    const int64_t dims[] = {g->batch * most, n->attr.u.over.cols};
    n->out[1] = graph_new_value(g, "rows for other ranks", type, 2, dims);
    n->out[2] = graph_new_value(g, "rows of other ranks", type, 2, dims);
    n->out[1]->producer = n->out[2]->producer = n;
}

graph_value *graph_gather_from_cp(graph *g, graph_value *qkv, int64_t first_col, int64_t cols,
                                  int64_t window)
{
    graph_node *n = graph_new_axis_node(g, OP_GATHER_FROM_CP, qkv);
    n->attr.u.over.axis = AXIS_CP;
    n->attr.u.over.first_col = first_col, n->attr.u.over.cols = cols;
    if (exchanges_less(g, window)) {
        n->attr.u.over.window = window;
        n->attr.u.over.gives = new_counts(g, window, cols, true);
        n->attr.u.over.takes = new_counts(g, window, cols, false);
        set_exchanged(g, n, qkv->type);
    } else {
        n->attr.u.over.segment = new_segments(g, cols);
        n->attr.u.over.segments = 2 * (int)g->batch;
    }
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
    if (d->attr.u.over.window) {
        d->attr.u.over.gives = gather->attr.u.over.takes;
        d->attr.u.over.takes = gather->attr.u.over.gives;
        set_exchanged(g, d, d_kv->type);
    }
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

// The copy of the rows of tokens between qkv and kv, one way or the other.
static kernel_call copy_of(const graph_node *n, dtype type)
{
    kernel_call c = {.kind = K_COPY_ROWS};
    c.u.copy_rows = (kernel_copy_rows_args){.cols = n->attr.u.over.cols,
                                            .src_stride = n->attr.u.over.cols,
                                            .dst_stride = n->attr.u.over.cols,
                                            .type = type};
    return c;
}

// A run of tokens that two ranks share, in kv and among the packed rows.
typedef struct cp_shared {
    int64_t rows, offset; // of all sequences; offset: of the first element among the packed rows
    kernel_tokens in_kv, packed;
} cp_shared;

// Finds the runs that this rank shares with `other`. It owns them where `gives`, else it reads them. *offset goes from
// the end of those of the ranks before to the end of these.
static void find_shared(const graph *g, const graph_node *n, int other, bool gives, int64_t *offset,
                        cp_shared out[CP_RUNS])
{
    const int here = g->position.coord[AXIS_CP];
    cp_run run[CP_RUNS] = {{0, 0}};
    if (other != here)
        find_runs(g, n->attr.u.over.window, gives ? here : other, gives ? other : here, run);
    for (int i = 0; i < CP_RUNS; i++) {
        const int64_t rows = g->batch * run[i].count;
        out[i] = (cp_shared){.rows = rows,
                             .offset = *offset,
                             .in_kv = {.seq = run[i].count,
                                       .full_seq = g->sequences.tokens.full_seq,
                                       .chunk = run[i].count,
                                       .start = {run[i].first, 0}},
                             .packed = kernel_tokens_from(rows, 0)};
        *offset += rows * n->attr.u.over.cols;
    }
}

static int64_t chunk_start(const graph *g, int rank, int chunk)
{
    const int ranks = g->position.mesh.size[AXIS_CP];
    return graph_tokens(g->sequences.tokens.full_seq, ranks, rank).start[chunk];
}

// Copies the rows that this rank shares with others from kv to the packed rows, or with `unpacks` from there to kv. What
// others give of this rank's own tokens goes to the chunks of the others.
static void copy_shared(const graph_run *run, const graph_node *n, const graph_value *kv,
                        const graph_value *packed, bool gives, bool unpacks)
{
    const size_t item = dtype_bytes(kv->type);
    int64_t offset = 0;
    for (int r = 0; r < run->g->position.mesh.size[AXIS_CP]; r++) {
        cp_shared shared[CP_RUNS];
        find_shared(run->g, n, r, gives, &offset, shared);
        for (int i = 0; i < CP_RUNS; i++) {
            cp_shared *x = &shared[i];
            char *const rows = (char *)graph_run_ptr(run, packed) + (size_t)x->offset * item;
            kernel_call c = copy_of(n, kv->type);
            if (x->rows == 0) continue;
            if (gives && unpacks)
                x->in_kv.start[0] +=
                    chunk_start(run->g, r, i % 2) - run->g->sequences.tokens.start[i % 2];
            c.u.copy_rows.rows = x->rows;
            c.u.copy_rows.src = unpacks ? rows : graph_run_ptr(run, kv);
            c.u.copy_rows.dst = unpacks ? graph_run_ptr(run, kv) : rows;
            c.u.copy_rows.src_rows = unpacks ? x->packed : x->in_kv;
            c.u.copy_rows.dst_rows = unpacks ? x->in_kv : x->packed;
            graph_launch(run, n, &c);
        }
    }
}

// The first token of chunk `chunk` of rank `rank` of sequence b, in d_kv.
static char *chunk_in(const graph_run *run, const graph_value *d_kv, int64_t b, int rank, int chunk)
{
    const graph *g = run->g;
    const int64_t row = b * g->sequences.tokens.full_seq + chunk_start(g, rank, chunk);
    return (char *)graph_run_ptr(run, d_kv) +
           (size_t)(row * graph_value_cols(d_kv)) * dtype_bytes(d_kv->type);
}

// Sets the rows of other ranks' tokens to zero.
static void clear_others(const graph_run *run, const graph_node *n, const graph_value *d_kv)
{
    const int64_t chunk = run->g->sequences.tokens.chunk * graph_value_cols(d_kv);
    for (int64_t b = 0; b < run->g->batch; b++)
        for (int i = 0; i < 2 * run->g->position.mesh.size[AXIS_CP]; i++) {
            kernel_call c = {.kind = K_FILL};
            c.u.fill = (kernel_fill_args){.dst = chunk_in(run, d_kv, b, i / 2, i % 2),
                                          .bytes = chunk * (int64_t)dtype_bytes(d_kv->type)};
            if (i / 2 != run->g->position.coord[AXIS_CP]) graph_launch(run, n, &c);
        }
}

// Sums the chunks of ranks first, first+step, … to those of `first`.
static void sum_chunks(const graph_run *run, const graph_node *n, const graph_value *d_kv,
                       int first, int step)
{
    const int ranks = run->g->position.mesh.size[AXIS_CP];
    for (int64_t i = 0; i < 2 * run->g->batch; i++) {
        kernel_call c = {.kind = K_REDUCE};
        kernel_reduce_args *a = &c.u.reduce;
        *a = (kernel_reduce_args){.count = run->g->sequences.tokens.chunk * graph_value_cols(d_kv),
                                  .outs = 1,
                                  .type = d_kv->type,
                                  .op = REDUCE_SUM};
        for (int r = first; r < ranks && a->ranks < KERNEL_REDUCE_RANKS; r += step)
            a->in[a->ranks++] = chunk_in(run, d_kv, i / 2, r, (int)(i % 2));
        a->out[0] = chunk_in(run, d_kv, i / 2, first, (int)(i % 2));
        if (a->ranks > 1) graph_launch(run, n, &c);
    }
}

// Sends the packed rows for other ranks, and receives theirs.
static status exchange(const graph_run *run, const graph_node *n, err *e)
{
    if (graph_is_visited(run)) return OK;
    const comm_call c = {.kind = CALL_ALL_TO_ALL,
                         .type = n->out[1]->type,
                         .in = graph_run_ptr(run, n->out[1]),
                         .out = graph_run_ptr(run, n->out[2]),
                         .in_counts = n->attr.u.over.gives,
                         .out_counts = n->attr.u.over.takes};
    return comm_issue(run->comm[AXIS_CP], &c, run->stream, e);
}

static status gather_seen(const graph_run *run, const graph_node *n, err *e)
{
    status result = OK;
    copy_shared(run, n, n->out[0], n->out[1], true, false);
    TRY(exchange(run, n, e));
    copy_shared(run, n, n->out[0], n->out[2], false, true);
done:
    return result;
}

static status gather_from_cp_run(const graph_run *run, const graph_node *n, err *e)
{
    const graph_value *kv = n->out[0];
    const cp_rows r = cp_rows_of(run, n, n->in[0]);
    void *all = graph_run_ptr(run, kv);
    kernel_call c = copy_of(n, kv->type), zeros = {.kind = K_FILL};
    zeros.u.fill = (kernel_fill_args){.dst = all, .bytes = (int64_t)graph_value_bytes(kv)};
    if (n->attr.u.over.gives) graph_launch(run, n, &zeros);
    c.u.copy_rows.rows = r.rows;
    c.u.copy_rows.src = r.keys, c.u.copy_rows.src_stride = r.stride;
    c.u.copy_rows.dst = all;
    c.u.copy_rows.src_rows = r.here, c.u.copy_rows.dst_rows = r.places;
    graph_launch(run, n, &c);
    if (n->attr.u.over.gives) return gather_seen(run, n, e);
    if (graph_is_visited(run)) return OK;
    return comm_all_gather_segments(run->comm[AXIS_CP], n->attr.u.over.segment,
                                    n->attr.u.over.segments, NULL, all, kv->type, run->stream, e);
}

// The summands of rank r for a token of this rank go to the place of r's own token at the same place in its chunk. So
// the sums are those of a reduce-scatter, whose summands of ranks that do not see the token are zeros.
static status scatter_seen(const graph_run *run, const graph_node *n, err *e)
{
    status result = OK;
    const int ranks = run->g->position.mesh.size[AXIS_CP];
    const graph_value *d_kv = n->in[0];
    copy_shared(run, n, d_kv, n->out[1], false, false);
    TRY(exchange(run, n, e));
    clear_others(run, n, d_kv);
    copy_shared(run, n, d_kv, n->out[2], true, true);
    for (int step = 1; step < ranks; step *= KERNEL_REDUCE_RANKS)
        for (int first = 0; first < ranks; first += step * KERNEL_REDUCE_RANKS)
            sum_chunks(run, n, d_kv, first, step);
done:
    return result;
}

// The sums of this rank's tokens replace its summands in d_kv, which nothing reads later.
static status scatter_to_cp_run(const graph_run *run, const graph_node *n, err *e)
{
    status result = OK;
    const graph_value *d_kv = n->in[0];
    const cp_rows r = cp_rows_of(run, n, n->out[0]);
    void *all = graph_run_ptr(run, d_kv);
    if (n->attr.u.over.gives)
        TRY(scatter_seen(run, n, e));
    else if (!graph_is_visited(run))
        TRY(comm_reduce_scatter_segments(run->comm[AXIS_CP], n->attr.u.over.segment,
                                         n->attr.u.over.segments, all, NULL, d_kv->type, REDUCE_SUM,
                                         run->stream, e));
    kernel_call c = copy_of(n, d_kv->type);
    c.u.copy_rows.rows = r.rows;
    c.u.copy_rows.src = all;
    c.u.copy_rows.dst = r.keys, c.u.copy_rows.dst_stride = r.stride;
    c.u.copy_rows.src_rows = r.places, c.u.copy_rows.dst_rows = r.here;
    if (n->attr.u.over.gives) // the sums lie in the chunks of rank 0
        for (int k = 0; k < 2; k++) c.u.copy_rows.src_rows.start[k] = chunk_start(run->g, 0, k);
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
