// GGUF files of small models of every family, compared key by key and tensor by tensor with those of llama.cpp's converter
// (tests/golden/make_gguf.py), and read back.
#include "base/file.h"
#include "convert/convert.h"
#include "store/gguf.h"
#include "store/safetensors.h"

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

// `begins`: the keys that the golden file has; NULL: all but those of the tokenizer, the name and the size label.
static void compare(const char *name, const char *path, const char *begins)
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
        if (begins ? strncmp(v->key, "tokenizer.", 10) == 0 || strncmp(v->key, "general.", 8) == 0
                   : !is_own)
            add_value(v, &lines);
    }
    for (size_t i = 0; !begins && i < gguf_tensor_count(g); i++)
        add_tensor(gguf_tensor_get(g, i), &lines);
    check_lines(name, lines.chars, want, "llama.cpp's converter does not write");
    check_lines(name, want, lines.chars, "only llama.cpp's converter writes");
    text_clear(&lines);
    gguf_close(g);
    free(want);
}

// ---- Back

static void check_same_tensors(const char *name, const char *a, const char *b)
{
    err e = {.code = OK};
    safetensors *x = NULL, *y = NULL;
    assert_int_equal(safetensors_open(a, &x, &e), OK);
    assert_int_equal(safetensors_open(b, &y, &e), OK);
    for (size_t i = 0; i < safetensors_count(x); i++) {
        const safetensors_tensor *t = safetensors_get(x, i), *u = safetensors_find(y, t->name);
        const bool shifted = strncmp(name, "gemma", 5) == 0 && strstr(t->name, "norm");
        if (!u || u->bytes != t->bytes) fail_msg("%s: %s does not come back", name, t->name);
        // One more and one less is rounded twice.
        if (!shifted && memcmp(t->data, u->data, t->bytes) != 0)
            fail_msg("%s: %s differs", name, t->name);
    }
    safetensors_close(x);
    safetensors_close(y);
}

static void one_family(const char *name)
{
    err e = {.code = OK};
    convert_result r = {.out = NULL};
    char folder[256], weights[300], back[128];
    (void)snprintf(folder, sizeof folder, GOLDEN "models/%s", name);
    (void)snprintf(weights, sizeof weights, "%s/model.safetensors", folder);
    const char *file = in_scratch("x.gguf"), *made = in_scratch("back");
    const convert_options out = {.from = folder, .out = file, .type = "f32", .overwrite = true};
    if (convert_to_gguf(&out, &r, &e) != OK) fail_msg("%s: %s", name, e.text);
    convert_result_clear(&r);
    compare(name, file, NULL);
    const convert_options in = {.from = file, .out = made, .overwrite = true};
    if (convert_from_gguf(&in, &r, &e) != OK) fail_msg("%s: %s", name, e.text);
    convert_result_clear(&r);
    (void)snprintf(back, sizeof back, "%s/model.safetensors", made);
    check_same_tensors(name, weights, back);
}

static void families_have_the_keys_and_tensors_of_the_converter(void **state)
{
    (void)state;
    static const char *const names[] = {
        "llama_biases", "llama_gqa", "llama_llama3", "llama_yarn", "mistral",       "ministral3",
        "qwen2",        "qwen3",     "granite",      "phi3",       "phi3_longrope", "gpt2_new",
        "smollm3",      "olmo2",     "olmo3",        "starcoder2", "seed_oss",      "arcee",
        "cohere",       "exaone4",   "gemma2",       "gemma3_text"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) one_family(names[i]);
}

static void a_tokenizer_has_the_keys_of_the_converter(void **state)
{
    (void)state;
    err e = {.code = OK};
    convert_result r = {.out = NULL};
    // The name of the folder becomes general.name.
    const char *file = in_scratch("vocab.gguf");
    const convert_options o = {.from = GOLDEN "gguf/vocab", .out = file, .type = "f32"};
    if (convert_to_gguf(&o, &r, &e) != OK) fail_msg("%s", e.text);
    convert_result_clear(&r);
    compare("vocab", file, "tokenizer.");
}

// ---- What a GGUF file cannot hold

static void refuse(const char *name, const char *because)
{
    err e = {.code = OK};
    convert_result r = {.out = NULL};
    char folder[256];
    (void)snprintf(folder, sizeof folder, GOLDEN "models/%s", name);
    const char *file = in_scratch("none.gguf");
    const convert_options o = {.from = folder, .out = file};
    assert_int_equal(convert_to_gguf(&o, &r, &e), E_USAGE);
    if (!strstr(e.text, because)) fail_msg("\"%s\" does not say \"%s\"", e.text, because);
    assert_false(file_exists(file));
    convert_result_clear(&r);
}

static void models_that_the_format_cannot_hold_are_refused_by_name(void **state)
{
    (void)state;
    refuse("llama_dynamic", "rope_scaling: dynamic");
    refuse("llama_longrope", "rope_scaling: longrope");
    refuse("qwen3_next", "found a qwen3_next model; valid: llama, mistral");
}

static void what_llama_cpp_computes_otherwise_is_a_warning(void **state)
{
    (void)state;
    err e = {.code = OK};
    convert_result r = {.out = NULL};
    const convert_options o = {.from = GOLDEN "models/qwen2_window",
                               .out = in_scratch("window.gguf")};
    assert_int_equal(convert_to_gguf(&o, &r, &e), OK);
    assert_non_null(
        strstr(r.warnings.chars, "sliding_window: a GGUF file of a qwen2 model cannot hold it"));
    convert_result_clear(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_have_the_keys_and_tensors_of_the_converter),
        cmocka_unit_test(a_tokenizer_has_the_keys_of_the_converter),
        cmocka_unit_test(models_that_the_format_cannot_hold_are_refused_by_name),
        cmocka_unit_test(what_llama_cpp_computes_otherwise_is_a_warning),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
