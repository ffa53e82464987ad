// to_folder.c -- a folder of a model or of an adapter to a clean one: without what Trireme adds, the weights cast and divided
// into files as the caller says, all else byte for byte. The command checkpoint calls it, for export and for import of
// folders. It reads weights through the folder's map and never holds a tensor.
#include "convert/convert.h"
#include "convert/generation.h"
#include "convert/merge.h"
#include "convert/output.h"

#include "base/alloc.h"
#include "base/file.h"
#include "model/folder.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct folder_job {
    const convert_options *o;
    convert_result *r;
    safetensors *from;
    safetensors_tensor *info; // [count] as they are written
    size_t count;
    bool casts;
    dtype type;
    bool is_adapter;
    convert_merge merge;
    convert_output output;
} folder_job;

static bool is_number(const safetensors_tensor *t)
{
    return t->known_type && (t->type == F32 || t->type == BF16 || t->type == F16 || t->type == F64);
}

// ---- Weights

static status list_tensors(folder_job *j, err *e)
{
    static const dtype types[] = {F32, BF16, F16};
    status result = OK;
    int index = 0;
    if (j->o->type) TRY(convert_find_type(j->o->type, CONVERT_FOLDER_TYPES, &index, e));
    j->casts = j->o->type != NULL;
    j->type = types[index];
    j->count = safetensors_count(j->from);
    TRY(alloc_array(&j->info, j->count, sizeof *j->info, "a list of tensors", e));
    for (size_t i = 0; i < j->count; i++) {
        safetensors_tensor *t = &j->info[i];
        *t = *safetensors_get(j->from, i);
        if (j->casts && is_number(t)) {
            t->bytes = t->bytes / dtype_bytes(t->type) * dtype_bytes(j->type);
            t->type = j->type;
        }
        j->r->bytes += t->bytes;
    }
    j->r->tensors = j->count;
    (void)snprintf(j->r->kind, sizeof j->r->kind, "%s",
                   j->casts ? dtype_name(j->type) : "types as they were");
done:
    return result;
}

// Elements of a tensor of the folder as `type`.
static void convert_elements(const safetensors_tensor *t, int64_t first, int64_t count, dtype type,
                             char *out)
{
    enum { RUN = 256 };
    float run[RUN];
    for (int64_t i = 0, n; i < count; i += n) {
        n = count - i < RUN ? count - i : RUN;
        safetensors_read(t, first + i, n, run);
        dtype_convert(out + (size_t)i * dtype_bytes(type), type, run, F32, (size_t)n);
    }
}

static status read_tensor(void *arg, size_t i, uint64_t offset, void *out, size_t bytes, err *e)
{
    status result = OK;
    folder_job *j = arg;
    const safetensors_tensor *t;
    const dtype type = j->info[i].type;
    TRY(convert_merge_find(&j->merge, i, &t, e));
    const char *data = t->data;
    const size_t each = dtype_bytes(type);
    if (t->nf4) {
        convert_elements(t, (int64_t)(offset / each), (int64_t)(bytes / each), type, out);
    } else if (type == t->type) {
        memcpy(out, data + offset, bytes);
    } else {
        dtype_convert(out, type, data + offset / each * dtype_bytes(t->type), t->type,
                      bytes / each);
    }
done:
    return result;
}

static status put_adapter(folder_job *j, err *e)
{
    status result = OK;
    char *path = NULL;
    TRY(file_join(j->output.hidden, MODEL_LORA_WEIGHTS, &path, e));
    TRY(safetensors_write(path, j->info, j->count, read_tensor, j, NULL, e));
done:
    free(path);
    return result;
}

// ---- Other files

static bool has_end(const char *name, const char *end)
{
    const size_t n = strlen(name), k = strlen(end);
    return n >= k && strcmp(name + n - k, end) == 0;
}

// Returns whether a file belongs to the model and is copied byte for byte. Weights in other formats are of another state
// of the model.
static bool is_copied(const char *name, const struct stat *info)
{
    enum { MOST = 64 << 20 };
    static const char *const others[] = {".safetensors", ".index.json", ".bin",  ".pt",
                                         ".pth",         ".ckpt",       ".gguf", ".h5",
                                         ".msgpack",     ".onnx",       ".tmp"};
    if (!S_ISREG(info->st_mode) || info->st_size > MOST || *name == '.') return false;
    if (strcmp(name, "config.json") == 0 || strcmp(name, "generation_config.json") == 0)
        return false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (has_end(name, others[i])) return false;
    return true;
}

// The files of an adapter that are not the model's own, as its tokenizer and template are.
static bool is_of_adapter(const char *name)
{
    return strcmp(name, MODEL_LORA_CONFIG) == 0 || strcmp(name, "README.md") == 0;
}

static status copy_files(const folder_job *j, const char *folder, err *e)
{
    status result = OK;
    char *path = NULL, *chars = NULL;
    struct dirent *d;
    DIR *dir = opendir(folder);
    if (!dir) {
        result = err_errno(e, "cannot list the folder %s", folder);
        goto done;
    }
    while ((d = readdir(dir))) {
        struct stat info;
        size_t bytes;
        free(path);
        path = NULL;
        TRY(file_join(folder, d->d_name, &path, e));
        if (stat(path, &info) != 0 || !is_copied(d->d_name, &info)) continue;
        if (folder == j->o->adapter && is_of_adapter(d->d_name)) continue;
        TRY(file_read(path, &chars, &bytes, e));
        TRY(convert_output_put(&j->output, d->d_name, chars, bytes, e));
        free(chars);
        chars = NULL;
    }
done:
    if (dir) closedir(dir);
    free(chars);
    free(path);
    return result;
}

// ---- A model

static status put_model(folder_job *j, const model_config *c, const model *m, err *e)
{
    status result = OK;
    model_folder *folder = NULL;
    char *config = NULL;
    TRY(model_folder_open(j->o->from, m, j->from, &folder, e));
    TRY(model_folder_config(folder, j->casts ? convert_type_word(j->type) : NULL, &config, e));
    TRY(convert_output_put(&j->output, "config.json", config, strlen(config), e));
    TRY(copy_files(j, j->o->from, e));
    if (j->o->adapter) TRY(copy_files(j, j->o->adapter, e));
    TRY(convert_put_generation(j->o->from, convert_tokenizer_folder(j->o), c, &j->output,
                               &j->r->warnings, e));
    TRY(convert_output_put_weights(&j->output, j->info, j->count, j->o->shard_bytes, read_tensor, j,
                                   e));
done:
    free(config);
    model_folder_close(folder);
    return result;
}

// Opens the model as a run would, so that a folder which is not one is refused before anything is written.
static status convert_model(folder_job *j, err *e)
{
    status result = OK;
    model_config c;
    model *m = NULL;
    const model_options once = {.mode = GRAPH_EVAL, .type = F32, .batch = 1, .seq = 1};
    TRY(model_config_read(j->o->from, &c, e));
    if (!c.family->decoder)
        FAIL(E_USAGE, "%s: found a %s model; valid: a model of tokens", j->o->from, c.family->name);
    TRY(model_open(c.family, &c, &once, &m, e));
    TRY(safetensors_open_weights(j->o->from, &j->from, e));
    TRY(convert_merge_open(j->o, m, j->from, &j->merge, e));
    TRY(list_tensors(j, e));
    TRY(convert_output_begin(j->o->out, true, j->o->overwrite, &j->output, e));
    TRY(put_model(j, &c, m, e));
    convert_merge_describe(&j->merge, j->o, &j->r->notes);
done:
    model_close(m);
    return result;
}

// ---- An adapter

static status check_adapter(const folder_job *j, err *e)
{
    status result = OK;
    json_t *config = NULL;
    TRY(convert_read_json(j->o->from, MODEL_LORA_CONFIG, &config, e));
    const char *type = json_string_value(json_object_get(config, "peft_type"));
    if (!type || strcmp(type, "LORA") != 0)
        FAIL(E_USAGE, "%s/%s: peft_type: found %s; valid: LORA", j->o->from, MODEL_LORA_CONFIG,
             type ? type : "nothing");
    for (size_t i = 0; i < safetensors_count(j->from); i++)
        if (!is_number(safetensors_get(j->from, i)))
            FAIL(E_USAGE,
                 "%s/%s: tensor %s has a type that weights cannot have; valid: F32, BF16, "
                 "F16, F64",
                 j->o->from, MODEL_LORA_WEIGHTS, safetensors_get(j->from, i)->name);
done:
    json_decref(config);
    return result;
}

static status convert_adapter(folder_job *j, err *e)
{
    status result = OK;
    char *path = NULL;
    TRY(file_join(j->o->from, MODEL_LORA_WEIGHTS, &path, e));
    TRY(safetensors_open(path, &j->from, e));
    TRY(check_adapter(j, e));
    TRY(convert_merge_open(j->o, NULL, j->from, &j->merge, e));
    TRY(list_tensors(j, e));
    TRY(convert_output_begin(j->o->out, true, j->o->overwrite, &j->output, e));
    TRY(copy_files(j, j->o->from, e));
    TRY(put_adapter(j, e));
done:
    free(path);
    return result;
}

const char *convert_tokenizer_folder(const convert_options *o)
{
    char *path = NULL;
    const bool own = o->adapter && file_join(o->adapter, "tokenizer.json", &path, NULL) == OK &&
                     file_exists(path);
    free(path);
    return own ? o->adapter : o->from;
}

status convert_to_folder(const convert_options *o, convert_result *r, err *e)
{
    status result = OK;
    folder_job j = {.o = o, .r = r};
    *r = (convert_result){0};
    TRY(model_lora_in_folder(o->from, &j.is_adapter, e));
    if (j.is_adapter)
        TRY(convert_adapter(&j, e));
    else
        TRY(convert_model(&j, e));
    TRY(safetensors_check_whole(j.from, e));
    TRY(text_copy(j.output.path, &r->out, e));
    TRY(convert_output_finish(&j.output, e));
done:
    convert_merge_close(&j.merge);
    convert_output_abandon(&j.output);
    free(j.info);
    safetensors_close(j.from);
    return result;
}
