// ckpt.h -- checkpoints: saved all or nothing, verified before use, resumed under any layout.
//
//   OUT/checkpoints/step-00000500/          a HuggingFace folder: config.json, model.safetensors
//   (or
//                                           shards with an index), the tokenizer's files
//   OUT/checkpoints/step-00000500/trireme/  state.safetensors (optimizer, master weights),
//                                           state.json (positions and the job's facts),
//                                           manifest.json (size and XXH3-64 of every file)
//   OUT/checkpoints/latest                  symbolic link to the newest
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
    const tensor_info *info; // data is not used
    size_t count;
    tensor_source read;
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
// allowed) is the checkpoint's path, owned by the caller. Called on one rank. An existing
// checkpoint of this step is replaced. On failure (E_IO: disk full …) one line says so, the
// temporary folder is gone, and the older checkpoints are as they were.
status ckpt_save(const ckpt_save_options *o, char **folder, err *e);

// The newest valid checkpoint of a run: what `latest` names if that verifies, else the highest step
// that does. *folder is owned by the caller; it is NULL (and the status OK) when the run has none
// yet. Each broken one that was passed over adds a line to `warnings` (NULL allowed). E_USAGE when
// there are some and all are broken.
status ckpt_newest(const char *out, char **folder, text *warnings, err *e);

// Reads all of it: every file of the manifest is there, as long as it says and hashes to what it
// says. E_USAGE names the file that is not.
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
