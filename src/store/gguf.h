// gguf.h -- GGUF files, as llama.cpp reads and writes them: keys with values, and tensors whose elements may be quantised
// in blocks. A reader that checks a whole file before it gives a tensor out, the blocks, and a streaming writer. convert/
// calls it. It does not know what keys and names mean.
//
// A file: "GGUF", version, counts of tensors and keys; the keys, each with a type and a value; of each tensor its name,
// dimensions, kind and offset; then the data, aligned. All numbers are little-endian. A dimension 0 is the one whose elements
// are adjacent, so a matrix [rows, cols] has the dimensions cols, rows.
#ifndef TRIREME_STORE_GGUF_H
#define TRIREME_STORE_GGUF_H

#include "base/dtype.h"
#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum { GGUF_DIMS_MAX = 4, GGUF_NAME_MAX = 255 };

// ---- Kinds of elements (gguf_blocks.c)

// The numbers are those of the files.
typedef enum gguf_kind_number {
    GGUF_F32 = 0,
    GGUF_F16 = 1,
    GGUF_Q8_0 = 8,
    GGUF_BF16 = 30
} gguf_kind_number;

typedef struct gguf_kind {
    const char *word; // "Q4_K"
    uint32_t number;
    uint32_t elements, bytes;                             // of a block
    void (*dequantize)(const uint8_t *block, float *out); // one block
    void (*quantize)(const float *in, uint8_t *block);    // NULL: Trireme does not write it
} gguf_kind;

const gguf_kind *gguf_kind_find(uint32_t number); // NULL: unknown
// The name of a kind that Trireme cannot read, for messages; NULL: nobody knows it.
const char *gguf_kind_foreign(uint32_t number);
// Lists the words of all readable kinds, worded to follow "valid are".
void gguf_kinds_describe(text *out);
// Elements first … first + count - 1 of a row of blocks, which begins at `row`. The result has the bits of gguf's
// Python package.
void gguf_dequantize(const gguf_kind *k, const uint8_t *row, int64_t first, int64_t count,
                     float *out);
// A run of elements, a multiple of the block. Rounds as llama.cpp does.
void gguf_quantize(const gguf_kind *k, const float *in, int64_t count, uint8_t *out);

// ---- Values

// Types of values; the numbers are those of the files.
typedef enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_REAL32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_REAL64,
    GGUF_TYPES
} gguf_type;

typedef struct gguf_string {
    const char *chars; // in the map, without a zero byte behind it
    size_t bytes;
} gguf_string;

typedef struct gguf_value {
    char *key;
    gguf_type type; // of the items where it is an array
    bool is_array;
    uint64_t count;       // of items; 1 where it is no array
    const uint8_t *data;  // in the map
    gguf_string *strings; // [count] of a string or an array of strings
} gguf_value;

typedef struct gguf_tensor {
    const char *name;
    const gguf_kind *kind;
    int dims;
    int64_t dim[GGUF_DIMS_MAX]; // 1 behind its dimensions
    uint64_t bytes;
    const uint8_t *data; // in the map
} gguf_tensor;

typedef struct gguf gguf;

// Opens a file. gguf.c lists the rules. E_USAGE names the file and what breaks one. The owner calls gguf_close.
status gguf_open(const char *path, gguf **out, err *e);
void gguf_close(gguf *g); // NULL allowed
// The caller calls it after it has read data. E_IO names a file that was truncated after it was opened.
status gguf_check_whole(const gguf *g, err *e);
const char *gguf_path(const gguf *g);
size_t gguf_tensor_count(const gguf *g);
const gguf_tensor *gguf_tensor_get(const gguf *g, size_t i);
const gguf_tensor *gguf_tensor_find(const gguf *g, const char *name); // NULL: absent
size_t gguf_value_count(const gguf *g);
const gguf_value *gguf_value_get(const gguf *g, size_t i);
const gguf_value *gguf_value_find(const gguf *g, const char *key); // NULL: absent

bool gguf_string_is(const gguf_string *s, const char *word); // false where s is NULL
// Item i of a value as a number or a flag. Returns false where the type or the range is another one.
bool gguf_value_int(const gguf_value *v, uint64_t i, int64_t *out);
bool gguf_value_real(const gguf_value *v, uint64_t i, double *out); // whole numbers, too
bool gguf_value_bool(const gguf_value *v, bool *out);

// ---- Writing (gguf_write.c)

// Keys and values, in the form of the file. Functions that add return nothing: a text that has failed stays failed, and
// gguf_write reports it. Start with {0}; the owner calls gguf_keys_clear.
typedef struct gguf_keys {
    text bytes;
    uint64_t count;
} gguf_keys;

void gguf_keys_clear(gguf_keys *k);
void gguf_add_u32(gguf_keys *k, const char *key, uint32_t value);
void gguf_add_int(gguf_keys *k, const char *key, int32_t value);
void gguf_add_real(gguf_keys *k, const char *key, double value); // REAL32
void gguf_add_bool(gguf_keys *k, const char *key, bool value);
void gguf_add_string(gguf_keys *k, const char *key, const char *chars, size_t bytes);
// An array whose `count` items the caller adds next, each with gguf_put_string or gguf_put.
void gguf_add_array(gguf_keys *k, const char *key, gguf_type type, uint64_t count);
void gguf_put_string(gguf_keys *k, const char *chars, size_t bytes);
void gguf_put(gguf_keys *k, const void *item,
              size_t bytes); // a number of the machine, which is little-endian

// A tensor to write; dimensions as in the file. `data` is not used, `bytes` is computed.
typedef struct gguf_output {
    char name[GGUF_NAME_MAX + 1];
    const gguf_kind *kind;
    int dims;
    int64_t dim[GGUF_DIMS_MAX];
    uint64_t bytes;
} gguf_output;

// The bytes of a tensor of these dimensions; false where a row is no whole number of blocks or the size overflows.
bool gguf_output_measure(gguf_output *t);

// The writer calls it for each row of dim[0] elements, tensor after tensor, row after row.
typedef status (*gguf_source)(void *arg, size_t tensor, int64_t row, float *out, err *e);
// Writes a file in bounded memory: one row at a time. The file is durable on OK; on failure there is no file at `path`.
status gguf_write(const char *path, const gguf_keys *k, gguf_output *t, size_t count,
                  gguf_source read, void *arg, err *e);

#endif
