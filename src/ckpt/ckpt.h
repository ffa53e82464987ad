// ckpt.h -- checkpoints: saved all or nothing, verified before use, resumed under any layout.
//
//   OUT/checkpoints/step-00000500/          a HuggingFace folder: config.json, model.safetensors
//   (or
//                                           shards with an index), the tokenizer's files
//   OUT/checkpoints/step-00000500/trireme/  state.safetensors (optimizer, master weights),
//                                           state.json (positions and the job's facts),
//                                           manifest.json (size and XXH3-64 of every file, and of
//                                           itself)
//   OUT/checkpoints/latest                  symbolic link to the newest, for people and programs
//
// OUT/checkpoints holds one history: each checkpoint was reached from those below it. So the newest
// is the valid one with the highest step, and no link or log has to say so. What keeps it so is
// ckpt_go_on: a run that starts from a checkpoint first moves all later ones out of this folder.
//
// A checkpoint is written under .tmp-step-00000500-PID, made durable, and appears by one rename. A
// kill or a power cut at any moment leaves the old ones, or the old ones and the new one. Tensors
// are whole and named logically: a checkpoint knows nothing of ranks.
#ifndef TRIREME_CKPT_CKPT_H
#define TRIREME_CKPT_CKPT_H

#include "base/err.h"
#include "base/text.h"
#include "store/safetensors.h"

#include <jansson.h>

#define CKPT_SHARD_BYTES ((uint64_t)5000000000) // HuggingFace's 5 GB

// Tensors to write. `read` is asked for every byte exactly once, tensor after tensor from its first
// byte to its last, in an order that depends on `info` only.
typedef struct ckpt_tensors {
    const safetensors_tensor *info; // data is not used
    size_t count;
    safetensors_source read;
    void *arg;
} ckpt_tensors;

typedef struct ckpt_save_options {
    const char *out;              // the run's folder; checkpoints/ is made in it
    int64_t step;                 // >= 0, at most 8 digits are usual
    int64_t keep;                 // the newest that stay, this one among them; 0 = all
    uint64_t shard_bytes;         // 0 = CKPT_SHARD_BYTES
    ckpt_tensors weights;         // names as in HuggingFace's folders
    ckpt_tensors state;           // may be none
    const char *config_json;      // of model_config_write
    const char *state_json;       // an object; "step" is added
    const char *tokenizer_folder; // its tokenizer files are copied; NULL for none
} ckpt_save_options;

// Saves, points `latest` to it, prunes, and removes what dead runs left unfinished. *folder (NULL
// allowed) is the checkpoint's path, owned by the caller. Called on one rank. `out` must exist: a
// folder that was removed during the run is not made again. An existing checkpoint of this step is
// replaced. On failure (E_IO: disk full …) one line says so, the temporary folder is gone, and the
// older checkpoints are as they were.
status ckpt_save(const ckpt_save_options *o, char **folder, err *e);

// The newest valid checkpoint of a run: the highest step that verifies. *folder is owned by the
// caller; it is NULL (and the status OK) when the run has none yet. Each broken one that was passed
// over adds a line to `warnings` (NULL allowed). E_USAGE when there are some and all are broken.
status ckpt_newest(const char *out, char **folder, text *warnings, err *e);

// Where a user may name a checkpoint or a run: *checkpoint is `folder` itself, or the newest valid
// checkpoint when `folder` is the folder of a run. Owned by the caller. E_USAGE when the run has
// none. A folder that is named itself is not verified.
status ckpt_locate(const char *folder, char **checkpoint, text *warnings, err *e);

// ---- History (ckpt_history.c)

// Has this run's folder checkpoints, valid or not?
status ckpt_has_any(const char *out, bool *has, err *e);
// Is `folder` one of the checkpoints in out/checkpoints (whatever path or link leads there)?
status ckpt_is_of(const char *out, const char *folder, bool *is_of, err *e);
// The run in `out` goes on from `folder`, one of its own checkpoints (ckpt_is_of): all later ones,
// and broken ones of the same step, move into the new folder `aside`, and `latest` names `folder`.
// *moved says whether there were any. They move from the lowest step to the highest, so that a kill
// at any moment leaves the newest checkpoint what it was or what it shall be.
status ckpt_go_on(const char *out, const char *folder, const char *aside, bool *moved, err *e);

// Reads all of it: the manifest and every file that it lists are there, as long as it says and hash
// to what it says. E_USAGE names the file that is not. A manifest of version 1 has no checksum of
// itself and is taken as it is.
status ckpt_verify(const char *folder, err *e);

// An open checkpoint; maps its tensors, so that the folder may be pruned meanwhile.
typedef struct ckpt {
    char *folder;
    json_t *values;       // state.json
    safetensors *weights; // of the folder
    safetensors *state;   // trireme/state.safetensors
} ckpt;
// Opens a folder that has been verified: by ckpt_newest, or by ckpt_verify for one that a user
// named. E_USAGE when it is no checkpoint of ours (a mere model folder has no trireme/).
status ckpt_open(const char *folder, ckpt **out, err *e);
void ckpt_close(ckpt *c); // NULL allowed

// Values of state.json. E_USAGE, naming file and key, when absent or of another type. A text is
// borrowed from the checkpoint.
status ckpt_int(const ckpt *c, const char *key, int64_t *out, err *e);
status ckpt_real(const ckpt *c, const char *key, double *out, err *e);
status ckpt_text(const ckpt *c, const char *key, const char **out, err *e);

#endif
