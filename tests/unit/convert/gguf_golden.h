// gguf_golden.h -- GGUF files compared key by key and tensor by tensor with those of llama.cpp's converter
// (tests/golden/make_gguf.py), and a folder for the files of a test.
#ifndef TRIREME_TESTS_GGUF_GOLDEN_H
#define TRIREME_TESTS_GGUF_GOLDEN_H

#include "base/file.h"
#include "convert/convert.h"
#include "store/gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN TESTS_DIR "/golden/"

static char scratch[64];

static int make_scratch(void **state)
{
    (void)state;
    strcpy(scratch, "/tmp/trireme-convert-XXXXXX");
    return mkdtemp(scratch) ? 0 : -1;
}

static int remove_scratch(void **state)
{
    (void)state;
    return file_remove_tree(scratch, NULL) == OK ? 0 : -1;
}

static const char *in_scratch(const char *name)
{
    static char paths[4][128];
    static int next;
    char *p = paths[next++ % 4];
    (void)snprintf(p, sizeof paths[0], "%s/%s", scratch, name);
    return p;
}

// ---- The lines of make_gguf.py

static uint64_t fnv(uint64_t h, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ ((const uint8_t *)data)[i]) * UINT64_C(0x100000001b3);
    return h;
}
#define FNV UINT64_C(0xcbf29ce484222325)

static void add_value(const gguf_value *v, text *out)
{
    static const size_t bytes[GGUF_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    uint64_t h = FNV;
    for (uint64_t i = 0; i < v->count; i++) {
        if (v->type != GGUF_STRING) {
            h = fnv(h, v->data + i * bytes[v->type], bytes[v->type]);
            continue;
        }
        const uint64_t n = v->strings[i].bytes;
        h = fnv(fnv(h, &n, sizeof n), v->strings[i].chars, n);
    }
    text_addf(out, "key %s %d %" PRIu64 " %016" PRIx64 "\n", v->key, (int)v->type, v->count, h);
}

static void add_tensor(const gguf_tensor *t, text *out)
{
    text_addf(out, "tensor %s %u", t->name, t->kind->number);
    for (int i = 0; i < t->dims; i++) text_addf(out, " %" PRId64, t->dim[i]);
    text_addf(out, " %016" PRIx64 "\n", fnv(FNV, t->data, t->bytes));
}

static bool has_line(const char *lines, const char *line, size_t bytes)
{
    for (const char *s = lines; *s; s += strcspn(s, "\n") + 1)
        if (strcspn(s, "\n") == bytes && strncmp(s, line, bytes) == 0) return true;
    return false;
}

// Every line of `a` is in `b`.
static void check_lines(const char *name, const char *a, const char *b, const char *what)
{
    for (const char *s = a; *s; s += strcspn(s, "\n") + 1)
        if (!has_line(b, s, strcspn(s, "\n")))
            fail_msg("%s: %s: %.*s", name, what, (int)strcspn(s, "\n"), s);
}

// What a golden file has: all but the keys of the tokenizer, the name and the size label; only the keys of the tokenizer and
// the general ones; or everything.
typedef enum golden_part { NUMBERS, TOKENIZER, EVERYTHING } golden_part;

static void compare(const char *name, const char *path, golden_part part)
{
    err e = {.code = OK};
    gguf *g = NULL;
    text lines = {0};
    char golden[256], *want = NULL;
    (void)snprintf(golden, sizeof golden, GOLDEN "gguf/%s.txt", name);
    assert_int_equal(file_read(golden, &want, NULL, &e), OK);
    assert_int_equal(gguf_open(path, &g, &e), OK);
    for (size_t i = 0; i < gguf_value_count(g); i++) {
        const gguf_value *v = gguf_value_get(g, i);
        const bool is_own = strncmp(v->key, "tokenizer.", 10) == 0 ||
                            strcmp(v->key, "general.name") == 0 ||
                            strcmp(v->key, "general.size_label") == 0;
        const bool of_tokenizer =
            strncmp(v->key, "tokenizer.", 10) == 0 || strncmp(v->key, "general.", 8) == 0;
        if (part == EVERYTHING || (part == TOKENIZER ? of_tokenizer : !is_own))
            add_value(v, &lines);
    }
    for (size_t i = 0; part != TOKENIZER && i < gguf_tensor_count(g); i++)
        add_tensor(gguf_tensor_get(g, i), &lines);
    check_lines(name, lines.chars, want, "llama.cpp's converter does not write");
    check_lines(name, want, lines.chars, "only llama.cpp's converter writes");
    text_clear(&lines);
    gguf_close(g);
    free(want);
}

#endif
