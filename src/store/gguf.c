// gguf.c -- opens a GGUF file and checks it as a whole, so that no later use reads outside of it. The data stays in a
// read-only map. The rules, which files of strangers may break:
//   - "GGUF", version 2 or 3, little-endian; at most as many keys and tensors as the file's bytes could hold
//   - keys and names of tensors are UTF-8 without zero bytes, not empty, of bounded length, and unique
//   - strings and arrays lie in the file; arrays hold no arrays; a bool is 0 or 1
//   - general.alignment is a power of two
//   - a tensor has 1 to 4 dimensions, each at least 1, and whole blocks in a row; sizes do not overflow; its kind is known
//   - its offset is aligned, its data lies in the file and overlaps no other tensor's
#include "store/gguf.h"

#include "base/alloc.h"
#include "base/file.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    KEY_MAX = 65535,
    LEAST_VALUE = 8 + 1 + 4 + 1,          // bytes of a key and its value, at least
    LEAST_TENSOR = 8 + 1 + 4 + 8 + 4 + 8, // bytes of a tensor's entry, at least
    ALIGNMENT = 32,
    ALIGNMENT_MAX = 1 << 20,
    SHOWN = 60 // bytes of a name in a message
};

struct gguf {
    char *path;
    file_map map;
    gguf_value *values;
    size_t value_count;
    gguf_tensor *tensors;
    size_t tensor_count;
    const gguf_value **value_by_key;    // sorted
    const gguf_tensor **tensor_by_name; // sorted
};

// What is left of the file to read.
typedef struct cursor {
    const char *path;
    const uint8_t *ptr, *end;
} cursor;

static status take(cursor *c, void *out, size_t bytes, err *e)
{
    if ((size_t)(c->end - c->ptr) < bytes)
        return err_set(e, E_USAGE, "%s: ends within the description of its tensors", c->path);
    memcpy(out, c->ptr, bytes);
    c->ptr += bytes;
    return OK;
}

static status take_string(cursor *c, const char *what, uint64_t most, gguf_string *out, err *e)
{
    status result = OK;
    uint64_t n = 0;
    TRY(take(c, &n, sizeof n, e));
    if (n > most || n > (uint64_t)(c->end - c->ptr))
        FAIL(E_USAGE, "%s: %s has %" PRIu64 " bytes, more than %s", c->path, what, n,
             n > most ? "the format allows" : "the file has left");
    *out = (gguf_string){(const char *)c->ptr, (size_t)n};
    c->ptr += n;
done:
    return result;
}

// Takes a key or a tensor's name and copies it.
static status take_name(cursor *c, const char *what, uint64_t most, char **out, err *e)
{
    status result = OK;
    gguf_string s = {NULL, 0};
    TRY(take_string(c, what, most, &s, e));
    if (s.bytes == 0 || memchr(s.chars, 0, s.bytes) || !text_is_utf8(s.chars, s.bytes, NULL))
        FAIL(E_USAGE, "%s: %s is empty or not UTF-8 text", c->path, what);
    TRY(alloc_array(out, s.bytes + 1, 1, what, e));
    memcpy(*out, s.chars, s.bytes);
    (*out)[s.bytes] = 0;
done:
    return result;
}

// ---- Values

static size_t type_bytes(gguf_type t)
{
    static const uint8_t bytes[GGUF_TYPES] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2,    [GGUF_I16] = 2,
        [GGUF_U32] = 4, [GGUF_I32] = 4, [GGUF_REAL32] = 4, [GGUF_BOOL] = 1,
        [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_REAL64] = 8};
    return bytes[t];
}

// A string takes 8 bytes of the file at least, so the list never has more memory than twice the file's bytes.
static status take_strings(cursor *c, gguf_value *v, err *e)
{
    status result = OK;
    if (v->count > (uint64_t)(c->end - c->ptr) / 8)
        FAIL(E_USAGE, "%s: %.*s has %" PRIu64 " strings, more than the file has left", c->path,
             TEXT_CUT(v->key, SHOWN), v->count);
    TRY(alloc_array(&v->strings, (size_t)v->count, sizeof *v->strings, c->path, e));
    for (uint64_t i = 0; i < v->count; i++)
        TRY(take_string(c, v->key, UINT64_MAX, &v->strings[i], e));
done:
    return result;
}

static status take_items(cursor *c, gguf_value *v, err *e)
{
    status result = OK;
    if (v->type == GGUF_STRING) return take_strings(c, v, e);
    const size_t each = type_bytes(v->type);
    if (v->count > (uint64_t)(c->end - c->ptr) / each)
        FAIL(E_USAGE, "%s: %.*s has %" PRIu64 " numbers, more than the file has left", c->path,
             TEXT_CUT(v->key, SHOWN), v->count);
    v->data = c->ptr;
    c->ptr += v->count * each;
    for (uint64_t i = 0; v->type == GGUF_BOOL && i < v->count; i++)
        if (v->data[i] > 1)
            FAIL(E_USAGE, "%s: %.*s is a flag of value %d; valid: 0, 1", c->path,
                 TEXT_CUT(v->key, SHOWN), v->data[i]);
done:
    return result;
}

static status take_value(cursor *c, gguf_value *v, err *e)
{
    status result = OK;
    uint32_t type = 0;
    v->count = 1;
    TRY(take_name(c, "a key", KEY_MAX, &v->key, e));
    TRY(take(c, &type, sizeof type, e));
    v->is_array = type == GGUF_ARRAY;
    if (v->is_array) {
        TRY(take(c, &type, sizeof type, e));
        TRY(take(c, &v->count, sizeof v->count, e));
    }
    if (type >= GGUF_TYPES || type == GGUF_ARRAY)
        FAIL(E_USAGE, "%s: %.*s has a value of type %" PRIu32 ", which the format does not have",
             c->path, TEXT_CUT(v->key, SHOWN), type);
    v->type = (gguf_type)type;
    TRY(take_items(c, v, e));
done:
    return result;
}

// ---- Tensors

static status take_shape(cursor *c, gguf_tensor *t, err *e)
{
    status result = OK;
    uint32_t dims = 0;
    uint64_t n = 1;
    TRY(take(c, &dims, sizeof dims, e));
    if (dims < 1 || dims > GGUF_DIMS_MAX)
        FAIL(E_USAGE, "%s: tensor %.*s has %" PRIu32 " dimensions; valid: 1 to %d", c->path,
             TEXT_CUT(t->name, SHOWN), dims, GGUF_DIMS_MAX);
    t->dims = (int)dims;
    for (int i = 0; i < GGUF_DIMS_MAX; i++) {
        t->dim[i] = 1;
        if (i < t->dims) TRY(take(c, &t->dim[i], sizeof t->dim[i], e));
        if (t->dim[i] < 1 || __builtin_mul_overflow(n, (uint64_t)t->dim[i], &n) || n > INT64_MAX)
            FAIL(E_USAGE,
                 "%s: tensor %.*s has a dimension of %" PRId64
                 " elements; valid: from 1, and 2^63 elements in all",
                 c->path, TEXT_CUT(t->name, SHOWN), t->dim[i]);
    }
    t->bytes = n;
done:
    return result;
}

static status unknown_kind(const cursor *c, const gguf_tensor *t, uint32_t kind, err *e)
{
    text valid = {0};
    const char *word = gguf_kind_foreign(kind);
    char number[24];
    (void)snprintf(number, sizeof number, "number %" PRIu32, kind);
    gguf_kinds_describe(&valid);
    status s =
        err_set(e, E_USAGE, "%s: tensor %.*s has elements of kind %s; valid are %s", c->path,
                TEXT_CUT(t->name, SHOWN), word ? word : number, valid.chars ? valid.chars : "");
    text_clear(&valid);
    return s;
}

// Reads all but the address: t->data is null plus the offset until the beginning of the data is known.
static status take_tensor(cursor *c, gguf_tensor *t, uint64_t *offset, err *e)
{
    status result = OK;
    uint32_t kind = 0;
    char *name = NULL;
    TRY(take_name(c, "the name of a tensor", GGUF_NAME_MAX, &name, e));
    t->name = name;
    TRY(take_shape(c, t, e));
    TRY(take(c, &kind, sizeof kind, e));
    TRY(take(c, offset, sizeof *offset, e));
    t->kind = gguf_kind_find(kind);
    if (!t->kind) return unknown_kind(c, t, kind, e);
    if (t->dim[0] % t->kind->elements != 0)
        FAIL(E_USAGE,
             "%s: tensor %.*s has rows of %" PRId64
             " elements; valid for %s: multiples of %" PRIu32,
             c->path, TEXT_CUT(t->name, SHOWN), t->dim[0], t->kind->word, t->kind->elements);
    if (__builtin_mul_overflow(t->bytes / t->kind->elements, (uint64_t)t->kind->bytes, &t->bytes))
        FAIL(E_USAGE, "%s: tensor %.*s: its size overflows", c->path, TEXT_CUT(t->name, SHOWN));
done:
    return result;
}

static int by_data(const void *a, const void *b)
{
    const gguf_tensor *x = *(const gguf_tensor *const *)a, *y = *(const gguf_tensor *const *)b;
    return x->data < y->data ? -1 : x->data > y->data;
}

// Checks the places of all tensors, whose offsets count from `data` on. It uses the list that names are sorted in.
static status place(gguf *g, const uint64_t *offset, const uint8_t *data, uint64_t alignment,
                    err *e)
{
    status result = OK;
    const uint64_t room = (uint64_t)(g->map.ptr + g->map.bytes - data);
    for (size_t i = 0; i < g->tensor_count; i++) {
        gguf_tensor *t = &g->tensors[i];
        if (offset[i] % alignment != 0)
            FAIL(E_USAGE,
                 "%s: tensor %.*s begins at %" PRIu64 ", no multiple of the alignment %" PRIu64,
                 g->path, TEXT_CUT(t->name, SHOWN), offset[i], alignment);
        if (offset[i] > room || t->bytes > room - offset[i])
            FAIL(E_USAGE, "%s: the data of tensor %.*s ends behind the end of the file", g->path,
                 TEXT_CUT(t->name, SHOWN));
        t->data = data + offset[i];
        g->tensor_by_name[i] = t;
    }
    qsort(g->tensor_by_name, g->tensor_count, sizeof *g->tensor_by_name, by_data);
    for (size_t i = 1; i < g->tensor_count; i++) {
        const gguf_tensor *a = g->tensor_by_name[i - 1], *b = g->tensor_by_name[i];
        if (a->data + a->bytes > b->data)
            FAIL(E_USAGE, "%s: tensors %.*s and %.*s share bytes", g->path,
                 TEXT_CUT(a->name, SHOWN), TEXT_CUT(b->name, SHOWN));
    }
done:
    return result;
}

// ---- The file

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const gguf_tensor *const *)a)->name, (*(const gguf_tensor *const *)b)->name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp((*(const gguf_value *const *)a)->key, (*(const gguf_value *const *)b)->key);
}

static status read_values(gguf *g, cursor *c, uint64_t count, err *e)
{
    status result = OK;
    if (count > (uint64_t)(c->end - c->ptr) / LEAST_VALUE)
        FAIL(E_USAGE, "%s: says that it has %" PRIu64 " keys, more than fit in it", g->path, count);
    TRY(alloc_zeroed(&g->values, (size_t)count, sizeof *g->values, g->path, e));
    TRY(alloc_array(&g->value_by_key, (size_t)count, sizeof *g->value_by_key, g->path, e));
    for (; g->value_count < count;) {
        g->value_by_key[g->value_count] = &g->values[g->value_count];
        TRY(take_value(c, &g->values[g->value_count++], e));
    }
    qsort(g->value_by_key, g->value_count, sizeof *g->value_by_key, by_key);
    for (size_t i = 1; i < g->value_count; i++)
        if (strcmp(g->value_by_key[i - 1]->key, g->value_by_key[i]->key) == 0)
            FAIL(E_USAGE, "%s: key %.*s is there twice", g->path,
                 TEXT_CUT(g->value_by_key[i]->key, SHOWN));
done:
    return result;
}

static status read_alignment(const gguf *g, uint64_t *out, err *e)
{
    const gguf_value *v = gguf_value_find(g, "general.alignment");
    int64_t n = ALIGNMENT;
    if (v && (!gguf_value_int(v, 0, &n) || n < 1 || n > ALIGNMENT_MAX || (n & (n - 1))))
        return err_set(e, E_USAGE, "%s: general.alignment is no power of two from 1 to %d", g->path,
                       ALIGNMENT_MAX);
    *out = (uint64_t)n;
    return OK;
}

static status read_tensors(gguf *g, cursor *c, uint64_t count, err *e)
{
    status result = OK;
    uint64_t *offset = NULL, alignment = 1;
    if (count > (uint64_t)(c->end - c->ptr) / LEAST_TENSOR)
        FAIL(E_USAGE, "%s: says that it has %" PRIu64 " tensors, more than fit in it", g->path,
             count);
    TRY(alloc_zeroed(&g->tensors, (size_t)count, sizeof *g->tensors, g->path, e));
    TRY(alloc_array(&g->tensor_by_name, (size_t)count, sizeof *g->tensor_by_name, g->path, e));
    TRY(alloc_array(&offset, (size_t)count, sizeof *offset, g->path, e));
    for (; g->tensor_count < count;) {
        const size_t i = g->tensor_count++;
        TRY(take_tensor(c, &g->tensors[i], &offset[i], e));
    }
    TRY(read_alignment(g, &alignment, e));
    const uint64_t here = (uint64_t)(c->ptr - g->map.ptr),
                   data = (here + alignment - 1) / alignment * alignment;
    if (count > 0 && data > g->map.bytes)
        FAIL(E_USAGE, "%s: ends before the data of its tensors", g->path);
    TRY(place(g, offset, g->map.ptr + (data > g->map.bytes ? here : data), alignment, e));
    qsort(g->tensor_by_name, g->tensor_count, sizeof *g->tensor_by_name, by_name);
    for (size_t i = 1; i < g->tensor_count; i++)
        if (strcmp(g->tensor_by_name[i - 1]->name, g->tensor_by_name[i]->name) == 0)
            FAIL(E_USAGE, "%s: tensor %.*s is there twice", g->path,
                 TEXT_CUT(g->tensor_by_name[i]->name, SHOWN));
done:
    free(offset);
    return result;
}

static status check_version(const cursor *c, uint32_t version, err *e)
{
    if (version == 2 || version == 3) return OK;
    if (version == 0x02000000u || version == 0x03000000u)
        return err_set(e, E_USAGE, "%s: is a big-endian GGUF file; valid: little-endian", c->path);
    return err_set(e, E_USAGE, "%s: is GGUF of version %" PRIu32 "; valid: 2, 3", c->path, version);
}

status gguf_open(const char *path, gguf **out, err *e)
{
    status result = OK;
    gguf *g = NULL;
    char magic[4];
    uint32_t version = 0;
    uint64_t tensors = 0, values = 0;
    TRY(alloc_zeroed(&g, 1, sizeof *g, path, e));
    TRY(text_copy(path, &g->path, e));
    TRY(file_map_open(path, &g->map, e));
    cursor c = {path, g->map.ptr, g->map.ptr + g->map.bytes};
    if (g->map.bytes < sizeof magic || memcmp(g->map.ptr, "GGUF", sizeof magic) != 0)
        FAIL(E_USAGE, "%s: is no GGUF file: it does not begin with GGUF", path);
    TRY(take(&c, magic, sizeof magic, e));
    TRY(take(&c, &version, sizeof version, e));
    TRY(check_version(&c, version, e));
    TRY(take(&c, &tensors, sizeof tensors, e));
    TRY(take(&c, &values, sizeof values, e));
    TRY(read_values(g, &c, values, e));
    TRY(read_tensors(g, &c, tensors, e));
    TRY(gguf_check_whole(g, e));
    *out = g;
    g = NULL;
done:
    gguf_close(g);
    return result;
}

void gguf_close(gguf *g)
{
    if (!g) return;
    for (size_t i = 0; i < g->value_count; i++) {
        free(g->values[i].key);
        free(g->values[i].strings);
    }
    for (size_t i = 0; i < g->tensor_count; i++) free((char *)g->tensors[i].name);
    free(g->values);
    free(g->tensors);
    free(g->value_by_key);
    free(g->tensor_by_name);
    file_unmap(&g->map);
    free(g->path);
    free(g);
}

status gguf_check_whole(const gguf *g, err *e)
{
    return file_map_check(&g->map, g->path, e);
}

const char *gguf_path(const gguf *g)
{
    return g->path;
}

size_t gguf_tensor_count(const gguf *g)
{
    return g->tensor_count;
}

const gguf_tensor *gguf_tensor_get(const gguf *g, size_t i)
{
    return &g->tensors[i];
}

size_t gguf_value_count(const gguf *g)
{
    return g->value_count;
}

const gguf_value *gguf_value_get(const gguf *g, size_t i)
{
    return &g->values[i];
}

const gguf_tensor *gguf_tensor_find(const gguf *g, const char *name)
{
    const gguf_tensor key = {.name = name}, *k = &key;
    const gguf_tensor **found =
        bsearch(&k, g->tensor_by_name, g->tensor_count, sizeof *g->tensor_by_name, by_name);
    return found ? *found : NULL;
}

const gguf_value *gguf_value_find(const gguf *g, const char *key)
{
    const gguf_value v = {.key = (char *)key}, *k = &v;
    const gguf_value **found =
        bsearch(&k, g->value_by_key, g->value_count, sizeof *g->value_by_key, by_key);
    return found ? *found : NULL;
}

// Reads an item of `bytes` bytes, which may be unaligned.
#define ITEM(c_type)                                                                               \
    c_type x;                                                                                      \
    memcpy(&x, v->data + i * sizeof x, sizeof x)

bool gguf_value_int(const gguf_value *v, uint64_t i, int64_t *out)
{
    if (i >= v->count) return false;
    switch (v->type) {
    case GGUF_U8: {
        ITEM(uint8_t);
        *out = x;
        return true;
    }
    case GGUF_I8: {
        ITEM(int8_t);
        *out = x;
        return true;
    }
    case GGUF_U16: {
        ITEM(uint16_t);
        *out = x;
        return true;
    }
    case GGUF_I16: {
        ITEM(int16_t);
        *out = x;
        return true;
    }
    case GGUF_U32: {
        ITEM(uint32_t);
        *out = x;
        return true;
    }
    case GGUF_I32: {
        ITEM(int32_t);
        *out = x;
        return true;
    }
    case GGUF_I64: {
        ITEM(int64_t);
        *out = x;
        return true;
    }
    case GGUF_U64: {
        ITEM(uint64_t);
        *out = (int64_t)x;
        return x <= INT64_MAX;
    }
    default:
        return false;
    }
}

bool gguf_string_is(const gguf_string *s, const char *word)
{
    return s && s->bytes == strlen(word) && memcmp(s->chars, word, s->bytes) == 0;
}

bool gguf_value_real(const gguf_value *v, uint64_t i, double *out)
{
    int64_t whole;
    if (i >= v->count) return false;
    if (v->type == GGUF_REAL32) {
        ITEM(float);
        *out = (double)x;
        return true;
    }
    if (v->type == GGUF_REAL64) {
        ITEM(double);
        *out = x;
        return true;
    }
    if (!gguf_value_int(v, i, &whole)) return false;
    *out = (double)whole;
    return true;
}

bool gguf_value_bool(const gguf_value *v, bool *out)
{
    if (v->type != GGUF_BOOL || v->count < 1) return false;
    *out = v->data[0];
    return true;
}
