// resume.c -- checks that a job can resume from a checkpoint, which may be in any folder. See
// session_check_resume in session.h. The starting process calls it before any rank starts.
#include "session/adapter.h"

#include "base/dtype.h"
#include "base/file.h"
#include "ckpt/ckpt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void compare_words(text *t, const char *key, const char *there, const char *here)
{
    if (strcmp(there, here) != 0)
        text_addf(t, "%s%s (%s there, %s here)", t->bytes ? ", " : "", key, there, here);
}

static void compare_counts(text *t, const char *key, uint64_t there, uint64_t here)
{
    if (there != here)
        text_addf(t, "%s%s (%" PRIu64 " there, %" PRIu64 " here)", t->bytes ? ", " : "", key, there,
                  here);
}

// The optimizer, precision and seed decide the meaning of the saved state.
static status compare_state(const job *j, const ckpt *c, text *differs, err *e)
{
    status result = OK;
    const char *optimizer, *precision;
    int64_t seed;
    TRY(ckpt_text(c, "optimizer", &optimizer, e));
    TRY(ckpt_text(c, "precision", &precision, e));
    TRY(ckpt_int(c, "seed", &seed, e));
    compare_words(differs, "optimizer.name", optimizer, OPTIM_NAMES[j->optimizer.rule]);
    compare_words(differs, "train.precision", precision, dtype_name(job_dtype(j)));
    compare_counts(differs, "train.seed", (uint64_t)seed, j->train.seed);
done:
    return result;
}

// ---- Parameter groups

// A group as a checkpoint describes it.
typedef struct saved_group {
    const char *match; // NULL: all other tensors
    const char *optimizer, *precision;
    bool frozen;
} saved_group;

static status read_group(const ckpt *c, const json_t *from, saved_group *out, err *e)
{
    const json_t *match = json_object_get(from, "match"),
                 *rule = json_object_get(from, "optimizer"),
                 *type = json_object_get(from, "precision"),
                 *frozen = json_object_get(from, "frozen");
    if ((match && !json_is_string(match)) || !json_is_string(rule) || !json_is_string(type) ||
        !json_is_boolean(frozen))
        return err_set(e, E_USAGE,
                       "%s/trireme/state.json: found a group without its optimizer, precision and "
                       "frozen; valid: a file of this program",
                       c->folder);
    *out = (saved_group){match ? json_string_value(match) : NULL, json_string_value(rule),
                         json_string_value(type), json_is_true(frozen)};
    return OK;
}

// The first group of the checkpoint that matches the tensor; the last one matches all.
static status find_saved_group(const ckpt *c, const json_t *list, const char *tensor,
                               saved_group *out, err *e)
{
    status result = OK;
    for (size_t i = 0; i < json_array_size(list); i++) {
        TRY(read_group(c, json_array_get(list, i), out, e));
        if (!out->match || param_group_matches(out->match, tensor)) return OK;
    }
    FAIL(E_USAGE,
         "%s/trireme/state.json: no group has tensor %s; valid: a last group without match",
         c->folder, tensor);
done:
    return result;
}

// Adds the first difference that changes what the state of the tensor means. `group` is the job's.
static void compare_tensor(const job *j, const char *tensor, const saved_group *there,
                           const param_group *here, int group, text *t)
{
    static const char *const own[] = {"trainable", "train.precision", "optimizer.name"},
                             *const entry[] = {"trainable", "dtype", "optimizer"};
    const char *was[] = {there->frozen ? "false" : "true", there->precision, there->optimizer},
               *is[] = {here->frozen ? "false" : "true", dtype_name(here->precision),
                        OPTIM_NAMES[here->optimizer.rule]};
    const int count = there->frozen && here->frozen ? 2 : 3; // a frozen tensor has no optimizer
    int k = 0;
    while (k < count && strcmp(was[k], is[k]) == 0) k++;
    if (k == count) return;
    if (group < j->groups)
        text_addf(t, "groups[%d].%s", group, entry[k]);
    else
        text_add(t, own[k]);
    text_addf(t, " (%s there, %s here, of %s)", was[k], is[k], tensor);
}

// Compares the groups tensor by tensor, because other patterns may make the same groups. Patterns match the names that
// the model's tensors have, which may be others than those of the folder. Checkpoints of older versions do not say their
// groups.
static status compare_groups(const job *j, const session_inputs *in, const ckpt *c, text *differs,
                             err *e)
{
    status result = OK;
    const json_t *list = json_object_get(c->values, "groups");
    param_group *groups = NULL;
    int of_job;
    if (!list || differs->bytes) return OK;
    const size_t count =
        in->folder ? (size_t)in->folder->files.count : safetensors_count(c->weights);
    TRY(job_solve_groups(j, &groups, &of_job, e));
    for (size_t i = 0; i < count && !differs->bytes; i++) {
        const char *tensor =
            in->folder ? in->folder->files.file[i].name : safetensors_get(c->weights, i)->name;
        if (j->lora.how.rank > 0 && !model_lora_trains(&j->lora.how, tensor)) continue;
        const int group = param_group_find(groups, of_job, tensor);
        saved_group there = {.match = NULL};
        TRY(find_saved_group(c, list, tensor, &there, e));
        compare_tensor(j, tensor, &there, &groups[group], group, differs);
    }
done:
    free(groups);
    return result;
}

// The position in the data is a number of steps, so another batch or sequence length would continue
// at other samples.
static status compare_positions(const job *j, const session_inputs *in, const ckpt *c,
                                uint64_t *step, text *differs, err *e)
{
    status result = OK;
    int64_t steps, samples, tokens;
    TRY(ckpt_int(c, "step", &steps, e));
    TRY(ckpt_int(c, "samples", &samples, e));
    TRY(ckpt_int(c, "tokens", &tokens, e));
    if (steps < 0 || samples < steps || tokens < samples)
        FAIL(E_USAGE,
             "%s: %" PRId64 " steps, %" PRId64 " samples and %" PRId64
             " tokens cannot be of one run",
             c->folder, steps, samples, tokens);
    *step = (uint64_t)steps;
    if (steps == 0) goto done;
    compare_counts(differs, "train.global_batch", (uint64_t)(samples / steps),
                   (uint64_t)j->train.global_batch);
    compare_counts(differs, "data.seq_len", (uint64_t)(tokens / samples), (uint64_t)in->seq_len);
done:
    return result;
}

// config.json identifies a program's own model, except for the type of its weights.
static status compare_own_model(const char *config_json, const char *folder, text *differs, err *e)
{
    status result = OK;
    char *path = NULL, *content = NULL;
    json_t *here = json_loads(config_json, 0, NULL), *there = NULL;
    TRY(file_join(folder, "config.json", &path, e));
    TRY(file_read(path, &content, NULL, e));
    there = json_loads(content, 0, NULL);
    if (!there || !json_equal(there, here))
        text_addf(differs, "%sconfig.json of the model", differs->bytes ? ", " : "");
done:
    json_decref(here);
    json_decref(there);
    free(content);
    free(path);
    return result;
}

// The tensors that a checkpoint carries come from the folder of the weights, and so those of the next checkpoint.
static status check_carried(const job *j, const session_inputs *in, const ckpt *c, err *e)
{
    for (size_t i = 0; i < safetensors_count(c->weights); i++) {
        const safetensors_tensor *t = safetensors_get(c->weights, i);
        const model_carried *x = in->folder ? model_folder_find(in->folder, t->name) : NULL;
        if (!model_param_is_carried(c->weights, t) || (x && x->info.bytes == t->bytes)) continue;
        return err_set(
            e, E_USAGE,
            "%s: tensor %s comes from the folder of the weights, and %s does not hold it; "
            "valid: the model.path that the run began with, or a new run with the "
            "weights of this checkpoint (model.path)",
            c->folder, t->name,
            in->folder      ? in->folder->path
            : j->model.path ? j->model.path
                            : "the job");
    }
    return OK;
}

status session_check_resume(const job *j, const session_inputs *in, const char *config_json,
                            const char *folder, uint64_t *step, err *e)
{
    status result = OK;
    ckpt *c = NULL;
    text differs = {0};
    TRY(session_adapter_compare(in, folder, &differs, e));
    TRY(ckpt_open(folder, &c, e));
    if (j->own.model)
        TRY(compare_own_model(config_json, folder, &differs, e));
    else if (!in->adapter.config)
        TRY(job_compare_model(j, folder, &differs, e));
    TRY(compare_state(j, c, &differs, e));
    TRY(compare_groups(j, in, c, &differs, e));
    TRY(compare_positions(j, in, c, step, &differs, e));
    if (!j->own.model && !in->adapter.config) TRY(check_carried(j, in, c, e));
    TRY(text_check(&differs, e));
    if (differs.bytes)
        FAIL(E_USAGE,
             "%s was saved by a run with other values: %s; valid: the same values, or a new run "
             "with its weights (%s)",
             folder, differs.chars, in->adapter.config ? "lora.start" : "model.path");
done:
    ckpt_close(c);
    text_clear(&differs);
    return result;
}
