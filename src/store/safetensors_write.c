// safetensors_write.c -- the layout of a file, and the streaming writer. The writer writes the header,
// then each tensor in chunks through one buffer, so that its memory does not depend on the size of the
// model.
//
// Programs that write a whole file call the writer; it does not know where the bytes come from: it asks
// its source. Checkpoints call the rest: their ranks write one file together.
#include "store/safetensors_file.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 20, LENGTH_BYTES = 8 }; // a chunk: a multiple of every element size

// The row of the tensor's type; NULL: the format has none.
static const safetensors_type *type_of(const safetensors_tensor *t)
{
    static const char *const words[DTYPES] = {
        [F32] = "F32", [BF16] = "BF16", [F16] = "F16", [F64] = "F64",
        [I32] = "I32", [I64] = "I64",   [U8] = "U8",   [U16] = "U16"};
    const char *word = (unsigned)t->type < DTYPES ? words[t->type] : t->type_word;
    return word ? safetensors_type_find(word) : NULL;
}

static int storage_order(const void *a, const void *b)
{
    const safetensors_tensor *x = *(const safetensors_tensor *const *)a,
                             *y = *(const safetensors_tensor *const *)b;
    unsigned p = type_of(x)->bits, q = type_of(y)->bits;
    if (p != q) return p > q ? -1 : 1;
    return strcmp(x->name, y->name);
}

// Checks that a file can hold the tensor.
static status check_tensor(const char *path, const safetensors_tensor *t, err *e)
{
    status result = OK;
    const safetensors_type *type = type_of(t);
    if (!type || strcmp(t->name, "__metadata__") == 0 || t->dims < 0 ||
        t->dims > SAFETENSORS_DIMS_MAX)
        FAIL(E_INTERNAL, "%s: tensor \"%s\" has no type, shape or name that can be stored", path,
             t->name);
    uint64_t bits = type->bits;
    for (int i = 0; i < t->dims; i++)
        if (t->dim[i] < 0 || __builtin_mul_overflow(bits, (uint64_t)t->dim[i], &bits))
            FAIL(E_INTERNAL, "%s: tensor \"%s\": its shape overflows", path, t->name);
    const uint64_t bytes = bits / 8;
    if (bytes != t->bytes)
        FAIL(E_INTERNAL, "%s: tensor \"%s\": its shape needs %" PRIu64 " bytes, it has %" PRIu64,
             path, t->name, bytes, t->bytes);
done:
    return result;
}

static json_t *entry_make(const safetensors_tensor *t, uint64_t begin)
{
    json_t *shape = json_array();
    for (int i = 0; i < t->dims; i++) json_array_append_new(shape, json_integer(t->dim[i]));
    return json_pack("{s:s, s:o, s:[I,I]}", "dtype", type_of(t)->word, "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)(begin + t->bytes));
}

// Makes the length and the JSON text, padded so that the data begins at a multiple of 8.
static status header_make(const char *path, const json_t *root, safetensors_layout *l, err *e)
{
    status result = OK;
    char *text = json_dumps(root, JSON_COMPACT);
    if (!text) FAIL(E_MEMORY, "%s: no memory for the header", path);
    const size_t length = strlen(text), padded = (length + 7) / 8 * 8;
    if (padded > SAFETENSORS_HEADER_MAX)
        FAIL(E_INTERNAL, "%s: the header would have %zu bytes, valid are at most %d", path, padded,
             SAFETENSORS_HEADER_MAX);
    l->header_bytes = LENGTH_BYTES + padded;
    TRY(alloc_array(&l->header, l->header_bytes, 1, "the header", e));
    for (int i = 0; i < LENGTH_BYTES; i++)
        ((uint8_t *)l->header)[i] = (uint8_t)((uint64_t)padded >> 8 * i);
    memset(l->header + LENGTH_BYTES, ' ', padded);
    memcpy(l->header + LENGTH_BYTES, text, length);
done:
    free(text);
    return result;
}

// Sorts the tensors.
static status order_make(const char *path, const safetensors_tensor *t, size_t count, size_t *out,
                         err *e)
{
    status result = OK;
    const safetensors_tensor **order = NULL;
    TRY(alloc_array(&order, count, sizeof *order, path, e));
    for (size_t i = 0; i < count; i++) order[i] = &t[i];
    qsort(order, count, sizeof *order, storage_order);
    for (size_t i = 0; i < count; i++) out[i] = (size_t)(order[i] - t);
done:
    free(order);
    return result;
}

status safetensors_layout_make(const char *path, const safetensors_tensor *t, size_t count,
                               safetensors_layout *out, err *e)
{
    status result = OK;
    uint64_t data = 0;
    json_t *root = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    *out = (safetensors_layout){0};
    for (size_t i = 0; i < count; i++) TRY(check_tensor(path, &t[i], e));
    TRY(alloc_array(&out->begin, count, sizeof *out->begin, path, e));
    TRY(alloc_array(&out->order, count, sizeof *out->order, path, e));
    TRY(order_make(path, t, count, out->order, e));
    for (size_t i = 0; i < count; i++) {
        const safetensors_tensor *x = &t[out->order[i]];
        if (json_object_get(root, x->name))
            FAIL(E_INTERNAL, "%s: tensor \"%s\" is given twice", path, x->name);
        if (json_object_set_new(root, x->name, entry_make(x, data)))
            FAIL(E_INTERNAL, "%s: tensor \"%s\" cannot be written as JSON", path, x->name);
        out->begin[out->order[i]] = data;
        data += x->bytes;
    }
    TRY(header_make(path, root, out, e));
    for (size_t i = 0; i < count; i++) out->begin[i] += out->header_bytes;
    out->bytes = out->header_bytes + data;
done:
    if (result != OK) safetensors_layout_clear(out);
    json_decref(root);
    return result;
}

void safetensors_layout_clear(safetensors_layout *l)
{
    free(l->header);
    free(l->begin);
    free(l->order);
    *l = (safetensors_layout){0};
}

status safetensors_create(const char *path, const safetensors_layout *l, err *e)
{
    status result = OK;
    int fd = -1;
    TRY(file_create_zeros(path, l->bytes, &fd, e));
    TRY(file_write_at(fd, path, l->header, l->header_bytes, 0, e));
    const int written = fd;
    fd = -1;
    TRY(file_close_durable(written, path, e));
done:
    if (fd >= 0) close(fd);
    return result;
}

static status write_data(file_writer *w, const safetensors_tensor *t, size_t index,
                         safetensors_source read, void *arg, uint8_t *chunk, err *e)
{
    status result = OK;
    for (uint64_t offset = 0; offset < t->bytes;) {
        const uint64_t left = t->bytes - offset;
        const size_t n = left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
        TRY(read(arg, index, offset, chunk, n, e));
        TRY(file_write(w, chunk, n, e));
        offset += n;
    }
done:
    return result;
}

status safetensors_write(const char *path, const safetensors_tensor *t, size_t count,
                         safetensors_source read, void *arg, uint64_t *hash, err *e)
{
    status result = OK;
    file_writer *w = NULL;
    safetensors_layout l = {0};
    bool created = false;
    uint8_t *chunk = NULL;
    TRY(alloc_array(&chunk, CHUNK_BYTES, 1, path, e));
    TRY(safetensors_layout_make(path, t, count, &l, e));
    TRY(file_create(path, &w, e));
    created = true;
    TRY(file_write(w, l.header, l.header_bytes, e));
    for (size_t i = 0; i < count; i++)
        TRY(write_data(w, &t[l.order[i]], l.order[i], read, arg, chunk, e));
    if (hash) *hash = file_writer_hash(w);
    file_writer *finished = w;
    w = NULL;
    TRY(file_finish(finished, e));
done:
    file_abandon(w);
    if (result != OK && created) unlink(path);
    free(chunk);
    safetensors_layout_clear(&l);
    return result;
}
