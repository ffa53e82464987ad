// GGUF files of small models of every family, compared key by key and tensor by tensor with those of llama.cpp's converter
// (tests/golden/make_gguf.py), and read back.
#include "base/file.h"
#include "convert/convert.h"
#include "data/tokenizer/tokenizer.h"
#include "store/gguf.h"
#include "store/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <math.h>
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

// ---- Back

static void check_same_tensors(const char *name, const char *a, const char *b)
{
    err e = {.code = OK};
    safetensors *x = NULL, *y = NULL;
    assert_int_equal(safetensors_open(a, &x, &e), OK);
    assert_int_equal(safetensors_open(b, &y, &e), OK);
    for (size_t i = 0; i < safetensors_count(x); i++) {
        const safetensors_tensor *t = safetensors_get(x, i), *u = safetensors_find(y, t->name);
        const bool adds = strncmp(name, "gemma", 5) == 0 || strcmp(name, "qwen3_5") == 0,
                   shifted = (adds && strstr(t->name, "norm")) || strstr(t->name, "A_log");
        if (!u || u->bytes != t->bytes) fail_msg("%s: %s does not come back", name, t->name);
        // One more and one less, and the logarithm of a power of e, are rounded twice.
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
    compare(name, file, NUMBERS);
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
        "llama_biases",     "llama_gqa",    "llama_llama3",  "llama_yarn",
        "mistral",          "ministral3",   "qwen2",         "qwen3",
        "granite",          "phi3",         "phi3_longrope", "gpt2_new",
        "smollm3",          "olmo2",        "olmo3",         "starcoder2",
        "seed_oss",         "arcee",        "cohere",        "exaone4",
        "gemma2",           "gemma3_text",  "apertus",       "cohere2",
        "ernie4_5",         "glm",          "glm4",          "granite_swa",
        "hunyuan_v1_dense", "lfm2_numbers", "stablelm",      "stablelm_parallel",
        "qwen3_5"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) one_family(names[i]);
}

static const char *one_tokenizer(const char *name)
{
    err e = {.code = OK};
    convert_result r = {.out = NULL};
    char folder[256];
    (void)snprintf(folder, sizeof folder, GOLDEN "gguf/%s", name);
    // The name of the folder becomes general.name.
    const char *file = in_scratch(name);
    const convert_options o = {.from = folder, .out = file, .type = "f32"};
    if (convert_to_gguf(&o, &r, &e) != OK) fail_msg("%s", e.text);
    convert_result_clear(&r);
    compare(name, file, TOKENIZER);
    return file;
}

static void a_tokenizer_has_the_keys_of_the_converter(void **state)
{
    (void)state;
    one_tokenizer("vocab");
}

static size_t encode(const char *folder, const char *text_of, int32_t out[256])
{
    char path[300];
    tokenizer *t = NULL;
    tokenizer_workspace *w = NULL;
    const int32_t *ids;
    size_t count;
    (void)snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    assert_int_equal(tokenizer_load(path, &t, NULL), OK);
    assert_int_equal(tokenizer_workspace_open(t, &w, NULL), OK);
    assert_int_equal(
        tokenizer_encode_with_special_tokens(w, text_of, strlen(text_of), &ids, &count, NULL), OK);
    assert_true(count < 256);
    memcpy(out, ids, count * sizeof *ids);
    tokenizer_workspace_close(w);
    tokenizer_close(t);
    return count;
}

static void a_unigram_tokenizer_has_the_keys_of_the_converter_and_comes_back(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",    "the words",  " two  spaces ",        "a <pad> in it</s>",
        "\tx", "don't 1234", "\xc3\xa9\xef\xac\x81", "\xe4\xbd\xa0 \xf0\x9f\x99\x82"};
    err e = {.code = OK};
    convert_result r = {.out = NULL};
    const char *file = one_tokenizer("unigram"), *made = in_scratch("unigram-back");
    const convert_options in = {.from = file, .out = made};
    if (convert_from_gguf(&in, &r, &e) != OK) fail_msg("%s", e.text);
    convert_result_clear(&r);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int32_t want[256], have[256];
        const size_t n = encode(GOLDEN "gguf/unigram", texts[i], want);
        if (encode(made, texts[i], have) != n || memcmp(want, have, n * sizeof *want) != 0)
            fail_msg("other ids for \"%s\"", texts[i]);
    }
    const convert_options again = {.from = made, .out = in_scratch("again.gguf"), .type = "f32"};
    if (convert_to_gguf(&again, &r, &e) != OK) fail_msg("%s", e.text);
    convert_result_clear(&r);
}

// ---- Adapters

static void export_adapter(const char *base, const char *adapter, const char *file)
{
    err e = {.code = OK};
    convert_result r = {.out = NULL};
    const convert_options o = {.from = base, .adapter = adapter, .out = file, .overwrite = true};
    if (convert_adapter_to_gguf(&o, &r, &e) != OK) fail_msg("%s", e.text);
    convert_result_clear(&r);
}

static void an_adapter_has_the_keys_and_tensors_of_the_converter(void **state)
{
    (void)state;
    const char *file = in_scratch("adapter.gguf");
    export_adapter(GOLDEN "lora/llama", GOLDEN "gguf/adapter", file);
    compare("adapter", file, EVERYTHING);
}

// llama.cpp scales by alpha / rank; rsLoRA scales by alpha / sqrt(rank), and its rank is 3.
static void an_adapter_with_another_scale_carries_it_in_lora_b(void **state)
{
    (void)state;
    const char *file = in_scratch("rslora.gguf"),
               *name = "base_model.model.model.layers.1.mlp.up_proj.lora_B.weight";
    safetensors *s = NULL;
    gguf *g = NULL;
    float have[3], want[3];
    export_adapter(GOLDEN "lora/qwen2", GOLDEN "lora/qwen2/trained", file);
    assert_int_equal(
        safetensors_open(GOLDEN "lora/qwen2/trained/adapter_model.safetensors", &s, NULL), OK);
    assert_int_equal(gguf_open(file, &g, NULL), OK);
    memcpy(want, safetensors_find(s, name)->data, sizeof want);
    memcpy(have, gguf_tensor_find(g, "blk.1.ffn_up.weight.lora_b")->data, sizeof have);
    for (int i = 0; i < 3; i++) assert_float_equal(have[i], want[i] * sqrtf(3), 1e-6f);
    gguf_close(g);
    safetensors_close(s);
}

static void an_adapter_that_holds_more_than_factors_is_refused(void **state)
{
    (void)state;
    err e = {.code = OK};
    convert_result r = {.out = NULL};
    const char *file = in_scratch("none.gguf");
    const convert_options o = {
        .from = GOLDEN "lora/llama", .adapter = GOLDEN "lora/llama/trained", .out = file};
    assert_int_equal(convert_adapter_to_gguf(&o, &r, &e), E_USAGE);
    assert_non_null(strstr(e.text, "lm_head"));
    assert_non_null(strstr(e.text, "valid: --merge"));
    assert_false(file_exists(file));
    convert_result_clear(&r);
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
    refuse("lfm2", "conv_bias: llama.cpp reads no biases of convolutions of a lfm2 model");
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
        cmocka_unit_test(a_unigram_tokenizer_has_the_keys_of_the_converter_and_comes_back),
        cmocka_unit_test(an_adapter_has_the_keys_and_tensors_of_the_converter),
        cmocka_unit_test(an_adapter_with_another_scale_carries_it_in_lora_b),
        cmocka_unit_test(an_adapter_that_holds_more_than_factors_is_refused),
        cmocka_unit_test(models_that_the_format_cannot_hold_are_refused_by_name),
        cmocka_unit_test(what_llama_cpp_computes_otherwise_is_a_warning),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
