// save_list.c -- which tensors a checkpoint of this trainer has. Weights go into the HuggingFace folder, each in the
// compute type of its group. The moments, and fp32 master weights beside 16-bit weights, go into the state
// file. Called by save.c and load.c.
#include "base/alloc.h"
#include "train/save/save.h"
#include "train/trainer_private.h"

#include <stdio.h>

static const char *part_name(trainer_state_kind part)
{
    static const char *const name[] = {"weight", "m", "v", "average"};
    return name[part];
}

bool save_has_master(const trainer *t, int p)
{
    const plan_group *g = &t->plan->group[t->plan->row[p].group];
    return plan_group_has(g, ARRAY_MASTER) && g->o.compute != F32 && !t->o.lora;
}

bool save_is_stored(const trainer *t, trainer_state_kind part, int p)
{
    return part == STATE_WEIGHT ? save_has_master(t, p) : trainer_has_state(t, part, p);
}

static dtype compute_type(const trainer *t, int p)
{
    return t->plan->group[t->plan->row[p].group].o.compute;
}

static status add(save_tensors *to, save_tensor item, safetensors_tensor info, err *e)
{
    status result = OK;
    static const char what[] = "the list of tensors";
    TRY(alloc_grow(&to->items, &to->item_room, to->count + 1, sizeof *to->items, what, e));
    TRY(alloc_grow(&to->info, &to->info_room, to->count + 1, sizeof *to->info, what, e));
    to->items[to->count] = item;
    to->info[to->count++] = info;
done:
    return result;
}

// Of a run with adapters, what training changes, in F32 as PEFT's own files: it has no bits to lose.
static status list_adapter(const trainer *t, const model_param_file *f, save_list *l,
                           safetensors_tensor info, err *e)
{
    save_tensor x = {.part = STATE_WEIGHT, .param = f->param, .file = f};
    if (!model_lora_trains(t->o.lora, f->name)) return OK;
    snprintf(x.name, sizeof x.name, "%s%s", MODEL_LORA_PREFIX, f->name);
    return add(&l->weights, x, info, e);
}

// The tensors have the names that they have in `folder`. An fp32 group in a 16-bit job has no master weights: a 16-bit file would lose its lower bits.
static status list_weights(const trainer *t, const model_folder *folder, save_list *l, err *e)
{
    status result = OK;
    TRY(model_param_files_make(t->model, F32, &l->files, e));
    for (int i = 0; i < l->files.count; i++) {
        const model_param_file *f = &l->files.file[i];
        if (t->o.lora) {
            TRY(list_adapter(t, f, l, l->files.info[i], e));
            continue;
        }
        safetensors_tensor info = l->files.info[i];
        if (folder) info.name = folder->name[i];
        info.type = compute_type(t, f->param);
        info.bytes = info.bytes / dtype_bytes(F32) * dtype_bytes(info.type);
        TRY(add(&l->weights, (save_tensor){.part = STATE_WEIGHT, .param = f->param, .file = f},
                info, e));
    }
    for (size_t i = 0; folder && i < folder->carried_count; i++) {
        const model_carried *x = &folder->carried[i];
        TRY(add(&l->weights, (save_tensor){.carried = x}, x->info, e));
    }
done:
    return result;
}

static status list_state(const trainer *t, save_list *l, err *e)
{
    status result = OK;
    for (int part = 0; part < STATE_GRADIENT; part++)
        for (int p = 0; p < t->model->params; p++) {
            const model_param *q = &t->model->param[p];
            save_tensor x = {.part = (trainer_state_kind)part, .param = p};
            if (!save_is_stored(t, x.part, p)) continue;
            snprintf(x.name, sizeof x.name, "%s.%s", part_name(x.part), q->name);
            TRY(add(&l->state, x,
                    (safetensors_tensor){.type = F32,
                                         .known_type = true,
                                         .dims = q->decl->dims,
                                         .dim = {q->decl->dim[0], q->decl->dim[1]},
                                         .bytes = (uint64_t)q->count * sizeof(float)},
                    e));
        }
done:
    return result;
}

// The tensors of PowerSGD, after those of parameters.
static status list_powersgd(const trainer *t, save_list *l, err *e)
{
    status result = OK;
    if (!powersgd_tensors_exist(t)) return OK;
    TRY(powersgd_tensors_list(t, &l->powersgd, e));
    for (int i = 0; i < l->powersgd.count; i++) {
        const powersgd_tensor *f = &l->powersgd.items[i];
        TRY(add(&l->state, (save_tensor){.powersgd = f},
                (safetensors_tensor){.type = F32,
                                     .known_type = true,
                                     .dims = 2,
                                     .dim = {f->rows, f->cols},
                                     .bytes = (uint64_t)(f->rows * f->cols) * sizeof(float)},
                e));
    }
done:
    return result;
}

status save_list_make(const trainer *t, const model_folder *folder, save_list *out, err *e)
{
    status result = OK;
    *out = (save_list){0};
    TRY(list_weights(t, folder, out, e));
    TRY(list_state(t, out, e));
    TRY(list_powersgd(t, out, e));
    for (size_t i = 0; i < out->weights.count && t->o.lora; i++)
        out->weights.info[i].name = out->weights.items[i].name;
    for (size_t i = 0; i < out->state.count; i++) { // the items do not move any more
        const save_tensor *x = &out->state.items[i];
        out->state.info[i].name = x->powersgd ? x->powersgd->name : x->name;
    }
done:
    return result;
}

void save_list_clear(save_list *l)
{
    model_param_files_clear(&l->files);
    free(l->powersgd.items);
    free(l->weights.items);
    free(l->weights.info);
    free(l->state.items);
    free(l->state.info);
    *l = (save_list){0};
}

uint64_t trainer_saved_bytes(const trainer *t)
{
    uint64_t bytes = 0;
    for (int p = 0; p < t->model->params; p++) {
        if (t->o.lora && !model_lora_trains_param(t->o.lora, &t->model->param[p])) continue;
        size_t each = dtype_bytes(t->o.lora ? F32 : compute_type(t, p));
        for (int part = 0; part < STATE_GRADIENT; part++)
            if (save_is_stored(t, (trainer_state_kind)part, p)) each += sizeof(float);
        bytes += (uint64_t)t->model->param[p].count * each;
    }
    return bytes;
}
