// model.c -- traces a family's blocks, collects their parameters, and checks that the blocks fit
// together. Called by train/ and session/. Does not know where parameters will live.
#include "model/model.h"

#include "base/alloc.h"
#include "base/lookup.h"
#include "base/size.h"
#include "graph/op.h"

#include <stdio.h>
#include <stdlib.h>

// Appends bytes as far as there is room before `end`.
static char *append(char *out, const char *end, const char *from, size_t bytes)
{
    const size_t room = (size_t)(end - out);
    memcpy(out, from, bytes < room ? bytes : room);
    return out + (bytes < room ? bytes : room);
}

// Deep models have a hundred thousand names, so only the number is formatted.
void model_param_name_expand(char out[PARAM_NAME_BYTES], const char *pattern, int layer)
{
    char digits[12];
    const char *const end = out + PARAM_NAME_BYTES - 1, *const braces = strstr(pattern, "{}");
    out = append(out, end, pattern, braces ? (size_t)(braces - pattern) : strlen(pattern));
    if (braces) {
        out = append(out, end, digits, (size_t)snprintf(digits, sizeof digits, "%d", layer));
        out = append(out, end, braces + 2, strlen(braces + 2));
    }
    *out = 0;
}

// A model while it is opened: hash tables find a graph by its key and a parameter by its name.
typedef struct model_opening {
    model *m;
    const model_options *options;
    lookup graphs, params;
    int *key;            // [graphs]
    size_t param_room;   // of m->param
    int bases, adapters; // parameters so far
} model_opening;

static const uint64_t FIRST_ADAPTER = UINT64_C(1) << 32; // of model_param.drawing

// A lookup searches for a graph for a block of this key and layer, or for a parameter of this name.
typedef struct model_query {
    const model_opening *o;
    int key, layer;
    bool input_needs_no_grad;
    const char *name;
} model_query;

// The answers of model_open's caller about a tensor.
typedef struct model_tensor {
    char name[PARAM_NAME_BYTES];
    bool frozen;
    dtype type;
} model_tensor;

static model_tensor find_tensor(const model_options *o, const graph_param *p, int piece, int layer)
{
    model_tensor t = {.type = o->type};
    model_param_name_expand(t.name, p->piece[piece].name, layer);
    if (o->is_frozen && o->mode == GRAPH_TRAIN) t.frozen = o->is_frozen(o->tensor_arg, t.name);
    if (o->type_of) t.type = o->type_of(o->tensor_arg, t.name);
    return t;
}

// The adapters of one layer, for a trace.
typedef struct model_layer_adapters {
    const model_options *o;
    int layer;
} model_layer_adapters;

static graph_adapter find_adapter(const void *arg, const char *tensor)
{
    const model_layer_adapters *x = arg;
    char name[PARAM_NAME_BYTES];
    model_param_name_expand(name, tensor, x->layer);
    return x->o->adapter_of(x->o->adapter_arg, name);
}

// Has each piece of a linear layer's weight the adapter in this layer that it has in the graph?
static bool has_adapters(const model_options *o, const graph_param *p, int layer)
{
    const model_layer_adapters x = {o, layer};
    bool same = true;
    for (int i = 0; same && o->adapter_of && i < p->pieces; i++) {
        const graph_piece *k = &p->piece[i];
        if (!k->takes_adapter) continue;
        const graph_adapter a = find_adapter(&x, k->name);
        same = a.rank == k->adapter.rank && a.scale == k->adapter.scale &&
               a.dropout == k->adapter.dropout;
    }
    return same;
}

// Blocks share a graph only where their parameters are frozen alike, of equal types and with equal adapters, and where the
// inputs of both need a gradient or neither does.
static bool is_graph(const void *given, int number)
{
    const model_query *x = given;
    const graph *g = x->o->m->graph[number];
    bool same = x->o->key[number] == x->key && g->input_grad.unused == x->input_needs_no_grad;
    for (int i = 0; same && i < g->params; i++) {
        const model_tensor t = find_tensor(x->o->options, &g->param[i], 0, x->layer);
        same = g->param[i].frozen == t.frozen && g->param[i].type == t.type &&
               has_adapters(x->o->options, &g->param[i], x->layer);
    }
    return same;
}

static bool is_param(const void *given, int number)
{
    const model_query *x = given;
    return strcmp(x->o->m->param[number].name, x->name) == 0;
}

static status add_param(model_opening *o, const model_param *p, uint64_t hash, err *e)
{
    status result = OK;
    model *m = o->m;
    TRY(alloc_grow(&m->param, &o->param_room, (size_t)m->params + 1, sizeof *m->param, "the model",
                   e));
    TRY(lookup_add(&o->params, hash, m->params, e));
    m->param[m->params] = *p;
    m->param[m->params++].drawing =
        p->decl->is_adapter ? FIRST_ADAPTER + o->adapters++ : (uint64_t)o->bases++;
done:
    return result;
}

// Adds the parameters of a block that no earlier block has, and fills the block's param[].
static status collect_params(model_opening *o, int block, err *e)
{
    status result = OK;
    model *m = o->m;
    model_block *b = &m->block[block];
    TRY(alloc_zeroed(&b->param, (size_t)b->g->params, sizeof(int), "the model", e));
    for (int i = 0; i < b->g->params; i++) {
        const graph_param *d = &b->g->param[i];
        // The product cannot overflow: graph_finish has checked the size of every value.
        model_param p = {.decl = d,
                         .count = d->dim[0] * graph_param_cols(d),
                         .block = block,
                         .last_block = block,
                         .layer = b->layer,
                         .frozen = d->frozen,
                         .type = d->type};
        model_param_name_expand(p.name, d->name, b->layer);
        const uint64_t hash = lookup_hash(p.name, strlen(p.name));
        int known = lookup_find(&o->params, hash, is_param, &(model_query){.o = o, .name = p.name});
        if (known < 0) {
            known = m->params;
            TRY(add_param(o, &p, hash, e));
        } else if (m->param[known].count != p.count || m->param[known].decl->dim[0] != d->dim[0]) {
            FAIL(E_USAGE, "model graph: %s is declared twice with different shapes", p.name);
        }
        m->param[known].last_block = block;
        b->param[i] = known;
    }
done:
    return result;
}

static status check_pieces(const model_param *p, const model_options *o, err *e)
{
    const model_tensor a = find_tensor(o, p->decl, 0, p->layer);
    for (int i = 1; i < p->decl->pieces; i++) {
        const model_tensor b = find_tensor(o, p->decl, i, p->layer);
        if (a.frozen != b.frozen)
            return err_set(e, E_USAGE,
                           "groups: %s is frozen, %s is not, but they are one parameter; valid: "
                           "both frozen, or neither",
                           a.frozen ? a.name : b.name, a.frozen ? b.name : a.name);
        if (a.type != b.type)
            return err_set(e, E_USAGE,
                           "groups: %s is %s, %s is %s, but they are one parameter; valid: one "
                           "precision for both",
                           a.name, dtype_name(a.type), b.name, dtype_name(b.type));
    }
    return OK;
}

static status check_groups(const model *m, const model_options *o, err *e)
{
    status result = OK;
    for (int i = 0; i < m->params; i++) TRY(check_pieces(&m->param[i], o, e));
    if (m->first_backward == m->blocks && o->mode == GRAPH_TRAIN)
        FAIL(E_USAGE, "groups: every parameter is frozen; valid: at least one that is not");
done:
    return result;
}

static status check_count(const model *m, err *e)
{
    uint64_t count = 0;
    for (int i = 0; i < m->params; i++) count = size_add(count, (uint64_t)m->param[i].count);
    if (count < UINT64_C(1) << 56) return OK;
    return err_set(e, E_FIT, "the model has more than 2^56 parameters; valid: smaller sizes");
}

static status check_chain(const model *m, err *e)
{
    for (int i = 0; i + 1 < m->blocks; i++) {
        const graph *a = m->block[i].g, *b = m->block[i + 1].g;
        if (!a->output || !b->input || graph_value_cols(a->output) != graph_value_cols(b->input) ||
            a->output->type != b->input->type)
            return err_set(e, E_USAGE, "model graph: block %d does not give what block %d takes", i,
                           i + 1);
    }
    const graph *last = m->block[m->blocks - 1].g;
    if (m->params == 0) return err_set(e, E_USAGE, "model graph: the model has no parameters");
    if (!last->labels && !last->logits)
        return err_set(e, E_USAGE, "model graph: the last block has no loss");
    return OK;
}

// Something must be sharded over an axis that shards parameters, or its ranks would only repeat each other.
static status check_axes(const model *m, err *e)
{
    mesh_axes idle = 0;
    for (int r = 0; r < ROLES; r++) idle |= graph_role_axes((graph_role)r);
    for (int k = 0; k < m->graphs; k++)
        for (int i = 0; i < PARAM_DIMS * m->graph[k]->params; i++)
            idle &= ~graph_param_sharding(&m->position.mesh, &m->graph[k]->param[i / PARAM_DIMS],
                                          i % PARAM_DIMS);
    idle = mesh_axes_in_use(&m->position.mesh, idle);
    if (!idle) return OK;
    const axis a = mesh_first_axis(idle);
    return err_set(e, E_USAGE, "no parameter of %s can be sharded over parallel.%s %d; valid: 1",
                   m->family->name, axis_name(a), m->position.mesh.size[a]);
}

static status finish_graph(model *m, graph *g, recompute_mode recompute, err *e)
{
    status result = OK;
    TRY(graph_finish(g, recompute, e));
done:
    if (result != OK && g->tracing.not_divisible) err_prefix(e, "%s: ", m->family->name);
    return result;
}

// Sets over which axes each parameter is sharded. All blocks that use it must agree.
static status resolve_axes(model *m, err *e)
{
    for (int p = 0; p < m->params; p++) {
        model_param *q = &m->param[p];
        mesh_axes full = 0, partial = 0;
        for (int b = q->block; b <= q->last_block; b++)
            for (int i = 0; i < m->block[b].g->params; i++) {
                const graph_param *d = &m->block[b].g->param[i];
                if (m->block[b].param[i] != p) continue;
                for (int k = 0; k < PARAM_DIMS; k++) {
                    const mesh_axes over = graph_param_sharding(&m->position.mesh, d, k);
                    if (over != graph_param_sharding(&m->position.mesh, q->decl, k))
                        return err_set(e, E_USAGE, "model graph: %s is sharded in two ways",
                                       q->name);
                    q->sharded |= over;
                }
                full |= d->grad_full, partial |= d->grad_partial;
            }
        q->partial = q->frozen ? 0 : partial & ~q->sharded;
        q->shard_rows = model_param_shard_rows(m, p, m->position.coord);
        q->shard_cols = model_param_shard_cols(m, p, m->position.coord);
        q->shared = model_param_shared(m, p, m->position.coord);
        if (q->partial & full)
            return err_set(
                e, E_USAGE,
                "model graph: under sequence parallelism %s is used with all rows and with "
                "sharded rows",
                q->name);
    }
    return OK;
}

// Traces the graph of a block, and says which of its parameters are frozen, and their types.
static status trace_block(model_opening *o, const void *config, int block, const model_query *x,
                          err *e)
{
    status result = OK;
    model *m = o->m;
    const model_layer_adapters adapters = {o->options, x->layer};
    const graph_options options = {.mode = m->mode,
                                   .type = m->type,
                                   .batch = m->batch,
                                   .seq = m->seq,
                                   .position = m->position,
                                   .splits_backward = m->splits_backward,
                                   .needs = o->options->needs,
                                   .numerics = o->options->numerics,
                                   .cache_rows = o->options->cache_rows,
                                   .documents = o->options->documents,
                                   .loss = o->options->loss,
                                   .input_needs_no_grad = x->input_needs_no_grad,
                                   .find_adapter = o->options->adapter_of ? find_adapter : NULL,
                                   .adapter_arg = &adapters};
    TRY(graph_open(&options, &m->graph[m->graphs], e));
    graph *g = m->graph[m->graphs];
    o->key[m->graphs++] = x->key;
    m->family->trace(g, config, block);
    g->tracing.find_adapter = NULL; // `adapters` ends here
    if (g->first_error.code == E_MEMORY) TRY(graph_first_error(g, e));
    for (int i = 0; i < g->params; i++) {
        const model_tensor t = find_tensor(o->options, &g->param[i], 0, x->layer);
        g->param[i].frozen = t.frozen, g->param[i].type = t.type;
    }
done:
    return result;
}

static bool has_trained_param(const graph *g)
{
    for (int i = 0; i < g->params; i++)
        if (!g->param[i].frozen) return true;
    return false;
}

// Gives each block its graph. Blocks of equal key share one.
static status trace_blocks(model_opening *o, const void *config, err *e)
{
    status result = OK;
    model *m = o->m;
    m->first_backward = m->blocks;
    for (int i = 0; i < m->blocks; i++) {
        const model_query x = {.o = o,
                               .key = m->family->key(config, i),
                               .layer = m->family->layer(config, i),
                               .input_needs_no_grad =
                                   m->mode == GRAPH_TRAIN && m->first_backward == m->blocks};
        const uint64_t hash = lookup_hash(&x.key, sizeof x.key);
        int known = lookup_find(&o->graphs, hash, is_graph, &x);
        if (known < 0) {
            known = m->graphs;
            TRY(trace_block(o, config, i, &x, e));
            TRY(lookup_add(&o->graphs, hash, known, e));
        }
        m->block[i].g = m->graph[known];
        m->block[i].layer = x.layer;
        if (m->first_backward == m->blocks && has_trained_param(m->graph[known]))
            m->first_backward = i;
    }
done:
    return result;
}

status model_open(const model_family *f, const void *config, const model_options *o, model **out,
                  err *e)
{
    status result = OK;
    model *m = NULL;
    model_opening x = {.m = NULL};
    TRY(alloc_zeroed(&m, 1, sizeof *m, "the model", e));
    x.m = m, x.options = o;
    m->position = o->position, m->position.mesh = mesh_of_sizes(o->position.mesh.size);
    m->splits_backward = o->splits_backward;
    m->family = f, m->mode = o->mode, m->type = o->type, m->batch = o->batch, m->seq = o->seq;
    m->blocks = f->blocks(config);
    if (m->blocks < 1 || m->blocks > MODEL_BLOCKS)
        FAIL(E_USAGE, "%s: found %d blocks; valid: 1 to %d", f->name, m->blocks, MODEL_BLOCKS);
    TRY(alloc_zeroed(&m->block, (size_t)m->blocks, sizeof *m->block, "the model", e));
    TRY(alloc_zeroed(&m->graph, (size_t)m->blocks, sizeof *m->graph, "the model", e));
    TRY(alloc_zeroed(&x.key, (size_t)m->blocks, sizeof *x.key, "the model", e));
    TRY(trace_blocks(&x, config, e));
    TRY(check_axes(m, e));
    for (int i = 0; i < m->graphs; i++) TRY(finish_graph(m, m->graph[i], o->recompute, e));
    for (int i = 0; i < m->blocks; i++) TRY(collect_params(&x, i, e));
    TRY(check_count(m, e));
    TRY(resolve_axes(m, e));
    TRY(check_chain(m, e));
    TRY(model_note_ropes(m, e));
    TRY(check_groups(m, o, e));
    *out = m;
    m = NULL;
done:
    lookup_clear(&x.graphs);
    lookup_clear(&x.params);
    free(x.key);
    model_close(m);
    return result;
}

void model_close(model *m)
{
    if (!m) return;
    for (int i = 0; m->block && i < m->blocks; i++) free(m->block[i].param);
    for (int i = 0; i < m->graphs; i++) graph_close(m->graph[i]);
    free(m->rope);
    free(m->block);
    free(m->graph);
    free(m->param);
    free(m);
}

static void lower(int32_t *limit, int64_t rows)
{
    if (rows < *limit) *limit = (int32_t)rows;
}

// Rows of the full table, because ids are not relative to a rank's shard.
static int64_t full_rows(const graph *g, const graph_value *w)
{
    return g->param[w->param].dim[0];
}

model_limits model_get_limits(const model *m)
{
    model_limits l = {INT32_MAX, INT32_MAX, INT32_MAX};
    int32_t *const of[LIMITS] = {
        [LIMIT_TOKENS] = &l.tokens, [LIMIT_CLASSES] = &l.classes, [LIMIT_POSITIONS] = &l.positions};
    for (int k = 0; k < m->graphs; k++)
        for (int i = 0; i < m->graph[k]->forward.count; i++) {
            const graph_node *n = m->graph[k]->forward.node[i];
            const graph_limit *limit = graph_op_find(n->op)->limit;
            for (int j = 0; j < NODE_INPUTS; j++)
                if (limit[j] && n->in[j]) lower(of[limit[j]], full_rows(m->graph[k], n->in[j]));
        }
    for (int i = 0; i < m->ropes; i++) lower(&l.positions, m->rope[i].g->rope.rows);
    return l;
}

uint64_t model_param_count(const model *m)
{
    uint64_t sum = 0;
    for (int i = 0; i < m->params; i++) sum += (uint64_t)m->param[i].count;
    return sum;
}

static bool has_gradient(const model *m, int p)
{
    for (int b = m->param[p].block; b <= m->param[p].last_block; b++)
        for (int i = 0; i < m->block[b].g->params; i++)
            if (m->block[b].param[i] == p && graph_gives_gradient(m->block[b].g, i)) return true;
    return false;
}

int model_unused_params(const model *m, text *names)
{
    enum { LINE_BYTES = 500 };
    int count = 0, named = 0;
    for (int p = 0; p < m->params; p++) {
        if (m->param[p].frozen || m->param[p].decl->constant || has_gradient(m, p)) continue;
        count++;
        if (count > named + 1 || names->bytes + strlen(m->param[p].name) > LINE_BYTES) continue;
        text_addf(names, "%s%s", named ? ", " : "", m->param[p].name);
        named++;
    }
    if (count > named) text_addf(names, " and %d more", count - named);
    return count;
}

bool model_param_is_linear(const model *m, int p)
{
    if (m->param[p].decl->dims != 2 || m->param[p].decl->constant) return false;
    for (int b = m->param[p].block; b <= m->param[p].last_block; b++)
        for (int i = 0; i < m->block[b].g->params; i++)
            if (m->block[b].param[i] == p && !graph_param_is_linear(m->block[b].g, i)) return false;
    return true;
}

double model_flops(const model *m)
{
    double sum = 0;
    for (int i = 0; i < m->blocks; i++) sum += model_block_flops(m, i);
    return sum;
}

double model_block_flops(const model *m, int block)
{
    return m->block[block].g->flops.forward + m->block[block].g->flops.backward;
}
