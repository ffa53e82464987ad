// safetensors.h -- the file format: a reader that checks everything before it trusts a byte, and a
// streaming writer. Format in the head of safetensors.c.
#ifndef TRIREME_STORE_SAFETENSORS_H
#define TRIREME_STORE_SAFETENSORS_H

#include "base/dtype.h"
#include "base/file.h"

#include <stdbool.h>
#include <stdint.h>

enum { TENSOR_DIMS_MAX = 8 };

typedef struct tensor_info {
    const char *name; // borrowed from the file object
    dtype type;       // DTYPES when Trireme has no such type; known_type is false then
    bool known_type;  // a tensor of an unknown type can be listed, but must not be computed with
    const char *type_word; // the file's own word, e.g. "BF16"; for messages; ignored by the writer
    int dims;
    int64_t dim[TENSOR_DIMS_MAX];
    uint64_t bytes;
    const void *data; // in the map, may be unaligned
} tensor_info;

typedef struct safetensors safetensors;
// One file. E_USAGE, naming file and tensor, for: header length over the file or 100 MB, bad JSON,
// duplicate names, unknown fields or dtypes, negative or overflowing shapes, offsets that do not
// equal product*size, holes, overlaps, trailing bytes.
status safetensors_open(const char *path, safetensors **out, err *e);
// A model folder: model.safetensors, or the shards of model.safetensors.index.json (every name
// found exactly once, in the file that the index says).
// model.safetensors goes before the index, as in HuggingFace.
status safetensors_open_folder(const char *folder, safetensors **out, err *e);
void safetensors_close(safetensors *s); // NULL allowed
// After data was read: E_IO, naming the file, when one was cut off since it was opened.
status safetensors_check_whole(const safetensors *s, err *e);
size_t safetensors_count(const safetensors *s);
const tensor_info *safetensors_at(const safetensors *s, size_t i);
const tensor_info *safetensors_find(const safetensors *s, const char *name); // NULL when absent
const char *safetensors_metadata(const safetensors *s, const char *key);     // NULL when absent

// What a writer asks for, tensor after tensor: `bytes` bytes from `offset` of tensor i into `out`.
typedef status (*tensor_source)(void *arg, size_t i, uint64_t offset, void *out, size_t bytes,
                                err *e);

// Writes tensors (in any order of `t`; stored by size of element descending, then by name, data
// aligned to 8) in bounded memory, with __metadata__ {"format": "pt"}. *hash (NULL allowed) is the
// XXH3-64 of the file. Durable on OK; on failure nothing is left at `path`. E_INTERNAL when `t` is
// not what a file can hold: a name twice, an unknown type, bytes that are not the shape's.
status safetensors_write(const char *path, const tensor_info *t, size_t count, tensor_source read,
                         void *arg, uint64_t *hash, err *e);

#endif
