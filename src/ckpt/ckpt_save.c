// ckpt_save.c -- writes a checkpoint: all files and the manifest into a temporary folder, which
// ckpt_folder.c then renames.
//
// The trainer calls it on one rank. It does not know what the tensors mean or which rank holds them:
// the trainer's ranks write them into the files that it has made.
#include "base/alloc.h"
#include "base/file.h"
#include "ckpt/ckpt_files.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

// The state of one save.
struct ckpt_save_job {
    const ckpt_save_options *o;
    char *checkpoints; // the folder that gets the checkpoint
    char *folder;      // the temporary folder
    json_t *files;     // the list of the manifest
    json_t *values;    // state.json
    int lock;          // of `folder` while it is written, else -1
};

static status put_file(ckpt_save_job *s, const char *name, const void *data, size_t bytes, err *e)
{
    status result = OK;
    file_writer *w = NULL;
    char *path = NULL;
    TRY(file_join(s->folder, name, &path, e));
    TRY(file_create(path, &w, e));
    TRY(file_write(w, data, bytes, e));
    file_writer *full = w;
    w = NULL;
    TRY(file_finish(full, e));
    TRY(ckpt_manifest_add(s->files, s->folder, name, XXH3_64bits(data, bytes), e));
done:
    file_abandon(w);
    free(path);
    return result;
}

static status put_json(ckpt_save_job *s, const char *name, const json_t *value, err *e)
{
    status result = OK;
    char *json = json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    if (!json) FAIL(E_MEMORY, "%s: out of memory", name);
    TRY(put_file(s, name, json, strlen(json), e));
done:
    free(json);
    return result;
}

// The index of weights in several files.
static status put_index(ckpt_save_job *s, err *e)
{
    status result = OK;
    const safetensors_tensor *info = s->o->weights.info;
    json_t *map = json_object(), *index = NULL;
    uint64_t total = 0;
    for (size_t i = 0; i < s->o->files->count; i++) {
        const ckpt_file *f = &s->o->files->file[i];
        for (size_t k = f->first; !f->is_state && k < f->first + f->count; k++) {
            json_object_set_new(map, info[k].name, json_string(f->name));
            total += info[k].bytes;
        }
    }
    index =
        json_pack("{s:{s:I}, s:O}", "metadata", "total_size", (json_int_t)total, "weight_map", map);
    TRY(put_json(s, "model.safetensors.index.json", index, e));
done:
    json_decref(index);
    json_decref(map);
    return result;
}

static status create_tensors(ckpt_save_job *s, err *e)
{
    status result = OK;
    char *path = NULL;
    for (size_t i = 0; i < s->o->files->count; i++) {
        TRY(file_join(s->folder, s->o->files->file[i].name, &path, e));
        TRY(safetensors_create(path, &s->o->files->file[i].layout, e));
        free(path);
        path = NULL;
    }
done:
    free(path);
    return result;
}

// Reads back what all ranks have written: the checksum of a whole file has no parts that could be
// added. The bytes are still in the page cache, except where another host wrote them.
static status list_tensors(ckpt_save_job *s, bool state, err *e)
{
    status result = OK;
    char *path = NULL;
    for (size_t i = 0; i < s->o->files->count; i++) {
        const ckpt_file *f = &s->o->files->file[i];
        uint64_t hash;
        if (f->is_state != state) continue;
        TRY(file_join(s->folder, f->name, &path, e));
        TRY(file_hash(path, &hash, e));
        TRY(ckpt_manifest_add(s->files, s->folder, f->name, hash, e));
        free(path);
        path = NULL;
    }
done:
    free(path);
    return result;
}

// The manifest lists the weights, their index and the state in this order.
static status list_all_tensors(ckpt_save_job *s, err *e)
{
    status result = OK;
    TRY(list_tensors(s, false, e));
    if (s->o->files->count > 2) TRY(put_index(s, e));
    TRY(list_tensors(s, true, e));
done:
    return result;
}

static const char *const TOKENIZER_FILES[] = {"tokenizer.json",
                                              "tokenizer_config.json",
                                              "special_tokens_map.json",
                                              "added_tokens.json",
                                              "vocab.json",
                                              "merges.txt",
                                              "tokenizer.model",
                                              "chat_template.jinja",
                                              "generation_config.json"};
enum { TOKENIZER_FILE_COUNT = sizeof TOKENIZER_FILES / sizeof TOKENIZER_FILES[0] };

// Copies a file of another folder, where it is there.
static status copy_file(ckpt_save_job *s, const char *folder, const char *name, err *e)
{
    status result = OK;
    char *path = NULL;
    file_map map = {0};
    TRY(file_join(folder, name, &path, e));
    if (!file_exists(path)) goto done;
    TRY(file_map_open(path, &map, e));
    TRY(put_file(s, name, map.ptr, map.bytes, e));
done:
    file_unmap(&map);
    free(path);
    return result;
}

static status copy_tokenizer(ckpt_save_job *s, err *e)
{
    status result = OK;
    for (int i = 0; s->o->tokenizer_folder && i < TOKENIZER_FILE_COUNT; i++)
        TRY(copy_file(s, s->o->tokenizer_folder, TOKENIZER_FILES[i], e));
done:
    return result;
}

static bool has_end(const char *name, const char *end)
{
    const size_t n = strlen(name), k = strlen(end);
    return n >= k && strcmp(name + n - k, end) == 0;
}

// Returns whether a file of the model's folder goes into the checkpoint: no other weights, nothing that the checkpoint has
// from elsewhere.
static bool is_carried(const ckpt_save_job *s, const char *name, const struct stat *info)
{
    enum { MOST = 64 << 20 };
    static const char *const weights[] = {".safetensors", ".index.json", ".bin",      ".pt",
                                          ".pth",         ".ckpt",       ".gguf",     ".h5",
                                          ".msgpack",     ".onnx",       ".onnx_data"};
    if (!S_ISREG(info->st_mode) || info->st_size > MOST || *name == '.' ||
        strcmp(name, "config.json") == 0)
        return false;
    for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++)
        if (has_end(name, weights[i])) return false;
    for (int i = 0; s->o->tokenizer_folder && i < TOKENIZER_FILE_COUNT; i++)
        if (strcmp(name, TOKENIZER_FILES[i]) == 0) return false;
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct dirent *const *)a)->d_name,
                  (*(const struct dirent *const *)b)->d_name);
}

// In the order of names, so that two saves have one manifest.
static status copy_model_files(ckpt_save_job *s, err *e)
{
    status result = OK;
    const char *folder = s->o->model_folder;
    struct dirent **entry = NULL;
    char *path = NULL;
    const int count = folder ? scandir(folder, &entry, NULL, NULL) : 0;
    if (count > 1) qsort(entry, (size_t)count, sizeof *entry, by_name);
    for (int i = 0; i < count; i++) {
        struct stat info;
        TRY(file_join(folder, entry[i]->d_name, &path, e));
        if (stat(path, &info) == 0 && is_carried(s, entry[i]->d_name, &info))
            TRY(copy_file(s, folder, entry[i]->d_name, e));
        free(path);
        path = NULL;
    }
done:
    for (int i = 0; i < count; i++) free(entry[i]);
    free(entry);
    free(path);
    return result;
}

static status make_folder(const char *path, err *e)
{
    return mkdir(path, 0777) == 0 ? OK : err_errno(e, "cannot make the folder %s", path);
}

// Makes the folder, with the files of tensors in their full size.
static status make_files(ckpt_save_job *s, err *e)
{
    status result = OK;
    char *inner = NULL;
    TRY(file_join(s->folder, "trireme", &inner, e));
    TRY(file_remove_tree(s->folder, e));
    TRY(make_folder(s->folder, e));
    TRY(ckpt_lock(s->folder, &s->lock, e));
    TRY(make_folder(inner, e));
    TRY(create_tensors(s, e));
done:
    free(inner);
    return result;
}

// Adds all other files to the folder, whose tensors are complete.
static status put_others(ckpt_save_job *s, err *e)
{
    status result = OK;
    const ckpt_save_options *o = s->o;
    char *inner = NULL;
    TRY(file_join(s->folder, "trireme", &inner, e));
    TRY(put_file(s, o->is_adapter ? CKPT_ADAPTER_CONFIG : "config.json", o->config_json,
                 strlen(o->config_json), e));
    TRY(copy_tokenizer(s, e));
    TRY(copy_model_files(s, e));
    TRY(list_all_tensors(s, e));
    TRY(put_json(s, CKPT_STATE_JSON, s->values, e));
    TRY(ckpt_manifest_write(s->files, s->folder, o->step, e));
    TRY(file_sync_directory(inner, e));
    TRY(file_sync_directory(s->folder, e));
done:
    free(inner);
    return result;
}

static status read_values(ckpt_save_job *s, err *e)
{
    status result = OK;
    json_error_t problem;
    s->values = json_loads(s->o->state_json, JSON_REJECT_DUPLICATES, &problem);
    if (!json_is_object(s->values))
        FAIL(E_INTERNAL, "the state of step %" PRId64 " is not a JSON object", s->o->step);
    json_object_set_new(s->values, "step", json_integer(s->o->step));
done:
    return result;
}

// A save is no bad input, also where a file that it reads again is gone: something was started.
static status explain_failure(const ckpt_save_options *o, bool published, status why, err *e)
{
    if (why == E_USAGE) why = E_IO;
    if (!file_is_directory(o->out))
        err_set(e, E_IO,
                "%s: the folder was removed during the run; the checkpoint of step %" PRId64
                " is not saved",
                o->out, o->step);
    else if (published)
        err_prefix(e,
                   "the checkpoint of step %" PRId64
                   " is saved, but the link to it or older checkpoints could not be updated: ",
                   o->step);
    else
        err_prefix(e,
                   "the checkpoint of step %" PRId64 " is not saved, older ones stay: ", o->step);
    if (e) e->code = why;
    return why;
}

static status open_folder(ckpt_save_job *s, err *e)
{
    status result = OK;
    const ckpt_save_options *o = s->o;
    char name[CKPT_NAME_BYTES], hidden[2 * CKPT_NAME_BYTES];
    uint64_t nonce = 0;
    ckpt_entry_name(name, o->step);
    // No other folder on any host has this name, so a rank that finds it sees this file system.
    if (getrandom(&nonce, sizeof nonce, 0) != sizeof nonce) {
        result = err_errno(e, "cannot draw the name of a temporary folder");
        goto done;
    }
    snprintf(hidden, sizeof hidden, ".tmp-%s-%ld-%016" PRIx64, name, (long)getpid(), nonce);
    TRY(file_join(o->out, "checkpoints", &s->checkpoints, e));
    TRY(file_join(s->checkpoints, hidden, &s->folder, e));
    TRY(read_values(s, e));
    if (!file_is_directory(s->checkpoints)) TRY(make_folder(s->checkpoints, e));
    TRY(ckpt_sweep(s->checkpoints, e));
    TRY(make_files(s, e));
done:
    return result;
}

static status publish(ckpt_save_job *s, bool *published, char **folder, err *e)
{
    status result = OK;
    const ckpt_save_options *o = s->o;
    char name[CKPT_NAME_BYTES];
    ckpt_entry_name(name, o->step);
    TRY(put_others(s, e));
    TRY(ckpt_fence_check(o->fence, e));
    TRY(ckpt_publish(s->checkpoints, s->folder, o->step, e));
    *published = true;
    TRY(ckpt_point(s->checkpoints, "latest", name, e));
    if (o->best > 0 && o->best == o->step) TRY(ckpt_point(s->checkpoints, "best", name, e));
    TRY(ckpt_prune(s->checkpoints, o->step, o->keep, o->best, e));
    if (folder) TRY(file_join(s->checkpoints, name, folder, e));
done:
    return result;
}

// Ends a save with its result, and frees it.
static status end_save(ckpt_save_job *s, bool published, status result, err *e)
{
    if (result != OK) {
        result = explain_failure(s->o, published, result, e);
        if (s->o->failed && e) s->o->failed(s->o->arg, e);
        if (s->folder) file_remove_tree(s->folder, NULL);
    }
    if (s->lock >= 0) close(s->lock);
    json_decref(s->files);
    json_decref(s->values);
    free(s->folder);
    free(s->checkpoints);
    free(s);
    return result;
}

status ckpt_save_begin(const ckpt_save_options *o, ckpt_save_job **out, const char **folder, err *e)
{
    status result = OK;
    ckpt_save_job *s = NULL;
    TRY(alloc_zeroed(&s, 1, sizeof *s, "a checkpoint", e));
    *s = (ckpt_save_job){.o = o, .lock = -1, .files = json_array()};
    TRY(open_folder(s, e));
    *folder = s->folder;
    *out = s;
    s = NULL;
done:
    return s ? end_save(s, false, result, e) : result;
}

status ckpt_save_end(ckpt_save_job *s, status filled, char **folder, err *e)
{
    bool published = false;
    const status result = filled == OK ? publish(s, &published, folder, e) : filled;
    return end_save(s, published, result, e);
}

status ckpt_save(const ckpt_save_options *o, char **folder, err *e)
{
    ckpt_save_job *s = NULL;
    const char *inside = NULL;
    const status begun = ckpt_save_begin(o, &s, &inside, e);
    if (begun != OK) return begun;
    return ckpt_save_end(s, o->fill(o->arg, inside, e), folder, e);
}
