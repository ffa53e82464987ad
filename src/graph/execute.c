// execute.c -- walks a list of nodes, and each op launches its kernels, or shows them to a visitor. See
// execute.h.
#include "graph/execute.h"

#include "base/alloc.h"
#include "base/size.h"
#include "graph/op.h"

#include <math.h>
#include <stdlib.h>

// Moves `rows` rows of a part of the cache by `by` rows to its start. What moves at a time does not overlap.
static void move_rows(const graph_run *run, char *part, size_t row_bytes, int64_t rows, int64_t by)
{
    for (int64_t r = 0; r < rows; r += by) {
        char *to = part + (size_t)r * row_bytes;
        run->stream->device->ops->copy(run->stream, to, to + (size_t)by * row_bytes,
                                       (size_t)size_min(by, rows - r) * row_bytes);
    }
}

void graph_make_cache_room(graph_run *run)
{
    const graph *g = run->g;
    const graph_cache cache = g->cache;
    if (graph_run_cached(run) + g->sequences.tokens.seq <= cache.rows) return;
    const int64_t first = (run->pos0 - cache.window + 1) / GRAPH_CACHE_STEP * GRAPH_CACHE_STEP;
    for (int i = 0; i < g->values.count; i++) {
        const graph_value *v = g->values.value[i];
        if (v->region != REGION_CACHE || v->root != v) continue;
        move_rows(run, run->base[REGION_CACHE] + v->offset * (size_t)cache.rows,
                  (size_t)graph_value_cols(v) * dtype_bytes(v->type), run->pos0 - first,
                  first - run->cache_first);
    }
    run->cache_first = first;
}

void *graph_run_ptr(const graph_run *run, const graph_value *v)
{
    if (!v) return NULL;
    if (graph_is_visited(run)) return run->base[REGION_NONE];
    if (v->region == REGION_PARAM) return run->weight[v->param];
    size_t offset = v->offset + v->view_offset;
    // The block's attentions lie one after the other.
    if (v->region == REGION_CACHE)
        offset = v->offset * (size_t)run->g->cache.rows +
                 (size_t)(graph_run_cached(run) * graph_value_cols(v->root)) * dtype_bytes(v->type);
    return run->base[v->region] + offset;
}

void graph_run_copy(const graph_run *run, const graph_value *to, const graph_value *from)
{
    void *dst = graph_run_ptr(run, to);
    const void *src = graph_run_ptr(run, from);
    if (dst != src) run->stream->device->ops->copy(run->stream, dst, src, graph_value_bytes(to));
}

float *graph_run_grad(const graph_run *run, int p, bool *accumulate)
{
    *accumulate = true;
    if (graph_is_visited(run)) return (float *)(void *)run->base[REGION_NONE];
    *accumulate = *run->grad_written[p];
    *run->grad_written[p] = true;
    return run->gradient[p];
}

kernel_tokens graph_run_tokens(const graph_run *run, const graph_value *v)
{
    kernel_tokens t = run->g->sequences.tokens;
    t.start[0] += run->pos0;
    t.documents = run->documents;
    if (v->sharding.rows & MESH_AXIS(AXIS_TP))
        t.first_row = run->g->position.coord[AXIS_TP] * graph_value_rows(v);
    return t;
}

kernel_draw graph_run_draw(const graph_run *run, const graph_node *n)
{
    return (kernel_draw){.step = run->step,
                         .seed = run->seed,
                         .node = (uint64_t)run->block << 16 | (uint64_t)n->number,
                         .row0 = run->row0};
}

// Tells kernels what the job lets them do for speed.
static void set_numerics(const kernel_numerics *x, kernel_call *c)
{
    if (c->kind == K_MATMUL) c->u.matmul.tf32 = x->tf32 && c->u.matmul.type == F32;
    if (c->kind == K_ATTENTION_GRAD) c->u.attention_grad.any_order = x->any_order;
}

void graph_launch(const graph_run *run, const graph_node *n, kernel_call *c)
{
    set_numerics(&run->g->numerics, c);
    if (graph_is_visited(run)) {
        run->visitor->take(run->visitor->arg, c);
        return;
    }
    if (n->workspace) {
        c->workspace = graph_run_ptr(run, n->workspace);
        c->workspace_bytes = graph_value_bytes(n->workspace);
    }
    device_launch(run->stream, c);
}

static status run_node(const graph_run *run, const graph_node *n, err *e)
{
    const graph_op_info *o = graph_op_find(n->op);
    if (o->launch) o->launch(run, n);
    return o->run ? o->run(run, n, e) : OK;
}

static status run_nodes(const graph_run *run, const graph_node_list *l, int first, int last, err *e)
{
    status result = OK;
    for (int i = first; i < last; i++) TRY(run_node(run, l->node[i], e));
done:
    return result;
}

status graph_run_forward(const graph_run *run, err *e)
{
    return run_nodes(run, &run->g->forward, 0, run->g->forward.count, e);
}

status graph_run_backward(const graph_run *run, err *e)
{
    return run_nodes(run, &run->g->backward, 0, run->g->backward.count, e);
}

status graph_run_dgrad(const graph_run *run, err *e)
{
    return run_nodes(run, &run->g->backward, 0, run->g->split.dgrad_nodes, e);
}

status graph_run_wgrad(const graph_run *run, err *e)
{
    return run_nodes(run, &run->g->backward, run->g->split.dgrad_nodes, run->g->backward.count, e);
}

void graph_visit_node(const graph *g, const graph_node *n, const graph_visitor *v)
{
    static _Alignas(KERNEL_WORKSPACE_ALIGN) const char somewhere[KERNEL_WORKSPACE_ALIGN] = {0};
    const int64_t earlier = g->cache.rows - g->sequences.tokens.seq;
    void *const address = (void *)(uintptr_t)somewhere;
    graph_run run = {.g = g,
                     .visitor = v,
                     .pos0 = earlier > 0 ? earlier : 0,
                     .documents = g->sequences.documents ? address : NULL,
                     .loss_sum = address,
                     .loss_count = address};
    run.base[REGION_NONE] = address;
    (void)run_node(&run, n, NULL); // it sends nothing, so nothing can fail
}

void graph_visit(const graph *g, const graph_visitor *v)
{
    const graph_node_list *lists[] = {&g->forward, &g->backward};
    for (int l = 0; l < 2; l++)
        for (int i = 0; i < lists[l]->count; i++) graph_visit_node(g, lists[l]->node[i], v);
}

typedef struct prepare_call {
    device *device;
    status result;
    err *e;
} prepare_call;

static void prepare(void *arg, const kernel_call *c)
{
    prepare_call *p = arg;
    if (p->result == OK) p->result = p->device->ops->prepare(p->device, c, p->e);
}

status graph_prepare(const graph *g, device *d, err *e)
{
    prepare_call p = {.device = d, .result = OK, .e = e};
    if (d->ops->prepare) graph_visit(g, &(graph_visitor){.take = prepare, .arg = &p});
    return p.result;
}

void graph_finish_logits(const graph_logits *l, float *x, int64_t count)
{
    for (int64_t i = 0; i < count && l->scale != 1; i++) x[i] *= l->scale;
    for (int64_t i = 0; i < count && l->softcap > 0; i++)
        x[i] = l->softcap * tanhf(x[i] / l->softcap);
}

size_t graph_rope_bytes(const graph *g)
{
    const size_t tables = g->rope.growth > 0 ? 2 : 1;
    return size_mul(tables * 2 * sizeof(float),
                    size_mul((uint64_t)g->rope.rows, (uint64_t)g->rope.pairs));
}

// The factor of a query at position t.
static float query_factor(const graph_rope *r, int64_t t)
{
    return 1 + (float)r->growth * logf(1 + (float)(t / r->period));
}

// Fills one table, or that of queries which grow. Returns its end.
static float *fill_rope(const graph *g, bool grows, float *out)
{
    for (int64_t t = 0; t < g->rope.rows; t++) {
        const float scale = (float)g->rope.scale * (grows ? query_factor(&g->rope, t) : 1);
        for (int64_t i = 0; i < g->rope.pairs; i++) {
            float angle = (float)t * (float)g->rope.frequency[i];
            *out++ = scale * cosf(angle);
            *out++ = scale * sinf(angle);
        }
    }
    return out;
}

status graph_upload_rope(const graph *g, device_stream *stream, float *table, err *e)
{
    status result = OK;
    const size_t bytes = graph_rope_bytes(g);
    float *host = NULL;
    TRY(alloc_array(&host, bytes, 1, "the rotary table", e));
    float *const end = fill_rope(g, false, host);
    if (g->rope.growth > 0) fill_rope(g, true, end);
    TRY(device_upload(stream, table, host, bytes, e));
done:
    free(host);
    return result;
}
