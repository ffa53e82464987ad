// test_groups.c -- trains with parameter groups from job files and compares with PyTorch's param_groups
// and requires_grad (tests/golden/make_groups_golden.py): losses, gradient norms and weights of ten
// steps, under every kind of parallelism. Frozen tensors stay the same bytes and have no optimizer
// state.
#include "sanitized.h"
#include "unit/api/golden.h"

// Every rank makes two micro-batches.
static const layout LAYOUTS[] = {
    {"one", NULL, {"launch.ranks", "1", "train.micro_batch", "4"}},
    {"ddp", NULL, {"launch.ranks", "2", "train.micro_batch", "2"}},
    {"zero1", "ddp", {"launch.ranks", "2", "train.micro_batch", "2", "parallel.dp", "zero1"}},
    {"zero2",
     "ddp",
     {"launch.ranks", "2", "train.micro_batch", "2", "parallel.dp", "zero2", "parallel.no_sync",
      "true"}},
    {"zero3",
     "ddp",
     {"launch.ranks", "2", "train.micro_batch", "2", "parallel.dp", "zero3", "parallel.no_sync",
      "true"}},
    {"zero3-auto", NULL, {"launch.ranks", "2", "train.micro_batch", "2", "parallel.dp", "zero3"}},
    {"ddp-4", NULL, {"launch.ranks", "4", "train.micro_batch", "1"}},
    {"hsdp",
     "ddp-4",
     {"launch.ranks", "4", "train.micro_batch", "1", "parallel.dp", "zero3",
      "parallel.dp_replicate", "2", "parallel.no_sync", "true"}},
    {"tp", NULL, {"launch.ranks", "2", "train.micro_batch", "4", "parallel.tp", "2"}},
    {"tp-sequence",
     NULL,
     {"launch.ranks", "2", "train.micro_batch", "4", "parallel.tp", "2",
      "parallel.sequence_parallel", "true"}},
    {"pp", "one", {"launch.ranks", "2", "train.micro_batch", "4", "parallel.pp", "2"}},
    {"pp-4", "one", {"launch.ranks", "4", "train.micro_batch", "4", "parallel.pp", "4"}},
    {"zb",
     "one",
     {"launch.ranks", "2", "train.micro_batch", "4", "parallel.pp", "2", "parallel.pp_schedule",
      "zb"}},
    {"recompute",
     "ddp",
     {"launch.ranks", "2", "train.micro_batch", "2", "parallel.recompute", "full"}},
};

// Layouts of a job whose groups also have policies and memory tiers of their own (write_mixed).
static const layout MIXED[] = {
    {"mixed", "ddp", {"launch.ranks", "2", "train.micro_batch", "2"}},
    {"mixed-sharded",
     "ddp",
     {"launch.ranks", "2", "train.micro_batch", "2", "parallel.dp", "zero3"}},
    {"mixed-hsdp",
     "ddp-4",
     {"launch.ranks", "4", "train.micro_batch", "1", "parallel.dp", "zero3",
      "parallel.dp_replicate", "2"}},
    {"mixed-tp", "tp", {"launch.ranks", "2", "train.micro_batch", "4", "parallel.tp", "2"}},
    {"mixed-pp",
     "ddp",
     {"launch.ranks", "4", "train.micro_batch", "2", "parallel.dp", "zero1", "parallel.pp", "2"}},
};

// The numbers of optimizer state for each weight of a trainable tensor.
static uint64_t state_numbers(const golden *g, const char *name)
{
    if (strcmp(g->prefix, "sgd.") != 0) return 2;         // AdamW
    if (strstr(name, "model.layers.2.")) return 1;        // momentum
    return strstr(name, "norm.weight") == NULL ? 2U : 0U; // plain sgd
}

// Compares all weights with PyTorch's, and the size of the optimizer state with that of the trainable
// tensors.
static void check_weights(const golden *g, const layout *l)
{
    safetensors *weights = golden_result(l, ""),
                *state = golden_result(l, "/trireme/state.safetensors");
    int frozen = 0;
    uint64_t want_state = 0, got_state = 0;
    assert_int_equal(safetensors_count(weights), safetensors_count(g->start));
    for (size_t i = 0; i < safetensors_count(weights); i++) {
        char key[200];
        const safetensors_tensor *got = safetensors_get(weights, i),
                                 *start = safetensors_find(g->start, got->name);
        assert_non_null(start);
        snprintf(key, sizeof key, "final.%s", got->name);
        const safetensors_tensor *want = golden_find(g, key);
        if (same_bytes(got, start) != !want)
            fail_msg("%s %s, %s: %s", g->model, g->prefix, l->name, got->name);
        if (want) golden_check_tensor(g, l, got, want);
        want_state += want ? state_numbers(g, got->name) * got->bytes : 0;
        frozen += !want;
    }
    for (size_t i = 0; i < safetensors_count(state); i++)
        got_state += safetensors_get(state, i)->bytes;
    assert_true(frozen > 0);
    assert_true(got_state == want_state);
    safetensors_close(weights);
    safetensors_close(state);
}

static void check_layouts(golden *g, const char *job, const layout *layouts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        golden_run n;
        golden_execute(g, job, &layouts[i], &n);
        golden_check_numbers(g, &layouts[i], &n);
        check_weights(g, &layouts[i]);
        if (layouts[i].like) golden_check_bits(g, &layouts[i], layouts[i].like);
    }
}

// Writes mixed.yaml: the same groups, each with another policy and memory tier.
static void write_mixed(const char *job)
{
    static const char *const settings[] = {"dp: zero3", "dp: ddp",
                                           "dp: zero1, offload: {optimizer: file}", "dp: zero2",
                                           "dp: zero3, offload: {gradients: file}"};
    enum { SETTINGS = sizeof settings / sizeof *settings };
    char line[400];
    int groups = 0;
    FILE *from = fopen(job, "r"), *to = fopen("mixed.yaml", "w");
    assert_true(from && to);
    while (fgets(line, sizeof line, from)) {
        const bool entry = strncmp(line, "  - {", 5) == 0;
        if (entry) *strrchr(line, '}') = '\0';
        fputs(line, to);
        if (entry) fprintf(to, ", %s}\n", settings[groups++ % SETTINGS]);
    }
    fputs("parallel: {no_sync: true, offload: {path: files}}\n", to);
    fclose(from);
    assert_int_equal(fclose(to), 0);
}

static void check_variant(const char *folder, const char *variant)
{
    golden g;
    char job[600], prefix[40];
    if (SANITIZED && strcmp(folder, "groups/llama") != 0)
        skip(); // the same groups of another model
    snprintf(prefix, sizeof prefix, "%s.", variant);
    golden_open(&g, folder, prefix);
    snprintf(job, sizeof job, "%s/%s.yaml", g.folder, variant);
    check_layouts(&g, job, LAYOUTS, sizeof LAYOUTS / sizeof *LAYOUTS);
    write_mixed(job);
    check_layouts(&g, "mixed.yaml", MIXED, sizeof MIXED / sizeof *MIXED);
    golden_close(&g);
}

static void test_four_groups_of_llama_equal_pytorch(void **state)
{
    (void)state;
    check_variant("groups/llama", "scattered");
}

static void test_four_groups_of_gpt2_equal_pytorch(void **state)
{
    (void)state;
    check_variant("groups/gpt2", "scattered");
}

static void test_llama_without_a_backward_below_a_block_equals_pytorch(void **state)
{
    (void)state;
    check_variant("groups/llama", "below");
}

static void test_gpt2_without_a_backward_below_a_block_equals_pytorch(void **state)
{
    (void)state;
    check_variant("groups/gpt2", "below");
}

static void test_three_optimizers_equal_pytorch(void **state)
{
    (void)state;
    check_variant("groups/llama", "sgd");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_four_groups_of_llama_equal_pytorch),
        IN_FOLDER(test_four_groups_of_gpt2_equal_pytorch),
        IN_FOLDER(test_llama_without_a_backward_below_a_block_equals_pytorch),
        IN_FOLDER(test_gpt2_without_a_backward_below_a_block_equals_pytorch),
        IN_FOLDER(test_three_optimizers_equal_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
