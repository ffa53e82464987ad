// save.h -- private to a trainer's checkpoints: the tensors of a checkpoint (save_list.c), and how all ranks
// write them (save_write.c). save.c saves, load.c resumes.
#ifndef TRIREME_TRAIN_SAVE_H
#define TRIREME_TRAIN_SAVE_H

#include "ckpt/ckpt.h"
#include "train/compress/powersgd_tensors.h"

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

// `folder` is that of the initial weights, which outlives the list; NULL: none. The owner calls save_list_clear, also
// after a failure.
status save_list_make(const trainer *t, const model_folder *folder, save_list *out, err *e);
void save_list_clear(save_list *l);
// Whether parameter p has master weights with more bits than those of the HuggingFace folder, or of the adapter's.
bool save_has_master(const trainer *t, int p);

// Writes this rank's shards into the files, and on rank 0 the shards of ranks that do not see `folder`. `out` is
// the run's folder; `folder` is used on rank 0 only. What this rank has written is durable. Collective over
// all ranks.
status save_write(trainer *t, const save_list *l, const model_folder *carried,
                  const ckpt_files *files, const char *out, const char *folder, err *e);

#endif
