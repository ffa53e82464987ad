// safetensors.c -- opens one safetensors file or several shards as one object, and finds tensors by
// name. safetensors_check.c checks the format. Data stays in read-only maps and is never copied.
//
// The loaders of weights, checkpoints and vectors call it. It does not know what the names mean.
#include "store/safetensors_check.h"

#include "base/alloc.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static void close_files(safetensors *s)
{
    for (size_t i = 0; s->files && i < s->file_count; i++) {
        file_unmap(&s->files[i].map);
        json_decref(s->files[i].header);
        free(s->files[i].path);
    }
    free(s->files);
}

void safetensors_close(safetensors *s)
{
    if (!s) return;
    close_files(s);
    free(s->tensors);
    free(s->file_index);
    free(s->by_name);
    free(s->nf4);
    free(s);
}

// Appends the tensors of file `p`.
static status add_file(safetensors *s, size_t p, err *e)
{
    status result = OK;
    safetensors_tensor *more = NULL;
    size_t n = 0;
    TRY(safetensors_file_open(&s->files[p], &more, &n, e));
    TRY(alloc_grow(&s->tensors, &s->tensor_room, s->count + n, sizeof *s->tensors,
                   "the list of tensors", e));
    TRY(alloc_grow(&s->file_index, &s->index_room, s->count + n, sizeof *s->file_index,
                   "the list of tensors", e));
    for (size_t i = 0; i < n; i++) {
        s->tensors[s->count + i] = more[i];
        s->file_index[s->count + i] = p;
    }
    s->count += n;
done:
    free(more);
    return result;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const safetensors_tensor *const *)a)->name,
                  (*(const safetensors_tensor *const *)b)->name);
}

static const char *file_of(const safetensors *s, const safetensors_tensor *t)
{
    return s->files[s->file_index[t - s->tensors]].path;
}

// Fills by_name. The header's parser has found duplicate names within a file; this function finds
// those in two files.
static status sort_names(safetensors *s, err *e)
{
    status result = OK;
    char label[SAFETENSORS_LABEL_BYTES];
    TRY(alloc_array(&s->by_name, s->count, sizeof *s->by_name, "the list of tensors", e));
    for (size_t i = 0; i < s->count; i++) s->by_name[i] = &s->tensors[i];
    qsort(s->by_name, s->count, sizeof *s->by_name, compare_names);
    for (size_t i = 1; i < s->count; i++) {
        const safetensors_tensor *a = s->by_name[i - 1], *b = s->by_name[i];
        if (strcmp(a->name, b->name) == 0)
            FAIL(E_USAGE, "tensor \"%s\" is in two files, %s and %s",
                 safetensors_label(a->name, label), file_of(s, a), file_of(s, b));
    }
done:
    return result;
}

status safetensors_open_files(const char *const *paths, size_t count, safetensors **out, err *e)
{
    status result = OK;
    safetensors *s = NULL;
    TRY(alloc_zeroed(&s, 1, sizeof *s, paths[0], e));
    TRY(alloc_zeroed(&s->files, count, sizeof *s->files, paths[0], e));
    s->file_count = count;
    for (size_t p = 0; p < count; p++) {
        TRY(text_copy(paths[p], &s->files[p].path, e));
        TRY(add_file(s, p, e));
    }
    TRY(sort_names(s, e));
    *out = s;
    s = NULL;
done:
    safetensors_close(s);
    return result;
}

status safetensors_open(const char *path, safetensors **out, err *e)
{
    return safetensors_open_files(&path, 1, out, e);
}

status safetensors_check_whole(const safetensors *s, err *e)
{
    status result = OK;
    for (size_t i = 0; i < s->file_count; i++)
        TRY(file_map_check(&s->files[i].map, s->files[i].path, e));
done:
    return result;
}

void safetensors_release(const safetensors *s, const safetensors_tensor *t)
{
    if (!t->nf4) file_map_release(&s->files[s->file_index[t - s->tensors]].map, t->data, t->bytes);
}

size_t safetensors_count(const safetensors *s)
{
    return s->count;
}

const safetensors_tensor *safetensors_get(const safetensors *s, size_t i)
{
    return &s->tensors[i];
}

const safetensors_tensor *safetensors_find(const safetensors *s, const char *name)
{
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, s->by_name[middle]->name);
        if (order == 0) return s->by_name[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const char *safetensors_locate(const safetensors *s, const safetensors_tensor *t, uint64_t *offset)
{
    const safetensors_file *f = &s->files[s->file_index[t - s->tensors]];
    *offset = (uint64_t)((const uint8_t *)t->data - f->map.ptr);
    return f->path;
}

const char *safetensors_metadata(const safetensors *s, const char *key)
{
    json_t *metadata = json_object_get(s->files[0].header, "__metadata__");
    return json_string_value(json_object_get(metadata, key));
}
