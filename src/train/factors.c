// factors.c -- see factors.h. Called by save.c and transfer.c. Does not know what the factors are
// for (powersgd.c).
#include "train/factors.h"

#include "base/alloc.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>

static const char PREFIX[] = "powersgd.";

// Does a rank have parameter p, and is it the second of two stages that do?
static bool has_param(const trainer *t, int p, int rank, bool *second)
{
    const mesh *m = &t->plan->o.mesh;
    const plan_row *r = &t->plan->row[p];
    const int stage = mesh_at(m, rank, AXIS_PP);
    *second = r->tied && stage != r->stage && stage == m->size[AXIS_PP] - 1;
    return stage == r->stage || *second;
}

static factor factor_of(const trainer *t, int p, int rank, powersgd_part part, bool second,
                        int64_t elements, int64_t cols)
{
    static const char *const name[POWERSGD_PARTS] = {"error", "right", "start"};
    const mesh *m = &t->plan->o.mesh;
    factor f = {.part = part, .param = p, .rank = rank, .rows = elements / cols, .cols = cols};
    snprintf(f.name, sizeof f.name, "%s%s.dp%d.tp%d.%s%s", PREFIX, name[part],
             mesh_data_rank(m, rank), mesh_at(m, rank, AXIS_TP), t->model->param[p].name,
             second ? ".last_stage" : "");
    return f;
}

// What one rank has of one parameter. Q and its start are the same on all data-parallel ranks: the
// first one's are saved.
static void list_rank(const trainer *t, int p, int rank, factors *out)
{
    const mesh *m = &t->plan->o.mesh;
    plan_row theirs = t->plan->row[p];
    bool second;
    if (!has_param(t, p, rank, &second) || mesh_at(m, rank, AXIS_CP) != 0) return;
    theirs.rows = model_param_shard_rows(t->model, p, mesh_at(m, rank, AXIS_TP));
    theirs.cols = model_param_shard_cols(t->model, p, mesh_at(m, rank, AXIS_TP));
    theirs.count = theirs.rows * theirs.cols;
    for (int part = 0; part < POWERSGD_PARTS; part++) {
        int64_t count = powersgd_part_elements(t->plan, &theirs, (powersgd_part)part);
        if (count == 0 || (part != POWERSGD_ERROR && mesh_data_rank(m, rank) != 0)) continue;
        int64_t cols = part == POWERSGD_ERROR ? theirs.cols : count / theirs.cols;
        if (out->at)
            out->at[out->count] = factor_of(t, p, rank, (powersgd_part)part, second, count, cols);
        out->count++;
    }
}

static void list_all(const trainer *t, factors *out)
{
    out->count = 0;
    for (int p = 0; p < t->model->params; p++)
        for (int rank = 0; rank < t->plan->o.mesh.ranks; rank++) list_rank(t, p, rank, out);
}

status factors_list(const trainer *t, factors *out, err *e)
{
    *out = (factors){0};
    if (!compress_powersgd(t->compressor)) return OK;
    list_all(t, out);
    const status result =
        alloc_zeroed(&out->at, (size_t)out->count, sizeof *out->at, "the tensors of PowerSGD", e);
    if (result != OK) return result;
    list_all(t, out);
    return OK;
}

bool factors_carried(const trainer *t)
{
    const powersgd *s = compress_powersgd(t->compressor);
    return s && powersgd_carries(s);
}

status factor_read(trainer *t, const factor *f, float *out, err *e)
{
    status result = OK;
    device_stream *on = t->stream[STREAM_COMPUTE];
    const size_t bytes = (size_t)(f->rows * f->cols) * sizeof(float);
    const bool mine = t->o.comm->rank == f->rank;
    float *at =
        mine ? powersgd_part_ptr(compress_powersgd(t->compressor), f->param, f->part) : NULL;
    void *room = NULL;
    if (f->rank != 0 && mine) {
        TRY(comm_send(t->o.comm, at, bytes, 0, on, e));
        TRY(comm_send_wait(t->o.comm, 0, ++t->states_sent, on, e));
        TRY(trainer_ops(t)->sync(on, e));
    }
    if (t->o.comm->rank != 0) goto done;
    TRY(device_alloc(t->o.device, MEMORY_HOST, bytes, &room, e));
    if (mine)
        trainer_ops(t)->copy(on, room, at, bytes);
    else
        TRY(comm_recv(t->o.comm, room, bytes, f->rank, on, e));
    TRY(trainer_ops(t)->sync(on, e));
    memcpy(out, room, bytes);
done:
    if (room) device_release(t->o.device, MEMORY_HOST, room, bytes);
    return result;
}

// ---- Back from a checkpoint

static int saved_count(const safetensors *state)
{
    int count = 0;
    for (size_t i = 0; i < safetensors_count(state); i++)
        count += strncmp(safetensors_at(state, i)->name, PREFIX, sizeof PREFIX - 1) == 0;
    return count;
}

// Are the tensors of a checkpoint exactly those of this job?
static bool are_same(const factors *own, const safetensors *state)
{
    for (int i = 0; i < own->count; i++) {
        const safetensors_tensor *x = safetensors_find(state, own->at[i].name);
        const size_t bytes = (size_t)(own->at[i].rows * own->at[i].cols) * sizeof(float);
        if (!x || x->type != F32 || x->bytes != bytes) return false;
    }
    return own->count == saved_count(state);
}

// Is this tensor what this rank goes on from: its own error, or the first data-parallel rank's Q?
static bool is_for(const trainer *t, const factor *f)
{
    int at[AXES];
    for (int a = 0; a < AXES; a++) at[a] = t->plan->coord[a];
    at[AXIS_CP] = 0;
    if (f->part != POWERSGD_ERROR) at[AXIS_DP_REPLICATE] = at[AXIS_DP_SHARD] = 0;
    return mesh_rank(&t->plan->o.mesh, at) == f->rank;
}

static status say_different(trainer *t, err *e)
{
    text note = {0};
    if (t->note) text_addf(&note, "%s; ", t->note);
    text_add(&note, "warning: the checkpoint's PowerSGD state is of another layout of ranks or of "
                    "another hook; errors and factors start at zero");
    char *now = NULL;
    const status result = text_take(&note, &now, e);
    if (result != OK) return result;
    free(t->note);
    t->note = now;
    return OK;
}

status factors_load(trainer *t, const safetensors *state, err *e)
{
    status result = OK;
    powersgd *s = compress_powersgd(t->compressor);
    factors own = {0};
    if (saved_count(state) == 0) return OK;
    TRY(factors_list(t, &own, e));
    if (!s || !are_same(&own, state)) {
        TRY(say_different(t, e));
        goto done;
    }
    for (int i = 0; i < own.count; i++) {
        const factor *f = &own.at[i];
        const safetensors_tensor *x = safetensors_find(state, f->name);
        if (!is_for(t, f)) continue;
        trainer_ops(t)->copy(t->stream[STREAM_COMPUTE], powersgd_part_ptr(s, f->param, f->part),
                             x->data, x->bytes);
    }
    TRY(trainer_ops(t)->sync(t->stream[STREAM_COMPUTE], e));
    powersgd_resume(s);
done:
    free(own.at);
    return result;
}
