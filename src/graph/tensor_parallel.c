// tensor_parallel.c -- one rank's shard of a graph under tensor parallelism (Shoeybi et al. 2019).
// A family writes full sizes, and names the roles of its parameters' dimensions. A sharded weight
// then has the sizes of this rank's shard, and the ops take their sizes from their inputs.
//
// Called by the build_* functions. Knows nothing of communicators, nor where a graph needs a
// collective (op_tensor_parallel.c).
#include "graph/graph.h"

#include <stdarg.h>
#include <stdio.h>

static bool is_sharded_role(graph_role r)
{
    return r == ROLE_VOCAB || r == ROLE_HEADS || r == ROLE_MLP;
}

int64_t graph_shard(graph_role r, int64_t count, int ranks, int rank, int64_t *first)
{
    int64_t most = r == ROLE_VOCAB ? (count + ranks - 1) / ranks : count / ranks;
    int64_t from = rank * most, left = count - from;
    if (first) *first = from;
    return left < most ? left : most;
}

void build_roles(graph *g, graph_value *param, graph_role rows, graph_role cols)
{
    graph_param *p = &g->param[param->param];
    p->roles[0] = rows, p->roles[1] = cols;
    if (g->tp.ranks == 1) return;
    if (is_sharded_role(rows) && is_sharded_role(cols))
        graph_misuse(g, "%s: both dimensions would be sharded over the tensor-parallel ranks",
                     p->name);
    p->shard_dim = is_sharded_role(rows) ? 0 : is_sharded_role(cols) ? 1 : -1;
    if (p->shard_dim < 0) return;
    int64_t local =
        graph_shard(p->roles[p->shard_dim], p->dim[p->shard_dim], g->tp.ranks, g->tp.rank, NULL);
    param->dim[p->shard_dim] = local > 0 ? local : 1; // graph_check_tp refuses 0
}

bool graph_is_sharded(const graph *g, const graph_value *w, int dim)
{
    return w->param >= 0 && g->param[w->param].shard_dim == dim;
}

int64_t graph_first_row(const graph *g, const graph_value *w)
{
    const graph_param *p = &g->param[w->param];
    int64_t first = 0;
    if (p->shard_dim == 0) graph_shard(p->roles[0], p->dim[0], g->tp.ranks, g->tp.rank, &first);
    return first;
}

int64_t graph_local_heads(const graph *g, const graph_value *x, int64_t full_heads)
{
    return x->sharding.cols & GRAPH_TP ? full_heads / g->tp.ranks : full_heads;
}

static void set_sections(graph *g, const graph_value *w, int count, const int64_t *rows)
{
    graph_param *p = &g->param[w->param];
    p->sections = count;
    for (int i = 0; i < count; i++) p->section[i] = rows[i] * g->tp.ranks;
}

void graph_sections(graph *g, const graph_value *x, const char *op_name, int count,
                    const int64_t *rows)
{
    if (!(x->sharding.cols & GRAPH_TP) || g->first_error.code == E_MEMORY) return;
    const graph_node *n = x->producer;
    // Rotary positions keep the columns where the linear layer put them.
    while (n && n->op == OP_ROPE) n = n->in[0]->producer;
    if (!n || n->op != OP_LINEAR) {
        graph_misuse(g, "%s must come from one linear layer where they are sharded", op_name);
        return;
    }
    set_sections(g, n->in[1], count, rows);
    if (n->in[2]) set_sections(g, n->in[2], count, rows);
}

void graph_note_use(graph *g, const graph_value *w, const graph_value *x)
{
    graph_param *p = &g->param[w->param];
    if (x->sharding.rows & GRAPH_TP)
        p->grad_partial = true;
    else
        p->grad_full = true;
}

void graph_not_divisible(graph *g, const char *format, ...)
{
    if (g->tracing.not_divisible || g->first_error.code == E_MEMORY) return;
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    g->tracing.not_divisible = true;
    err_set(&g->first_error, E_USAGE, "%s", text);
}

const char *graph_divisors(int64_t count, char out[96])
{
    size_t used = 0;
    for (int64_t d = 1; d <= count && used < 80; d++)
        if (count % d == 0)
            used +=
                (size_t)snprintf(out + used, 96 - used, "%s%lld", d > 1 ? ", " : "", (long long)d);
    return out;
}

// A section of `count` rows or columns is sharded by itself. Records an error if the ranks do not
// divide it. A vocabulary need not divide: its last shard may be smaller, but not empty.
static void check_section(graph *g, const graph_param *p, int64_t count)
{
    char valid[96];
    graph_role r = p->roles[p->shard_dim];
    int64_t ranks = g->tp.ranks;
    if (r == ROLE_VOCAB && graph_shard(r, count, (int)ranks, (int)ranks - 1, NULL) <= 0)
        graph_not_divisible(g, "a vocabulary of %lld has no shard for each of parallel.tp %lld",
                            (long long)count, (long long)ranks);
    if (r != ROLE_VOCAB && count % ranks)
        graph_not_divisible(g, "%s of %lld does not divide over parallel.tp %lld; valid: %s",
                            r == ROLE_MLP ? "an inner width" : "a width of heads", (long long)count,
                            (long long)ranks, graph_divisors(count, valid));
}

void graph_check_tp(graph *g)
{
    if (g->mode == GRAPH_DECODE && (g->tp.ranks > 1 || g->sequences.cp.ranks > 1))
        graph_misuse(g, "a decoding graph cannot be sharded over parallel.%s",
                     g->tp.ranks > 1 ? "tp" : "cp");
    if (g->tp.ranks == 1) return;
    for (int i = 0; i < g->params; i++) {
        graph_param *p = &g->param[i];
        // Unless an op has set the sections (graph_sections), each piece of the file is one
        // section.
        for (int k = 0; k < p->pieces && p->shard_dim == 0 && p->sections == 0; k++)
            p->section[k] = p->piece[k].rows;
        if (p->shard_dim == 0 && p->sections == 0) p->sections = p->pieces;
        for (int k = 0; k < p->sections; k++) check_section(g, p, p->section[k]);
        if (p->shard_dim == 1) check_section(g, p, p->dim[1]);
    }
}
