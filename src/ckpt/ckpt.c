// ckpt.c -- finds and opens checkpoints. The trainer calls it to resume, and the commands that show,
// verify and export checkpoints. It does not know what the values mean.
#include "ckpt/ckpt.h"

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
    *folder = NULL;
    TRY(ckpt_list(checkpoints, &list, &count, e));
    for (size_t i = 0; i < count; i++) {
        char *path = file_join(checkpoints, list[i].name);
        if (ckpt_verify(path, &problem) == OK) {
            *folder = path;
            goto done;
        }
        free(path);
        if (warnings)
            text_addf(warnings, "%s is broken and skipped: %s\n", list[i].name, problem.text);
    }
    if (count)
        FAIL(E_USAGE, "%s: none of %zu checkpoints is valid; the oldest: %s", checkpoints, count,
             problem.text);
done:
    free(list);
    return result;
}

status ckpt_newest(const char *out, char **folder, text *warnings, err *e)
{
    status result = OK;
    char *checkpoints = file_join(out, "checkpoints");
    *folder = NULL;
    if (file_is_directory(checkpoints)) result = newest_in(checkpoints, folder, warnings, e);
    free(checkpoints);
    return result;
}

static bool has_inside(const char *folder, const char *name)
{
    char *path = file_join(folder, name);
    bool has = file_exists(path);
    free(path);
    return has;
}

status ckpt_locate(const char *folder, char **checkpoint, text *warnings, err *e)
{
    status result = OK;
    char *inner = file_join(folder, "checkpoints");
    *checkpoint = NULL;
    if (has_inside(folder, "config.json") || has_inside(folder, "trireme") ||
        !file_is_directory(inner)) {
        *checkpoint = text_copy(folder);
        goto done;
    }
    TRY(newest_in(inner, checkpoint, warnings, e));
    if (!*checkpoint) FAIL(E_USAGE, "%s: the run has no checkpoint yet", folder);
done:
    free(inner);
    return result;
}

status ckpt_open(const char *folder, ckpt **out, err *e)
{
    status result = OK;
    char *values = file_join(folder, CKPT_STATE_JSON),
         *state = file_join(folder, CKPT_STATE_TENSORS);
    ckpt *c = calloc(1, sizeof *c);
    if (!c) FAIL(E_IO, "%s: out of memory to open it", folder);
    c->folder = text_copy(folder);
    if (!file_exists(values))
        FAIL(E_USAGE, "%s: not a checkpoint of Trireme, it has no %s", folder, CKPT_STATE_JSON);
    TRY(ckpt_json_open(values, &c->values, e));
    TRY(safetensors_open_folder(folder, &c->weights, e));
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
