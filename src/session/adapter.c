// adapter.c -- see adapter.h. It starts no rank and computes nothing.
#include "session/adapter.h"

#include "base/file.h"
#include "base/json.h"
#include "ckpt/ckpt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARK_BYTES = 17 };

// ---- The base of an adapter

status session_adapter_check_mark(const char *folder, uint64_t mark, err *e)
{
    status result = OK;
    char here[MARK_BYTES];
    json_t *values = NULL;
    TRY(model_adapter_state(folder, &values, e));
    const char *there = json_string_value(json_object_get(values, "base"));
    snprintf(here, sizeof here, "%016" PRIx64, mark);
    if (there && strcmp(there, here) != 0)
        FAIL(E_USAGE,
             "%s: the adapter was trained on another base than the weights of the model (mark %.*s "
             "there, %s here); valid: the base as it was",
             folder, TEXT_CUT(there, 32), here);
done:
    json_decref(values);
    return result;
}

status session_adapter_check_base(const job *j, const safetensors *base, session_adapter *out,
                                  err *e)
{
    status result = OK;
    TRY(model_folder_mark(base, &out->mark, e));
    out->has_mark = true;
    if (j->lora.start) TRY(session_adapter_check_mark(j->lora.start, out->mark, e));
done:
    return result;
}

// ---- A job

static status check_start(const job *j, const model *m, err *e)
{
    status result = OK;
    model_adapter *a = NULL;
    if (!j->lora.start) return OK;
    TRY(model_adapter_open(j->lora.start, &a, e));
    result = model_adapter_check(&j->lora.how, a->weights, m, e);
    if (result != OK) err_prefix(e, "%s: ", j->lora.start);
done:
    if (result != OK) job_place_lora(j, "start", e);
    model_adapter_close(a);
    return result;
}

status session_adapter_prepare(const job *j, const model *m, session_adapter *out, err *e)
{
    status result = OK;
    const char *key;
    if (j->lora.how.rank == 0) return OK;
    result = model_lora_check_model(&j->lora.how, m, &key, e);
    if (result != OK) job_place_lora(j, key, e);
    if (result != OK) goto done;
    TRY(check_start(j, m, e));
    TRY(model_lora_write(&j->lora.how, m, j->model.path, &out->config, e));
done:
    return result;
}

// ---- Resuming

static json_t *read_config(const char *folder)
{
    char *path = NULL;
    json_t *root = NULL;
    if (file_join(folder, MODEL_LORA_CONFIG, &path, NULL) == OK)
        root = json_load_file(path, JSON_DECODE_ANY, NULL);
    free(path);
    return root;
}

static void add_difference(const char *key, const json_t *there, const json_t *here, text *out)
{
    char *a = there ? json_dumps(there, JSON_COMPACT | JSON_ENCODE_ANY) : NULL,
         *b = json_dumps(here, JSON_COMPACT | JSON_ENCODE_ANY);
    text_addf(out, "%s%s (%.*s there, %.*s here)", out->bytes ? ", " : "", key,
              TEXT_CUT(a ? a : "none", 80), TEXT_CUT(b ? b : "none", 80));
    free(a);
    free(b);
}

status session_adapter_compare(const session_inputs *in, const char *folder, text *different,
                               err *e)
{
    status result = OK;
    bool there;
    json_t *was = NULL, *is = NULL, *value;
    const char *key;
    TRY(model_lora_in_folder(folder, &there, e));
    if (there != (in->adapter.config != NULL))
        FAIL(E_USAGE, "%s holds %s, and the job has %s (lora.rank)", folder,
             there ? "adapters" : "a whole model", there ? "none" : "adapters");
    if (!there) goto done;
    was = read_config(folder);
    is = json_loads(in->adapter.config, 0, NULL);
    if (!is) FAIL(E_MEMORY, "no memory for " MODEL_LORA_CONFIG);
    json_object_foreach(is, key, value)
    {
        const bool may_change =
            strcmp(key, "base_model_name_or_path") == 0 || strcmp(key, "lora_dropout") == 0;
        const json_t *old = json_object_get(was, key);
        if (!may_change && (!old || !json_equal(old, value)))
            add_difference(key, old, value, different);
    }
    if (in->adapter.has_mark) TRY(session_adapter_check_mark(folder, in->adapter.mark, e));
done:
    json_decref(was);
    json_decref(is);
    return result;
}

// ---- Folders of commands

static status base_of(const char *adapter, char **out, err *e)
{
    status result = OK;
    model_lora l = {.rank = 0};
    char *base = NULL;
    TRY(model_lora_read(adapter, &l, &base, e));
    if (!base)
        FAIL(E_USAGE, "%s: names no base; valid: --model with the base, and --adapter %s", adapter,
             adapter);
    if (!file_is_directory(base))
        FAIL(E_USAGE,
             "%s: its base %.*s is no folder here; valid: --model with the folder of the base, and "
             "--adapter %s",
             adapter, TEXT_CUT(base, 200), adapter);
    *out = base;
    base = NULL;
done:
    model_lora_clear(&l);
    free(base);
    return result;
}

status session_folders_find(const session_model_names *names, session_folders *out, err *e)
{
    status result = OK;
    char *found = NULL, *own = NULL;
    bool is_adapter;
    *out = (session_folders){.base = NULL};
    TRY(ckpt_locate(names->folder, &found, NULL, e));
    TRY(model_lora_in_folder(found, &is_adapter, e));
    if (is_adapter && names->adapter)
        FAIL(E_USAGE, "%s is an adapter, too; valid: its base, with --adapter", found);
    if (names->adapter) TRY(ckpt_locate(names->adapter, &own, NULL, e));
    if (is_adapter) {
        char *base = NULL;
        TRY(base_of(found, &base, e));
        own = found;
        found = NULL;
        result = ckpt_locate(base, &found, NULL, e);
        free(base);
        if (result != OK) goto done;
    }
    *out = (session_folders){found, own};
    found = own = NULL;
done:
    free(found);
    free(own);
    return result;
}

void session_folders_clear(session_folders *f)
{
    free(f->base);
    free(f->adapter);
    *f = (session_folders){.base = NULL};
}

static status use_adapter(job *j, session_folders *f, err *e)
{
    status result = OK;
    model_lora l = {.rank = 0};
    model_lora_clear(&j->lora.how);
    free(j->lora.start);
    j->lora.start = NULL;
    if (!f->adapter) {
        // A checkpoint has its weights unpacked. Packing them again would change them; an adapter's base is packed.
        j->model.storage = STORAGE_COMPUTE;
        return OK;
    }
    TRY(model_lora_read(f->adapter, &l, NULL, e));
    j->lora.how = l;
    j->lora.start = f->adapter;
    f->adapter = NULL;
done:
    return result;
}

// The reference of a preference loss stays the job's own model.
static void keep_reference(job *j)
{
    char **reference = j->train.loss == LOSS_KTO ? &j->kto.reference : &j->dpo.reference;
    if (*reference || !j->model.has_weights) return;
    *reference = j->model.path;
    j->model.path = NULL;
}

status session_use_model(job *j, const session_model_names *names, err *e)
{
    status result = OK;
    model_config c;
    session_folders f = {.base = NULL};
    TRY(session_folders_find(names, &f, e));
    TRY(model_config_read(f.base, &c, e));
    if (c.family != j->model.config.family)
        FAIL(E_USAGE, "%s: the model is a %s, the job's is a %s", f.base, c.family->name,
             j->model.config.family->name);
    TRY(use_adapter(j, &f, e));
    j->model.config = c;
    if (j->lora.how.rank == 0) keep_reference(j);
    free(j->model.path);
    j->model.path = f.base;
    f.base = NULL;
    j->model.has_weights = true;
done:
    session_folders_clear(&f);
    return result;
}
