// safetensors_folder.c -- opens the weights of a HuggingFace folder: model.safetensors, or the
// shards that model.safetensors.index.json lists as {"weight_map": {TENSOR: FILE}}.
//
// The loaders of models and checkpoints call it. It does not know which tensors a model needs.
#include "base/alloc.h"
#include "base/json.h"
#include "store/safetensors_file.h"

#include <stdlib.h>
#include <string.h>

// Lists the distinct files of a weight map in the order of their first use. The names are borrowed
// from the map; the caller frees *out.
static status list_files(const char *index_path, json_t *map, const char ***out, size_t *count,
                         err *e)
{
    status result = OK;
    char label[SAFETENSORS_LABEL_BYTES];
    json_t *seen = json_object();
    const char **files = NULL;
    if (!seen) FAIL(E_MEMORY, "%s: no memory for the list of files", index_path);
    TRY(alloc_zeroed(&files, json_object_size(map), sizeof *files, "the list of files", e));
    size_t n = 0;
    const char *name;
    json_t *value;
    json_object_foreach(map, name, value)
    {
        const char *file = json_string_value(value);
        if (!file || !*file || strchr(file, '/') || strcmp(file, "..") == 0)
            FAIL(E_USAGE, "%s: weight_map: \"%s\": not the name of a file in this folder",
                 index_path, safetensors_label(name, label));
        if (json_object_get(seen, file)) continue;
        json_object_set_new(seen, file, json_true());
        files[n++] = file;
    }
    if (n == 0) FAIL(E_USAGE, "%s: weight_map lists no tensors", index_path);
    *out = files;
    *count = n;
    files = NULL;
done:
    free(files);
    json_decref(seen);
    return result;
}

// Checks that every listed tensor is in the file that the index names, and that the files hold no
// other tensors.
static status check_map(const char *index_path, json_t *map, const char *const *files,
                        const safetensors *s, err *e)
{
    status result = OK;
    char label[SAFETENSORS_LABEL_BYTES];
    const char *name;
    json_t *value;
    json_object_foreach(map, name, value)
    {
        const safetensors_tensor *t = safetensors_find(s, name);
        if (!t || strcmp(files[s->file_index[t - s->tensors]], json_string_value(value)))
            FAIL(E_USAGE, "%s: tensor \"%s\" is not in %s", index_path,
                 safetensors_label(name, label), json_string_value(value));
    }
    for (size_t i = 0; i < s->count; i++)
        if (!json_object_get(map, s->tensors[i].name))
            FAIL(E_USAGE, "%s: tensor \"%s\" of %s is not in the index", index_path,
                 safetensors_label(s->tensors[i].name, label), files[s->file_index[i]]);
done:
    return result;
}

static status open_index(const char *folder, const char *index_path, safetensors **out, err *e)
{
    status result = OK;
    char *text = NULL, **paths = NULL;
    const char **files = NULL;
    size_t bytes, count = 0;
    json_t *root = NULL;
    safetensors *s = NULL;
    TRY(file_read_small(index_path, FILE_MOST_TABLE, &text, &bytes, e));
    json_error_t problem;
    char label[SAFETENSORS_LABEL_BYTES];
    root = json_load_python(text, bytes, JSON_REJECT_DUPLICATES, &problem);
    if (!root)
        FAIL(E_USAGE, "%s:%d: %s", index_path, problem.line,
             safetensors_label(problem.text, label));
    json_t *map = json_object_get(root, "weight_map");
    if (!json_is_object(map)) FAIL(E_USAGE, "%s: weight_map: missing or not an object", index_path);
    TRY(list_files(index_path, map, &files, &count, e));
    TRY(alloc_zeroed(&paths, count, sizeof *paths, "the list of files", e));
    for (size_t i = 0; i < count; i++) TRY(file_join(folder, files[i], &paths[i], e));
    TRY(safetensors_open_files((const char *const *)paths, count, &s, e));
    TRY(check_map(index_path, map, files, s, e));
    *out = s;
    s = NULL;
done:
    safetensors_close(s);
    for (size_t i = 0; paths && i < count; i++) free(paths[i]);
    free(paths);
    free(files);
    json_decref(root);
    free(text);
    return result;
}

// The beginnings that wrappers of a whole model put before all of its names: DistributedDataParallel's and
// torch.compile's, also both.
static const char *const WRAPPERS[] = {"module.", "_orig_mod."};

static bool all_begin(const safetensors *s, const char *prefix)
{
    const size_t bytes = strlen(prefix);
    for (size_t i = 0; i < s->count; i++)
        if (strncmp(s->tensors[i].name, prefix, bytes) != 0 || !s->tensors[i].name[bytes])
            return false;
    return s->count > 0;
}

// Leaves out what all names begin with. The order of the names stays.
static void strip_wrappers(safetensors *s)
{
    const char *first = s->count ? s->tensors[0].name : "";
    for (size_t w = 0; w < sizeof WRAPPERS / sizeof *WRAPPERS;) {
        const size_t bytes = strlen(WRAPPERS[w]);
        if (!all_begin(s, WRAPPERS[w])) {
            w++;
            continue;
        }
        for (size_t i = 0; i < s->count; i++) s->tensors[i].name += bytes;
        s->wrapper = first;
        s->wrapper_bytes += (int)bytes;
        w = 0;
    }
}

const char *safetensors_wrapper(const safetensors *s, int *bytes)
{
    *bytes = s->wrapper_bytes;
    return s->wrapper;
}

status safetensors_open_folder(const char *folder, safetensors **out, err *e)
{
    status result = OK;
    char *single = NULL, *index_path = NULL;
    TRY(file_join(folder, "model.safetensors", &single, e));
    TRY(file_join(folder, "model.safetensors.index.json", &index_path, e));
    if (file_exists(single))
        TRY(safetensors_open(single, out, e));
    else if (file_exists(index_path))
        TRY(open_index(folder, index_path, out, e));
    else
        FAIL(E_USAGE, "%s: holds neither model.safetensors nor model.safetensors.index.json",
             folder);
    strip_wrappers(*out);
done:
    free(single);
    free(index_path);
    return result;
}
