// op_embedding.c -- rows of a table by token id, plus learned positions.
//   ids [rows]   tokens [vocab, cols]   positions [max_seq, cols] or none   y [rows, cols] F32
//   embedding        in ids, tokens, positions      out y
//   embedding_grad   in dy, ids, tokens, positions      of the tables that train
// Where the table is sharded by rows, a rank's y is zero where another rank has the token, and
// reduce_from_tp sums the ranks.
#include "graph/op.h"

graph_value *build_embedding(graph *g, graph_value *ids, graph_value *tokens,
                             graph_value *positions, double scale)
{
    if (positions && graph_value_cols(positions) != graph_value_cols(tokens))
        graph_misuse(g, "embedding: tokens and positions differ in width");
    if (positions && g->mode != GRAPH_DECODE && g->sequences.tokens.full_seq > positions->dim[0])
        graph_misuse(g, "embedding: %lld tokens, but %lld positions",
                     (long long)g->sequences.tokens.full_seq, (long long)positions->dim[0]);
    const mesh_axes over = graph_sharded_over(g, tokens, 0);
    if (g->position.sequence_parallel && !over)
        graph_not_divisible(g, "parallel.sequence_parallel needs a token table that is sharded");
    if (positions) graph_note_use(g, positions, ids->sharding.rows);
    graph_note_use(g, tokens, ids->sharding.rows);
    graph_node *n = graph_new_node(g, OP_EMBEDDING);
    n->in[0] = ids, n->in[1] = tokens, n->in[2] = positions;
    n->attr.u.scale = (float)scale;
    graph_set_output(n, 0,
                     graph_new_value(g, "embedding", F32, 2,
                                     (int64_t[]){graph_rows(g), graph_value_cols(tokens)}));
    n->out[0]->sharding.rows = ids->sharding.rows;
    return over ? graph_reduce_from(g, n->out[0], over) : n->out[0];
}

static void embedding_launch(const graph_run *run, const graph_node *n)
{
    const graph_value *tokens = n->in[1];
    const mesh_axes over = graph_sharded_over(run->g, tokens, 0);
    // Only rank 0 adds the positions, so that the sum over the ranks has them once.
    const bool adds_positions = graph_rank(run->g, over) == 0;
    kernel_call c = {.kind = K_EMBEDDING};
    c.u.embedding =
        (kernel_embedding_args){.rows = graph_value_rows(n->out[0]),
                                .row_tokens = graph_run_tokens(run, n->out[0]),
                                .cols = graph_value_cols(n->out[0]),
                                .first = graph_first_row(run->g, tokens),
                                .vocab = over ? tokens->dim[0] : 0,
                                .ids = graph_run_ptr(run, n->in[0]),
                                .tokens = graph_run_ptr(run, tokens),
                                .positions = adds_positions ? graph_run_ptr(run, n->in[2]) : NULL,
                                .y = graph_run_ptr(run, n->out[0]),
                                .scale = n->attr.u.scale,
                                .residual_fp32 = tokens->type != F32,
                                .type = tokens->type};
    graph_launch(run, n, &c);
}

static void embedding_derive(graph *g, graph_node *n)
{
    graph_node *d = graph_new_grad_node(g, OP_EMBEDDING_GRAD, n);
    d->in[0] = n->out[0]->grad, d->in[1] = n->in[0], d->in[2] = n->in[1], d->in[3] = n->in[2];
    d->param[0] = graph_trained_param(g, n->in[1]);
    d->param[1] = graph_trained_param(g, n->in[2]);
}

static void embedding_grad_launch(const graph_run *run, const graph_node *n)
{
    const graph_value *dy = n->in[0];
    kernel_call c = {.kind = K_EMBEDDING_GRAD};
    kernel_embedding_grad_args *a = &c.u.embedding_grad;
    *a = (kernel_embedding_grad_args){.rows = graph_value_rows(dy),
                                      .row_tokens = graph_run_tokens(run, dy),
                                      .cols = graph_value_cols(dy),
                                      .first = graph_first_row(run->g, n->in[2]),
                                      .vocab = n->in[2]->dim[0],
                                      .max_seq = n->in[3] ? n->in[3]->dim[0] : 0,
                                      .ids = graph_run_ptr(run, n->in[1]),
                                      .dy = graph_run_ptr(run, dy),
                                      .scale = n->attr.u.scale,
                                      .residual_fp32 = n->in[2]->type != F32,
                                      .type = n->in[2]->type};
    if (n->param[0] >= 0) a->d_tokens = graph_run_grad(run, n->param[0], &a->accumulate_tokens);
    if (n->param[1] >= 0)
        a->d_positions = graph_run_grad(run, n->param[1], &a->accumulate_positions);
    graph_launch(run, n, &c);
}

const graph_op_info op_embedding = {.derive = embedding_derive,
                                    .launch = embedding_launch,
                                    .has_weight = true,
                                    .gives_residual = true,
                                    .has_time = true,
                                    .takes_documents = true,
                                    .limit = {[1] = LIMIT_TOKENS, [2] = LIMIT_POSITIONS},
                                    .recompute = 3};
const graph_op_info op_embedding_grad = {.launch = embedding_grad_launch};
