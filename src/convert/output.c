// output.c -- see output.h.
#include "convert/output.h"

#include "convert/convert.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "ckpt/ckpt.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

void convert_result_clear(convert_result *r)
{
    free(r->out);
    text_clear(&r->warnings);
    text_clear(&r->notes);
    *r = (convert_result){0};
}

// ---- The place of the result

static status add_suffix(const char *path, const char *suffix, char **out, err *e)
{
    text t = {0};
    text_addf(&t, "%s.%s-%ld", path, suffix, (long)getpid());
    return text_take(&t, out, e);
}

status convert_output_begin(const char *out, bool is_folder, bool overwrite, convert_output *o,
                            err *e)
{
    status result = OK;
    char *folder = NULL;
    *o = (convert_output){NULL, NULL};
    TRY(text_copy(out, &o->path, e));
    for (size_t n = strlen(o->path); n > 1 && o->path[n - 1] == '/';) o->path[--n] = 0;
    if (!*o->path || strcmp(o->path, "/") == 0)
        FAIL(E_USAGE, "--out: found '%s'; valid: a path", out);
    if (file_exists(o->path) && !overwrite)
        FAIL(E_USAGE, "--out: %s exists; valid: a new path, or --overwrite", o->path);
    if (file_exists(o->path) && file_is_directory(o->path) != is_folder)
        FAIL(E_USAGE, "--out: %s is %s folder; valid: %s", o->path, is_folder ? "no" : "a",
             is_folder ? "a folder" : "a file");
    TRY(text_copy(o->path, &folder, e));
    char *slash = strrchr(folder, '/');
    if (slash && slash > folder) {
        *slash = 0;
        TRY(file_make_directories(folder, e));
    }
    TRY(add_suffix(o->path, "tmp", &o->hidden, e));
    TRY(file_remove_tree(o->hidden, e));
    if (is_folder) TRY(file_make_directories(o->hidden, e));
done:
    free(folder);
    return result;
}

// A rename cannot replace a folder that is not empty, so an old one first gets another name.
status convert_output_finish(convert_output *o, err *e)
{
    status result = OK;
    char *old = NULL;
    const bool is_folder = file_is_directory(o->hidden);
    if (is_folder) TRY(file_sync_directory(o->hidden, e));
    if (is_folder && file_exists(o->path)) {
        TRY(add_suffix(o->path, "old", &old, e));
        TRY(file_remove_tree(old, e));
        TRY(file_rename(o->path, old, e));
    }
    TRY(file_rename(o->hidden, o->path, e));
    free(o->hidden);
    o->hidden = NULL;
    if (old) TRY(file_remove_tree(old, e));
done:
    free(old);
    return result;
}

void convert_output_abandon(convert_output *o)
{
    if (o->hidden) file_remove_tree(o->hidden, NULL);
    free(o->hidden);
    free(o->path);
    *o = (convert_output){NULL, NULL};
}

// ---- Files

status convert_output_put(const convert_output *o, const char *name, const void *data, size_t bytes,
                          err *e)
{
    status result = OK;
    char *path = NULL;
    file_writer *w = NULL;
    TRY(file_join(o->hidden, name, &path, e));
    TRY(file_create(path, &w, e));
    TRY(file_write(w, data, bytes, e));
    file_writer *finished = w;
    w = NULL;
    TRY(file_finish(finished, e));
done:
    file_abandon(w);
    free(path);
    return result;
}

status convert_output_put_json(const convert_output *o, const char *name, const json_t *value,
                               err *e)
{
    status result = OK;
    char *chars = json_dumps(value, JSON_INDENT(2));
    if (!chars) FAIL(E_MEMORY, "no memory for %s", name);
    TRY(convert_output_put(o, name, chars, strlen(chars), e));
done:
    free(chars);
    return result;
}

// The tensors of one file, which the writer counts from 0.
typedef struct file_source {
    safetensors_source read;
    void *arg;
    size_t first;
} file_source;

static status read_of_file(void *arg, size_t i, uint64_t offset, void *out, size_t bytes, err *e)
{
    const file_source *s = arg;
    return s->read(s->arg, s->first + i, offset, out, bytes, e);
}

static status put_index(const convert_output *o, const ckpt_files *files,
                        const safetensors_tensor *info, err *e)
{
    status result = OK;
    json_t *map = json_object(), *index = NULL;
    json_int_t total = 0;
    for (size_t f = 0; f < files->count; f++)
        for (size_t i = 0; !files->file[f].is_state && i < files->file[f].count; i++) {
            const safetensors_tensor *t = &info[files->file[f].first + i];
            json_object_set_new(map, t->name, json_string(files->file[f].name));
            total += (json_int_t)t->bytes;
        }
    index = json_pack("{s:{s:I}, s:O}", "metadata", "total_size", total, "weight_map", map);
    if (!index) FAIL(E_MEMORY, "no memory for the index of the weights");
    TRY(convert_output_put_json(o, "model.safetensors.index.json", index, e));
done:
    json_decref(index);
    json_decref(map);
    return result;
}

status convert_output_put_weights(const convert_output *o, const safetensors_tensor *info,
                                  size_t count, uint64_t shard_bytes, safetensors_source read,
                                  void *arg, err *e)
{
    status result = OK;
    ckpt_files files = {.count = 0};
    char *path = NULL;
    int written = 0;
    const ckpt_tensors weights = {info, count}, none = {NULL, 0};
    TRY(ckpt_files_make(&weights, &none, shard_bytes, &files, e));
    for (size_t f = 0; f < files.count; f++) {
        const ckpt_file *file = &files.file[f];
        file_source source = {read, arg, file->first};
        if (file->is_state) continue;
        TRY(file_join(o->hidden, file->name, &path, e));
        TRY(safetensors_write(path, info + file->first, file->count, read_of_file, &source, NULL,
                              e));
        free(path);
        path = NULL;
        written++;
    }
    if (written > 1) TRY(put_index(o, &files, info, e));
done:
    free(path);
    ckpt_files_clear(&files);
    return result;
}

// ---- Types

const char *const CONVERT_FOLDER_TYPES[] = {"fp32", "bf16", "fp16", NULL};
const char *const CONVERT_GGUF_TYPES[] = {"f16", "bf16", "q8_0", "f32", NULL};

static const char *const SYNONYMS[][3] = {
    {"fp32", "f32", "float32"}, {"bf16", "bf16", "bfloat16"}, {"fp16", "f16", "float16"}};

static bool means(const char *word, const char *valid)
{
    if (strcasecmp(word, valid) == 0) return true;
    for (size_t i = 0; i < sizeof SYNONYMS / sizeof *SYNONYMS; i++) {
        bool is_word = false, is_valid = false;
        for (int k = 0; k < 3; k++) {
            is_word = is_word || strcasecmp(word, SYNONYMS[i][k]) == 0;
            is_valid = is_valid || strcmp(valid, SYNONYMS[i][k]) == 0;
        }
        if (is_word && is_valid) return true;
    }
    return false;
}

status convert_find_type(const char *word, const char *const *valid, int *out, err *e)
{
    text words = {0};
    for (int i = 0; valid[i]; i++) {
        if (means(word, valid[i])) {
            *out = i;
            text_clear(&words);
            return OK;
        }
        text_addf(&words, "%s%s", i ? ", " : "", valid[i]);
    }
    const status s =
        err_set(e, E_USAGE, "--dtype: found '%s'; valid: %s", word, words.chars ? words.chars : "");
    text_clear(&words);
    return s;
}

const char *convert_type_word(dtype type)
{
    return type == BF16 ? "bfloat16" : type == F16 ? "float16" : "float32";
}

status convert_read_json(const char *folder, const char *name, json_t **out, err *e)
{
    status result = OK;
    char *path = NULL, *chars = NULL;
    size_t bytes;
    json_error_t problem;
    *out = NULL;
    TRY(file_join(folder, name, &path, e));
    if (!file_exists(path)) goto done;
    TRY(file_read_small(path, FILE_MOST_TABLE, &chars, &bytes, e));
    *out = json_load_python(chars, bytes, JSON_ALLOW_NUL, &problem);
    if (!json_is_object(*out))
        FAIL(E_USAGE, "%s:%d: %s", path, *out ? 1 : problem.line,
             *out ? "found no JSON object" : problem.text);
done:
    if (result != OK) {
        json_decref(*out);
        *out = NULL;
    }
    free(chars);
    free(path);
    return result;
}
