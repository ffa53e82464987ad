// adapter.c -- opens the folder of an adapter, and compares it with a model. See adapter.h.
#include "model/adapter.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

status model_adapter_state(const char *folder, json_t **out, err *e)
{
    status result = OK;
    char *path = NULL, *content = NULL;
    size_t bytes;
    json_error_t problem;
    *out = NULL;
    TRY(file_join(folder, "trireme/state.json", &path, e));
    if (!file_exists(path)) goto done;
    TRY(file_read_small(path, FILE_MOST_CONFIG, &content, &bytes, e));
    *out = json_load_python(content, bytes, 0, &problem);
done:
    free(content);
    free(path);
    return result;
}

// Reads how the base was kept.
static status read_storage(const char *folder, model_adapter *a, err *e)
{
    json_t *state;
    const status result = model_adapter_state(folder, &state, e);
    const char *storage = json_string_value(json_object_get(state, "base_storage")),
               *type = json_string_value(json_object_get(state, "base_precision"));
    a->type = DTYPES;
    if (storage && strcmp(storage, "nf4") == 0) a->storage = STORAGE_NF4;
    for (dtype t = F32; type && t <= F16; t++)
        if (strcmp(type, dtype_name(t)) == 0) a->type = t;
    json_decref(state);
    return result;
}

status model_adapter_open(const char *folder, model_adapter **out, err *e)
{
    status result = OK;
    char *path = NULL;
    model_adapter *a = NULL;
    TRY(alloc_zeroed(&a, 1, sizeof *a, folder, e));
    TRY(file_join(folder, MODEL_LORA_WEIGHTS, &path, e));
    TRY(model_lora_read(folder, &a->lora, &a->base, e));
    if (!file_exists(path))
        FAIL(E_USAGE, "%s: holds no %s; valid: a folder that PEFT or Trireme wrote", folder,
             MODEL_LORA_WEIGHTS);
    TRY(safetensors_open(path, &a->weights, e));
    TRY(read_storage(folder, a, e));
    *out = a;
    a = NULL;
done:
    model_adapter_close(a);
    free(path);
    return result;
}

void model_adapter_close(model_adapter *a)
{
    if (!a) return;
    model_lora_clear(&a->lora);
    safetensors_close(a->weights);
    free(a->base);
    free(a);
}

status model_adapter_check(const model_lora *l, const safetensors *weights, const model *m, err *e)
{
    status result = OK;
    model_param_files files = {.count = 0};
    size_t used = 0;
    bool *is_used = NULL;
    TRY(model_param_files_make(m, F32, &files, e));
    TRY(alloc_zeroed(&is_used, safetensors_count(weights) + 1, sizeof *is_used, "a list", e));
    for (int i = 0; i < files.count; i++) {
        if (!model_lora_trains(l, files.file[i].name)) continue;
        const safetensors_tensor *t;
        TRY(model_param_find_file(m, &files.file[i], weights, &t, e));
        is_used[t - safetensors_get(weights, 0)] = true;
        used++;
    }
    for (size_t i = 0; i < safetensors_count(weights) && used < safetensors_count(weights); i++)
        if (!is_used[i])
            FAIL(E_USAGE, "tensor %s is not one of an adapter of this model and this %s",
                 safetensors_get(weights, i)->name, MODEL_LORA_CONFIG);
done:
    model_param_files_clear(&files);
    free(is_used);
    return result;
}

// ---- The mark of a base

static int by_name(const void *a, const void *b)
{
    const safetensors_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static void add_tensor(XXH3_state_t *state, const safetensors_tensor *t)
{
    enum { SAMPLE = 1024, SAMPLES = 4 };
    float value[SAMPLE / sizeof(float)];
    XXH3_64bits_update(state, t->name, strlen(t->name) + 1);
    XXH3_64bits_update(state, &t->type, sizeof t->type);
    XXH3_64bits_update(state, t->dim, (size_t)t->dims * sizeof *t->dim);
    for (uint64_t i = 0; i < SAMPLES; i++) {
        const uint64_t bytes = t->bytes < SAMPLE ? t->bytes : SAMPLE,
                       from = (t->bytes - bytes) / (SAMPLES - 1) * i;
        if (t->nf4)
            safetensors_read(t, (int64_t)(from / dtype_bytes(t->type)),
                             (int64_t)(bytes / sizeof *value), value);
        XXH3_64bits_update(state, t->nf4 ? (const char *)value : (const char *)t->data + from,
                           t->nf4 ? bytes / sizeof *value * sizeof *value : bytes);
    }
}

status model_folder_mark(const safetensors *from, uint64_t *out, err *e)
{
    status result = OK;
    const size_t count = safetensors_count(from);
    const safetensors_tensor **all = NULL;
    XXH3_state_t *state = XXH3_createState();
    if (!state || XXH3_64bits_reset(state) != XXH_OK) FAIL(E_MEMORY, "no memory for a checksum");
    TRY(alloc_zeroed(&all, count + 1, sizeof *all, "a list of tensors", e));
    for (size_t i = 0; i < count; i++) all[i] = safetensors_get(from, i);
    if (count > 1) qsort(all, count, sizeof *all, by_name);
    for (size_t i = 0; i < count; i++) add_tensor(state, all[i]);
    TRY(safetensors_check_whole(from, e));
    *out = XXH3_64bits_digest(state);
done:
    XXH3_freeState(state);
    free(all);
    return result;
}
