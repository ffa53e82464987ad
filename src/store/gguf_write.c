// gguf_write.c -- the streaming writer of GGUF files. It writes keys and the list of tensors, then each tensor row by row
// through one buffer, so that its memory does not depend on the size of the model.
//
// convert/ calls it. It does not know where rows come from: it asks its source.
#include "store/gguf.h"

#include "base/alloc.h"
#include "base/file.h"

#include <stdlib.h>
#include <unistd.h>

enum { ALIGNMENT = 32, VERSION = 3 };

void gguf_keys_clear(gguf_keys *k)
{
    text_clear(&k->bytes);
    k->count = 0;
}

void gguf_put(gguf_keys *k, const void *item, size_t bytes)
{
    text_add_bytes(&k->bytes, item, bytes);
}

void gguf_put_string(gguf_keys *k, const char *chars, size_t bytes)
{
    const uint64_t n = bytes;
    gguf_put(k, &n, sizeof n);
    text_add_bytes(&k->bytes, chars, bytes);
}

static void begin(gguf_keys *k, const char *key, gguf_type type)
{
    const uint32_t word = type;
    gguf_put_string(k, key, strlen(key));
    gguf_put(k, &word, sizeof word);
    k->count++;
}

void gguf_add_u32(gguf_keys *k, const char *key, uint32_t value)
{
    begin(k, key, GGUF_U32);
    gguf_put(k, &value, sizeof value);
}

void gguf_add_int(gguf_keys *k, const char *key, int32_t value)
{
    begin(k, key, GGUF_I32);
    gguf_put(k, &value, sizeof value);
}

void gguf_add_real(gguf_keys *k, const char *key, double value)
{
    const float v = (float)value;
    begin(k, key, GGUF_REAL32);
    gguf_put(k, &v, sizeof v);
}

void gguf_add_bool(gguf_keys *k, const char *key, bool value)
{
    const uint8_t v = value;
    begin(k, key, GGUF_BOOL);
    gguf_put(k, &v, sizeof v);
}

void gguf_add_string(gguf_keys *k, const char *key, const char *chars, size_t bytes)
{
    begin(k, key, GGUF_STRING);
    gguf_put_string(k, chars, bytes);
}

void gguf_add_array(gguf_keys *k, const char *key, gguf_type type, uint64_t count)
{
    const uint32_t word = type;
    begin(k, key, GGUF_ARRAY);
    gguf_put(k, &word, sizeof word);
    gguf_put(k, &count, sizeof count);
}

bool gguf_output_measure(gguf_output *t)
{
    uint64_t n = 1;
    if (t->dims < 1 || t->dim[0] % t->kind->elements != 0) return false;
    for (int i = 0; i < t->dims; i++)
        if (t->dim[i] < 1 || __builtin_mul_overflow(n, (uint64_t)t->dim[i], &n)) return false;
    return !__builtin_mul_overflow(n / t->kind->elements, (uint64_t)t->kind->bytes, &t->bytes);
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

// All that stands before the data, padded.
static void add_header(const gguf_keys *k, const gguf_output *t, size_t count, gguf_keys *out)
{
    const uint32_t version = VERSION;
    const uint64_t tensors = count;
    uint64_t offset = 0;
    text_add_bytes(&out->bytes, "GGUF", 4);
    gguf_put(out, &version, sizeof version);
    gguf_put(out, &tensors, sizeof tensors);
    gguf_put(out, &k->count, sizeof k->count);
    text_add_bytes(&out->bytes, k->bytes.chars, k->bytes.bytes);
    for (size_t i = 0; i < count; i++) {
        const uint32_t dims = (uint32_t)t[i].dims, kind = t[i].kind->number;
        gguf_put_string(out, t[i].name, strlen(t[i].name));
        gguf_put(out, &dims, sizeof dims);
        gguf_put(out, t[i].dim, dims * sizeof *t[i].dim);
        gguf_put(out, &kind, sizeof kind);
        gguf_put(out, &offset, sizeof offset);
        offset += aligned(t[i].bytes);
    }
    while (!out->bytes.failed && out->bytes.bytes % ALIGNMENT) text_add_bytes(&out->bytes, "", 1);
}

static status write_tensor(file_writer *w, const gguf_output *t, size_t index, gguf_source read,
                           void *arg, float *row, uint8_t *packed, err *e)
{
    static const uint8_t zeros[ALIGNMENT];
    status result = OK;
    const uint64_t each = (uint64_t)t->dim[0] / t->kind->elements * t->kind->bytes;
    for (uint64_t r = 0; r < t->bytes / each; r++) {
        TRY(read(arg, index, (int64_t)r, row, e));
        gguf_quantize(t->kind, row, t->dim[0], packed);
        TRY(file_write(w, packed, each, e));
    }
    TRY(file_write(w, zeros, aligned(t->bytes) - t->bytes, e));
done:
    return result;
}

status gguf_write(const char *path, const gguf_keys *k, gguf_output *t, size_t count,
                  gguf_source read, void *arg, err *e)
{
    status result = OK;
    file_writer *w = NULL;
    gguf_keys header = {0};
    float *row = NULL;
    uint8_t *packed = NULL;
    int64_t most = 1;
    bool created = false;
    TRY(text_check(&k->bytes, e));
    for (size_t i = 0; i < count; i++) {
        if (!gguf_output_measure(&t[i]))
            FAIL(E_INTERNAL, "%s: tensor %s has no shape that %s can store", path, t[i].name,
                 t[i].kind->word);
        if (t[i].dim[0] > most) most = t[i].dim[0];
    }
    TRY(alloc_array(&row, (size_t)most, sizeof *row, path, e));
    TRY(alloc_array(&packed, (size_t)most, sizeof(float) + 1, path, e));
    add_header(k, t, count, &header);
    TRY(text_check(&header.bytes, e));
    TRY(file_create(path, &w, e));
    created = true;
    TRY(file_write(w, header.bytes.chars, header.bytes.bytes, e));
    for (size_t i = 0; i < count; i++) TRY(write_tensor(w, &t[i], i, read, arg, row, packed, e));
    file_writer *finished = w;
    w = NULL;
    TRY(file_finish(finished, e));
done:
    file_abandon(w);
    if (result != OK && created) unlink(path);
    gguf_keys_clear(&header);
    free(packed);
    free(row);
    return result;
}
