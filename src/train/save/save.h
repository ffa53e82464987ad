// save.h -- private to a trainer's checkpoints: the tensors of a checkpoint (save_list.c), and how all ranks
// write them (save_write.c). save.c saves, load.c resumes.
#ifndef TRIREME_TRAIN_SAVE_H
#define TRIREME_TRAIN_SAVE_H

#include "ckpt/ckpt.h"
#include "train/compress/powersgd_tensors.h"
#include "train/save/save_copy.h"

// What a tensor of a checkpoint holds.
typedef struct save_tensor {
    char name[PARAM_NAME_BYTES + 24]; // of a parameter's state, or of an adapter's tensor
    trainer_state_kind part;          // one kind of state of a parameter
    int param;                        // or
    const model_param_file *file;     // a piece of it, in HuggingFace's folder; NULL: all of it
    const powersgd_tensor *powersgd;  // or this instead; NULL: none
    const model_carried *carried;     // or this, of the model's folder; NULL: none
} save_tensor;

typedef struct save_tensors {
    save_tensor *items;       // [count]
    safetensors_tensor *info; // [count]
    size_t count, item_room, info_room;
} save_tensors;

// The tensors of a checkpoint, the same on every rank.
typedef struct save_list {
    model_param_files files;
    powersgd_tensors powersgd;
    save_tensors weights; // of the HuggingFace folder
    save_tensors state;   // of the state file
} save_list;

// One save.
typedef struct save_run {
    trainer *t;
    const trainer_save_options *o; // borrowed
    save_list list;
    ckpt_files files;
} save_run;

status save_run_make(save_run *s, trainer *t, const trainer_save_options *o, err *e);
void save_run_clear(save_run *s);
// The facts of the trainer for state.json, and the options of a checkpoint that has them. It borrows both.
status save_facts(const trainer *t, const trainer_save_options *o, char **out, err *e);
ckpt_save_options save_options(save_run *s, const char *facts);

// `folder` is that of the initial weights, which outlives the list; NULL: none. The owner calls save_list_clear, also
// after a failure.
status save_list_make(const trainer *t, const model_folder *folder, save_list *out, err *e);
void save_list_clear(save_list *l);
// Whether parameter p has master weights with more bits than those of the HuggingFace folder, or of the adapter's.
bool save_has_master(const trainer *t, int p);
// Whether the state file has this kind of state of parameter p.
bool save_is_stored(const trainer *t, trainer_state_kind part, int p);

// Writes this rank's shards into the files, and on rank 0 the shards of ranks that do not see `folder`. `out` is
// the run's folder; `folder` is used on rank 0 only. What this rank has written is durable; with `copy` (NULL: none) it
// is in memory only. Collective over all ranks.
status save_write(trainer *t, const save_list *l, const model_folder *carried,
                  const ckpt_files *files, const char *out, const char *folder, save_copy *copy,
                  err *e);

#endif
