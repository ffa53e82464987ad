// save.c -- a trainer's state as the tensors of a checkpoint, and back. Weights go into the
// HuggingFace folder in the type that the model computes in; what that cannot hold (moments, fp32
// masters beside bf16) goes into the state.
#include "base/alloc.h"
#include "base/dtype.h"
#include "ckpt/ckpt.h"
#include "train/factors.h"
#include "train/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

// One tensor of the state file: a part of the state of one parameter.
typedef struct state_tensor {
    char name[PARAM_NAME_BYTES + 16];
    trainer_state_kind part;
    int param;
} state_tensor;

typedef struct saver {
    trainer *t;
    model_param_files files;
    state_tensor *state;
    safetensors_tensor *state_info;
    size_t states; // of parameters; the factors follow
    factors factors;
    float *whole, *piece; // of the parameter at hand
    char *bytes;          // of the tensor at hand, as stored
} saver;

static const char *part_name(trainer_state_kind part)
{
    static const char *const name[] = {"weight", "m", "v"};
    return name[part];
}

// Fp32 weights are in the HuggingFace folder already.
static bool is_stored(const trainer *t, trainer_state_kind part)
{
    return part == STATE_WEIGHT ? t->o.precision != F32 : trainer_has_state(t, part);
}

static status state_list(saver *s, err *e)
{
    const trainer *t = s->t;
    size_t most = (size_t)t->model->params * STATE_GRADIENT;
    s->state = calloc(most, sizeof *s->state);
    s->state_info = calloc(most, sizeof *s->state_info);
    if (!s->state || !s->state_info)
        return err_set(e, E_IO, "no memory for the list of %zu tensors", most);
    for (int part = 0; part < STATE_GRADIENT; part++)
        for (int p = 0; is_stored(t, (trainer_state_kind)part) && p < t->model->params; p++) {
            state_tensor *x = &s->state[s->states];
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
    return OK;
}

// PowerSGD's tensors, where it has any, after those of parameters.
static status factor_list(saver *s, err *e)
{
    status result = OK;
    if (!factors_carried(s->t)) return OK;
    TRY(factors_list(s->t, &s->factors, e));
    safetensors_tensor *info =
        realloc(s->state_info, (s->states + (size_t)s->factors.count + 1) * sizeof *info);
    if (!info) FAIL(E_IO, "no memory for the list of %d tensors", s->factors.count);
    s->state_info = info;
    for (int i = 0; i < s->factors.count; i++) {
        const factor *f = &s->factors.at[i];
        info[s->states + (size_t)i] =
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
    saver *s = arg;
    const model_param_file *f = &s->files.file[i];
    const safetensors_tensor *info = &s->files.info[i];
    if (offset == 0) {
        TRY(trainer_ask_state(s->t, STATE_WEIGHT, f->param, s->whole, e));
        model_param_file_extract(s->t->model, f, s->whole, s->piece);
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
    saver *s = arg;
    if (offset == 0 && i < s->states)
        TRY(trainer_ask_state(s->t, s->state[i].part, s->state[i].param, s->whole, e));
    if (offset == 0 && i >= s->states)
        TRY(trainer_ask_factor(s->t, &s->factors, (int)(i - s->states), s->whole, e));
    memcpy(out, (char *)s->whole + offset, bytes);
done:
    return result;
}

static status facts_json(const trainer *t, char **out, err *e)
{
    text json = {0};
    uint64_t samples = t->steps_done * (uint64_t)t->o.global_batch;
    text_addf(&json,
              "{\"samples\":%" PRIu64 ",\"tokens\":%" PRIu64 ",\"seed\":%" PRIu64
              ",\"optimizer\":\"%s\",\"precision\":\"%s\",\"ranks\":%d,\"skipped\":%" PRIu64,
              samples, samples * (uint64_t)t->o.seq_len, t->o.seed,
              OPTIM_NAMES[t->o.optimizer.rule], dtype_name(t->o.precision), t->o.comm->size,
              t->skipped);
    if (t->o.precision == F16)
        text_addf(&json,
                  ",\"loss_scale\":%.17g,\"scaler_iteration\":%" PRId64
                  ",\"scaler_last_overflow\":%" PRId64 ",\"scaler_hysteresis\":%" PRId64,
                  t->scaler.scale, t->scaler.iteration, t->scaler.last_overflow,
                  t->scaler.hysteresis);
    text_add(&json, "}");
    return text_take(&json, out, e);
}

static status saver_open(saver *s, trainer *t, err *e)
{
    status result = OK;
    int64_t most = 0;
    *s = (saver){.t = t};
    for (int p = 0; p < t->model->params; p++)
        if (t->model->param[p].count > most) most = t->model->param[p].count;
    TRY(model_param_files_make(t->model, t->o.precision, &s->files, e));
    TRY(state_list(s, e));
    TRY(factor_list(s, e));
    TRY(alloc_array(&s->whole, (size_t)most, sizeof(float), "a staged tensor", e));
    TRY(alloc_array(&s->piece, (size_t)most, sizeof(float), "a staged tensor", e));
    TRY(alloc_array(&s->bytes, (size_t)most, sizeof(float), "a staged tensor", e));
done:
    return result;
}

static void saver_close(saver *s)
{
    model_param_files_clear(&s->files);
    free(s->state);
    free(s->state_info);
    free(s->factors.at);
    free(s->whole);
    free(s->piece);
    free(s->bytes);
}

static status save_here(trainer *t, const trainer_save_options *o, char **folder, err *e)
{
    status result = OK;
    saver s = {0};
    char *facts = NULL;
    TRY(facts_json(t, &facts, e));
    TRY(saver_open(&s, t, e));
    ckpt_save_options c = {
        .out = o->out,
        .step = (int64_t)t->steps_done,
        .keep = o->keep,
        .weights = {s.files.info, (size_t)s.files.count, weight_bytes, &s},
        .state = {s.state_info, s.states + (size_t)s.factors.count, state_bytes, &s},
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
    TRY(trainer_close_staging(t, e));
    TRY(comm_barrier(t->o.comm, e));
done:
    return result;
}

static status load_state(trainer *t, const ckpt *c, err *e)
{
    status result = OK;
    saver s = {0};
    TRY(saver_open(&s, t, e));
    for (int p = 0; t->o.precision == F32 && p < t->model->params; p++) {
        TRY(model_param_load(t->model, p, c->weights, s.whole, e));
        TRY(trainer_write_state(t, STATE_WEIGHT, p, s.whole, e));
    }
    for (size_t i = 0; i < s.states; i++) {
        const safetensors_tensor *x = safetensors_find(c->state, s.state[i].name);
        if (!x || x->type != F32 || x->bytes != s.state_info[i].bytes)
            FAIL(E_USAGE, "%s: state tensor %s is %s", c->folder, s.state[i].name,
                 x ? "of another shape" : "missing");
        memcpy(s.whole, x->data, x->bytes);
        TRY(trainer_write_state(t, s.state[i].part, s.state[i].param, s.whole, e));
    }
    TRY(safetensors_check_whole(c->state, e));
done:
    saver_close(&s);
    return result;
}

static status load_scaler(trainer *t, const ckpt *c, err *e)
{
    status result = OK;
    scaler *s = &t->scaler;
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
    TRY(factors_load(t, c->state, e));
    if (t->o.precision == F16) TRY(load_scaler(t, c, e));
    TRY(trainer_restore(t, (uint64_t)step, e));
    t->skipped = (uint64_t)skipped;
done:
    ckpt_close(c);
    return result;
}
