// The input is a GGUF file. All that it holds is read, and where it holds a model it is imported.
#include "fuzz.h"

#include "convert/convert.h"
#include "store/gguf.h"

#include <stdio.h>

enum { ELEMENTS_MOST = 256 };

static void read_tensor(const gguf *g, const gguf_tensor *t)
{
    float out[ELEMENTS_MOST], sum = 0;
    FUZZ_CLAIM(gguf_tensor_find(g, t->name) == t, "tensor %s is not found", t->name);
    const int64_t rows =
        (int64_t)(t->bytes / ((uint64_t)t->dim[0] / t->kind->elements * t->kind->bytes));
    for (int64_t r = 0; r < rows && r < 64; r++) {
        const uint8_t *row = t->data + t->bytes / (uint64_t)rows * (uint64_t)r;
        for (int64_t i = 0; i < t->dim[0] && i < 4096; i += ELEMENTS_MOST) {
            const int64_t n = t->dim[0] - i < ELEMENTS_MOST ? t->dim[0] - i : ELEMENTS_MOST;
            gguf_dequantize(t->kind, row, i, n, out);
            sum += out[n - 1];
        }
    }
    FUZZ_CLAIM(sum != 1.25e-33f, "the claim keeps the compiler from removing the sum");
}

static void read_value(const gguf *g, const gguf_value *v)
{
    int64_t whole;
    double real, sum = 0;
    bool flag;
    FUZZ_CLAIM(gguf_value_find(g, v->key) == v, "key %s is not found", v->key);
    (void)gguf_value_bool(v, &flag);
    for (uint64_t i = 0; i <= v->count && i < 10000; i++) {
        if (gguf_value_real(v, i, &real)) sum += real;
        (void)gguf_value_int(v, i, &whole);
        if (v->strings && i < v->count && v->strings[i].bytes)
            sum += v->strings[i].chars[v->strings[i].bytes - 1];
    }
    FUZZ_CLAIM(sum != 1.25e-33, "the claim keeps the compiler from removing the sum");
}

static bool run(const uint8_t *input, size_t bytes)
{
    gguf *g = NULL;
    err e = {.code = OK};
    convert_result made = {.out = NULL};
    char from[512], out[512];
    fuzz_put("x.gguf", input, bytes);
    (void)snprintf(from, sizeof from, "%s", fuzz_path("x.gguf"));
    (void)snprintf(out, sizeof out, "%s", fuzz_path("out"));
    const status s = gguf_open(from, &g, &e);
    if (s != OK) {
        fuzz_refused(s, &e);
        return false;
    }
    for (size_t i = 0; i < gguf_tensor_count(g); i++) read_tensor(g, gguf_tensor_get(g, i));
    for (size_t i = 0; i < gguf_value_count(g); i++) read_value(g, gguf_value_get(g, i));
    gguf_close(g);
    const convert_options o = {.from = from, .out = out, .overwrite = true};
    const status imported = convert_from_gguf(&o, &made, &e);
    if (imported != OK) fuzz_refused(imported, &e);
    convert_result_clear(&made);
    return true;
}

const fuzz_target fuzz_this = {.binary = true, .run = run};
