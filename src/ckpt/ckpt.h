// ckpt.h -- checkpoints: a save writes all files or none, a load verifies every byte first, and a
// checkpoint can be resumed with any layout.
//
//   OUT/checkpoints/step-00000500/   a HuggingFace folder:
//     config.json                    the model
//     model.safetensors              weights, or shards of them with model.safetensors.index.json
//     tokenizer.json, …              the tokenizer's files, if any
//     …                              what else the model's folder holds beside its weights
//                                    of a run that trains adapters, PEFT's adapter_config.json and
//                                    adapter_model.safetensors in place of config.json and the weights
//     trireme/state.safetensors      optimizer state and master weights
//     trireme/state.json             positions and facts of the job, one JSON object
//     trireme/manifest.json          size and XXH3-64 of every file (see ckpt_manifest.c)
//   OUT/checkpoints/latest           symbolic link to the newest, for people and other programs
//   OUT/checkpoints/best             likewise to the one of the lowest validation loss, where it is kept
//
// OUT/checkpoints holds one history: a run reached each checkpoint from the ones before it. So the
// newest checkpoint is the valid one with the highest step, without a link or a log that says so.
// A run that resumes from an older checkpoint first moves the later ones out of the folder
// (ckpt_resume_from).
//
// A save writes into .tmp-step-00000500-PID-RANDOM, makes the files durable and renames the folder. A kill
// or a power cut at any moment leaves the old checkpoints with or without the new one. Tensors are
// full (unsharded) and have logical names: a checkpoint does not know ranks.
#ifndef TRIREME_CKPT_CKPT_H
#define TRIREME_CKPT_CKPT_H

#include "base/err.h"
#include "base/text.h"
#include "store/safetensors.h"

#include <jansson.h>

#define CKPT_SHARD_BYTES ((uint64_t)5000000000) // HuggingFace's 5 GB
#define CKPT_ADAPTER     UINT64_MAX             // for ckpt_files_make: one file, called as PEFT's

// Tensors to write.
typedef struct ckpt_tensors {
    const safetensors_tensor *info; // [count]; `data` is not used
    size_t count;
} ckpt_tensors;

// A safetensors file of a checkpoint: the tensors [first, first + count) of one list.
typedef struct ckpt_file {
    char name[64]; // in the checkpoint's folder
    bool is_state; // of the list of state, else of the list of weights
    size_t first, count;
    safetensors_layout layout;
} ckpt_file;

typedef struct ckpt_files {
    ckpt_file *file; // [count] the files of weights, then that of state
    size_t count;
} ckpt_files;

// The right to write into the folder of a run (ckpt_fence.c). The run that begins last has it: an earlier one, of a host
// that was cut off, must not publish a checkpoint any more.
typedef struct ckpt_fence {
    char *path; // OUT/.writer; NULL: every run may write
    char writer[256];
} ckpt_fence;

// Makes this run the writer of the folder, which exists. The caller closes *f.
status ckpt_fence_open(const char *out, ckpt_fence *f, err *e);
// E_IO where another run has begun to write there since. f may be NULL.
status ckpt_fence_check(const ckpt_fence *f, err *e);
void ckpt_fence_close(ckpt_fence *f);

typedef struct ckpt_save_options {
    const char *out;         // folder of the run; checkpoints/ is made in it
    const ckpt_fence *fence; // NULL: none
    int64_t step;            // >= 0
    int64_t keep;            // how many checkpoints stay, this one included; 0 means all
    int64_t best; // the step whose checkpoint stays beyond them, under the link `best`; 0: none
    const ckpt_files *files;      // from ckpt_files_make
    ckpt_tensors weights;         // the list of which it was made
    const char *config_json;      // from model_config_write, or model_lora_write
    bool is_adapter;              // the config is that of an adapter, as are the files
    const char *state_json;       // an object; ckpt_save adds "step"
    const char *tokenizer_folder; // its tokenizer files are copied; NULL for none
    // Its files are copied, but for weights, hidden files, files above 64 MiB, and, where tokenizer_folder is given,
    // those of the tokenizer; NULL for none. A folder that is gone is passed over.
    const char *model_folder;
    // Writes the data of every tensor at its place in the files, which exist under `folder` with their
    // header and their final size, and makes it durable.
    status (*fill)(void *arg, const char *folder, err *e);
    // Called after a failure, before `folder` is removed, so that other ranks which write there learn why; NULL: none do.
    void (*failed)(void *arg, const err *why);
    void *arg;
} ckpt_save_options;

// Lists the files of a checkpoint. They depend on names, types and shapes alone, so every rank makes the same
// list. Names of weights are as in HuggingFace's folders; `state` may have no tensors. shard_bytes
// limits a file of weights; 0 means CKPT_SHARD_BYTES, and CKPT_ADAPTER that the weights are an adapter's. The owner calls ckpt_files_clear.
status ckpt_files_make(const ckpt_tensors *weights, const ckpt_tensors *state, uint64_t shard_bytes,
                       ckpt_files *out, err *e);
void ckpt_files_clear(ckpt_files *f);

// ---- The folder that is being written, for ranks that look for it (ckpt_location.c)

typedef struct ckpt_location {
    char name[128];  // of the temporary folder in OUT/checkpoints; no other has it, on any host
    char kernel[40]; // the running kernel of the rank that made it
    uint64_t device; // of the file system there
} ckpt_location;

// Describes `folder`, which ckpt_save has passed to `fill`.
status ckpt_location_of(const char *folder, ckpt_location *out, err *e);
// Looks for the folder. *folder (owned by the caller) is NULL where this process cannot write into it, or where
// several hosts share it through NFS or SMB and this is not the host that made it: their clients may lose
// writes of others to the same page.
status ckpt_location_find(const char *out, const ckpt_location *location, char **folder, err *e);

// Saves a checkpoint, points `latest` to it, removes old checkpoints as `keep` says, and removes what
// dead runs left unfinished. Replaces an existing checkpoint of this step. *folder (NULL allowed) is
// the checkpoint's path, owned by the caller. One rank calls it; in `fill` other ranks may write, too,
// which see the folder or send their part. `out` must exist: a folder that was
// removed during the run is not made again. E_IO (disk full, the fence, …): the message says whether the
// checkpoint is saved, the temporary folder is removed, and older checkpoints are unchanged.
status ckpt_save(const ckpt_save_options *o, char **folder, err *e);

// The same in two calls, for files that are filled while other work goes on; o->fill is not called. *folder is borrowed
// from *out, the files in it wait for their tensors. `o` must live until ckpt_save_end, which any thread may call:
// `filled` is the result of filling the files, with its text in *e. It publishes the checkpoint, or removes the folder, and
// frees `s`.
typedef struct ckpt_save_job ckpt_save_job;
status ckpt_save_begin(const ckpt_save_options *o, ckpt_save_job **out, const char **folder,
                       err *e);
status ckpt_save_end(ckpt_save_job *s, status filled, char **folder, err *e);

// Finds the newest valid checkpoint of a run, the one with the highest step that verifies. *folder is
// owned by the caller, and NULL (with status OK) when the run has no checkpoint. Each broken
// checkpoint that is skipped adds a line to `warnings` (NULL allowed). E_USAGE when all are broken.
status ckpt_newest(const char *out, char **folder, text *warnings, err *e);

// Resolves a folder that a user named. *checkpoint (owned by the caller) is the newest valid
// checkpoint when `folder` is the folder of a run, else a copy of `folder`, which is not verified.
// E_USAGE when the run has no valid checkpoint.
status ckpt_locate(const char *folder, char **checkpoint, text *warnings, err *e);

// ---- History (ckpt_history.c)

// Returns whether the run in `out` has a checkpoint, valid or not.
status ckpt_has_any(const char *out, bool *has, err *e);
// Returns whether `folder` is one of the checkpoints in out/checkpoints, by any path or link to it.
status ckpt_belongs_to_run(const char *out, const char *folder, bool *found, err *e);
// Prepares the run in `out` to resume from its own checkpoint `folder`: all later checkpoints, and
// broken ones of the same step, move into the new folder `aside`, `latest` points to `folder`, and a link
// `best` to one of those that moved is removed.
// *moved says whether any checkpoint moved. They move from the lowest step to the highest, so that
// after a kill the newest checkpoint is either the old newest one or `folder`.
status ckpt_resume_from(const char *out, const char *folder, const char *aside, bool *moved,
                        err *e);

// Checks the manifest, and the size and hash of every file that it lists. E_USAGE names the broken
// file. A manifest of version 1 has no checksum of itself, so its own bytes are not checked.
status ckpt_verify(const char *folder, err *e);

// An open checkpoint. Its tensors are mapped, so the folder may be removed meanwhile.
typedef struct ckpt {
    char *folder;
    json_t *values;       // state.json
    safetensors *weights; // of the folder
    safetensors *state;   // trireme/state.safetensors
} ckpt;
// Opens a folder that ckpt_newest or ckpt_verify has verified. The owner calls ckpt_close. E_USAGE
// when it is no checkpoint of Trireme; a plain model folder has no trireme/.
status ckpt_open(const char *folder, ckpt **out, err *e);
void ckpt_close(ckpt *c); // NULL allowed

// Values of state.json. E_USAGE names file and key when the value is missing or has another type.
// The string is borrowed from the checkpoint.
status ckpt_int(const ckpt *c, const char *key, int64_t *out, err *e);
status ckpt_real(const ckpt *c, const char *key, double *out, err *e);
status ckpt_text(const ckpt *c, const char *key, const char **out, err *e);

#endif
