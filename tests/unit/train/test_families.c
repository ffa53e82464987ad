// test_families.c -- compares every supported family with transformers: loss, gradients, ten steps of
// AdamW, and logits with a key-value cache. tests/golden/make_family_golden.py makes the folders. A
// family becomes supported by the name of its folder in `folders`. A folder in it must pass all tests.
#include "golden_checks.h"
#include "unit/infer/golden_logits.h"

static const char *const folders[] = {
    "llama_biases",
    "llama_dynamic",
    "llama_llama3",
    "llama_longrope",
    "llama_yarn",
    "llama_yarn_mscale",
    "qwen2",
    "qwen2_window",
    "qwen3",
    "mistral",
    "gemma2",
    "gemma3_text",
    "gemma3",
    "smollm3",
    "phi3",
    "phi3_longrope",
    "granite",
    "olmo2",
    "olmo3",
    "exaone4",
    "glm",
    "glm4",
    "cohere2",
    "ernie4_5",
    "hunyuan_v1_dense",
    "seed_oss",
    "starcoder2",
    "stablelm",
    "arcee",
    "granite_swa",
    "ministral3",
    "apertus",
    "cohere",
    "stablelm_parallel",
    "llama_dynamic_long",
    "lfm2",
    "lfm2_numbers",
    "qwen3_5",
    "qwen3_next",
    "gemma4_text",
};
enum { FOLDERS = sizeof folders / sizeof folders[0] };

static void test_fp32_loss_and_gradients_equal_transformers(void **state)
{
    (void)state;
    for (int i = 0; i < FOLDERS; i++) check_gradients(folders[i], F32, "", 1e-5, RECOMPUTE_NONE, 3);
}

static void test_recompute_and_accumulation_keep_the_gradients(void **state)
{
    (void)state;
    for (int i = 0; i < FOLDERS; i++) {
        check_gradients(folders[i], F32, "", 1e-5, RECOMPUTE_SELECTIVE, 3);
        check_gradients(folders[i], F32, "", 1e-5, RECOMPUTE_FULL, 3);
        check_gradients(folders[i], F32, "", 1e-5, RECOMPUTE_NONE, 1);
    }
}

static void test_bf16_loss_is_near_transformers(void **state)
{
    (void)state;
    for (int i = 0; i < FOLDERS; i++)
        check_gradients(folders[i], BF16, "bf16.", 2e-2, RECOMPUTE_NONE, 3);
}

static void test_ten_adamw_steps_equal_transformers(void **state)
{
    (void)state;
    for (int i = 0; i < FOLDERS; i++) check_steps(folders[i], UPDATE_ADAMW, "");
}

// With pieces of 16 tokens a block reads no cache row of an earlier pass.
static void test_logits_with_and_without_cache_equal_transformers(void **state)
{
    (void)state;
    static const int64_t pieces[] = {16, 3, 1};
    for (int i = 0; i < FOLDERS; i++)
        for (int k = 0; k < 3; k++) check_logits(folders[i], pieces[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fp32_loss_and_gradients_equal_transformers),
        cmocka_unit_test(test_recompute_and_accumulation_keep_the_gradients),
        cmocka_unit_test(test_bf16_loss_is_near_transformers),
        cmocka_unit_test(test_ten_adamw_steps_equal_transformers),
        cmocka_unit_test(test_logits_with_and_without_cache_equal_transformers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
