// GGUF files of small models of every family and of adapters, compared with those of llama.cpp's converter, and read back.
#include "gguf_golden.h"
#include "store/safetensors.h"

#include <math.h>

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
        cmocka_unit_test(an_adapter_has_the_keys_and_tensors_of_the_converter),
        cmocka_unit_test(an_adapter_with_another_scale_carries_it_in_lora_b),
        cmocka_unit_test(an_adapter_that_holds_more_than_factors_is_refused),
        cmocka_unit_test(models_that_the_format_cannot_hold_are_refused_by_name),
        cmocka_unit_test(what_llama_cpp_computes_otherwise_is_a_warning),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
