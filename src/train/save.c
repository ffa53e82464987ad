// save.c -- writes a trainer's state to the tensors of a checkpoint, and reads it back. Weights go
// into the HuggingFace folder, each in the compute type of its group. The moments, and fp32 master weights beside
// 16-bit weights, go into the state file. Called by the session.
#include "base/alloc.h"
#include "base/dtype.h"
#include "ckpt/ckpt.h"
#include "train/powersgd_tensors.h"
#include "train/trainer_private.h"

#include <inttypes.h>
#include <stdio.h>

// One tensor of the state file: one kind of state of one parameter.
typedef struct save_tensor {
    char name[PARAM_NAME_BYTES + 16];
    trainer_state_kind part;
    int param;
} save_tensor;

typedef struct save_run {
    trainer *t;
    model_param_files files;
    save_tensor *state;
    safetensors_tensor *state_info;
    size_t state_room;
    size_t states; // tensors of parameters; those of PowerSGD follow
    powersgd_tensors powersgd;
    float *full;  // the current parameter
    float *piece; // the rows of it that are one tensor of the HuggingFace folder
    char *bytes;  // the current tensor in the type in which it is stored
} save_run;

static const char *part_name(trainer_state_kind part)
{
    static const char *const name[] = {"weight", "m", "v"};
    return name[part];
}

// Whether parameter p has master weights with more bits than those of the HuggingFace folder.
static bool has_master(const trainer *t, int p)
{
    const plan_group *g = &t->plan->group[t->plan->row[p].group];
    return plan_group_has(g, ARRAY_MASTER) && g->o.compute != F32;
}

static bool is_stored(const trainer *t, trainer_state_kind part, int p)
{
    return part == STATE_WEIGHT ? has_master(t, p) : trainer_has_state(t, part, p);
}

static status state_list(save_run *s, err *e)
{
    status result = OK;
    const trainer *t = s->t;
    size_t most = (size_t)t->model->params * STATE_GRADIENT;
    TRY(alloc_zeroed(&s->state, most, sizeof *s->state, "the list of tensors", e));
    TRY(alloc_grow(&s->state_info, &s->state_room, most, sizeof *s->state_info,
                   "the list of tensors", e));
    for (int part = 0; part < STATE_GRADIENT; part++)
        for (int p = 0; p < t->model->params; p++) {
            save_tensor *x = &s->state[s->states];
            if (!is_stored(t, (trainer_state_kind)part, p)) continue;
            const graph_param *d = t->model->param[p].decl;
            snprintf(x->name, sizeof x->name, "%s.%s", part_name((trainer_state_kind)part),
                     t->model->param[p].name);
            x->part = (trainer_state_kind)part, x->param = p;
            s->state_info[s->states++] =
                (safetensors_tensor){.name = x->name,
                                     .type = F32,
                                     .known_type = true,
                                     .dims = d->dims,
                                     .dim = {d->dim[0], d->dim[1]},
                                     .bytes = (uint64_t)t->model->param[p].count * sizeof(float)};
        }
done:
    return result;
}

// The tensors of PowerSGD, after those of parameters.
static status powersgd_list(save_run *s, err *e)
{
    status result = OK;
    if (!powersgd_tensors_exist(s->t)) return OK;
    TRY(powersgd_tensors_list(s->t, &s->powersgd, e));
    TRY(alloc_grow(&s->state_info, &s->state_room, s->states + (size_t)s->powersgd.count,
                   sizeof *s->state_info, "the list of tensors", e));
    for (int i = 0; i < s->powersgd.count; i++) {
        const powersgd_tensor *f = &s->powersgd.items[i];
        s->state_info[s->states + (size_t)i] =
            (safetensors_tensor){.name = f->name,
                                 .type = F32,
                                 .known_type = true,
                                 .dims = 2,
                                 .dim = {f->rows, f->cols},
                                 .bytes = (uint64_t)(f->rows * f->cols) * 4};
    }
done:
    return result;
}

static status weight_bytes(void *arg, size_t i, uint64_t offset, void *out, size_t bytes, err *e)
{
    status result = OK;
    save_run *s = arg;
    const model_param_file *f = &s->files.file[i];
    const safetensors_tensor *info = &s->files.info[i];
    if (offset == 0) {
        TRY(trainer_ask_state(s->t, STATE_WEIGHT, f->param, s->full, e));
        model_param_file_extract(s->t->model, f, s->full, s->piece);
        dtype_convert(s->bytes, info->type, s->piece, F32,
                      (size_t)(info->bytes / dtype_bytes(info->type)));
    }
    memcpy(out, s->bytes + offset, bytes);
done:
    return result;
}

static status state_bytes(void *arg, size_t i, uint64_t offset, void *out, size_t bytes, err *e)
{
    status result = OK;
    save_run *s = arg;
    if (offset == 0 && i < s->states)
        TRY(trainer_ask_state(s->t, s->state[i].part, s->state[i].param, s->full, e));
    if (offset == 0 && i >= s->states)
        TRY(trainer_ask_powersgd_tensor(s->t, &s->powersgd, (int)(i - s->states), s->full, e));
    memcpy(out, (char *)s->full + offset, bytes);
done:
    return result;
}

static status facts_json(const trainer *t, char **out, err *e)
{
    text json = {0};
    const scaler *s = results_scaler(t);
    uint64_t samples = results_steps_done(t) * (uint64_t)t->o.global_batch;
    text_addf(&json,
              "{\"samples\":%" PRIu64 ",\"tokens\":%" PRIu64 ",\"seed\":%" PRIu64
              ",\"optimizer\":\"%s\",\"precision\":\"%s\",\"ranks\":%d,\"skipped\":%" PRIu64,
              samples, samples * (uint64_t)t->o.seq_len, t->o.seed,
              OPTIM_NAMES[t->o.optimizer.rule], dtype_name(t->o.precision), t->o.comm->size,
              results_skipped(t));
    if (t->o.precision == F16)
        text_addf(&json,
                  ",\"loss_scale\":%.17g,\"scaler_iteration\":%" PRId64
                  ",\"scaler_last_overflow\":%" PRId64 ",\"scaler_hysteresis\":%" PRId64,
                  s->scale, s->iteration, s->last_overflow, s->hysteresis);
    text_add(&json, "}");
    return text_take(&json, out, e);
}

static dtype compute_type(const trainer *t, int p)
{
    return t->plan->group[t->plan->row[p].group].o.compute;
}

// An fp32 group in a 16-bit job has no master weights: a 16-bit file would lose its lower bits.
static status weight_list(save_run *s, err *e)
{
    status result = OK;
    TRY(model_param_files_make(s->t->model, F32, &s->files, e));
    for (int i = 0; i < s->files.count; i++) {
        safetensors_tensor *info = &s->files.info[i];
        const uint64_t count = info->bytes / dtype_bytes(info->type);
        info->type = compute_type(s->t, s->files.file[i].param);
        info->bytes = count * dtype_bytes(info->type);
    }
done:
    return result;
}

static status saver_open(save_run *s, trainer *t, err *e)
{
    status result = OK;
    int64_t most = 0;
    *s = (save_run){.t = t};
    for (int p = 0; p < t->model->params; p++)
        if (t->model->param[p].count > most) most = t->model->param[p].count;
    TRY(weight_list(s, e));
    TRY(state_list(s, e));
    TRY(powersgd_list(s, e));
    TRY(alloc_array(&s->full, (size_t)most, sizeof(float), "a tensor to save", e));
    TRY(alloc_array(&s->piece, (size_t)most, sizeof(float), "a tensor to save", e));
    TRY(alloc_array(&s->bytes, (size_t)most, sizeof(float), "a tensor to save", e));
done:
    return result;
}

static void saver_close(save_run *s)
{
    model_param_files_clear(&s->files);
    free(s->state);
    free(s->state_info);
    free(s->powersgd.items);
    free(s->full);
    free(s->piece);
    free(s->bytes);
}

static status save_here(trainer *t, const trainer_save_options *o, char **folder, err *e)
{
    status result = OK;
    save_run s = {0};
    char *facts = NULL;
    TRY(facts_json(t, &facts, e));
    TRY(saver_open(&s, t, e));
    ckpt_save_options c = {
        .out = o->out,
        .step = (int64_t)results_steps_done(t),
        .keep = o->keep,
        .weights = {s.files.info, (size_t)s.files.count, weight_bytes, &s},
        .state = {s.state_info, s.states + (size_t)s.powersgd.count, state_bytes, &s},
        .config_json = o->config_json,
        .state_json = facts,
        .tokenizer_folder = o->tokenizer_folder};
    TRY(ckpt_save(&c, folder, e));
done:
    saver_close(&s);
    free(facts);
    return result;
}

status trainer_save(trainer *t, const trainer_save_options *o, char **folder, err *e)
{
    status result = OK;
    if (t->o.comm->rank == 0) {
        TRY(save_here(t, o, folder, e));
        TRY(trainer_ask_none(t, e));
    } else {
        TRY(trainer_serve(t, e));
    }
    TRY(tiers_close_staging(t, e));
    TRY(comm_barrier(t->o.comm, e));
done:
    return result;
}

uint64_t trainer_saved_bytes(const trainer *t)
{
    uint64_t bytes = 0;
    for (int p = 0; p < t->model->params; p++) {
        size_t each = dtype_bytes(compute_type(t, p));
        for (int part = 0; part < STATE_GRADIENT; part++)
            if (is_stored(t, (trainer_state_kind)part, p)) each += sizeof(float);
        bytes += (uint64_t)t->model->param[p].count * each;
    }
    return bytes;
}

static status load_state(trainer *t, const ckpt *c, err *e)
{
    status result = OK;
    save_run s = {0};
    TRY(saver_open(&s, t, e));
    for (int p = 0; p < t->model->params; p++) {
        if (has_master(t, p)) continue;
        TRY(model_param_load(t->model, p, c->weights, s.full, e));
        TRY(trainer_write_state(t, STATE_WEIGHT, p, s.full, e));
    }
    for (size_t i = 0; i < s.states; i++) {
        const safetensors_tensor *x = safetensors_find(c->state, s.state[i].name);
        if (!x)
            FAIL(
                E_USAGE,
                "%s: state tensor %s is missing: the run that saved it froze the parameter, or had "
                "another optimizer or dtype in its group; valid: the groups of that run, or a new "
                "run with its weights (model.path)",
                c->folder, s.state[i].name);
        if (x->type != F32 || x->bytes != s.state_info[i].bytes)
            FAIL(E_USAGE, "%s: state tensor %s is of another shape", c->folder, s.state[i].name);
        memcpy(s.full, x->data, x->bytes);
        TRY(trainer_write_state(t, s.state[i].part, s.state[i].param, s.full, e));
    }
    TRY(safetensors_check_whole(c->state, e));
done:
    saver_close(&s);
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
