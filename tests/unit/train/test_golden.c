// test_golden.c -- compares losses, gradients and ten optimizer steps of small models with those of
// PyTorch and transformers.
#include "golden.h"

enum { STEPS = 10 };

typedef enum reading { READ_GRADIENT, READ_WEIGHT } reading;

// Compares every tensor of the HuggingFace folder with golden tensor PREFIX + its name.
static void compare_all(const golden *g, trainer *t, reading what, const char *prefix,
                        double tolerance)
{
    const model *m = trainer_get_model(t);
    model_param_files files;
    assert_int_equal(model_param_files_make(m, F32, &files, NULL), OK);
    for (int i = 0; i < files.count; i++) {
        char name[160];
        const model_param_file *f = &files.file[i];
        int64_t count = m->param[f->param].count, size = (int64_t)(files.info[i].bytes / 4);
        float *whole = malloc((size_t)count * sizeof *whole),
              *piece = malloc((size_t)size * sizeof *piece);
        if (what == READ_GRADIENT)
            CHECK(trainer_read_state(t, STATE_GRADIENT, f->param, whole, e));
        else
            CHECK(trainer_read_state(t, STATE_WEIGHT, f->param, whole, e));
        model_param_file_extract(m, f, whole, piece);
        snprintf(name, sizeof name, "%s%s", prefix, f->name);
        const safetensors_tensor *want = golden_tensor(g, name);
        assert_int_equal(want->bytes / dtype_bytes(want->type), size);
        // The true gradient of a key bias is zero. Its computed gradient, and so its Adam step, is
        // only rounding error.
        bool key = strstr(f->name, "k_proj.bias") != NULL,
             fused = strstr(f->name, "c_attn.bias") != NULL;
        double worst = key ? 0 : relative_error(piece, want, 0, fused ? size / 3 : size);
        if (fused)
            worst = fmax(worst, relative_error(piece + 2 * size / 3, want, 2 * size / 3, size / 3));
        if (!(worst <= tolerance))
            fail_msg("%s: relative error %.3g, allowed %.3g", name, worst, tolerance);
        free(whole);
        free(piece);
    }
    model_param_files_clear(&files);
}

static float scalar(const golden *g, const char *name, int i)
{
    return ((const float *)golden_tensor(g, name)->data)[i];
}

static void check_close(const char *what, int step, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance * fabs(want)))
        fail_msg("%s of step %d: %.9g, PyTorch has %.9g", what, step + 1, got, want);
}

// Compares the loss and all gradients of the first step, without an optimizer step.
static void check_gradients(const char *name, dtype precision, const char *prefix, double tolerance,
                            recompute_mode keep, int64_t micro)
{
    golden g = {0};
    trainer *t = NULL;
    trainer_step_result r;
    char key[64], grad[64];
    snprintf(key, sizeof key, "%sloss", prefix);
    snprintf(grad, sizeof grad, "%sgrad.", prefix);
    golden_open(&g, name, 1);
    trainer_options o = golden_options(&g, UPDATE_ADAMW, precision, micro);
    o.strategy.recompute = keep;
    CHECK(trainer_open(&o, &t, e));
    CHECK(trainer_step(t, false, &r, e));
    check_close("loss", 0, r.loss, scalar(&g, key, 0), tolerance);
    compare_all(&g, t, READ_GRADIENT, grad, tolerance);
    trainer_close(t);
    golden_close(&g);
}

static void check_steps(const char *name, kernel_update_rule rule, const char *prefix)
{
    golden g = {0};
    trainer *t = NULL;
    char losses[64], norms[64], finals[64];
    snprintf(losses, sizeof losses, "%slosses", prefix);
    snprintf(norms, sizeof norms, "%snorms", prefix);
    snprintf(finals, sizeof finals, "%sfinal.", prefix);
    golden_open(&g, name, 1);
    trainer_options o = golden_options(&g, rule, F32, g.config.family->reads_vectors ? 16 : 3);
    CHECK(trainer_open(&o, &t, e));
    for (int s = 0; s < STEPS; s++) {
        trainer_step_result r;
        CHECK(trainer_step(t, false, &r, e));
        check_close("loss", s, r.loss, scalar(&g, losses, s), 1e-5);
        check_close("gradient norm", s, r.grad_norm, scalar(&g, norms, s), 1e-4);
    }
    compare_all(&g, t, READ_WEIGHT, finals, 1e-4);
    trainer_close(t);
    golden_close(&g);
}

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
