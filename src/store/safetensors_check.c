// safetensors_check.c -- reads the header of a safetensors file and checks every rule of the format,
// so that the rest of the program may trust names, types, shapes and data.
//
//   OFFSET   SIZE   FIELD
//   0        8      N, the header's length: u64, little-endian
//   8        N      header: one JSON object; the first byte is '{', spaces may follow the object
//   8 + N    rest   data of all tensors, little-endian
//
// The header has a key for each tensor, and optionally "__metadata__", an object of strings:
//
//   "NAME": {"dtype": WORD, "shape": [DIM, …], "data_offsets": [BEGIN, END]}
//
//   dtype          a word of TYPES
//   shape          row-major dimensions
//   data_offsets   the tensor's bytes [BEGIN, END), counted from the end of the header
//
// Checked: N is at most SAFETENSORS_HEADER_MAX and fits in the file; the JSON is valid and no key
// stands twice; every field is known and has its type; a shape has at most SAFETENSORS_DIMS_MAX
// dimensions and does not overflow; END - BEGIN equals the shape's bytes; the tensors cover the data
// exactly, without a hole, an overlap or bytes after the last tensor.
//
// safetensors.c calls it. It does not know what the tensors are for.
#include "store/safetensors_check.h"

#include "base/alloc.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const safetensors_type TYPES[] = {
    {"F32", 32, F32},
    {"BF16", 16, BF16},
    {"F16", 16, F16},
    {"F64", 64, F64},
    {"I32", 32, I32},
    {"I64", 64, I64},
    {"U8", 8, U8},
    {"U16", 16, U16},
    {"BOOL", 8, DTYPES},
    {"I8", 8, DTYPES},
    {"I16", 16, DTYPES},
    {"U32", 32, DTYPES},
    {"U64", 64, DTYPES},
    {"C64", 64, DTYPES},
    {"F8_E4M3", 8, DTYPES},
    {"F8_E5M2", 8, DTYPES},
    {"F8_E8M0", 8, DTYPES},
    {"F8_E4M3FNUZ", 8, DTYPES},
    {"F8_E5M2FNUZ", 8, DTYPES},
    {"F6_E2M3", 6, DTYPES},
    {"F6_E3M2", 6, DTYPES},
    {"F4", 4, DTYPES},
};

const safetensors_type *safetensors_type_find(const char *word)
{
    for (size_t i = 0; i < sizeof TYPES / sizeof TYPES[0]; i++)
        if (strcmp(TYPES[i].word, word) == 0) return &TYPES[i];
    return NULL;
}

const char *safetensors_label(const char *name, char out[SAFETENSORS_LABEL_BYTES])
{
    size_t n = 0;
    for (; name[n] && n < SAFETENSORS_LABEL_BYTES - 1; n++)
        out[n] = (unsigned char)name[n] < 32 ? '?' : name[n];
    out[n] = 0;
    if (name[n]) text_trim(out);
    return out;
}

static uint64_t read_le64(const uint8_t *p)
{
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

// Parses the JSON header. *data_begin is the data's offset in the file.
static status read_header(safetensors_file *file, uint64_t *data_begin, err *e)
{
    status result = OK;
    const char *path = file->path;
    TRY(file_map_open(path, &file->map, e));
    uint64_t size = file->map.bytes;
    if (size < 8)
        FAIL(E_USAGE, "%s: %" PRIu64 " bytes long, a safetensors file has at least 10", path, size);
    uint64_t n = read_le64(file->map.at);
    if (n > SAFETENSORS_HEADER_MAX)
        FAIL(E_USAGE,
             "%s: header length %" PRIu64 ", valid are at most %d (not a safetensors file?)", path,
             n, SAFETENSORS_HEADER_MAX);
    if (n > size - 8)
        FAIL(E_USAGE,
             "%s: header length %" PRIu64 ", but only %" PRIu64 " bytes follow (truncated?)", path,
             n, size - 8);
    const char *json = (const char *)file->map.at + 8;
    if (n < 2 || json[0] != '{') FAIL(E_USAGE, "%s: the header does not start with '{'", path);
    json_error_t problem;
    file->header = json_loadb(json, n, JSON_REJECT_DUPLICATES, &problem);
    if (!file->header) {
        char label[SAFETENSORS_LABEL_BYTES];
        FAIL(E_USAGE, "%s: header: %s", path, safetensors_label(problem.text, label));
    }
    *data_begin = 8 + n;
done:
    return result;
}

static status check_metadata(const char *path, json_t *metadata, err *e)
{
    status result = OK;
    if (!json_is_object(metadata)) FAIL(E_USAGE, "%s: __metadata__: not an object", path);
    const char *key;
    json_t *value;
    char label[SAFETENSORS_LABEL_BYTES];
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value))
            FAIL(E_USAGE, "%s: __metadata__: \"%s\" is not a string", path,
                 safetensors_label(key, label));
    }
done:
    return result;
}

// Names a tensor of the header in messages.
typedef struct safetensors_where {
    const char *path;
    char name[SAFETENSORS_LABEL_BYTES];
} safetensors_where;

static status read_shape(const safetensors_where *where, json_t *shape, safetensors_tensor *t,
                         err *e)
{
    status result = OK;
    if (!json_is_array(shape))
        FAIL(E_USAGE, "%s: tensor \"%s\": shape is missing or not a list", where->path,
             where->name);
    size_t dims = json_array_size(shape);
    if (dims > SAFETENSORS_DIMS_MAX)
        FAIL(E_USAGE, "%s: tensor \"%s\": %zu dimensions, valid are at most %d", where->path,
             where->name, dims, SAFETENSORS_DIMS_MAX);
    t->dims = (int)dims;
    int64_t product = 1; // counts a dimension of 0 as 1, so that strides fit as well
    for (size_t i = 0; i < dims; i++) {
        json_t *dim = json_array_get(shape, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            FAIL(E_USAGE, "%s: tensor \"%s\": shape[%zu] is not a whole number >= 0", where->path,
                 where->name, i);
        t->dim[i] = json_integer_value(dim);
        if (__builtin_mul_overflow(product, t->dim[i] ? t->dim[i] : 1, &product))
            FAIL(E_USAGE, "%s: tensor \"%s\": the shape overflows 64 bits", where->path,
                 where->name);
    }
done:
    return result;
}

// Computes the bytes of a shape. False when they overflow or are no whole number.
static bool shape_bytes(const safetensors_tensor *t, unsigned bits, uint64_t *bytes)
{
    uint64_t total = bits;
    for (int i = 0; i < t->dims; i++)
        if (__builtin_mul_overflow(total, (uint64_t)t->dim[i], &total)) return false;
    *bytes = total / 8;
    return total % 8 == 0;
}

static status read_offsets(const safetensors_where *where, json_t *offsets, uint64_t begin_end[2],
                           err *e)
{
    status result = OK;
    if (!json_is_array(offsets) || json_array_size(offsets) != 2)
        FAIL(E_USAGE, "%s: tensor \"%s\": data_offsets is missing or not a list of two",
             where->path, where->name);
    for (size_t i = 0; i < 2; i++) {
        json_t *offset = json_array_get(offsets, i);
        if (!json_is_integer(offset) || json_integer_value(offset) < 0)
            FAIL(E_USAGE, "%s: tensor \"%s\": data_offsets[%zu] is not a whole number >= 0",
                 where->path, where->name, i);
        begin_end[i] = (uint64_t)json_integer_value(offset);
    }
    if (begin_end[0] > begin_end[1])
        FAIL(E_USAGE,
             "%s: tensor \"%s\": data_offsets end at %" PRIu64 " before they begin at %" PRIu64,
             where->path, where->name, begin_end[1], begin_end[0]);
done:
    return result;
}

static status check_fields(const safetensors_where *where, json_t *entry, err *e)
{
    status result = OK;
    if (!json_is_object(entry))
        FAIL(E_USAGE, "%s: tensor \"%s\": not an object", where->path, where->name);
    const char *key;
    json_t *value;
    char label[SAFETENSORS_LABEL_BYTES];
    json_object_foreach(entry, key, value)
    {
        if (strcmp(key, "dtype") && strcmp(key, "shape") && strcmp(key, "data_offsets"))
            FAIL(E_USAGE, "%s: tensor \"%s\": unknown field \"%s\"", where->path, where->name,
                 safetensors_label(key, label));
    }
done:
    return result;
}

// Checks one tensor of the header and fills `t`; t->data points into the mapped file.
static status read_entry(const safetensors_file *file, const char *name, json_t *entry,
                         uint64_t data_begin, safetensors_tensor *t, err *e)
{
    status result = OK;
    safetensors_where where = {.path = file->path};
    safetensors_label(name, where.name);
    char label[SAFETENSORS_LABEL_BYTES];
    TRY(check_fields(&where, entry, e));
    const char *word = json_string_value(json_object_get(entry, "dtype"));
    const safetensors_type *type = word ? safetensors_type_find(word) : NULL;
    if (!type)
        FAIL(E_USAGE, "%s: tensor \"%s\": dtype \"%s\" is not one of the format", where.path,
             where.name, word ? safetensors_label(word, label) : "");
    *t = (safetensors_tensor){.name = name,
                              .type = type->type,
                              .known_type = type->type != DTYPES,
                              .type_word = type->word};
    TRY(read_shape(&where, json_object_get(entry, "shape"), t, e));
    uint64_t offsets[2], size = file->map.bytes - data_begin;
    TRY(read_offsets(&where, json_object_get(entry, "data_offsets"), offsets, e));
    if (!shape_bytes(t, type->bits, &t->bytes))
        FAIL(E_USAGE, "%s: tensor \"%s\": the shape's bytes overflow 64 bits or are not whole",
             where.path, where.name);
    if (t->bytes != offsets[1] - offsets[0])
        FAIL(E_USAGE,
             "%s: tensor \"%s\": its shape needs %" PRIu64 " bytes, data_offsets hold %" PRIu64,
             where.path, where.name, t->bytes, offsets[1] - offsets[0]);
    if (offsets[1] > size)
        FAIL(E_USAGE,
             "%s: tensor \"%s\": ends at %" PRIu64 ", but the file holds only %" PRIu64
             " bytes of data (truncated?)",
             where.path, where.name, offsets[1], size);
    t->data = file->map.at + data_begin + offsets[0];
done:
    return result;
}

static int by_position(const void *a, const void *b)
{
    const safetensors_tensor *x = a, *y = b;
    uintptr_t p = (uintptr_t)x->data, q = (uintptr_t)y->data;
    if (p != q) return p < q ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1; // empty ones first
    return strcmp(x->name, y->name);
}

// Checks that the tensors, which are sorted by position, cover the data exactly.
static status check_cover(const safetensors_file *file, uint64_t data_begin,
                          const safetensors_tensor *t, size_t count, err *e)
{
    status result = OK;
    char label[SAFETENSORS_LABEL_BYTES];
    const uint8_t *begin = file->map.at + data_begin;
    uint64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t offset = (uint64_t)((const uint8_t *)t[i].data - begin);
        if (offset != end)
            FAIL(E_USAGE, "%s: tensor \"%s\": begins at %" PRIu64 ", %s that ends at %" PRIu64,
                 file->path, safetensors_label(t[i].name, label), offset,
                 offset > end ? "which leaves a hole after the data" : "inside the tensor", end);
        end = offset + t[i].bytes;
    }
    uint64_t size = file->map.bytes - data_begin;
    if (end != size)
        FAIL(E_USAGE, "%s: %" PRIu64 " bytes follow the last tensor", file->path, size - end);
done:
    return result;
}

status safetensors_file_open(safetensors_file *file, safetensors_tensor **out, size_t *count,
                             err *e)
{
    status result = OK;
    safetensors_tensor *tensors = NULL;
    size_t n = 0;
    uint64_t data_begin;
    TRY(read_header(file, &data_begin, e));
    TRY(alloc_zeroed(&tensors, json_object_size(file->header), sizeof *tensors,
                     "the list of tensors", e));
    const char *name;
    json_t *entry;
    json_object_foreach(file->header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0)
            TRY(check_metadata(file->path, entry, e));
        else
            TRY(read_entry(file, name, entry, data_begin, &tensors[n++], e));
    }
    qsort(tensors, n, sizeof *tensors, by_position);
    TRY(check_cover(file, data_begin, tensors, n, e));
    *out = tensors;
    *count = n;
    tensors = NULL;
done:
    free(tensors);
    return result;
}
