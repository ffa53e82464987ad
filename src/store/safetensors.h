// safetensors.h -- named tensors in files: a reader that checks a whole header before it uses a
// tensor, and a streaming writer. safetensors_check.c describes the format.
#ifndef TRIREME_STORE_SAFETENSORS_H
#define TRIREME_STORE_SAFETENSORS_H

#include "base/dtype.h"
#include "base/file.h"

#include <stdbool.h>
#include <stdint.h>

enum { SAFETENSORS_DIMS_MAX = 8 };

typedef struct safetensors_nf4 safetensors_nf4;

typedef struct safetensors_tensor {
    const char *name; // borrowed from the file object
    dtype type;       // DTYPES when Trireme has no such type
    bool known_type;  // false: the tensor can be listed, but not used in a computation
    const char
        *type_word; // the file's word, e.g. "BF16"; the writer reads it where the type is not known
    int dims;
    int64_t dim[SAFETENSORS_DIMS_MAX];
    uint64_t bytes;
    const void *data;           // in the map, may be unaligned
    const safetensors_nf4 *nf4; // how the elements follow from `data`; NULL: they are the elements
} safetensors_tensor;

typedef struct safetensors safetensors;

// Opens one file; safetensors_check.c lists every rule. E_USAGE names the file, the tensor and the
// rule that it breaks. The owner calls safetensors_close.
status safetensors_open(const char *path, safetensors **out, err *e);
// Opens a model folder: model.safetensors, or else the shards that model.safetensors.index.json
// lists. HuggingFace looks in the same order. Where all names begin with "module." or "_orig_mod.", which
// DistributedDataParallel and torch.compile put there, they are left out. E_USAGE when a listed tensor is not in the file that
// the index names, or a shard holds a tensor that is not listed.
status safetensors_open_folder(const char *folder, safetensors **out, err *e);
// The same for a reader of weights (safetensors_nf4.c): tensors that bitsandbytes has quantised to NF4 have the shape and
// the type that they had, and what belongs to them is no tensor.
status safetensors_open_weights(const char *folder, safetensors **out, err *e);
// Returns the text, of *bytes, that was left out of all names of a folder, borrowed; NULL: none.
const char *safetensors_wrapper(const safetensors *s, int *bytes);
void safetensors_close(safetensors *s); // NULL allowed
// The caller calls it after it has read data. E_IO names a file that was truncated after it was
// opened.
status safetensors_check_whole(const safetensors *s, err *e);
// Gives back the memory of a tensor's data that was read (file_map_release); not of a tensor in NF4.
void safetensors_release(const safetensors *s, const safetensors_tensor *t);
size_t safetensors_count(const safetensors *s);
const safetensors_tensor *safetensors_get(const safetensors *s, size_t i);
// Reads elements first … first + count-1 of a tensor of numbers.
void safetensors_read(const safetensors_tensor *t, int64_t first, int64_t count, float *out);
const safetensors_tensor *safetensors_find(const safetensors *s,
                                           const char *name);            // NULL when absent
const char *safetensors_metadata(const safetensors *s, const char *key); // NULL when absent
// Returns the file that holds a tensor of `s`, borrowed. *offset is where its data begins there.
const char *safetensors_locate(const safetensors *s, const safetensors_tensor *t, uint64_t *offset);

// The location of each tensor in a file. The owner calls safetensors_layout_clear.
typedef struct safetensors_layout {
    char *header;                 // [header_bytes] all that stands before the data
    uint64_t header_bytes, bytes; // of the header, and of the complete file
    uint64_t *begin;              // [count] where tensor i begins in the file
    size_t *order;                // [count] the tensors in the order of their data
} safetensors_layout;

// Computes a file's layout from types, shapes and names alone, with __metadata__ {"format": "pt"}. The order
// of `t` does not matter: tensors with larger elements come first, tensors of equal element size are
// sorted by name, and data is aligned to 8 bytes. E_INTERNAL when a file cannot hold `t`: two tensors
// have one name, a type is unknown, or `bytes` disagrees with the shape; `path` is for the message.
status safetensors_layout_make(const char *path, const safetensors_tensor *t, size_t count,
                               safetensors_layout *out, err *e);
void safetensors_layout_clear(safetensors_layout *l);
// Creates the file with its header and its final size, for several processes to write the data at
// its place.
status safetensors_create(const char *path, const safetensors_layout *l, err *e);

// The writer calls it, tensor after tensor, for `bytes` bytes of tensor i from `offset` on; it
// copies them to `out`.
typedef status (*safetensors_source)(void *arg, size_t i, uint64_t offset, void *out, size_t bytes,
                                     err *e);

// Writes a file of the layout above in bounded memory. *hash (NULL allowed) is the XXH3-64 of the file.
// The file is durable on OK; on failure there is no file at `path`.
status safetensors_write(const char *path, const safetensors_tensor *t, size_t count,
                         safetensors_source read, void *arg, uint64_t *hash, err *e);

#endif
