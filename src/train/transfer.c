// transfer.c -- copies weights, optimizer state and gradients between this rank's local shards and
// full parameters on the host. Checkpoints, initial weights and tools use it. The plan says which
// ranks have which shards of a parameter, so rank 0 knows from which ranks to receive.
#include "base/alloc.h"
#include "train/powersgd_tensors.h"
#include "train/state_shards.h"
#include "train/trainer_private.h"

state_shards state_shards_of(const trainer *t, trainer_state_kind part)
{
    const plan *p = t->plan;
    const bool has_master = t->o.precision != F32, is_v = part == STATE_V;
    const bool has_m = optim_rule_of(&t->o.optimizer)->has_m;
    if (part == STATE_WEIGHT && !has_master)
        return (state_shards){PLAN_WEIGHTS, p->weight, p->weight, 0, state_weights(t)};
    if (part == STATE_GRADIENT)
        return (state_shards){PLAN_GRADIENTS, trainer_gradient_layout(p), p->optimizer, 0,
                              (char *)state_gradients(t)};
    // A file has the master weights first, then m, then v.
    const int number = part == STATE_WEIGHT ? 0 : has_master + (is_v && has_m ? 1 : 0);
    float *memory = part == STATE_WEIGHT ? state_master(t) : state_moment(t, is_v);
    return (state_shards){PLAN_OPTIMIZER_STATE, p->optimizer, p->optimizer, number, (char *)memory};
}

bool trainer_has_state(const trainer *t, trainer_state_kind part)
{
    const optim_rule *rule = optim_rule_of(&t->o.optimizer);
    return part == STATE_M ? rule->has_m : part == STATE_V ? rule->has_v : true;
}

status state_shards_find(trainer *t, const state_shards *x, const plan_row *r, bool will_write,
                         float **ptr, plan_shard *s, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const plan_bucket *b = &p->bucket[r->bucket];
    *s = plan_local_shard(p, r, x->shards, p->coord);
    int64_t offset =
        r->offset[x->array] + s->first - plan_local_shard(p, r, x->array, p->coord).first;
    char *base = x->memory;
    if (trainer_in_file(p, x->what)) {
        TRY(tiers_stage(t, x->what, r->bucket, will_write, &base, e));
        offset += x->number * b->count[x->array] - b->first[x->array];
    }
    *ptr = (float *)(void *)base + offset;
done:
    return result;
}

// ---- Reading: for each shard one of its ranks sends it, and rank 0 assembles the shards

// Several ranks may have the same shard of a row. Returns whether the rank at these coordinates is
// the one that sends it.
static bool sends(const trainer *t, const plan_row *r, int p, plan_layout shards,
                  const int coord[AXES])
{
    return coord[AXIS_PP] == r->stage && (t->model->param[p].tp_sharded || coord[AXIS_TP] == 0) &&
           (plan_layout_shards(shards, AXIS_DP_SHARD) || coord[AXIS_DP_SHARD] == 0) &&
           (plan_layout_shards(shards, AXIS_DP_REPLICATE) || coord[AXIS_DP_REPLICATE] == 0);
}

static status send_shard(trainer *t, const state_shards *x, const plan_row *r, err *e)
{
    status result = OK;
    float *ptr;
    plan_shard s;
    TRY(state_shards_find(t, x, r, false, &ptr, &s, e));
    TRY(exchange_send(t, ptr, (size_t)s.count * sizeof *ptr, e));
done:
    return result;
}

// Receives the data-parallel shard of the rank at `coord`, into the tensor-parallel shard `to`.
static status receive_shard(trainer *t, const state_shards *x, const plan_row *r,
                            const plan_row *theirs, int rank, const int coord[AXES], float *to,
                            err *e)
{
    status result = OK;
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    plan_shard s = plan_local_shard(t->plan, theirs, x->shards, coord);
    const size_t bytes = (size_t)s.count * sizeof *to;
    if (rank == 0) {
        float *own;
        TRY(state_shards_find(t, x, r, false, &own, &s, e));
        trainer_ops(t)->copy(on, to + s.first, own, bytes);
    } else {
        TRY(comm_recv(t->o.comm, to + s.first, bytes, rank, on, e));
    }
    TRY(trainer_ops(t)->sync(on, e));
done:
    return result;
}

static status put_together(trainer *t, const state_shards *x, int p, float *out, err *e)
{
    status result = OK;
    const plan_row *r = &t->plan->row[p];
    const mesh *m = &t->plan->o.mesh;
    const size_t bytes = (size_t)t->model->param[p].count * sizeof(float);
    float *shard = NULL;
    TRY(device_alloc(t->o.device, MEMORY_HOST, bytes, (void **)&shard, e));
    for (int tp = 0; tp < m->size[AXIS_TP]; tp++) {
        plan_row theirs = *r;
        theirs.rows = model_param_shard_rows(t->model, p, tp);
        theirs.cols = model_param_shard_cols(t->model, p, tp);
        bool any = false;
        for (int rank = 0; rank < m->ranks; rank++) {
            int coord[AXES];
            for (int a = 0; a < AXES; a++) coord[a] = mesh_coord(m, rank, (axis)a);
            if (coord[AXIS_TP] != tp || !sends(t, r, p, x->shards, coord)) continue;
            TRY(receive_shard(t, x, r, &theirs, rank, coord, shard, e));
            any = true;
        }
        if (any) model_param_put_shard(t->model, p, tp, shard, out);
    }
done:
    if (shard) device_release(t->o.device, MEMORY_HOST, shard, bytes);
    return result;
}

status trainer_read_state(trainer *t, trainer_state_kind part, int p, float *out, err *e)
{
    status result = OK;
    const state_shards x = state_shards_of(t, part);
    const plan_row *r = &t->plan->row[p];
    const double count = results_agreed(t)->count;
    if (t->o.comm->rank > 0) {
        if (sends(t, r, p, x.shards, t->plan->coord)) TRY(send_shard(t, &x, r, e));
        goto done;
    }
    TRY(put_together(t, &x, p, out, e));
    if (part != STATE_GRADIENT) goto done;
    const double by = count > 0 ? count * results_agreed_scale(t) : 1;
    for (int64_t i = 0; i < t->model->param[p].count; i++) out[i] = (float)(out[i] / by);
done:
    return result;
}

// ---- Reading on request: rank 0 asks, the others answer

enum { ASK_END = -1, ASK_POWERSGD = STATE_PARTS };

status trainer_ask_state(trainer *t, trainer_state_kind part, int p, float *out, err *e)
{
    status result = OK;
    int64_t question[2] = {part, p};
    TRY(exchange_question(t, question, e));
    TRY(trainer_read_state(t, part, p, out, e));
done:
    return result;
}

status trainer_ask_powersgd_tensor(trainer *t, const powersgd_tensors *all, int number, float *out,
                                   err *e)
{
    status result = OK;
    int64_t question[2] = {ASK_POWERSGD, number};
    TRY(exchange_question(t, question, e));
    TRY(powersgd_tensor_read(t, &all->items[number], out, e));
done:
    return result;
}

status trainer_ask_none(trainer *t, err *e)
{
    int64_t question[2] = {ASK_END, 0};
    return exchange_question(t, question, e);
}

status trainer_serve(trainer *t, err *e)
{
    status result = OK;
    int64_t question[2] = {0, 0};
    powersgd_tensors all;
    TRY(powersgd_tensors_list(t, &all, e));
    for (;;) {
        TRY(exchange_question(t, question, e));
        if (question[0] == ASK_END) break;
        if (question[0] == ASK_POWERSGD)
            TRY(powersgd_tensor_read(t, &all.items[question[1]], NULL, e));
        else
            TRY(trainer_read_state(t, (trainer_state_kind)question[0], (int)question[1], NULL, e));
    }
done:
    free(all.items);
    return result;
}

// ---- Writing

status trainer_write_state(trainer *t, trainer_state_kind part, int p, const float *in, err *e)
{
    status result = OK;
    const state_shards x = state_shards_of(t, part);
    const plan_row *r = &t->plan->row[p];
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    float *tp_shard = NULL, *to;
    plan_shard s;
    if (r->bucket < 0) return OK;
    TRY(alloc_array(&tp_shard, (size_t)r->count, sizeof *tp_shard, t->model->param[p].name, e));
    model_param_take_shard(t->model, p, t->plan->coord[AXIS_TP], in, tp_shard);
    TRY(state_shards_find(t, &x, r, true, &to, &s, e));
    trainer_ops(t)->copy(on, to, tp_shard + s.first, (size_t)s.count * sizeof *to);
    TRY(trainer_ops(t)->sync(on, e));
done:
    free(tp_shard);
    return result;
}
