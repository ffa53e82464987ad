// save.c -- saves a trainer: rank 0 makes the folder and the files (ckpt/), all ranks fill them together
// (save_write.c), and rank 0 publishes the folder. Called by the session.
#include "train/save/save.h"
#include "train/trainer_private.h"

#include <inttypes.h>

// The settings that decide what the state of a group's parameters means, and the patterns by which a reader finds
// the group of a tensor.
static void add_groups(const param_groups *groups, text *json)
{
    text_add(json, ",\"groups\":[");
    for (int i = 0; i < groups->count; i++) {
        const param_group *g = &groups->items[i];
        text_add(json, i ? ",{" : "{");
        if (g->match) {
            text_add(json, "\"match\":");
            text_add_json(json, g->match);
            text_add(json, ",");
        }
        text_addf(json, "\"optimizer\":\"%s\",\"precision\":\"%s\",\"frozen\":%s}",
                  OPTIM_NAMES[g->optimizer.rule], dtype_name(g->precision),
                  g->frozen ? "true" : "false");
    }
    text_add(json, "]");
}

// The storage of the base of adapters, where it is packed, and the type in which all of it computes.
static void add_base_storage(const trainer *t, text *json)
{
    dtype type = DTYPES;
    bool packed = false, one = true;
    for (int p = 0; p < t->model->params && t->o.lora; p++) {
        const plan_group *g = &t->plan->group[t->plan->row[p].group];
        if (g->o.storage != STORAGE_NF4) continue;
        one = one && (!packed || type == g->o.compute);
        type = g->o.compute, packed = true;
    }
    if (packed) text_add(json, ",\"base_storage\":\"nf4\"");
    if (packed && one) text_addf(json, ",\"base_precision\":\"%s\"", dtype_name(type));
}

status save_facts(const trainer *t, const trainer_save_options *o, char **out, err *e)
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
    const trainer_best *best = &o->best;
    if (best->step >= 0)
        text_addf(&json,
                  ",\"best_step\":%" PRId64 ",\"best_loss\":%.17g"
                  ",\"evaluations_since_best\":%" PRId64,
                  best->step, best->loss, best->since);
    if (o->base_mark) text_addf(&json, ",\"base\":\"%016" PRIx64 "\"", *o->base_mark);
    add_base_storage(t, &json);
    add_groups(&t->o.groups, &json);
    text_add(&json, "}");
    return text_take(&json, out, e);
}

static status fill(void *arg, const char *folder, err *e)
{
    const save_run *s = arg;
    return save_write(s->t, &s->list, s->o->folder, &s->files, s->o->out, folder, NULL, e);
}

// Another rank that opens a file of a folder which is gone would blame that.
static void failed(void *arg, const err *why)
{
    const save_run *s = arg;
    if (s->t->o.comm->size > 1) comm_abort(s->t->o.comm, why);
}

static ckpt_tensors tensors_of(const save_tensors *x)
{
    return (ckpt_tensors){x->info, x->count};
}

ckpt_save_options save_options(save_run *s, const char *facts)
{
    return (ckpt_save_options){.out = s->o->out,
                               .fence = s->o->fence,
                               .step = (int64_t)results_steps_done(s->t),
                               .keep = s->o->keep,
                               .best = s->o->keep_best && s->o->best.step > 0 ? s->o->best.step : 0,
                               .files = &s->files,
                               .weights = tensors_of(&s->list.weights),
                               .config_json = s->o->config_json,
                               .is_adapter = s->t->o.lora != NULL,
                               .state_json = facts,
                               .tokenizer_folder = s->o->tokenizer_folder,
                               .model_folder = s->o->folder ? s->o->folder->path : NULL,
                               .fill = fill,
                               .failed = failed,
                               .arg = s};
}

static status save_here(save_run *s, char **folder, err *e)
{
    status result = OK;
    char *facts = NULL;
    TRY(save_facts(s->t, s->o, &facts, e));
    const ckpt_save_options c = save_options(s, facts);
    TRY(ckpt_save(&c, folder, e));
done:
    free(facts);
    return result;
}

// The part of a rank that does not publish.
static status save_there(save_run *s, err *e)
{
    const status result =
        save_write(s->t, &s->list, s->o->folder, &s->files, s->o->out, NULL, NULL, e);
    if (result != OK)
        err_prefix(e, "the checkpoint of step %" PRIu64 " is not saved, older ones stay: ",
                   results_steps_done(s->t));
    return result;
}

status save_run_make(save_run *s, trainer *t, const trainer_save_options *o, err *e)
{
    status result = OK;
    *s = (save_run){.t = t, .o = o};
    TRY(save_list_make(t, o->folder, &s->list, e));
    const ckpt_tensors weights = tensors_of(&s->list.weights), state = tensors_of(&s->list.state);
    TRY(ckpt_files_make(&weights, &state, t->o.lora ? CKPT_ADAPTER : 0, &s->files, e));
done:
    return result;
}

void save_run_clear(save_run *s)
{
    ckpt_files_clear(&s->files);
    save_list_clear(&s->list);
}

status trainer_save(trainer *t, const trainer_save_options *o, char **folder, err *e)
{
    status result = OK;
    save_run s;
    TRY(save_run_make(&s, t, o, e));
    TRY(t->o.comm->rank == 0 ? save_here(&s, folder, e) : save_there(&s, e));
    TRY(tiers_close_staging(t, e));
    TRY(comm_barrier(t->o.comm, e));
done:
    save_run_clear(&s);
    return result;
}
