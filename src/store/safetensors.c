// safetensors.c -- named tensors in files: opening one file or a folder of shards, and finding
// tensors by name. The format itself is checked in safetensors_check.c; data stays in read-only
// maps and is never copied.
//
// Called by whoever loads weights, checkpoints or vectors. Does not know what the names mean.
#include "store/safetensors_check.h"

#include <stdlib.h>
#include <string.h>

static void parts_close(safetensors *s)
{
    for (size_t i = 0; s->parts && i < s->part_count; i++) {
        file_unmap(&s->parts[i].map);
        json_decref(s->parts[i].header);
        free(s->parts[i].path);
    }
    free(s->parts);
}

void safetensors_close(safetensors *s)
{
    if (!s) return;
    parts_close(s);
    free(s->tensors);
    free(s->part_of);
    free(s->by_name);
    free(s);
}

// Appends the tensors of part `p`.
static status add_part(safetensors *s, size_t p, err *e)
{
    status result = OK;
    tensor_info *more = NULL;
    size_t n = 0;
    TRY(safetensors_part_open(&s->parts[p], &more, &n, e));
    tensor_info *all = realloc(s->tensors, (s->count + n + 1) * sizeof *all);
    if (all) s->tensors = all;
    size_t *part_of = realloc(s->part_of, (s->count + n + 1) * sizeof *part_of);
    if (part_of) s->part_of = part_of;
    if (!all || !part_of) FAIL(E_MEMORY, "%s: no memory for the list of tensors", s->parts[p].path);
    for (size_t i = 0; i < n; i++) {
        s->tensors[s->count + i] = more[i];
        s->part_of[s->count + i] = p;
    }
    s->count += n;
done:
    free(more);
    return result;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const tensor_info *const *)a)->name, (*(const tensor_info *const *)b)->name);
}

static const char *file_of(const safetensors *s, const tensor_info *t)
{
    return s->parts[s->part_of[t - s->tensors]].path;
}

// Fills by_name; within one file names are unique already, across files they are checked here.
static status sort_names(safetensors *s, err *e)
{
    status result = OK;
    char label[LABEL_BYTES];
    s->by_name = malloc((s->count + 1) * sizeof *s->by_name);
    if (!s->by_name) FAIL(E_MEMORY, "%s: no memory for the list of tensors", s->parts[0].path);
    for (size_t i = 0; i < s->count; i++) s->by_name[i] = &s->tensors[i];
    qsort(s->by_name, s->count, sizeof *s->by_name, compare_names);
    for (size_t i = 1; i < s->count; i++) {
        const tensor_info *a = s->by_name[i - 1], *b = s->by_name[i];
        if (strcmp(a->name, b->name) == 0)
            FAIL(E_USAGE, "tensor \"%s\" is in two files, %s and %s",
                 safetensors_label(a->name, label), file_of(s, a), file_of(s, b));
    }
done:
    return result;
}

status safetensors_open_parts(const char *const *paths, size_t count, safetensors **out, err *e)
{
    status result = OK;
    safetensors *s = calloc(1, sizeof *s);
    if (!s) FAIL(E_MEMORY, "%s: no memory to open it", paths[0]);
    s->parts = calloc(count, sizeof *s->parts);
    if (!s->parts) FAIL(E_MEMORY, "%s: no memory to open it", paths[0]);
    s->part_count = count;
    for (size_t p = 0; p < count; p++) {
        s->parts[p].path = strdup(paths[p]);
        if (!s->parts[p].path) FAIL(E_MEMORY, "%s: no memory to open it", paths[p]);
        TRY(add_part(s, p, e));
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
    return safetensors_open_parts(&path, 1, out, e);
}

status safetensors_check_whole(const safetensors *s, err *e)
{
    status result = OK;
    for (size_t i = 0; i < s->part_count; i++)
        TRY(file_map_check(&s->parts[i].map, s->parts[i].path, e));
done:
    return result;
}

size_t safetensors_count(const safetensors *s)
{
    return s->count;
}

const tensor_info *safetensors_at(const safetensors *s, size_t i)
{
    return &s->tensors[i];
}

const tensor_info *safetensors_find(const safetensors *s, const char *name)
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

const char *safetensors_metadata(const safetensors *s, const char *key)
{
    json_t *metadata = json_object_get(s->parts[0].header, "__metadata__");
    return json_string_value(json_object_get(metadata, key));
}
