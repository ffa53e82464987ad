// op_embedding.c -- rows of a table by token id, plus learned positions.
//   ids [rows]   tokens [V, C]   positions [P, C] or none   y [rows, C]
#include "graph/op.h"

value *build_embedding(graph *g, value *ids, value *tokens, value *positions, double scale)
{
    if (positions && value_cols(positions) != value_cols(tokens))
        graph_misuse(g, "embedding: tokens and positions differ in width");
    if (positions && g->mode != GRAPH_DECODE && g->seq > positions->dim[0])
        graph_misuse(g, "embedding: %lld tokens, but %lld positions", (long long)g->seq,
                     (long long)positions->dim[0]);
    bool cut = graph_splits(g, tokens, 0);
    if (g->cut.sequence && !cut)
        graph_uncuttable(g, "parallel.sequence_parallel needs a token table that is split");
    if (positions) graph_note_use(g, positions, ids);
    graph_note_use(g, tokens, ids);
    node *n = graph_node(g, OP_EMBEDDING);
    n->in[0] = ids, n->in[1] = tokens, n->in[2] = positions;
    n->attr.u.scale = (float)scale;
    n->out[0] =
        graph_value(g, "embedding", F32, 2, (int64_t[]){g->batch * g->seq, value_cols(tokens)});
    n->out[0]->producer = n;
    return cut ? graph_leave(g, n->out[0]) : n->out[0];
}

static status embedding_run(const run_context *x, const node *n, err *e)
{
    (void)e;
    // The sum over the ranks has the positions once.
    const value *tokens = n->in[1];
    bool cut = graph_splits(x->g, tokens, 0), adds = !cut || x->g->cut.rank == 0;
    kernel_call c = {.kind = K_EMBEDDING};
    c.u.embedding = (embedding_args){.rows = value_rows(n->out[0]),
                                     .seq = x->g->seq,
                                     .cols = value_cols(n->out[0]),
                                     .pos0 = x->pos0,
                                     .first = graph_first_row(x->g, tokens),
                                     .vocab = cut ? tokens->dim[0] : 0,
                                     .ids = run_at(x, n->in[0]),
                                     .tokens = run_at(x, tokens),
                                     .positions = adds ? run_at(x, n->in[2]) : NULL,
                                     .y = run_at(x, n->out[0]),
                                     .scale = n->attr.u.scale,
                                     .wide = tokens->type != F32,
                                     .type = tokens->type};
    device_launch(x->on, &c);
    return OK;
}

static void embedding_derive(graph *g, node *n)
{
    node *d = grad_node(g, OP_EMBEDDING_GRAD, n);
    d->in[0] = n->out[0]->grad, d->in[1] = n->in[0], d->in[2] = n->in[1], d->in[3] = n->in[2];
    d->param[0] = n->in[1]->param;
    d->param[1] = n->in[2] ? n->in[2]->param : -1;
}

static status embedding_grad_run(const run_context *x, const node *n, err *e)
{
    (void)e;
    const value *dy = n->in[0];
    kernel_call c = {.kind = K_EMBEDDING_GRAD};
    embedding_grad_args *a = &c.u.embedding_grad;
    *a = (embedding_grad_args){.rows = value_rows(dy),
                               .seq = x->g->seq,
                               .cols = value_cols(dy),
                               .first = graph_first_row(x->g, n->in[2]),
                               .vocab = n->in[2]->dim[0],
                               .max_seq = n->in[3] ? n->in[3]->dim[0] : 0,
                               .ids = run_at(x, n->in[1]),
                               .dy = run_at(x, dy),
                               .scale = n->attr.u.scale,
                               .wide = n->in[2]->type != F32,
                               .type = n->in[2]->type};
    a->d_tokens = run_grad(x, n->param[0], &a->accumulate_tokens);
    if (n->param[1] >= 0) a->d_positions = run_grad(x, n->param[1], &a->accumulate_positions);
    device_launch(x->on, &c);
    return OK;
}

const op_info op_embedding = {.name = "embedding",
                              .derive = embedding_derive,
                              .run = embedding_run,
                              .must_alias = -1,
                              .recompute = 3};
const op_info op_embedding_grad = {
    .name = "embedding_grad", .run = embedding_grad_run, .must_alias = -1};
