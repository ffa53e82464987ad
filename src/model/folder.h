// folder.h -- a HuggingFace folder from which a run reads its weights, as far as the run's checkpoints repeat it: the names
// of the model's tensors, the tensors that are no part of the model, and config.json. session/ opens it before any
// rank starts, and the ranks write from it (train/save/).
#ifndef TRIREME_MODEL_FOLDER_H
#define TRIREME_MODEL_FOLDER_H

#include "base/text.h"
#include "model/model.h"

// A tensor that is carried from the folder into each checkpoint, byte for byte.
typedef struct model_carried {
    safetensors_tensor info; // its name is owned; no data
    int file;                // index of an open file
    uint64_t offset;         // in that file
} model_carried;

typedef struct model_folder_file {
    char *path;
    int fd; // stays open, so that the folder may be renamed or removed while the run lasts
} model_folder_file;

typedef struct model_folder {
    char *path;
    char *config;            // its config.json
    model_param_files files; // the model's tensors
    char **
        name; // [files.count] their names in the folder; those of adapters, which it lacks, are the model's
    model_carried *carried; // [carried_count]
    size_t carried_count, carried_room;
    model_folder_file *file; // [file_count] the files that hold them
    size_t file_count, file_room;
} model_folder;

// Opens the folder of model `m`, whose weights are `from`. It reads no tensor but a copy of the token table, which must be
// equal to it. E_USAGE as model_param_match. The owner calls model_folder_close.
status model_folder_open(const char *path, const model *m, const safetensors *from,
                         model_folder **out, err *e);
void model_folder_close(model_folder *f); // NULL allowed

// Returns the carried tensor of this name; NULL: none.
const model_carried *model_folder_find(const model_folder *f, const char *name);
uint64_t model_folder_carried_bytes(const model_folder *f); // NULL: 0
// Appends a sentence about the carried tensors, or nothing where there are none.
void model_folder_describe(const model_folder *f, text *out);
// Copies a carried tensor to an open file, from `offset` on, through `buffer`. Errors name `path` or the folder's file.
status model_folder_copy(const model_folder *f, const model_carried *t, char *buffer,
                         size_t buffer_bytes, int fd, const char *path, uint64_t offset, err *e);
// Returns config.json as it is, but for the form of the weights: torch_dtype and dtype, where it has them, become
// `dtype_word` (NULL: stay) outside of all objects and in text_config, and quantization_config goes, because what is written
// is not quantised. The caller frees the text.
status model_folder_config(const model_folder *f, const char *dtype_word, char **out, err *e);

// Reads the tokens at which generation ends: eos_token_id of a JSON file of a folder, a token id or a list, each id once. None
// where the file or the key is missing, or the value is null. The caller frees *ids [*count]. E_USAGE names the file.
status model_folder_ends(const char *folder, const char *file, int64_t **ids, size_t *count,
                         err *e);

#endif
