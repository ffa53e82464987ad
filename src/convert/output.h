// output.h -- private to convert/: a folder that appears when it is complete, and files in it.
#ifndef TRIREME_CONVERT_OUTPUT_H
#define TRIREME_CONVERT_OUTPUT_H

#include "store/safetensors.h"

#include <jansson.h>

typedef struct convert_output {
    char *path;   // of the finished folder or file
    char *hidden; // beside it, while it is written
} convert_output;

// Checks that `out` may be written, and names a hidden path beside it. With `is_folder` the hidden folder is made. The owner
// calls convert_output_finish or convert_output_abandon.
status convert_output_begin(const char *out, bool is_folder, bool overwrite, convert_output *o,
                            err *e);
// Puts the hidden path in the place of the finished one.
status convert_output_finish(convert_output *o, err *e);
void convert_output_abandon(convert_output *o); // also after finish

// Writes a file into the hidden folder.
status convert_output_put(const convert_output *o, const char *name, const void *data, size_t bytes,
                          err *e);
status convert_output_put_json(const convert_output *o, const char *name, const json_t *value,
                               err *e);
// Writes model.safetensors, or files of at most shard_bytes with their index.
status convert_output_put_weights(const convert_output *o, const safetensors_tensor *info,
                                  size_t count, uint64_t shard_bytes, safetensors_source read,
                                  void *arg, err *e);

// Finds the type of a word, by its spelling of Trireme, HuggingFace or GGUF.
status convert_find_type(const char *word, const char *const *valid, int *out, err *e);
// "float32" and so on, for config.json.
const char *convert_type_word(dtype type);

// Reads a JSON object of a folder. *out is NULL where the file is not there. The caller calls json_decref.
status convert_read_json(const char *folder, const char *name, json_t **out, err *e);

#endif
