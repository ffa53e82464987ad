// safetensors_check.c -- is this file a safetensors file? Every rule of the format is checked here,
// once, before anybody reads a byte of data:
//
//   u64 little-endian N · N bytes of JSON, '{' first, spaces may follow · data
//   "name": {"dtype": word, "shape": [..], "data_offsets": [begin, end]}, offsets from the end of
//   the header; together the tensors cover the data exactly: no hole, no overlap, nothing after.
//
// Called by the openers of safetensors.c. Does not know what the tensors are for.
#include "store/safetensors_check.h"

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

const char *safetensors_label(const char *name, char out[LABEL_BYTES])
{
    size_t n = 0;
    for (; name[n] && n < LABEL_BYTES - 1; n++)
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

// Parses the JSON header; *data_at is where the data begins.
static status read_header(safetensors_part *part, uint64_t *data_at, err *e)
{
    status result = OK;
    const char *path = part->path;
    TRY(file_map_open(path, &part->map, e));
    uint64_t size = part->map.bytes;
    if (size < 8)
        FAIL(E_USAGE, "%s: %" PRIu64 " bytes long, a safetensors file has at least 10", path, size);
    uint64_t n = read_le64(part->map.at);
    if (n > SAFETENSORS_HEADER_MAX)
        FAIL(E_USAGE,
             "%s: header length %" PRIu64 ", valid are at most %d (not a safetensors file?)", path,
             n, SAFETENSORS_HEADER_MAX);
    if (n > size - 8)
        FAIL(E_USAGE, "%s: header length %" PRIu64 ", but only %" PRIu64 " bytes follow (cut off?)",
             path, n, size - 8);
    const char *json = (const char *)part->map.at + 8;
    if (n < 2 || json[0] != '{') FAIL(E_USAGE, "%s: the header does not start with '{'", path);
    json_error_t problem;
    part->header = json_loadb(json, n, JSON_REJECT_DUPLICATES, &problem);
    if (!part->header) {
        char label[LABEL_BYTES];
        FAIL(E_USAGE, "%s: header: %s", path, safetensors_label(problem.text, label));
    }
    *data_at = 8 + n;
done:
    return result;
}

static status check_metadata(const char *path, json_t *metadata, err *e)
{
    status result = OK;
    if (!json_is_object(metadata)) FAIL(E_USAGE, "%s: __metadata__: not an object", path);
    const char *key;
    json_t *value;
    char label[LABEL_BYTES];
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value))
            FAIL(E_USAGE, "%s: __metadata__: \"%s\" is not a string", path,
                 safetensors_label(key, label));
    }
done:
    return result;
}

// Where an entry is, for messages.
typedef struct entry_label {
    const char *path;
    char name[LABEL_BYTES];
} entry_label;

static status read_shape(const entry_label *at, json_t *shape, tensor_info *t, err *e)
{
    status result = OK;
    if (!json_is_array(shape))
        FAIL(E_USAGE, "%s: tensor \"%s\": shape is missing or not a list", at->path, at->name);
    size_t dims = json_array_size(shape);
    if (dims > TENSOR_DIMS_MAX)
        FAIL(E_USAGE, "%s: tensor \"%s\": %zu dimensions, valid are at most %d", at->path, at->name,
             dims, TENSOR_DIMS_MAX);
    t->dims = (int)dims;
    int64_t product = 1; // with 1 for 0, so that strides fit as well
    for (size_t i = 0; i < dims; i++) {
        json_t *dim = json_array_get(shape, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            FAIL(E_USAGE, "%s: tensor \"%s\": shape[%zu] is not a whole number >= 0", at->path,
                 at->name, i);
        t->dim[i] = json_integer_value(dim);
        if (__builtin_mul_overflow(product, t->dim[i] ? t->dim[i] : 1, &product))
            FAIL(E_USAGE, "%s: tensor \"%s\": the shape overflows 64 bits", at->path, at->name);
    }
done:
    return result;
}

// The bytes of a shape; false when they overflow or are no whole number.
static bool shape_bytes(const tensor_info *t, unsigned bits, uint64_t *bytes)
{
    uint64_t total = bits;
    for (int i = 0; i < t->dims; i++)
        if (__builtin_mul_overflow(total, (uint64_t)t->dim[i], &total)) return false;
    *bytes = total / 8;
    return total % 8 == 0;
}

static status read_offsets(const entry_label *at, json_t *offsets, uint64_t begin_end[2], err *e)
{
    status result = OK;
    if (!json_is_array(offsets) || json_array_size(offsets) != 2)
        FAIL(E_USAGE, "%s: tensor \"%s\": data_offsets is missing or not a list of two", at->path,
             at->name);
    for (size_t i = 0; i < 2; i++) {
        json_t *offset = json_array_get(offsets, i);
        if (!json_is_integer(offset) || json_integer_value(offset) < 0)
            FAIL(E_USAGE, "%s: tensor \"%s\": data_offsets[%zu] is not a whole number >= 0",
                 at->path, at->name, i);
        begin_end[i] = (uint64_t)json_integer_value(offset);
    }
    if (begin_end[0] > begin_end[1])
        FAIL(E_USAGE,
             "%s: tensor \"%s\": data_offsets end at %" PRIu64 " before they begin at %" PRIu64,
             at->path, at->name, begin_end[1], begin_end[0]);
done:
    return result;
}

static status check_fields(const entry_label *at, json_t *entry, err *e)
{
    status result = OK;
    if (!json_is_object(entry))
        FAIL(E_USAGE, "%s: tensor \"%s\": not an object", at->path, at->name);
    const char *key;
    json_t *value;
    char label[LABEL_BYTES];
    json_object_foreach(entry, key, value)
    {
        if (strcmp(key, "dtype") && strcmp(key, "shape") && strcmp(key, "data_offsets"))
            FAIL(E_USAGE, "%s: tensor \"%s\": unknown field \"%s\"", at->path, at->name,
                 safetensors_label(key, label));
    }
done:
    return result;
}

// One tensor; t->data is set to the data area plus its offset once that is known to be inside.
static status read_entry(const safetensors_part *part, const char *name, json_t *entry,
                         uint64_t data_at, tensor_info *t, err *e)
{
    status result = OK;
    entry_label at = {.path = part->path};
    safetensors_label(name, at.name);
    char label[LABEL_BYTES];
    TRY(check_fields(&at, entry, e));
    const char *word = json_string_value(json_object_get(entry, "dtype"));
    const safetensors_type *type = word ? safetensors_type_find(word) : NULL;
    if (!type)
        FAIL(E_USAGE, "%s: tensor \"%s\": dtype \"%s\" is not one of the format", at.path, at.name,
             word ? safetensors_label(word, label) : "");
    *t = (tensor_info){.name = name,
                       .type = type->type,
                       .known_type = type->type != DTYPES,
                       .type_word = type->word};
    TRY(read_shape(&at, json_object_get(entry, "shape"), t, e));
    uint64_t offsets[2], size = part->map.bytes - data_at;
    TRY(read_offsets(&at, json_object_get(entry, "data_offsets"), offsets, e));
    if (!shape_bytes(t, type->bits, &t->bytes))
        FAIL(E_USAGE, "%s: tensor \"%s\": the shape's bytes overflow 64 bits or are not whole",
             at.path, at.name);
    if (t->bytes != offsets[1] - offsets[0])
        FAIL(E_USAGE,
             "%s: tensor \"%s\": its shape needs %" PRIu64 " bytes, data_offsets hold %" PRIu64,
             at.path, at.name, t->bytes, offsets[1] - offsets[0]);
    if (offsets[1] > size)
        FAIL(E_USAGE,
             "%s: tensor \"%s\": ends at %" PRIu64 ", but the file holds only %" PRIu64
             " bytes of data (cut off?)",
             at.path, at.name, offsets[1], size);
    t->data = part->map.at + data_at + offsets[0];
done:
    return result;
}

static int by_position(const void *a, const void *b)
{
    const tensor_info *x = a, *y = b;
    uintptr_t p = (uintptr_t)x->data, q = (uintptr_t)y->data;
    if (p != q) return p < q ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1; // empty ones first
    return strcmp(x->name, y->name);
}

// The tensors, sorted by position, cover the data exactly.
static status check_cover(const safetensors_part *part, uint64_t data_at, const tensor_info *t,
                          size_t count, err *e)
{
    status result = OK;
    char label[LABEL_BYTES];
    const uint8_t *begin = part->map.at + data_at;
    uint64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t offset = (uint64_t)((const uint8_t *)t[i].data - begin);
        if (offset != end)
            FAIL(E_USAGE, "%s: tensor \"%s\": begins at %" PRIu64 ", %s that ends at %" PRIu64,
                 part->path, safetensors_label(t[i].name, label), offset,
                 offset > end ? "which leaves a hole after the data" : "inside the tensor", end);
        end = offset + t[i].bytes;
    }
    uint64_t size = part->map.bytes - data_at;
    if (end != size)
        FAIL(E_USAGE, "%s: %" PRIu64 " bytes follow the last tensor", part->path, size - end);
done:
    return result;
}

status safetensors_part_open(safetensors_part *part, tensor_info **out, size_t *count, err *e)
{
    status result = OK;
    tensor_info *tensors = NULL;
    size_t n = 0;
    uint64_t data_at;
    TRY(read_header(part, &data_at, e));
    tensors = calloc(json_object_size(part->header) + 1, sizeof *tensors);
    if (!tensors) FAIL(E_MEMORY, "%s: no memory for the list of tensors", part->path);
    const char *name;
    json_t *entry;
    json_object_foreach(part->header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0)
            TRY(check_metadata(part->path, entry, e));
        else
            TRY(read_entry(part, name, entry, data_at, &tensors[n++], e));
    }
    qsort(tensors, n, sizeof *tensors, by_position);
    TRY(check_cover(part, data_at, tensors, n, e));
    *out = tensors;
    *count = n;
    tensors = NULL;
done:
    free(tensors);
    return result;
}
