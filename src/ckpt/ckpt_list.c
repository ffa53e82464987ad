// ckpt_list.c -- which tensors lie in which files of a checkpoint. Every rank computes it, and ckpt_save.c
// makes the files.
#include "base/alloc.h"
#include "ckpt/ckpt_files.h"

#include <stdio.h>
#include <stdlib.h>

// The end of the file that begins at tensor `first`: it has as many tensors as fit, at least one.
static size_t file_end(const ckpt_tensors *t, size_t first, uint64_t limit)
{
    uint64_t bytes = 0;
    size_t end = first;
    while (end < t->count && (end == first || bytes + t->info[end].bytes <= limit))
        bytes += t->info[end++].bytes;
    return end;
}

status ckpt_files_make(const ckpt_tensors *weights, const ckpt_tensors *state, uint64_t shard_bytes,
                       ckpt_files *out, err *e)
{
    status result = OK;
    const uint64_t limit = shard_bytes ? shard_bytes : CKPT_SHARD_BYTES;
    size_t parts = 0;
    *out = (ckpt_files){0};
    for (size_t i = 0; i < weights->count; i = file_end(weights, i, limit)) parts++;
    if (parts == 0) parts = 1; // a model without weights has a file, too
    TRY(alloc_zeroed(&out->file, parts + 1, sizeof *out->file, "the list of files", e));
    for (size_t first = 0; out->count < parts; out->count++) {
        ckpt_file *f = &out->file[out->count];
        *f = (ckpt_file){.name = "model.safetensors", .first = first};
        if (shard_bytes == CKPT_ADAPTER) snprintf(f->name, sizeof f->name, CKPT_ADAPTER_WEIGHTS);
        if (parts > 1)
            snprintf(f->name, sizeof f->name, "model-%05zu-of-%05zu.safetensors", out->count + 1,
                     parts);
        f->count = file_end(weights, first, limit) - first;
        TRY(safetensors_layout_make(f->name, weights->info + first, f->count, &f->layout, e));
        first += f->count;
    }
    ckpt_file *f = &out->file[out->count];
    *f = (ckpt_file){.name = CKPT_STATE_TENSORS, .is_state = true, .count = state->count};
    TRY(safetensors_layout_make(f->name, state->info, f->count, &f->layout, e));
    out->count++;
done:
    if (result != OK) ckpt_files_clear(out);
    return result;
}

void ckpt_files_clear(ckpt_files *f)
{
    for (size_t i = 0; i < f->count; i++) safetensors_layout_clear(&f->file[i].layout);
    free(f->file);
    *f = (ckpt_files){0};
}
