// transfer.c -- copies weights, optimizer state and gradients between this rank's local shards and
// full parameters on the host. Checkpoints, initial weights and tools use it. The plan says which
// ranks have which shards of a parameter, so rank 0 knows from which ranks to receive.
#include "base/alloc.h"
#include "base/size.h"
#include "train/packed.h"
#include "train/state_shards.h"
#include "train/trainer_private.h"

state_shards state_shards_of(const plan_group *g, trainer_state_kind part)
{
    static const plan_array array[STATE_PARTS] = {[STATE_WEIGHT] = ARRAY_MASTER,
                                                  [STATE_M] = ARRAY_M,
                                                  [STATE_V] = ARRAY_V,
                                                  [STATE_AVERAGE] = ARRAY_AVERAGE,
                                                  [STATE_GRADIENT] = ARRAY_GRADIENTS};
    const bool in_place = part == STATE_WEIGHT && !plan_group_has(g, ARRAY_MASTER);
    const plan_array a = in_place ? ARRAY_WEIGHTS : array[part];
    return (state_shards){.array = a,
                          .type = plan_array_type(g, a),
                          .layout = part == STATE_GRADIENT ? plan_gradient_layout(g)
                                                           : plan_array_layout(g, a),
                          .shards = in_place ? g->weight : g->optimizer,
                          .packed = a == ARRAY_WEIGHTS && g->o.storage == STORAGE_NF4};
}

bool trainer_has_state(const trainer *t, trainer_state_kind part, int p)
{
    const plan_group *g = &t->plan->group[t->plan->row[p].group];
    return plan_group_has(g, state_shards_of(g, part).array);
}

// Elements before an array in its bucket on a tier, which has the master weights first, then m, then v.
static int64_t elements_before(const plan_group *g, const plan_bucket *b, plan_array a)
{
    int64_t elements = 0;
    for (int k = 0; k < (int)a; k++)
        if (plan_array_state((plan_array)k) == PLAN_OPTIMIZER_STATE &&
            plan_array_state(a) == PLAN_OPTIMIZER_STATE && plan_group_has(g, (plan_array)k))
            elements += b->count[g->optimizer];
    return elements;
}

bool state_is_staged(const trainer *t, const state_shards *x, int p)
{
    return plan_is_swapped(&t->plan->group[t->plan->row[p].group], plan_array_state(x->array));
}

status state_shards_find(trainer *t, const state_shards *x, const plan_row *r, bool will_write,
                         char **ptr, plan_shard *s, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const plan_bucket *b = &p->bucket[r->bucket];
    const plan_group *g = plan_group_of(p, r->bucket);
    const plan_state what = plan_array_state(x->array);
    char *bucket = state_bucket(t, x->array, r->bucket);
    *s = plan_local_shard(p, r, x->shards, p->coord);
    int64_t offset =
        r->offset[x->layout] + s->first - plan_local_shard(p, r, x->layout, p->coord).first;
    if (plan_is_swapped(g, what)) {
        TRY(tiers_stage(t, what, r->bucket, will_write, &bucket, e));
        offset += elements_before(g, b, x->array);
    }
    *ptr = bucket + (size_t)offset * dtype_bytes(x->type);
done:
    return result;
}

// ---- Reading: for each shard one of its ranks sends it, and rank 0 assembles the shards

int state_shards_copies(const trainer *t, const plan_row *r, plan_layout shards)
{
    const plan_group *g = &t->plan->group[r->group];
    int copies = mesh_group_size(&t->plan->o.mesh, r->copies);
    for (int l = 0; l < POLICY_LEVELS; l++)
        if (!plan_layout_shards(shards, (policy_level)l))
            copies *= mesh_group_size(&t->plan->o.mesh, g->axes[l]);
    return copies;
}

bool state_shards_has_copy(const trainer *t, const plan_row *r, plan_layout shards, int copy,
                           const int coord[AXES])
{
    const mesh *m = &t->plan->o.mesh;
    const plan_group *g = &t->plan->group[r->group];
    for (int l = 0; l < POLICY_LEVELS; l++) {
        const int size = mesh_group_size(m, g->axes[l]);
        if (plan_layout_shards(shards, (policy_level)l)) continue;
        if (mesh_group_index(m, coord, g->axes[l]) != copy % size) return false;
        copy /= size;
    }
    return coord[AXIS_PP] == r->stage && mesh_group_index(m, coord, r->copies) == copy;
}

// Whether the rank at these coordinates sends its shard of the row to rank 0.
static bool sends(const trainer *t, const plan_row *r, plan_layout shards, const int coord[AXES])
{
    return state_shards_has_copy(t, r, shards, 0, coord);
}

static status send_shard(trainer *t, const state_shards *x, const plan_row *r, err *e)
{
    status result = OK;
    char *ptr;
    plan_shard s;
    TRY(state_shards_find(t, x, r, false, &ptr, &s, e));
    TRY(exchange_send(t, ptr, (size_t)s.count * dtype_bytes(x->type), e));
done:
    return result;
}

// Receives the data-parallel shard of the rank at `coord`, as F32 into the shard that the rank computes with,
// `to`. `received` has room for it in the type of the state; both are on the heap.
static status receive_shard(trainer *t, const state_shards *x, const plan_row *r,
                            const plan_row *theirs, int rank, const int coord[AXES], char *received,
                            float *to, err *e)
{
    status result = OK;
    plan_shard s = plan_local_shard(t->plan, theirs, x->shards, coord);
    const size_t bytes = (size_t)s.count * dtype_bytes(x->type);
    const bool apart = x->type != F32 || x->packed;
    char *destination = apart ? received : (char *)(to + s.first);
    if (rank == 0) {
        char *own;
        TRY(state_shards_find(t, x, r, false, &own, &s, e));
        TRY(device_download(trainer_stream(t, STREAM_COMPUTE), destination, own, bytes, e));
    } else {
        TRY(exchange_receive(t, destination, bytes, rank, e));
    }
    if (x->packed)
        packed_to_rows(t, theirs, s, received, to);
    else if (apart)
        dtype_convert(to + s.first, F32, received, x->type, (size_t)s.count);
done:
    return result;
}

static status put_together(trainer *t, const state_shards *x, int p, float *out, err *e)
{
    status result = OK;
    const plan_row *r = &t->plan->row[p];
    const mesh *m = &t->plan->o.mesh;
    const size_t count = (size_t)t->model->param[p].count;
    const mesh_axes over = t->model->param[p].sharded;
    float *shard = over ? NULL : out;
    char *received = NULL;
    if (over) TRY(alloc_array(&shard, count, sizeof *shard, t->model->param[p].name, e));
    if (x->type != F32 || x->packed)
        TRY(alloc_array(&received, count, dtype_bytes(x->type), t->model->param[p].name, e));
    for (int i = 0; i < mesh_group_size(m, over); i++) {
        plan_row theirs = *r;
        int coord[AXES], sender[AXES] = {0};
        for (int rank = 0; rank < m->ranks; rank++) {
            mesh_coords(m, rank, coord);
            if (mesh_group_index(m, coord, over) != i || !sends(t, r, x->shards, coord)) continue;
            memcpy(sender, coord, sizeof sender);
            theirs.rows = model_param_shard_rows(t->model, p, coord);
            theirs.cols = model_param_shard_cols(t->model, p, coord);
            TRY(receive_shard(t, x, r, &theirs, rank, coord, received, shard, e));
        }
        if (over) model_param_put_shard(t->model, p, sender, shard, out);
    }
done:
    if (over) free(shard);
    free(received);
    return result;
}

status trainer_read_state(trainer *t, trainer_state_kind part, int p, float *out, err *e)
{
    status result = OK;
    const plan_row *r = &t->plan->row[p];
    const state_shards x = state_shards_of(&t->plan->group[r->group], part);
    const double count = results_agreed(t)->count;
    if (!trainer_has_state(t, part, p)) {
        for (int64_t i = 0; out && i < t->model->param[p].count; i++) out[i] = 0;
        return OK;
    }
    if (t->o.comm->rank > 0) {
        if (sends(t, r, x.shards, t->plan->coord)) TRY(send_shard(t, &x, r, e));
        goto done;
    }
    TRY(put_together(t, &x, p, out, e));
    if (part != STATE_GRADIENT) goto done;
    const double by = count > 0 ? count * results_agreed_scale(t) : 1;
    for (int64_t i = 0; i < t->model->param[p].count; i++) out[i] = (float)(out[i] / by);
done:
    return result;
}

// ---- Writing

// Converts F32 values to the type of the state, and copies them to the device.
static status write_converted(trainer *t, dtype type, char *to, const float *from, size_t count,
                              err *e)
{
    status result = OK;
    enum { PIECE = 1 << 18 };
    const size_t room = count < PIECE ? count : PIECE, each = dtype_bytes(type);
    char *stored = NULL;
    TRY(alloc_array(&stored, room, each, "a parameter", e));
    for (size_t done = 0, piece; done < count; done += piece) {
        piece = count - done < room ? count - done : room;
        dtype_convert(stored, type, from + done, F32, piece);
        TRY(device_upload_issue(trainer_stream(t, STREAM_COMPUTE), to + done * each, stored,
                                piece * each, e));
    }
done:
    free(stored);
    return result;
}

// Writes `from`, elements of this rank's shard s, to `to` on the device.
static status write_shard(trainer *t, const state_shards *x, int p, plan_shard s, char *to,
                          const float *from, err *e)
{
    status result = OK;
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    const size_t count = (size_t)s.count;
    if (x->type == F32)
        TRY(device_upload_issue(on, to, from, count * sizeof *from, e));
    else
        TRY(write_converted(t, x->type, to, from, count, e));
    // The next parameter may be of another bucket, which takes this one's memory.
    if (state_is_staged(t, x, p)) TRY(trainer_ops(t)->sync(on, e));
done:
    return result;
}

status trainer_write_state(trainer *t, trainer_state_kind part, int p, const float *in, err *e)
{
    status result = OK;
    const plan_row *r = &t->plan->row[p];
    const state_shards x = state_shards_of(&t->plan->group[r->group], part);
    float *shard = NULL;
    char *to;
    plan_shard s;
    if (r->bucket < 0) return OK;
    if (x.packed) return packed_write(t, p, NULL, in, e);
    if (t->model->param[p].sharded) {
        TRY(alloc_array(&shard, (size_t)r->count, sizeof *shard, t->model->param[p].name, e));
        model_param_take_shard(t->model, p, t->plan->coord, in, shard);
        in = shard;
    }
    TRY(state_shards_find(t, &x, r, true, &to, &s, e));
    TRY(write_shard(t, &x, p, s, to, in + s.first, e));
done:
    free(shard);
    return result;
}

status trainer_write_state_from(trainer *t, trainer_state_kind part, int p, trainer_source read,
                                const void *from, float *space, err *e)
{
    enum { PIECE = 1 << 22 }; // most of `space` is then never touched, and takes no memory
    status result = OK;
    const plan_row *r = &t->plan->row[p];
    const state_shards x = state_shards_of(&t->plan->group[r->group], part);
    char *to;
    plan_shard s;
    if (r->bucket < 0) return OK;
    // The rows of a shard may be parts of rows.
    if (t->model->param[p].sharded) {
        TRY(read(from, p, 0, t->model->param[p].count, space, e));
        return trainer_write_state(t, part, p, space, e);
    }
    TRY(state_shards_find(t, &x, r, true, &to, &s, e));
    const size_t each = dtype_bytes(x.type);
    const int64_t end = s.first + s.count;
    do { // once also where the shard is empty: all ranks see the same error
        const plan_shard piece = {s.first, size_min(end - s.first, PIECE)};
        TRY(read(from, p, piece.first, piece.count, space, e));
        TRY(write_shard(t, &x, p, piece, to, space, e));
        to += (size_t)piece.count * each;
        s.first += piece.count;
    } while (s.first < end);
done:
    return result;
}

typedef struct weight_files {
    const model *model;
    const safetensors *files;
} weight_files;

static status read_weight(const void *from, int p, int64_t first, int64_t count, float *out, err *e)
{
    const weight_files *w = from;
    return model_param_load(w->model, p, w->files, first, count, out, e);
}

status trainer_write_weight(trainer *t, int p, const safetensors *from, float *space, err *e)
{
    const weight_files w = {t->model, from};
    const plan_row *r = &t->plan->row[p];
    if (r->bucket < 0 || t->plan->group[r->group].o.storage != STORAGE_NF4)
        return trainer_write_state_from(t, STATE_WEIGHT, p, read_weight, &w, space, e);
    // What a block of packed rows holds depends on all of its tensor.
    const status read = model_param_load(t->model, p, from, 0, t->model->param[p].count, space, e);
    return read == OK ? packed_write(t, p, from, space, e) : read;
}
