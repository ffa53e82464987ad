// load.c -- resumes a trainer from a checkpoint. Called by the session.
#include "base/alloc.h"
#include "train/packed.h"
#include "train/save/save.h"
#include "train/trainer_private.h"

static status read_tensor(const void *from, int p, int64_t first, int64_t count, float *out, err *e)
{
    const safetensors_tensor *x = from;
    (void)p, (void)e;
    memcpy(out, (const char *)x->data + (size_t)first * sizeof *out, (size_t)count * sizeof *out);
    return OK;
}

// The checkpoint holds packed weights unpacked. Packing them again would change them, so they stay what the base gave.
static status load_weight(trainer *t, int p, const ckpt *c, float *space, err *e)
{
    status result = OK;
    const plan_row *r = &t->plan->row[p];
    bool same = true;
    if (t->plan->group[r->group].o.storage != STORAGE_NF4)
        return trainer_write_weight(t, p, c->weights, space, e);
    if (r->bucket < 0) return OK;
    TRY(model_param_load(t->model, p, c->weights, 0, t->model->param[p].count, space, e));
    TRY(packed_compare(t, p, space, &same, e));
    if (!same)
        FAIL(E_USAGE,
             "%s: %s is not what the NF4 weights of this job's base give; valid: the model.path, "
             "model.init and train.seed of the run that saved it",
             c->folder, r->name);
done:
    return result;
}

static status load_state(trainer *t, const ckpt *c, err *e)
{
    status result = OK;
    save_list l = {0};
    float *full = NULL;
    int64_t most = 0;
    for (int p = 0; p < t->model->params; p++)
        if (t->model->param[p].count > most) most = t->model->param[p].count;
    TRY(alloc_array(&full, (size_t)most, sizeof *full, "a tensor to load", e));
    TRY(save_list_make(t, NULL, &l, e));
    for (int p = 0; p < t->model->params; p++) {
        if (save_has_master(t, p) ||
            (t->o.lora && !model_lora_trains_param(t->o.lora, &t->model->param[p])))
            continue;
        TRY(load_weight(t, p, c, full, e));
    }
    for (size_t i = 0; i < l.state.count; i++) {
        const save_tensor *own = &l.state.items[i];
        const safetensors_tensor *x = safetensors_find(c->state, own->name);
        if (own->powersgd) continue;
        if (!x)
            FAIL(
                E_USAGE,
                "%s: state tensor %s is missing: the run that saved it froze the parameter, or had "
                "another optimizer or dtype in its group; valid: the groups of that run, or a new "
                "run with its weights (model.path)",
                c->folder, own->name);
        if (x->type != F32 || x->bytes != l.state.info[i].bytes)
            FAIL(E_USAGE, "%s: state tensor %s is of another shape", c->folder, own->name);
        TRY(trainer_write_state_from(t, own->part, own->param, read_tensor, x, full, e));
    }
    TRY(safetensors_check_whole(c->state, e));
done:
    save_list_clear(&l);
    free(full);
    return result;
}

static status load_scaler(trainer *t, const ckpt *c, err *e)
{
    status result = OK;
    scaler *s = results_scaler(t);
    TRY(ckpt_real(c, "loss_scale", &s->scale, e));
    TRY(ckpt_int(c, "scaler_iteration", &s->iteration, e));
    TRY(ckpt_int(c, "scaler_last_overflow", &s->last_overflow, e));
    TRY(ckpt_int(c, "scaler_hysteresis", &s->hysteresis, e));
done:
    return result;
}

status trainer_resume(trainer *t, const char *folder, err *e)
{
    status result = OK;
    ckpt *c = NULL;
    int64_t step, skipped;
    TRY(ckpt_open(folder, &c, e));
    TRY(ckpt_int(c, "step", &step, e));
    TRY(ckpt_int(c, "skipped", &skipped, e));
    TRY(load_state(t, c, e));
    TRY(powersgd_tensors_load(t, c->state, e));
    if (t->o.precision == F16) TRY(load_scaler(t, c, e));
    TRY(trainer_restore(t, (uint64_t)step, e));
    results_set_skipped(t, (uint64_t)skipped);
done:
    ckpt_close(c);
    return result;
}
