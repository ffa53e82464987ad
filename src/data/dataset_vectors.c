// dataset_vectors.c -- a safetensors file with x [samples, features] and y [samples] or
// [samples, targets], for classifiers and regression. dataset_open calls it. Each read converts one
// row of the mapped file, so the data is never in memory twice. It deliberately does not know the
// model's outputs.
#include "data/dataset_kinds.h"

#include "base/alloc.h"
#include "device/kernels.h"
#include "store/safetensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct dataset_vectors {
    dataset base;
    safetensors *file;
    const safetensors_tensor *x, *y;
} dataset_vectors;

// Element i of a float tensor, which may be unaligned in the mapped file.
static float float_at(const safetensors_tensor *t, uint64_t i)
{
    const uint8_t *ptr = (const uint8_t *)t->data + i * dtype_bytes(t->type);
    uint16_t bits16;
    float f32;
    double f64;
    switch (t->type) {
    case F32:
        memcpy(&f32, ptr, 4);
        return f32;
    case F64:
        memcpy(&f64, ptr, 8);
        return (float)f64;
    case BF16:
        memcpy(&bits16, ptr, 2);
        return bf16_to_float(bits16);
    default:
        memcpy(&bits16, ptr, 2);
        return fp16_to_float(bits16);
    }
}

static int64_t integer_at(const safetensors_tensor *t, uint64_t i)
{
    const uint8_t *ptr = (const uint8_t *)t->data + i * dtype_bytes(t->type);
    int32_t i32;
    int64_t i64;
    switch (t->type) {
    case I32:
        memcpy(&i32, ptr, 4);
        return i32;
    case I64:
        memcpy(&i64, ptr, 8);
        return i64;
    default:
        return *ptr;
    }
}

static bool is_float(dtype t)
{
    return t == F32 || t == F16 || t == BF16 || t == F64;
}

static status vectors_read(dataset *d, uint64_t sample, void *inputs, void *labels, err *e)
{
    const dataset_vectors *v = (const dataset_vectors *)d;
    if (sample >= d->samples)
        return err_set(e, E_INTERNAL, "data: sample %" PRIu64 " of %" PRIu64, sample, d->samples);
    uint64_t features = (uint64_t)d->shape.inputs;
    float *in = inputs;
    for (uint64_t f = 0; f < features; f++) in[f] = float_at(v->x, sample * features + f);
    const uint64_t targets = (uint64_t)d->shape.labels;
    if (d->shape.label_type == F32)
        for (uint64_t k = 0; k < targets; k++)
            ((float *)labels)[k] = float_at(v->y, sample * targets + k);
    else
        *(int32_t *)labels = (int32_t)integer_at(v->y, sample);
    return safetensors_check_whole(v->file, e);
}

static void vectors_close(dataset *d)
{
    dataset_vectors *v = (dataset_vectors *)d;
    safetensors_close(v->file);
    free(v);
}

static status tensor_get(const dataset_vectors *v, const char *path, const char *name,
                         const safetensors_tensor **out, err *e)
{
    *out = safetensors_find(v->file, name);
    if (*out) return OK;
    return err_set(e, E_USAGE,
                   "%s: no tensor %s, valid is x [samples, features] and y [samples], or y "
                   "[samples, targets]",
                   path, name);
}

static status shapes_check(dataset_vectors *v, const char *path, err *e)
{
    status result = OK;
    TRY(tensor_get(v, path, "x", &v->x, e));
    TRY(tensor_get(v, path, "y", &v->y, e));
    if (v->x->dims != 2) FAIL(E_USAGE, "%s: x: found %d dimensions, valid is 2", path, v->x->dims);
    if (!v->x->known_type || !is_float(v->x->type))
        FAIL(E_USAGE, "%s: x: found dtype %s, valid are F32, F16, BF16 and F64", path,
             v->x->known_type ? dtype_name(v->x->type) : "of another kind");
    dtype y = v->y->type;
    if (!v->y->known_type || !(is_float(y) || y == I32 || y == I64 || y == U8))
        FAIL(E_USAGE,
             "%s: y: found dtype %s, valid are I32, I64, U8 (classes) and F32, F16, BF16, F64 "
             "(targets)",
             path, v->y->known_type ? dtype_name(y) : "of another kind");
    if (v->y->dims != 1 && !(v->y->dims == 2 && is_float(y)))
        FAIL(E_USAGE,
             "%s: y: found %d dimensions, valid is 1, or 2 for regression targets (F32, F16, BF16, "
             "F64)",
             path, v->y->dims);
    if (v->x->dim[0] != v->y->dim[0])
        FAIL(E_USAGE, "%s: x has %" PRId64 " samples and y %" PRId64 ", they must be equal", path,
             v->x->dim[0], v->y->dim[0]);
    if (v->x->dim[0] < 1 || v->x->dim[1] < 1)
        FAIL(E_USAGE,
             "%s: x: found shape [%" PRId64 ", %" PRId64 "], valid is 1 or more in both dimensions",
             path, v->x->dim[0], v->x->dim[1]);
    if (v->y->dims == 2 && v->y->dim[1] < 1)
        FAIL(E_USAGE, "%s: y: found no target, valid is 1 or more", path);
done:
    return result;
}

static status floats_check(const safetensors_tensor *t, const char *path, err *e)
{
    uint64_t count = t->bytes / dtype_bytes(t->type), row = t->dims == 2 ? (uint64_t)t->dim[1] : 1;
    for (uint64_t i = 0; i < count; i++)
        if (!isfinite(float_at(t, i)))
            return err_set(e, E_USAGE,
                           "%s: %s: sample %" PRIu64 ", element %" PRIu64
                           ": found %g, valid are finite fp32 values",
                           path, t->name, i / row, i % row, (double)float_at(t, i));
    return OK;
}

static status classes_check(dataset_vectors *v, const char *path, int32_t vocab, err *e)
{
    int64_t limit = vocab > 0 ? vocab : INT32_MAX;
    for (uint64_t i = 0; i < v->base.samples; i++) {
        int64_t label = integer_at(v->y, i);
        if (label != IGNORED_LABEL && (label < 0 || label >= limit))
            return err_set(e, E_USAGE,
                           "%s: y: sample %" PRIu64 ": found class %" PRId64
                           ", valid is 0 to %" PRId64 ", or %d (ignored)",
                           path, i, label, limit - 1, IGNORED_LABEL);
        if (label > v->base.max_id) v->base.max_id = (int32_t)label;
    }
    return OK;
}

status dataset_open_vectors(const char *path, int32_t vocab, dataset **out, err *e)
{
    status result = OK;
    dataset_vectors *v = NULL;
    TRY(alloc_zeroed(&v, 1, sizeof *v, path, e));
    TRY(safetensors_open(path, &v->file, e));
    TRY(shapes_check(v, path, e));
    bool regression = is_float(v->y->type);
    v->base = (dataset){
        .shape = {.inputs = v->x->dim[1],
                  .input_type = F32,
                  .labels = v->y->dims == 2 ? v->y->dim[1] : 1,
                  .label_type = regression ? F32 : I32},
        .samples = (uint64_t)v->x->dim[0],
        .max_id = -1,
        .read = vectors_read,
        .close = vectors_close,
    };
    TRY(floats_check(v->x, path, e));
    if (regression)
        TRY(floats_check(v->y, path, e));
    else
        TRY(classes_check(v, path, vocab, e));
    *out = &v->base;
    v = NULL;
done:
    if (v) vectors_close(&v->base);
    return result;
}
