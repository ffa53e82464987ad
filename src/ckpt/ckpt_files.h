// ckpt_files.h -- private to ckpt/: the manifest, and the folder that holds the checkpoints.
#ifndef TRIREME_CKPT_CKPT_FILES_H
#define TRIREME_CKPT_CKPT_FILES_H

#include "ckpt/ckpt.h"

enum { CKPT_NAME_BYTES = 64 };

#define CKPT_STATE_JSON    "trireme/state.json"
#define CKPT_STATE_TENSORS "trireme/state.safetensors"
#define CKPT_MANIFEST      "trireme/manifest.json"

// ---- Manifest (ckpt_manifest.c). `files` is a JSON list, one entry per file.

// Adds folder/path, which is complete and hashes to `hash`.
status manifest_add(json_t *files, const char *folder, const char *path, uint64_t hash, err *e);
// Writes trireme/manifest.json.
status manifest_write(const json_t *files, const char *folder, int64_t step, err *e);
// A JSON file as an object. E_USAGE names file, line and reason.
status json_open(const char *path, json_t **out, err *e);

// ---- The folder OUT/checkpoints (ckpt_folder.c)

// step-00000500, or step-00000500.replaced: what stood there while its successor is renamed in.
typedef struct ckpt_entry {
    char name[CKPT_NAME_BYTES];
    int64_t step;
    bool replaced;
} ckpt_entry;

// Is this the name of a checkpoint?
bool ckpt_entry_parse(const char *name, ckpt_entry *out);
void ckpt_entry_name(char out[CKPT_NAME_BYTES], int64_t step);
// All checkpoints, highest step first, a replaced one after its successor. Caller frees *out.
status ckpt_list(const char *checkpoints, ckpt_entry **out, size_t *count, err *e);
// Puts the finished folder `temporary` in the place of `step`. What was there before stays as
// step-….replaced until ckpt_prune.
status ckpt_publish(const char *checkpoints, const char *temporary, int64_t step, err *e);
// Makes `latest` name the entry `name`.
status ckpt_point_latest(const char *checkpoints, const char *name, err *e);
// Removes replaced ones and all but `keep` (0 = all stay) checkpoints; the one of `step` stays
// always.
status ckpt_prune(const char *checkpoints, int64_t step, int64_t keep, err *e);
// Marks a temporary folder as being written, until *lock is closed or its process is gone.
status ckpt_lock(const char *folder, int *lock, err *e);
// Removes what processes that are gone left unfinished.
status ckpt_sweep(const char *checkpoints, err *e);

#endif
