// transfer.c -- weights, optimizer state and gradients between this rank's parts and whole
// parameters on the host: for checkpoints, initial weights and tools. Which ranks hold what of a
// parameter follows from the plan, so that rank 0 knows whom to expect.
#include "train/factors.h"
#include "train/state_shards.h"

#include <stdlib.h>

holding holding_of(const trainer *t, trainer_state_kind part)
{
    const plan *p = t->plan;
    const bool has_master = t->o.precision != F32;
    if (part == STATE_WEIGHT && !has_master)
        return (holding){PLAN_WEIGHTS, p->weight, p->weight, 0, t->weights};
    if (part == STATE_WEIGHT)
        return (holding){PLAN_OPTIMIZER_STATE, p->optimizer, p->optimizer, 0, (char *)t->master};
    if (part == STATE_GRADIENT) {
        return (holding){PLAN_GRADIENTS, trainer_gradient_layout(p), p->optimizer, 0,
                         (char *)t->gradients};
    }
    const bool is_v = part == STATE_V, has_m = optim_rule_of(&t->o.optimizer)->has_m;
    return (holding){PLAN_OPTIMIZER_STATE, p->optimizer, p->optimizer,
                     has_master + (is_v && has_m ? 1 : 0), (char *)t->moment[is_v]};
}

bool trainer_has_state(const trainer *t, trainer_state_kind part)
{
    const optim_rule *rule = optim_rule_of(&t->o.optimizer);
    return part == STATE_M ? rule->has_m : part == STATE_V ? rule->has_v : true;
}

// ---- Buckets in files, one at a time in state slot 0

static status window_move(trainer *t, plan_state what, bool write, err *e)
{
    status result = OK;
    window *w = &t->window[what];
    bucket_slot *s = &t->state_slot[what][0];
    const plan_layout l = what == PLAN_WEIGHTS ? t->plan->weight : t->plan->optimizer;
    size_t bytes = trainer_file_bytes(t, what, w->bucket);
    if (what == PLAN_GRADIENTS) bytes = (size_t)t->plan->bucket[w->bucket].count[l] * sizeof(float);
    TRY((write ? tier_write(t->tier[what], trainer_file_at(t, what, w->bucket), s->at, bytes,
                            &s->ticket, e)
               : tier_read(t->tier[what], trainer_file_at(t, what, w->bucket), s->at, bytes,
                           &s->ticket, e)));
    TRY(tier_wait(t->tier[what], s->ticket, e));
done:
    return result;
}

status trainer_close_staging(trainer *t, err *e)
{
    status result = OK;
    for (int k = 0; k < PLAN_STATES; k++) {
        if (t->window[k].open && t->window[k].dirty) TRY(window_move(t, (plan_state)k, true, e));
        t->window[k] = (window){.bucket = 0};
    }
done:
    return result;
}

status trainer_show_bucket(trainer *t, plan_state what, int bucket, bool will_write, char **at,
                           err *e)
{
    status result = OK;
    window *w = &t->window[what];
    bucket_slot *s = &t->state_slot[what][0];
    if (!w->open || w->bucket != bucket) {
        if (w->open && w->dirty) TRY(window_move(t, what, true, e));
        if (s->ticket) TRY(tier_wait(t->tier[what], s->ticket, e));
        if (t->flushed[what][bucket]) TRY(tier_wait(t->tier[what], t->flushed[what][bucket], e));
        *w = (window){.open = true, .bucket = bucket};
        TRY(window_move(t, what, false, e));
    }
    w->dirty = w->dirty || will_write;
    *at = s->at;
done:
    return result;
}

status holding_find(trainer *t, const holding *h, const plan_row *r, bool will_write, float **at,
                    plan_shard *s, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const plan_bucket *b = &p->bucket[r->bucket];
    *s = plan_local_shard(p, r, h->parts, p->coord);
    int64_t within = s->first - plan_local_shard(p, r, h->array, p->coord).first;
    char *base = h->at;
    if (p->o.strategy.offload.tier[h->what] == TIER_FILE) {
        TRY(trainer_show_bucket(t, h->what, r->bucket, will_write, &base, e));
        within += r->offset[h->array] - b->first[h->array] + h->number * b->count[h->array];
    } else {
        within += r->offset[h->array];
    }
    *at = (float *)(void *)base + within;
done:
    return result;
}

// ---- Reading: every holder sends, rank 0 puts together

// Is the rank at these coordinates the one that speaks for its part of the row?
static bool speaks(const trainer *t, const plan_row *r, int p, plan_layout parts,
                   const int at[AXES])
{
    return at[AXIS_PP] == r->stage && (t->model->param[p].tp_sharded || at[AXIS_TP] == 0) &&
           ((parts & LAYOUT_DP_SHARD) || at[AXIS_DP_SHARD] == 0) &&
           ((parts & LAYOUT_DP_REPLICATE) || at[AXIS_DP_REPLICATE] == 0);
}

static status send_part(trainer *t, const holding *h, const plan_row *r, err *e)
{
    status result = OK;
    device_stream *on = t->stream[STREAM_COMPUTE];
    float *at;
    plan_shard s;
    TRY(holding_find(t, h, r, false, &at, &s, e));
    TRY(comm_send(t->o.comm, at, (size_t)s.count * sizeof *at, 0, on, e));
    // It may be written again, or be another bucket, from now on.
    TRY(comm_send_wait(t->o.comm, 0, ++t->states_sent, on, e));
    TRY(trainer_ops(t)->sync(on, e));
done:
    return result;
}

// One rank's part, into the tensor-parallel part that it belongs to.
static status take_part(trainer *t, const holding *h, const plan_row *r, const plan_row *theirs,
                        int rank, float *part, err *e)
{
    status result = OK;
    device_stream *on = t->stream[STREAM_COMPUTE];
    int at[AXES];
    for (int a = 0; a < AXES; a++) at[a] = mesh_at(&t->plan->o.mesh, rank, (axis)a);
    plan_shard s = plan_local_shard(t->plan, theirs, h->parts, at);
    if (rank == 0) {
        float *own;
        TRY(holding_find(t, h, r, false, &own, &s, e));
        trainer_ops(t)->copy(on, part + s.first, own, (size_t)s.count * sizeof *own);
    } else {
        TRY(comm_recv(t->o.comm, part + s.first, (size_t)s.count * sizeof *part, rank, on, e));
    }
    TRY(trainer_ops(t)->sync(on, e));
done:
    return result;
}

static status put_together(trainer *t, const holding *h, int p, float *out, err *e)
{
    status result = OK;
    const plan_row *r = &t->plan->row[p];
    const mesh *m = &t->plan->o.mesh;
    const size_t bytes = (size_t)t->model->param[p].count * sizeof(float);
    float *part = NULL;
    void *room = NULL;
    TRY(device_alloc(t->o.device, MEMORY_HOST, bytes, &room, e));
    part = room;
    for (int tp = 0; tp < m->size[AXIS_TP]; tp++) {
        plan_row theirs = *r;
        theirs.rows = model_param_shard_rows(t->model, p, tp);
        theirs.cols = model_param_shard_cols(t->model, p, tp);
        bool any = false;
        for (int rank = 0; rank < m->ranks; rank++) {
            int at[AXES];
            for (int a = 0; a < AXES; a++) at[a] = mesh_at(m, rank, (axis)a);
            if (at[AXIS_TP] != tp || !speaks(t, r, p, h->parts, at)) continue;
            TRY(take_part(t, h, r, &theirs, rank, part, e));
            any = true;
        }
        if (any) model_param_put_shard(t->model, p, tp, part, out);
    }
done:
    if (room) device_release(t->o.device, MEMORY_HOST, room, bytes);
    return result;
}

status trainer_read_state(trainer *t, trainer_state_kind part, int p, float *out, err *e)
{
    status result = OK;
    const holding h = holding_of(t, part);
    const plan_row *r = &t->plan->row[p];
    if (t->o.comm->rank > 0) {
        if (speaks(t, r, p, h.parts, t->plan->coord)) TRY(send_part(t, &h, r, e));
        goto done;
    }
    TRY(put_together(t, &h, p, out, e));
    if (part != STATE_GRADIENT) goto done;
    const double by = t->agreed.count > 0 ? t->agreed.count * t->agreed_scale : 1;
    for (int64_t i = 0; i < t->model->param[p].count; i++) out[i] = (float)(out[i] / by);
done:
    return result;
}

// ---- Reading on request

enum { ASK_END = -1 };

static status exchange(trainer *t, int64_t question[2], err *e)
{
    status result = OK;
    device_stream *on = t->stream[STREAM_COMPUTE];
    memcpy(t->host_digest, question, 2 * sizeof *question);
    trainer_ops(t)->copy(on, t->digest, t->host_digest, 2 * sizeof *question);
    TRY(comm_broadcast(t->o.comm, t->digest, 2 * sizeof *question, 0, on, e));
    trainer_ops(t)->copy(on, t->host_digest, t->digest, 2 * sizeof *question);
    TRY(trainer_ops(t)->sync(on, e));
    memcpy(question, t->host_digest, 2 * sizeof *question);
done:
    return result;
}

status trainer_ask_state(trainer *t, trainer_state_kind part, int p, float *out, err *e)
{
    status result = OK;
    int64_t question[2] = {part, p};
    TRY(exchange(t, question, e));
    TRY(trainer_read_state(t, part, p, out, e));
done:
    return result;
}

status trainer_ask_factor(trainer *t, const factors *all, int number, float *out, err *e)
{
    status result = OK;
    int64_t question[2] = {STATE_PARTS, number};
    TRY(exchange(t, question, e));
    TRY(factor_read(t, &all->at[number], out, e));
done:
    return result;
}

status trainer_ask_none(trainer *t, err *e)
{
    int64_t question[2] = {ASK_END, 0};
    return exchange(t, question, e);
}

status trainer_serve(trainer *t, err *e)
{
    status result = OK;
    int64_t question[2] = {0, 0};
    factors all;
    TRY(factors_list(t, &all, e));
    for (;;) {
        TRY(exchange(t, question, e));
        if (question[0] == ASK_END) break;
        if (question[0] == STATE_PARTS)
            TRY(factor_read(t, &all.at[question[1]], NULL, e));
        else
            TRY(trainer_read_state(t, (trainer_state_kind)question[0], (int)question[1], NULL, e));
    }
done:
    free(all.at);
    return result;
}

// ---- Writing

status trainer_write_state(trainer *t, trainer_state_kind part, int p, const float *in, err *e)
{
    status result = OK;
    const holding h = holding_of(t, part);
    const plan_row *r = &t->plan->row[p];
    device_stream *on = t->stream[STREAM_COMPUTE];
    float *mine = NULL, *at;
    plan_shard s;
    if (r->bucket < 0) return OK;
    mine = malloc((size_t)r->count * sizeof *mine + 1);
    if (!mine) FAIL(E_IO, "no memory for a part of %s", t->model->param[p].name);
    model_param_take_shard(t->model, p, t->plan->coord[AXIS_TP], in, mine);
    TRY(holding_find(t, &h, r, true, &at, &s, e));
    trainer_ops(t)->copy(on, at, mine + s.first, (size_t)s.count * sizeof *at);
    TRY(trainer_ops(t)->sync(on, e));
done:
    free(mine);
    return result;
}
