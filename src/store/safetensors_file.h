// safetensors_file.h -- private to store/: how an open object looks inside, for its two openers.
#ifndef TRIREME_STORE_SAFETENSORS_FILE_H
#define TRIREME_STORE_SAFETENSORS_FILE_H

#include "store/safetensors.h"

#include <jansson.h>

enum { SAFETENSORS_HEADER_MAX = 100000000, LABEL_BYTES = 160 };

// One file: its map, and the JSON header that lends all names.
typedef struct safetensors_part {
    char *path;
    file_map map;
    json_t *header;
} safetensors_part;

struct safetensors {
    safetensors_part *parts;
    size_t part_count;
    tensor_info *tensors; // part after part, in each by position in the file
    size_t *part_of;      // the part of tensors[i]
    size_t count;
    const tensor_info **by_name; // pointers into `tensors`, sorted by name
};

// A file's type word: its size and Trireme's type, DTYPES for none.
typedef struct safetensors_type {
    const char *word;
    unsigned bits;
    dtype type;
} safetensors_type;
const safetensors_type *safetensors_type_find(const char *word); // NULL when the format has none

// A name as it may stand in a message: one line, not too long.
const char *safetensors_label(const char *name, char out[LABEL_BYTES]);

// Opens and checks `count` files, whose paths are copied, as one object.
status safetensors_open_parts(const char *const *paths, size_t count, safetensors **out, err *e);

#endif
