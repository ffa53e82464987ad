// ckpt_files.h -- private to ckpt/: the manifest, and the folder that holds the checkpoints.
#ifndef TRIREME_CKPT_CKPT_FILES_H
#define TRIREME_CKPT_CKPT_FILES_H

#include "ckpt/ckpt.h"

enum { CKPT_NAME_BYTES = 64 };

#define CKPT_ADAPTER_CONFIG  "adapter_config.json" // PEFT's names
#define CKPT_ADAPTER_WEIGHTS "adapter_model.safetensors"
#define CKPT_STATE_JSON      "trireme/state.json"
#define CKPT_STATE_TENSORS   "trireme/state.safetensors"
#define CKPT_MANIFEST        "trireme/manifest.json"

// ---- Manifest (ckpt_manifest.c). `files` is its JSON list, with one entry per file.

// Adds the complete file folder/path, whose XXH3-64 is `hash`.
status ckpt_manifest_add(json_t *files, const char *folder, const char *path, uint64_t hash,
                         err *e);
// Writes trireme/manifest.json.
status ckpt_manifest_write(const json_t *files, const char *folder, int64_t step, err *e);
// Reads a JSON file that is an object. E_USAGE names file, line and reason. The caller calls
// json_decref.
status ckpt_json_open(const char *path, json_t **out, err *e);

// ---- The folder OUT/checkpoints (ckpt_folder.c)

// One checkpoint: step-00000500, or step-00000500.replaced, the old checkpoint of a step that was
// saved again.
typedef struct ckpt_entry {
    char name[CKPT_NAME_BYTES];
    int64_t step;
    bool replaced;
} ckpt_entry;

// Parses the name of a checkpoint. False when it is none.
bool ckpt_entry_parse(const char *name, ckpt_entry *out);
void ckpt_entry_name(char out[CKPT_NAME_BYTES], int64_t step);
// Lists all checkpoints, highest step first, a replaced one after its successor. The caller frees
// *out.
status ckpt_list(const char *checkpoints, ckpt_entry **out, size_t *count, err *e);
// Renames the finished folder `temporary` to the name of `step`. An old checkpoint of this step is
// renamed to step-….replaced, which ckpt_prune removes.
status ckpt_publish(const char *checkpoints, const char *temporary, int64_t step, err *e);
// Makes `link`, "latest" or "best", a link to the entry `name`.
status ckpt_point(const char *checkpoints, const char *link, const char *name, err *e);
// Removes replaced checkpoints, and all but the newest `keep` others (0 keeps all). The checkpoints of
// `step` and of `best` (0: none) always stay.
status ckpt_prune(const char *checkpoints, int64_t step, int64_t keep, int64_t best, err *e);
// Locks a temporary folder while it is written. Closing *lock or the end of the process unlocks it.
status ckpt_lock(const char *folder, int *lock, err *e);
// Removes the temporary folders that no process has locked.
status ckpt_sweep(const char *checkpoints, err *e);

#endif
