// tensor_parallel.c -- one rank's shard of a graph, such as under tensor parallelism (Shoeybi et al. 2019).
// A family writes full sizes, and names the roles of its parameters' dimensions. A table says over which
// axis a role is sharded. A sharded weight then has the sizes of this rank's shard, and the ops take their
// sizes from their inputs.
//
// Called by the build_* functions. Knows nothing of communicators, nor where a graph needs a
// collective (op_tensor_parallel.c).
#include "graph/op.h"

#include <stdarg.h>
#include <stdio.h>

// The axes over which a role is sharded.
typedef struct graph_role_row {
    mesh_axes over;
    bool uneven;      // the ranks need not divide the size; no shard may be empty
    const char *name; // in messages
} graph_role_row;

static const graph_role_row ROLE[ROLES] = {
    [ROLE_VOCAB] = {MESH_AXIS(AXIS_TP), true, "a vocabulary"},
    [ROLE_HEADS] = {MESH_AXIS(AXIS_TP), false, "a width of heads"},
    [ROLE_MLP] = {MESH_AXIS(AXIS_TP), false, "an inner width"},
};

mesh_axes graph_role_axes(graph_role r)
{
    return ROLE[r].over;
}

int64_t graph_shard(graph_role r, int64_t count, const mesh *m, const int coord[AXES],
                    int64_t *first)
{
    const int ranks = mesh_group_size(m, ROLE[r].over);
    const int64_t most = ROLE[r].uneven ? (count + ranks - 1) / ranks : count / ranks;
    const int64_t from = mesh_group_index(m, coord, ROLE[r].over) * most, left = count - from;
    if (first) *first = from;
    return left < most ? left : most;
}

mesh_axes graph_param_sharding(const mesh *m, const graph_param *p, int dim)
{
    return mesh_axes_in_use(m, ROLE[p->roles[dim]].over);
}

mesh_axes graph_sharded_over(const graph *g, const graph_value *w, int dim)
{
    return w->param < 0 ? 0 : graph_param_sharding(&g->position.mesh, &g->param[w->param], dim);
}

int graph_ranks(const graph *g, mesh_axes over)
{
    return mesh_group_size(&g->position.mesh, over);
}

int graph_rank(const graph *g, mesh_axes over)
{
    return mesh_group_index(&g->position.mesh, g->position.coord, over);
}

void build_roles(graph *g, graph_value *param, graph_role rows, graph_role cols)
{
    graph_param *p = &g->param[param->param];
    p->roles[0] = rows, p->roles[1] = cols;
    if (graph_sharded_over(g, param, 0) & graph_sharded_over(g, param, 1))
        graph_misuse(g, "%s: both dimensions would be sharded over the tensor-parallel ranks",
                     p->name);
    for (int d = 0; d < p->dims; d++) {
        const int64_t local =
            graph_shard(p->roles[d], p->dim[d], &g->position.mesh, g->position.coord, NULL);
        param->dim[d] = local > 0 ? local : 1; // graph_check_shards refuses 0
    }
}

int64_t graph_first_row(const graph *g, const graph_value *w)
{
    const graph_param *p = &g->param[w->param];
    int64_t first = 0;
    graph_shard(p->roles[0], p->dim[0], &g->position.mesh, g->position.coord, &first);
    return first;
}

int64_t graph_local_heads(const graph *g, const graph_value *x, int64_t full_heads)
{
    return full_heads / graph_ranks(g, x->sharding.cols);
}

static void set_sections(graph *g, const graph_value *w, int count, const int64_t *rows)
{
    graph_param *p = &g->param[w->param];
    p->sections = count;
    for (int i = 0; i < count; i++)
        p->section[i] = rows[i] * graph_ranks(g, graph_sharded_over(g, w, 0));
}

void graph_sections(graph *g, const graph_value *x, const char *op_name, int count,
                    const int64_t *rows)
{
    if (!x->sharding.cols || g->first_error.code == E_MEMORY) return;
    const graph_node *n = x->producer;
    while (n && graph_op_find(n->op)->keeps_cols) n = n->in[0]->producer;
    if (n && graph_op_find(n->op)->sets_sections) return;
    if (!n || !graph_op_find(n->op)->has_weight || !n->in[1]) {
        graph_misuse(g, "%s must come from one linear layer where they are sharded", op_name);
        return;
    }
    set_sections(g, n->in[1], count, rows);
    if (n->in[2]) set_sections(g, n->in[2], count, rows);
}

void graph_note_use(graph *g, const graph_value *w, mesh_axes partial)
{
    graph_param *p = &g->param[w->param];
    p->grad_partial |= partial;
    p->grad_full |= AXES_GRAPH & ~partial;
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
// divide it, or leave one of them nothing.
static void check_section(graph *g, const graph_param *p, int dim, int64_t count)
{
    char valid[96];
    const graph_role_row *r = &ROLE[p->roles[dim]];
    const mesh_axes over = graph_param_sharding(&g->position.mesh, p, dim);
    if (!over) return;
    const char *name = axis_name(mesh_first_axis(over));
    const int64_t ranks = graph_ranks(g, over), most = (count + ranks - 1) / ranks;
    if (r->uneven && most * (ranks - 1) >= count)
        graph_not_divisible(g, "%s of %lld has no shard for each of parallel.%s %lld", r->name,
                            (long long)count, name, (long long)ranks);
    if (!r->uneven && count % ranks)
        graph_not_divisible(g, "%s of %lld does not divide over parallel.%s %lld; valid: %s",
                            r->name, (long long)count, name, (long long)ranks,
                            graph_divisors(count, valid));
}

void graph_check_shards(graph *g)
{
    for (int a = AXES - 1; a >= 0 && g->mode == GRAPH_DECODE; a--)
        if (graph_ranks(g, AXES_GRAPH & MESH_AXIS(a)) > 1)
            graph_misuse(g, "a decoding graph cannot be sharded over parallel.%s",
                         axis_name((axis)a));
    for (int i = 0; i < g->params; i++) {
        graph_param *p = &g->param[i];
        // Unless an op has set the sections (graph_sections), each piece of the file is one
        // section.
        if (p->sections == 0 && p->pieces <= PARAM_SECTIONS) {
            for (int k = 0; k < p->pieces; k++) p->section[k] = p->piece[k].rows;
            p->sections = p->pieces;
        }
        if (p->sections == 0)
            graph_misuse(g, "%s: more than %d pieces, and no op says how they are sharded", p->name,
                         PARAM_SECTIONS);
        for (int k = 0; k < p->sections; k++) check_section(g, p, 0, p->section[k]);
        if (p->dims > 1) check_section(g, p, 1, p->dim[1]);
    }
}
