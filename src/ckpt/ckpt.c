// ckpt.c -- finds and opens checkpoints. The trainer calls it to resume, and the commands that show,
// verify and export checkpoints. It does not know what the values mean.
#include "ckpt/ckpt.h"

#include "base/alloc.h"
#include "base/file.h"
#include "ckpt/ckpt_files.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Finds the valid checkpoint with the highest step in a folder of checkpoints.
static status newest_in(const char *checkpoints, char **folder, text *warnings, err *e)
{
    status result = OK;
    ckpt_entry *list = NULL;
    size_t count = 0;
    err problem = {0};
    char *path = NULL;
    *folder = NULL;
    TRY(ckpt_list(checkpoints, &list, &count, e));
    for (size_t i = 0; i < count; i++) {
        TRY(file_join(checkpoints, list[i].name, &path, e));
        const status found = ckpt_verify(path, &problem);
        if (found == E_MEMORY) FAIL(E_MEMORY, "%s", problem.text); // it says nothing of the files
        if (found == OK) {
            *folder = path;
            path = NULL;
            goto done;
        }
        free(path);
        path = NULL;
        if (warnings)
            text_addf(warnings, "%s is broken and skipped: %s\n", list[i].name, problem.text);
    }
    if (count)
        FAIL(E_USAGE, "%s: none of %zu checkpoints is valid; the oldest: %s", checkpoints, count,
             problem.text);
done:
    free(path);
    free(list);
    return result;
}

status ckpt_newest(const char *out, char **folder, text *warnings, err *e)
{
    status result = OK;
    char *checkpoints = NULL;
    *folder = NULL;
    TRY(file_join(out, "checkpoints", &checkpoints, e));
    if (file_is_directory(checkpoints)) TRY(newest_in(checkpoints, folder, warnings, e));
done:
    free(checkpoints);
    return result;
}

// Adds to *has whether the folder holds something of that name.
static status look_inside(const char *folder, const char *name, bool *has, err *e)
{
    char *path = NULL;
    const status result = file_join(folder, name, &path, e);
    *has = *has || (result == OK && file_exists(path));
    free(path);
    return result;
}

status ckpt_locate(const char *folder, char **checkpoint, text *warnings, err *e)
{
    status result = OK;
    char *inner = NULL;
    bool is_checkpoint = false;
    *checkpoint = NULL;
    TRY(file_join(folder, "checkpoints", &inner, e));
    TRY(look_inside(folder, "config.json", &is_checkpoint, e));
    TRY(look_inside(folder, "trireme", &is_checkpoint, e));
    if (is_checkpoint || !file_is_directory(inner)) {
        TRY(text_copy(folder, checkpoint, e));
        goto done;
    }
    TRY(newest_in(inner, checkpoint, warnings, e));
    if (!*checkpoint) FAIL(E_USAGE, "%s: the run has no checkpoint yet", folder);
done:
    free(inner);
    return result;
}

static status open_weights(const char *folder, safetensors **out, err *e)
{
    status result = OK;
    char *adapter = NULL;
    TRY(file_join(folder, CKPT_ADAPTER_WEIGHTS, &adapter, e));
    TRY(file_exists(adapter) ? safetensors_open(adapter, out, e)
                             : safetensors_open_folder(folder, out, e));
done:
    free(adapter);
    return result;
}

status ckpt_open(const char *folder, ckpt **out, err *e)
{
    status result = OK;
    char *values = NULL, *state = NULL;
    ckpt *c = NULL;
    TRY(file_join(folder, CKPT_STATE_JSON, &values, e));
    TRY(file_join(folder, CKPT_STATE_TENSORS, &state, e));
    TRY(alloc_zeroed(&c, 1, sizeof *c, "a checkpoint", e));
    TRY(text_copy(folder, &c->folder, e));
    if (!file_exists(values))
        FAIL(E_USAGE, "%s: not a checkpoint of Trireme, it has no %s", folder, CKPT_STATE_JSON);
    TRY(ckpt_json_open(values, &c->values, e));
    TRY(open_weights(folder, &c->weights, e));
    TRY(safetensors_open(state, &c->state, e));
    *out = c;
    c = NULL;
done:
    ckpt_close(c);
    free(values);
    free(state);
    return result;
}

void ckpt_close(ckpt *c)
{
    if (!c) return;
    safetensors_close(c->weights);
    safetensors_close(c->state);
    json_decref(c->values);
    free(c->folder);
    free(c);
}

static status wrong_value(const ckpt *c, const char *key, const char *valid, err *e)
{
    return err_set(e, E_USAGE, "%s/%s: %s: %s, valid is %s", c->folder, CKPT_STATE_JSON, key,
                   json_object_get(c->values, key) ? "has another type" : "missing", valid);
}

status ckpt_int(const ckpt *c, const char *key, int64_t *out, err *e)
{
    const json_t *value = json_object_get(c->values, key);
    if (!json_is_integer(value)) return wrong_value(c, key, "a whole number", e);
    *out = json_integer_value(value);
    return OK;
}

status ckpt_real(const ckpt *c, const char *key, double *out, err *e)
{
    const json_t *value = json_object_get(c->values, key);
    if (!json_is_number(value)) return wrong_value(c, key, "a number", e);
    *out = json_number_value(value);
    return OK;
}

status ckpt_text(const ckpt *c, const char *key, const char **out, err *e)
{
    const json_t *value = json_object_get(c->values, key);
    if (!json_is_string(value)) return wrong_value(c, key, "a string", e);
    *out = json_string_value(value);
    return OK;
}
