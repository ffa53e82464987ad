// test_golden.c -- compares losses, gradients and ten optimizer steps of small models with those of
// PyTorch and transformers.
#include "golden_checks.h"

static const char *const language_models[] = {"gpt2_new", "gpt2_variants", "llama_gqa",
                                              "llama_llama3", "llama_linear"};

static void test_fp32_loss_and_gradients_equal_pytorch(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        check_gradients(language_models[i], F32, "", 1e-5, RECOMPUTE_NONE, 3);
    check_gradients("mlp_classes", F32, "", 1e-5, RECOMPUTE_NONE, 16);
    check_gradients("mlp_values", F32, "", 1e-5, RECOMPUTE_NONE, 16);
}

static void test_recompute_and_accumulation_keep_the_gradients(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        check_gradients(language_models[i], F32, "", 1e-5, RECOMPUTE_SELECTIVE, 3);
        check_gradients(language_models[i], F32, "", 1e-5, RECOMPUTE_FULL, 3);
        check_gradients(language_models[i], F32, "", 1e-5, RECOMPUTE_NONE, 1);
    }
}

static void test_bf16_loss_and_gradients_are_near_pytorch(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        check_gradients(language_models[i], BF16, "bf16.", 2e-2, RECOMPUTE_NONE, 3);
}

static void test_ten_adamw_steps_equal_pytorch(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) check_steps(language_models[i], UPDATE_ADAMW, "");
}

static void test_ten_steps_of_every_rule_equal_pytorch(void **state)
{
    (void)state;
    static const char *const models[] = {"mlp_classes", "mlp_values"};
    for (int i = 0; i < 2; i++) {
        check_steps(models[i], UPDATE_ADAMW, "adamw.");
        check_steps(models[i], UPDATE_SGD, "sgd.");
        check_steps(models[i], UPDATE_LION, "lion.");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fp32_loss_and_gradients_equal_pytorch),
        cmocka_unit_test(test_recompute_and_accumulation_keep_the_gradients),
        cmocka_unit_test(test_bf16_loss_and_gradients_are_near_pytorch),
        cmocka_unit_test(test_ten_adamw_steps_equal_pytorch),
        cmocka_unit_test(test_ten_steps_of_every_rule_equal_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
