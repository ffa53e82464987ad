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

int graph_section_copies(graph_role r, const graph_part *s, const mesh *m)
{
    const int ranks = mesh_group_size(m, ROLE[r].over);
    const bool copies = s->heads > 0 && ranks > s->heads && ranks % s->heads == 0;
    return copies ? ranks / (int)s->heads : 1;
}

int64_t graph_shard_section(graph_role r, const graph_part *s, const mesh *m, const int coord[AXES],
                            int64_t *first)
{
    const int copies = graph_section_copies(r, s, m);
    if (copies == 1) return graph_shard(r, s->rows, m, coord, first);
    const int64_t rows = s->rows / s->heads;
    if (first) *first = mesh_group_index(m, coord, ROLE[r].over) / copies * rows;
    return rows;
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

// The rows of this rank. Sections are known here where build_sections has said them.
static int64_t local_rows(const graph *g, const graph_param *p)
{
    const mesh *m = &g->position.mesh;
    int64_t rows = 0;
    if (p->sections == 0) return graph_shard(p->roles[0], p->dim[0], m, g->position.coord, NULL);
    for (int i = 0; i < p->sections; i++)
        rows += graph_shard_section(p->roles[0], &p->section[i], m, g->position.coord, NULL);
    return rows;
}

void build_roles(graph *g, graph_value *param, graph_role rows, graph_role cols)
{
    graph_param *p = &g->param[param->param];
    p->roles[0] = rows, p->roles[1] = cols;
    if (graph_sharded_over(g, param, 0) & graph_sharded_over(g, param, 1))
        graph_misuse(g, "%s: both dimensions would be sharded over the tensor-parallel ranks",
                     p->name);
    for (int d = 0; d < p->dims; d++) {
        const int64_t local = d == 0 ? local_rows(g, p)
                                     : graph_shard(p->roles[d], p->dim[d], &g->position.mesh,
                                                   g->position.coord, NULL);
        param->dim[d] = local > 0 ? local : 1; // graph_check_shards refuses 0
    }
}

void build_sections(graph *g, graph_value *param, const int64_t rows[PARAM_SECTIONS],
                    const int64_t heads[PARAM_SECTIONS])
{
    graph_param *p = &g->param[param->param];
    int64_t all = 0;
    p->sections = 0;
    for (int i = 0; i < PARAM_SECTIONS && rows[i] > 0; i++, p->sections++) {
        p->section[i] = (graph_part){rows[i], heads[i]};
        all += rows[i];
        if (heads[i] > 0 && rows[i] % heads[i])
            graph_misuse(g, "%s: %lld rows are not %lld heads", p->name, (long long)rows[i],
                         (long long)heads[i]);
    }
    if (all != p->dim[0])
        graph_misuse(g, "%s: sections of %lld rows, the parameter has %lld", p->name,
                     (long long)all, (long long)p->dim[0]);
}

int64_t graph_piece_rows(graph *g, const graph_value *w, int piece, int64_t *first)
{
    const graph_param *p = &g->param[w->param];
    const int ranks = graph_ranks(g, graph_sharded_over(g, w, 0));
    int64_t begin = 0, section = 0, rows = 0;
    for (int i = 0; i < piece; i++) begin += p->piece[i].rows;
    const int64_t end = begin + p->piece[piece].rows;
    *first = begin / ranks;
    if (p->sections == 0) return p->piece[piece].rows / ranks; // graph_check_shards checks them
    *first = 0;
    for (int i = 0; i < p->sections; section += p->section[i++].rows) {
        const int64_t local = graph_shard_section(p->roles[0], &p->section[i], &g->position.mesh,
                                                  g->position.coord, NULL);
        if (section < begin) *first += local;
        if (section >= begin && section < end) rows += local;
        if (section < end && section + p->section[i].rows > end)
            graph_misuse(g, "%s: an adapter of %s ends within a section", p->name,
                         p->piece[piece].name);
    }
    return rows;
}

int64_t graph_first_row(const graph *g, const graph_value *w)
{
    const graph_param *p = &g->param[w->param];
    int64_t first = 0;
    graph_shard(p->roles[0], p->dim[0], &g->position.mesh, g->position.coord, &first);
    return first;
}

// The linear layer whose output columns x has; NULL: there is none.
static const graph_node *linear_of(const graph_value *x)
{
    const graph_node *n = x->producer;
    while (n && graph_op_find(n->op)->keeps_cols) n = n->in[0]->producer;
    return n && graph_op_find(n->op)->has_weight && n->in[1] ? n : NULL;
}

bool graph_knows_heads(const graph *g, const graph_value *x)
{
    const graph_node *n = g->first_error.code == E_MEMORY ? NULL : linear_of(x);
    return n && g->param[n->in[1]->param].section[0].heads > 0;
}

int64_t graph_local_heads(const graph *g, const graph_value *x, int64_t full_heads)
{
    const int ranks = graph_ranks(g, x->sharding.cols);
    return full_heads > 0 && full_heads < ranks && ranks % full_heads == 0 ? 1 : full_heads / ranks;
}

int64_t graph_local_first_heads(const graph *g, const graph_value *x, int64_t full_heads)
{
    int64_t local = 0, full = 0;
    if (!graph_knows_heads(g, x)) return full_heads / graph_ranks(g, x->sharding.cols);
    const graph_param *p = &g->param[linear_of(x)->in[1]->param];
    for (int i = 0; i < p->sections && full < full_heads; i++) {
        local += graph_local_heads(g, x, p->section[i].heads);
        full += p->section[i].heads;
    }
    return local;
}

static void set_sections(graph *g, const graph_value *w, int count, const int64_t *rows)
{
    graph_param *p = &g->param[w->param];
    if (p->sections > 0) return; // build_sections has said them
    p->sections = count;
    for (int i = 0; i < count; i++)
        p->section[i] = (graph_part){rows[i] * graph_ranks(g, graph_sharded_over(g, w, 0)), 0};
}

// Sets the sections of the weight and the bias of a node, inputs 1 and 2.
static void set_weight_sections(graph *g, const graph_node *n, int count, const int64_t *rows)
{
    set_sections(g, n->in[1], count, rows);
    if (n->in[2]) set_sections(g, n->in[2], count, rows);
}

void graph_sections(graph *g, const graph_value *x, const char *op_name, int count,
                    const int64_t *rows)
{
    if (!x->sharding.cols || g->first_error.code == E_MEMORY) return;
    int64_t local[PARAM_SECTIONS];
    for (int i = 0; i < count; i++) local[i] = rows[i];
    const graph_node *n = x->producer;
    for (; n && count > 0; n = n->in[0]->producer) {
        const graph_op_info *o = graph_op_find(n->op);
        if (o->sets_sections) return;
        if (o->weight_by_column) set_weight_sections(g, n, count, local);
        if (o->input_sections)
            count = o->input_sections(n, count, local);
        else if (!o->keeps_cols)
            break;
    }
    if (!n || count == 0 || !graph_op_find(n->op)->has_weight || !n->in[1])
        graph_misuse(g, "%s must come from one linear layer where they are sharded", op_name);
    else
        set_weight_sections(g, n, count, local);
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
        // Unless an op or the family has set the sections (graph_sections, build_sections), each piece of the file is
        // one section. An adapter has those of its weight.
        if (p->sections == 0 && !p->is_adapter && p->pieces <= PARAM_SECTIONS) {
            for (int k = 0; k < p->pieces; k++) p->section[k] = (graph_part){p->piece[k].rows, 0};
            p->sections = p->pieces;
        }
    }
    graph_shard_adapters(g);
    for (int i = 0; i < g->params; i++) {
        graph_param *p = &g->param[i];
        if (p->sections == 0)
            graph_misuse(g, "%s: more than %d pieces, and no op says how they are sharded", p->name,
                         PARAM_SECTIONS);
        for (int k = 0; k < p->sections; k++)
            if (graph_section_copies(p->roles[0], &p->section[k], &g->position.mesh) == 1)
                check_section(g, p, 0, p->section[k].rows);
        if (p->dims > 1) check_section(g, p, 1, p->dim[1]);
    }
}
