// test_context.c -- context parallelism: sequences that are split over two and four ranks train as whole
// sequences do. Losses, gradient norms and weights of ten steps are those of PyTorch and transformers over
// whole sequences (tests/golden/make_model_golden.py), alone and with every other kind of parallelism.
#include "sanitized.h"
#include "unit/api/golden.h"

// The settings of make_model_golden.py.
static const char JOB[] =
    "data: {order: sequential}\n"
    "train: {steps: 10, global_batch: 3, clip_grad_norm: 1}\n"
    "optimizer: {lr: 1e-3, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0.1}\n"
    "lr_schedule: {name: constant, warmup_steps: 0}\n";

// Layouts for every model: their heads do not all divide over tensor-parallel ranks.
static const layout LAYOUTS[] = {
    {"one", NULL, {"launch.ranks", "1", "train.micro_batch", "1"}},
    {"cp-2", NULL, {"launch.ranks", "2", "train.micro_batch", "1", "parallel.cp", "2"}},
    {"cp-4", NULL, {"launch.ranks", "4", "train.micro_batch", "1", "parallel.cp", "4"}},
    {"cp-batch", NULL, {"launch.ranks", "2", "train.micro_batch", "3", "parallel.cp", "2"}},
    {"cp-zero3",
     "cp-2",
     {"launch.ranks", "2", "train.micro_batch", "1", "parallel.cp", "2", "parallel.dp", "zero3",
      "parallel.no_sync", "true"}},
    {"cp-dp", NULL, {"launch.ranks", "6", "train.micro_batch", "1", "parallel.cp", "2"}},
    {"cp-dp-zero1",
     "cp-dp",
     {"launch.ranks", "6", "train.micro_batch", "1", "parallel.cp", "2", "parallel.dp", "zero1"}},
    {"cp-selective",
     "cp-2",
     {"launch.ranks", "2", "train.micro_batch", "1", "parallel.cp", "2", "parallel.recompute",
      "selective"}},
    {"cp-full",
     "cp-2",
     {"launch.ranks", "2", "train.micro_batch", "1", "parallel.cp", "2", "parallel.recompute",
      "full"}},
    {"cp-pp",
     "cp-2",
     {"launch.ranks", "4", "train.micro_batch", "1", "parallel.cp", "2", "parallel.pp", "2"}},
};

// Layouts for models with four heads.
static const layout TP_LAYOUTS[] = {
    {"cp-tp",
     NULL,
     {"launch.ranks", "4", "train.micro_batch", "1", "parallel.cp", "2", "parallel.tp", "2"}},
    {"cp-tp-sequence",
     NULL,
     {"launch.ranks", "4", "train.micro_batch", "1", "parallel.cp", "2", "parallel.tp", "2",
      "parallel.sequence_parallel", "true"}},
    {"cp-tp-pp",
     "cp-tp",
     {"launch.ranks", "8", "train.micro_batch", "1", "parallel.cp", "2", "parallel.tp", "2",
      "parallel.pp", "2"}},
};

enum {
    COUNT = sizeof LAYOUTS / sizeof *LAYOUTS,
    TP_COUNT = sizeof TP_LAYOUTS / sizeof *TP_LAYOUTS
};

static void check_weights(const golden *g, const layout *l)
{
    safetensors *weights = golden_result(l, "");
    for (size_t i = 0; i < safetensors_count(weights); i++) {
        char key[200];
        const safetensors_tensor *got = safetensors_get(weights, i);
        snprintf(key, sizeof key, "final.%s", got->name);
        const safetensors_tensor *want = golden_find(g, key);
        assert_non_null(want);
        golden_check_tensor(g, l, got, want);
    }
    safetensors_close(weights);
}

static void check_layouts(golden *g, const layout *layouts, int count)
{
    for (int i = 0; i < count; i++) {
        golden_run n;
        golden_execute(g, "job.yaml", &layouts[i], &n);
        golden_check_numbers(g, &layouts[i], &n);
        check_weights(g, &layouts[i]);
        if (layouts[i].like) golden_check_bits(g, &layouts[i], layouts[i].like);
    }
}

static void check_model(const char *folder, bool four_heads)
{
    golden g;
    if (SANITIZED && strcmp(folder, "models/llama_gqa") != 0)
        skip(); // the same layouts of another model
    golden_open(&g, folder, "");
    FILE *job = fopen("job.yaml", "w");
    assert_non_null(job);
    fputs(JOB, job);
    assert_int_equal(fclose(job), 0);
    check_layouts(&g, LAYOUTS, COUNT);
    if (four_heads) check_layouts(&g, TP_LAYOUTS, TP_COUNT);
    golden_close(&g);
}

static void test_gpt2_equals_pytorch(void **state)
{
    (void)state;
    check_model("models/gpt2_new", true);
}

static void test_variants_of_gpt2_equal_pytorch(void **state)
{
    (void)state;
    check_model("models/gpt2_variants", false);
}

static void test_grouped_queries_equal_pytorch(void **state)
{
    (void)state;
    check_model("models/llama_gqa", true);
}

static void test_scaled_rotary_positions_equal_pytorch(void **state)
{
    (void)state;
    check_model("models/llama_llama3", true);
}

static void test_one_head_of_keys_equals_pytorch(void **state)
{
    (void)state;
    check_model("models/llama_linear", false);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_gpt2_equals_pytorch),
        IN_FOLDER(test_variants_of_gpt2_equal_pytorch),
        IN_FOLDER(test_grouped_queries_equal_pytorch),
        IN_FOLDER(test_scaled_rotary_positions_equal_pytorch),
        IN_FOLDER(test_one_head_of_keys_equals_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
