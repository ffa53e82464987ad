// safetensors_file.h -- private to store/: the members of `safetensors`, and what its .c files
// share.
#ifndef TRIREME_STORE_SAFETENSORS_FILE_H
#define TRIREME_STORE_SAFETENSORS_FILE_H

#include "store/safetensors.h"

#include <jansson.h>

enum { SAFETENSORS_HEADER_MAX = 100000000, SAFETENSORS_LABEL_BYTES = 160 };

// One open file. All names of tensors point into `header`.
typedef struct safetensors_file {
    char *path;
    file_map map;
    json_t *header;
} safetensors_file;

struct safetensors {
    safetensors_file *files; // [file_count]
    size_t file_count;
    safetensors_tensor *tensors; // [count] file after file, in each file in the order of the data
    size_t *file_index;          // [count] tensors[i] is in files[file_index[i]]
    size_t count, tensor_room, index_room;
    const safetensors_tensor **by_name; // [count] pointers into `tensors`, sorted by name
    safetensors_nf4 *nf4;               // of quantised tensors
    const char *wrapper; // a name that begins with what is left out; NULL: nothing is
    int wrapper_bytes;
};

// A type of the format, its size, and Trireme's type, which is DTYPES when Trireme has none.
typedef struct safetensors_type {
    const char *word;
    unsigned bits;
    dtype type;
} safetensors_type;
const safetensors_type *safetensors_type_find(const char *word); // NULL when the format has none

// Copies a name for a message: control characters become '?', and a long name is truncated.
const char *safetensors_label(const char *name, char out[SAFETENSORS_LABEL_BYTES]);

// Opens and checks `count` files, whose paths are copied, as one object.
status safetensors_open_files(const char *const *paths, size_t count, safetensors **out, err *e);

#endif
