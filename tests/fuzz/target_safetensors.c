// The input is a safetensors file, which is read as weights and as a dataset of vectors. After a
// mutation of the header, its length is corrected.
#include "fuzz.h"

#include "data/dataset.h"
#include "store/safetensors.h"

#include <stdlib.h>
#include <string.h>

static void read_all(const safetensors *s)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < safetensors_count(s); i++) {
        const safetensors_tensor *t = safetensors_get(s, i);
        FUZZ_CLAIM(safetensors_find(s, t->name) == t, "tensor %s is not found", t->name);
        for (uint64_t b = 0; b < t->bytes; b++) sum += ((const uint8_t *)t->data)[b];
    }
    safetensors_metadata(s, "format");
    FUZZ_CLAIM(sum != 1, "the claim keeps the compiler from removing the sum");
}

static void read_vectors(const char *path)
{
    const dataset_source source = {.path = path, .weight = 1};
    dataset *d = NULL;
    err e = {.code = OK};
    const status s = dataset_open(&source, 1, 1, 0, 1, 0, &d, &e);
    if (s != OK) {
        fuzz_refused(s, &e);
        return;
    }
    float *x = calloc((size_t)d->shape.inputs + 1, sizeof *x);
    float *y = calloc((size_t)d->shape.labels + 1, sizeof *y);
    FUZZ_CLAIM(x && y, "no memory for a sample of %lld features", (long long)d->shape.inputs);
    for (uint64_t i = 0; i < d->samples && i < 100; i++)
        if (d->read(d, i, x, y, &e) != OK) fuzz_refused(e.code, &e);
    free(x);
    free(y);
    dataset_close(d);
}

static bool run(const uint8_t *input, size_t bytes)
{
    safetensors *t = NULL;
    err e = {.code = OK};
    fuzz_put("x.safetensors", input, bytes);
    const status s = safetensors_open(fuzz_path("x.safetensors"), &t, &e);
    if (s == OK)
        read_all(t);
    else
        fuzz_refused(s, &e);
    safetensors_close(t);
    read_vectors(fuzz_path("x.safetensors"));
    return s == OK;
}

// Sets the length of the header to where its outermost bracket closes.
static void mend(uint8_t *input, size_t bytes)
{
    int depth = 0;
    for (size_t i = 8; i < bytes; i++) {
        depth += input[i] == '{';
        depth -= input[i] == '}';
        if (input[i] != '}' || depth != 0) continue;
        while (i + 1 < bytes && input[i + 1] == ' ') i++;
        const uint64_t length = i - 7;
        memcpy(input, &length, sizeof length);
        return;
    }
}

const fuzz_target fuzz_this = {.run = run, .mend = mend};
