// weights.c -- draws or reads the initial weights, on each rank its local shards, and converts fp32
// master weights to compute weights. Called when a trainer opens and after state was
// written.
#include "base/alloc.h"
#include "base/size.h"
#include "train/calls.h"
#include "train/launch.h"
#include "train/packed.h"
#include "train/state_shards.h"
#include "train/trainer_private.h"

// Memory of the device, in F32, for weights of another type: they are drawn there piece by piece, and
// converted to where they lie.
typedef struct drawing {
    float *space;
    int64_t count; // of elements; 0: all weights are drawn where they lie
} drawing;

enum { DRAWN_MOST = 1 << 20 };

static void draw_converted(trainer *t, const state_shards *x, const drawing *d, int p,
                           plan_shard want, char *ptr)
{
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    for (int64_t done = 0, count; done < want.count; done += count) {
        count = size_min(want.count - done, d->count);
        model_param_init_shard(t->model, p, t->plan->coord, t->o.seed, want.first + done, count, on,
                               d->space);
        launch_convert(on, ptr + (size_t)done * dtype_bytes(x->type), x->type, d->space, F32,
                       count);
    }
}

// Draws elements `want` of row p.
static status draw_elements(trainer *t, const state_shards *x, const drawing *d, int p,
                            plan_shard want, err *e)
{
    status result = OK;
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    char *ptr;
    plan_shard s;
    TRY(state_shards_find(t, x, &t->plan->row[p], true, &ptr, &s, e));
    ptr += (size_t)(want.first - s.first) * dtype_bytes(x->type);
    if (x->type != F32)
        draw_converted(t, x, d, p, want, ptr);
    else
        model_param_init_shard(t->model, p, t->plan->coord, t->o.seed, want.first, want.count, on,
                               (float *)(void *)ptr);
    // Where state is swapped, the next row may be of another bucket.
    if (state_is_staged(t, x, p)) TRY(trainer_ops(t)->sync(on, e));
done:
    return result;
}

// The elements of a group's part of the array of weights that this rank draws: `count` from the
// part's element `first` on. Where all ranks of the group's process groups have the full part, each
// draws an equal share of it; else a rank draws all that it has.
typedef struct weights_part {
    char *ptr;    // of the part; NULL: the part is swapped
    comm *shares; // the ranks that draw a share each; NULL: this rank draws all
    int64_t first, count;
} weights_part;

// The element of a group's part of the array at which a bucket starts. Buckets may have gaps between
// them.
static int64_t part_offset(const trainer *t, const weights_part *d, const state_shards *x,
                           int bucket)
{
    if (!d->ptr) return 0;
    return (state_bucket(t, x->array, bucket) - d->ptr) / (int64_t)dtype_bytes(x->type);
}

static weights_part weights_part_of(const trainer *t, const plan_group *g, const state_shards *x)
{
    const int last = g->first_bucket + g->buckets - 1;
    weights_part d = {.ptr = state_bucket(t, x->array, g->first_bucket)};
    comm *all = trainer_group(t, (int)plan_group_axes(g));
    if (!all || !d.ptr || x->layout != LAYOUT_FULL) return d;
    const int64_t elements = part_offset(t, &d, x, last) + t->plan->bucket[last].count[x->layout];
    if (elements % all->size != 0) return d;
    d.shares = all;
    d.count = elements / all->size;
    d.first = d.count * all->rank;
    return d;
}

// The elements of row r's local shard that lie in the drawn part, relative to the row. `bucket` is
// the element of the part at which the row's bucket starts.
static plan_shard row_elements(const trainer *t, const state_shards *x, const plan_row *r,
                               int64_t bucket, const weights_part *drawn)
{
    const plan_shard s = plan_local_shard(t->plan, r, x->shards, t->plan->coord);
    const int64_t begin = bucket + r->offset[x->layout], end = begin + s.count;
    const int64_t from = size_max(drawn->first, begin),
                  to = drawn->shares ? size_min(drawn->first + drawn->count, end) : end;
    return (plan_shard){s.first + from - begin, size_max(to - from, 0)};
}

// Draws the full parameter, because the scales of packed rows depend on all of it.
static status draw_packed(trainer *t, const drawing *d, int p, err *e)
{
    status result = OK;
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    const int64_t all = t->model->param[p].count;
    float *full = NULL;
    TRY(alloc_array(&full, (size_t)all, sizeof *full, t->model->param[p].name, e));
    for (int64_t done = 0, count; done < all; done += count) {
        count = size_min(all - done, d->count);
        model_param_init(t->model, p, t->o.seed, done, count, on, d->space);
        TRY(device_download(on, full + done, d->space, (size_t)count * sizeof *full, e));
    }
    TRY(packed_write(t, p, NULL, full, e));
done:
    free(full);
    return result;
}

static status draw_packed_group(trainer *t, const plan_group *g, const drawing *d, err *e)
{
    status result = OK;
    for (int k = g->first_bucket; k < g->first_bucket + g->buckets; k++) {
        const plan_bucket *b = &t->plan->bucket[k];
        for (int i = b->first_row; i < b->first_row + b->rows; i++)
            TRY(draw_packed(t, d, t->plan->order[i], e));
    }
done:
    return result;
}

static status draw_group(trainer *t, const plan_group *g, const drawing *d, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const state_shards x = state_shards_of(g, STATE_WEIGHT);
    const weights_part drawn = weights_part_of(t, g, &x);
    for (int k = g->first_bucket; k < g->first_bucket + g->buckets; k++) {
        const plan_bucket *b = &p->bucket[k];
        const int64_t bucket = part_offset(t, &drawn, &x, k);
        for (int i = b->first_row; i < b->first_row + b->rows; i++) {
            const int row = p->order[i];
            TRY(draw_elements(t, &x, d, row, row_elements(t, &x, &p->row[row], bucket, &drawn), e));
        }
    }
    if (drawn.shares)
        TRY(comm_all_gather(drawn.shares, drawn.ptr + (size_t)drawn.first * dtype_bytes(x.type),
                            drawn.ptr, (size_t)drawn.count, x.type,
                            trainer_stream(t, STREAM_COMPUTE), e));
done:
    return result;
}

// The elements of the largest local shard that is converted.
static int64_t most_converted(const trainer *t)
{
    const plan *p = t->plan;
    int64_t most = 0;
    for (int r = 0; r < t->model->params; r++) {
        if (p->row[r].bucket < 0) continue;
        const state_shards x = state_shards_of(plan_group_of(p, p->row[r].bucket), STATE_WEIGHT);
        if (x.packed) most = size_max(most, t->model->param[r].count);
        if (x.type != F32)
            most = size_max(most, plan_local_shard(p, &p->row[r], x.shards, p->coord).count);
    }
    return most;
}

// The files that hold parameter p; NULL: it is drawn.
static const safetensors *source_of(const trainer *t, int p)
{
    const model_param *q = &t->model->param[p];
    const bool trains = t->o.lora && model_lora_trains_param(t->o.lora, q);
    if (trains && t->o.adapter) return t->o.adapter;
    return q->decl->is_adapter ? NULL : t->o.weights;
}

// Draws this rank's shard of p.
static status draw_param(trainer *t, int p, const drawing *d, err *e)
{
    const plan_row *r = &t->plan->row[p];
    const state_shards x = state_shards_of(&t->plan->group[r->group], STATE_WEIGHT);
    if (x.packed) return draw_packed(t, d, p, e);
    return draw_elements(t, &x, d, p, plan_local_shard(t->plan, r, x.shards, t->plan->coord), e);
}

// Parameters that files do not hold are drawn.
static status read_weights(trainer *t, const drawing *d, err *e)
{
    status result = OK;
    int64_t most = 0;
    float *host = NULL;
    for (int p = 0; p < t->model->params; p++)
        if (t->plan->row[p].bucket >= 0) most = size_max(most, t->model->param[p].count);
    TRY(alloc_array(&host, (size_t)most, sizeof *host, "a parameter", e));
    for (int p = 0; p < t->model->params; p++) {
        if (t->plan->row[p].bucket < 0) continue;
        const safetensors *from = source_of(t, p);
        if (from)
            TRY(trainer_write_weight(t, p, from, host, e));
        else
            TRY(draw_param(t, p, d, e));
    }
done:
    free(host);
    return result;
}

static status fill_weights(trainer *t, err *e)
{
    status result = OK;
    drawing d = {.count = size_min(most_converted(t), DRAWN_MOST)};
    const size_t bytes = (size_t)d.count * sizeof *d.space;
    const bool reads = t->o.weights || t->o.adapter;
    if (reads && !t->o.lora) d.count = 0; // nothing is drawn
    if (d.count > 0) TRY(device_alloc(t->o.device, MEMORY_DEVICE, bytes, (void **)&d.space, e));
    for (int i = 0; i < t->plan->groups && !reads; i++)
        if (t->plan->group[i].buckets > 0)
            TRY((t->plan->group[i].o.storage == STORAGE_NF4 ? draw_packed_group : draw_group)(
                t, &t->plan->group[i], &d, e));
    if (reads) TRY(read_weights(t, &d, e));
    if (d.space) TRY(trainer_ops(t)->sync(trainer_stream(t, STREAM_COMPUTE), e));
done:
    if (d.space) device_release(t->o.device, MEMORY_DEVICE, d.space, bytes);
    return result;
}

status trainer_fill_weights(trainer *t, err *e)
{
    status result = OK;
    TRY(fill_weights(t, e));
    TRY(trainer_restore(t, 0, e));
done:
    return result;
}

// Converts row r's shard of the master weights to the compute type.
static status convert_row(trainer *t, const state_shards *master, const plan_row *r, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const plan_group *g = plan_group_of(p, r->bucket);
    char *from, *to = state_bucket(t, ARRAY_WEIGHTS, r->bucket);
    plan_shard s;
    TRY(state_shards_find(t, master, r, false, &from, &s, e));
    const int64_t offset =
        r->offset[g->weight] + s.first - plan_local_shard(p, r, g->weight, p->coord).first;
    if (!to) TRY(tiers_stage(t, PLAN_WEIGHTS, r->bucket, true, &to, e));
    if (s.count > 0)
        launch_convert(trainer_stream(t, STREAM_COMPUTE),
                       to + (size_t)offset * dtype_bytes(g->o.compute), g->o.compute, from, F32,
                       s.count);
done:
    return result;
}

static status convert_bucket(trainer *t, int bucket, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const plan_bucket *b = &p->bucket[bucket];
    const plan_group *g = plan_group_of(p, bucket);
    const plan_redistribution *gather = &g->redistribute.all_gather_updated;
    const state_shards master = state_shards_of(g, STATE_WEIGHT);
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    const calls_run r = {.groups = groups_comms(t->groups), .on = on};
    const calls_use use = {g->o.compute, false, IN_BUCKET};
    schedule_call c[CALLS_MOST];
    if (!plan_group_has(g, ARRAY_MASTER)) return OK;
    for (int i = 0; i < b->rows; i++)
        TRY(convert_row(t, &master, &p->row[p->order[b->first_row + i]], e));
    TRY(trainer_ops(t)->sync(on, e));
    if (!plan_is_swapped(g, PLAN_WEIGHTS))
        TRY(calls_issue(&r, c, calls_redistribute(p, gather, bucket, use, c),
                        state_bucket(t, ARRAY_WEIGHTS, bucket), NULL, e));
done:
    return result;
}

status trainer_restore(trainer *t, uint64_t steps_done, err *e)
{
    status result = OK;
    for (int b = 0; b < t->plan->buckets; b++) TRY(convert_bucket(t, b, e));
    TRY(tiers_close_staging(t, e));
    TRY(trainer_ops(t)->sync(trainer_stream(t, STREAM_COMPUTE), e));
    TRY(comm_barrier(t->o.comm, e));
    results_set_steps_done(t, steps_done);
done:
    return result;
}
