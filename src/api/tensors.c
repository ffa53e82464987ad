// tensors.c -- copies single tensors of a trainer's weights to and from the program, by their names
// in model.safetensors.
#include "api/api.h"

#include "base/alloc.h"
#include "train/exchange.h"

#include <stdlib.h>
#include <string.h>

bool trm_trainer_tensor(const trm_trainer *t, int index, trm_tensor *out)
{
    if (index < 0 || index >= t->files.count) return false;
    const safetensors_tensor *i = &t->files.info[index];
    *out = (trm_tensor){.name = i->name, .rows = i->dim[0], .cols = i->dims == 2 ? i->dim[1] : 0};
    return true;
}

// The tensor of this name, and memory for the full parameter that it is a piece of; the caller
// frees *full.
static status find(const trm_trainer *t, const char *name, size_t count,
                   const model_param_file **file, float **full, err *e)
{
    for (int i = 0; i < t->files.count; i++) {
        const model_param_file *f = &t->files.file[i];
        const size_t has = (size_t)t->files.info[i].bytes / sizeof(float);
        if (strcmp(f->name, name) != 0) continue;
        if (count != has)
            return err_set(e, E_USAGE, "tensor %s has %zu elements; found count %zu", name, has,
                           count);
        const int64_t all = trainer_get_model(t->rank->session.trainer)->param[f->param].count;
        *file = f;
        return alloc_array(full, (size_t)all, sizeof **full, name, e);
    }
    return err_set(e, E_USAGE, "the model has no tensor %s", name);
}

static status read_tensor(trm_trainer *t, const char *name, float *out, size_t count, err *e)
{
    status result = OK;
    const model_param_file *f;
    float *full = NULL;
    TRY(trainer_check_ended(t->rank->session.trainer, name, e));
    TRY(find(t, name, count, &f, &full, e));
    TRY(trainer_read_state(t->rank->session.trainer, STATE_WEIGHT, f->param, full, e));
    if (t->rank->session.comm->rank == 0)
        model_param_file_extract(trainer_get_model(t->rank->session.trainer), f, full, out);
    TRY(exchange_broadcast(t->rank->session.trainer, out, count * sizeof *out, 0, e));
done:
    free(full);
    return result;
}

trm_status trm_trainer_read(trm_trainer *t, const char *name, float *out, size_t count,
                            trm_error *error)
{
    err e = {.code = OK};
    return api_give(read_tensor(t, name, out, count, &e), &e, error);
}

static status write_tensor(trm_trainer *t, const char *name, const float *in, size_t count, err *e)
{
    status result = OK;
    trainer *x = t->rank->session.trainer;
    const model_param_file *f;
    float *full = NULL;
    TRY(trainer_check_ended(x, name, e));
    TRY(find(t, name, count, &f, &full, e));
    TRY(trainer_read_state(x, STATE_WEIGHT, f->param, full, e));
    if (t->rank->session.comm->rank == 0)
        model_param_file_insert(trainer_get_model(x), f, in, full);
    TRY(exchange_broadcast(
        x, full, (size_t)trainer_get_model(x)->param[f->param].count * sizeof *full, 0, e));
    TRY(trainer_write_state(x, STATE_WEIGHT, f->param, full, e));
    TRY(trainer_restore(x, trainer_steps_done(x), e));
done:
    free(full);
    return result;
}

trm_status trm_trainer_write(trm_trainer *t, const char *name, const float *in, size_t count,
                             trm_error *error)
{
    err e = {.code = OK};
    return api_give(write_tensor(t, name, in, count, &e), &e, error);
}
