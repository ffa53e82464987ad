// test_lora.c -- trains adapters and compares with PEFT (tests/golden/make_lora.py): losses, gradient norms and the
// adapter's weights of ten steps, under every kind of parallelism; reads PEFT's adapters; and writes folders as PEFT does.
#include "infer/decoder.h"
#include "model/adapter.h"

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
    {"hsdp",
     NULL,
     {"launch.ranks", "4", "train.micro_batch", "1", "parallel.dp", "zero3",
      "parallel.dp_replicate", "2", "parallel.no_sync", "true"}},
    {"tp", NULL, {"launch.ranks", "2", "train.micro_batch", "4", "parallel.tp", "2"}},
    {"tp-zero3",
     "tp-ddp",
     {"launch.ranks", "4", "train.micro_batch", "2", "parallel.tp", "2", "parallel.dp", "zero3",
      "parallel.no_sync", "true"}},
    {"tp-sequence",
     NULL,
     {"launch.ranks", "2", "train.micro_batch", "4", "parallel.tp", "2",
      "parallel.sequence_parallel", "true"}},
    {"cp", NULL, {"launch.ranks", "2", "train.micro_batch", "4", "parallel.cp", "2"}},
    {"pp", "one", {"launch.ranks", "2", "train.micro_batch", "4", "parallel.pp", "2"}},
    {"zb",
     "one",
     {"launch.ranks", "2", "train.micro_batch", "4", "parallel.pp", "2", "parallel.pp_schedule",
      "zb"}},
    {"recompute",
     "ddp",
     {"launch.ranks", "2", "train.micro_batch", "2", "parallel.recompute", "full"}},
    {"host",
     "ddp",
     {"launch.ranks", "2", "train.micro_batch", "2", "parallel.dp", "zero3", "parallel.no_sync",
      "true", "parallel.offload.weights", "host"}},
};
static const layout TP_DDP = {
    "tp-ddp", NULL, {"launch.ranks", "4", "train.micro_batch", "2", "parallel.tp", "2"}};

static safetensors *open_file(const char *folder, const char *file)
{
    char path[700];
    err why = {0};
    safetensors *out = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    if (safetensors_open(path, &out, &why) != OK) fail_msg("%s", why.text);
    return out;
}

static safetensors *open_result(const layout *l)
{
    char folder[200];
    snprintf(folder, sizeof folder, "%s/checkpoints/latest", l->name);
    return open_file(folder, "adapter_model.safetensors");
}

static bool exists(const layout *l, const char *file)
{
    char path[300];
    snprintf(path, sizeof path, "%s/checkpoints/latest/%s", l->name, file);
    return file_exists(path);
}

// The checkpoint has PEFT's tensors and no others, and AdamW's two numbers for each of their weights.
static void check_result(const golden *g, const layout *l)
{
    safetensors *got = open_result(l), *state = golden_result(l, "/trireme/state.safetensors");
    uint64_t bytes = 0, of_state = 0;
    size_t wanted = 0;
    for (size_t i = 0; i < safetensors_count(g->values); i++) {
        const safetensors_tensor *want = safetensors_get(g->values, i);
        if (strncmp(want->name, "final.", 6) != 0) continue;
        const safetensors_tensor *t = safetensors_find(got, want->name + 6);
        if (!t) fail_msg("%s, %s: %s is missing", g->model, l->name, want->name);
        assert_int_equal(t->dims, want->dims);
        assert_memory_equal(t->dim, want->dim, (size_t)t->dims * sizeof *t->dim);
        golden_check_tensor(g, l, t, want);
        bytes += t->bytes;
        wanted++;
    }
    assert_true(wanted > 10);
    assert_int_equal(safetensors_count(got), wanted);
    for (size_t i = 0; i < safetensors_count(state); i++)
        of_state += safetensors_get(state, i)->bytes;
    assert_true(of_state == 2 * bytes);
    assert_true(exists(l, "adapter_config.json"));
    assert_false(exists(l, "config.json") || exists(l, "model.safetensors"));
    safetensors_close(got);
    safetensors_close(state);
}

static void check_bits(const golden *g, const layout *l)
{
    const layout other = {.name = l->like};
    safetensors *a = open_result(l), *b = open_result(&other);
    for (size_t i = 0; i < safetensors_count(a); i++) {
        const safetensors_tensor *t = safetensors_get(a, i);
        if (!same_bytes(t, safetensors_find(b, t->name)))
            fail_msg("%s: %s has not the same bits under %s and %s", g->model, t->name, l->name,
                     l->like);
    }
    safetensors_close(a);
    safetensors_close(b);
}

static void run_layout(golden *g, const char *job, const layout *l)
{
    golden_run n;
    golden_execute(g, job, l, &n);
    golden_check_numbers(g, l, &n);
    check_result(g, l);
    if (l->like) check_bits(g, l);
}

// Writes a job file with the adapter of a folder as its start.
static void write_job(const golden *g, const char *start)
{
    char line[400], path[700];
    snprintf(path, sizeof path, "%s/job.yaml", g->folder);
    FILE *from = fopen(path, "r"), *to = fopen("lora.yaml", "w");
    assert_true(from && to);
    while (fgets(line, sizeof line, from)) fputs(line, to);
    fprintf(to, "lora: {start: %s}\n", start);
    fclose(from);
    assert_int_equal(fclose(to), 0);
}

static void check_model(const char *folder)
{
    golden g;
    char start[600];
    if (SANITIZED && strcmp(folder, "lora/llama") != 0) skip();
    golden_open(&g, folder, "");
    snprintf(start, sizeof start, "%s/start", g.folder);
    write_job(&g, start);
    run_layout(&g, "lora.yaml", &TP_DDP);
    for (size_t i = 0; i < sizeof LAYOUTS / sizeof *LAYOUTS; i++)
        run_layout(&g, "lora.yaml", &LAYOUTS[i]);
    golden_close(&g);
}

static void test_llama_equals_peft(void **state)
{
    (void)state;
    check_model("lora/llama");
}

static void test_qwen2_equals_peft(void **state)
{
    (void)state;
    check_model("lora/qwen2");
}

static void test_gpt2_equals_peft(void **state)
{
    (void)state;
    check_model("lora/gpt2");
}

// ---- An adapter of PEFT, decoded and merged

static const char *const MODELS[] = {"lora/llama", "lora/qwen2", "lora/gpt2"};
enum { MODEL_COUNT = sizeof MODELS / sizeof *MODELS };

static model_adapter *open_trained(const golden *g)
{
    char path[600];
    err why = {0};
    model_adapter *a = NULL;
    snprintf(path, sizeof path, "%s/trained", g->folder);
    if (model_adapter_open(path, &a, &why) != OK) fail_msg("%s", why.text);
    return a;
}

static double worst_logit(const golden *g, const model_adapter *a, device *d)
{
    model_config c;
    decoder *x = NULL;
    err why = {0};
    double worst = 0;
    const safetensors_tensor *logits = golden_find(g, "logits"), *tokens = golden_find(g, "tokens");
    const int64_t vocab = logits->dim[1];
    if (model_config_read(g->folder, &c, &why) != OK ||
        decoder_open(d, c.family, &c, F32, g->start, a, logits->dim[0], &x, &why) != OK)
        fail_msg("%s", why.text);
    for (int64_t t = 0; t < logits->dim[0]; t++) {
        const float *got, *want = (const float *)logits->data + t * vocab;
        const int32_t *id = (const int32_t *)tokens->data + t;
        assert_int_equal(decoder_feed(x, id, 1, &got, &why), OK);
        for (int64_t i = 0; i < vocab; i++) worst = fmax(worst, fabs((double)got[i] - want[i]));
    }
    decoder_close(x);
    return worst;
}

static void test_adapters_of_peft_give_its_logits(void **state)
{
    (void)state;
    device *d = NULL;
    assert_int_equal(device_open("cpu", &(device_options){.threads = 1}, &d, NULL), OK);
    for (int i = 0; i < MODEL_COUNT; i++) {
        golden g;
        golden_open(&g, MODELS[i], "");
        model_adapter *a = open_trained(&g);
        const double with = worst_logit(&g, a, d), without = worst_logit(&g, NULL, d);
        if (!(with <= 1e-5)) fail_msg("%s: the logits differ by %.3g", MODELS[i], with);
        assert_true(without > 1e-2); // the negative control
        model_adapter_close(a);
        golden_close(&g);
    }
    device_close(d);
}

// Merged weights are PEFT's. Twice the scale adds the same once more, so subtracting that gives the base.
static void test_merged_weights_are_those_of_peft(void **state)
{
    (void)state;
    for (int i = 0; i < MODEL_COUNT; i++) {
        golden g;
        err why = {0};
        golden_open(&g, MODELS[i], "");
        model_adapter *a = open_trained(&g);
        model_merge *there, *doubled;
        size_t changed_count = 0, wanted = 0;
        if (model_merge_open(g.start, a, NULL, false, &there, &why) != OK) fail_msg("%s", why.text);
        a->lora.alpha *= 2;
        for (size_t k = 0; k < a->lora.alpha_count; k++) a->lora.alphas[k].value *= 2;
        if (model_merge_open(g.start, a, NULL, false, &doubled, &why) != OK)
            fail_msg("%s", why.text);
        for (size_t k = 0; k < safetensors_count(g.start); k++) {
            const safetensors_tensor *t = safetensors_get(g.start, k);
            char key[200];
            bool changed, other;
            float *merged = malloc(t->bytes), *twice = malloc(t->bytes);
            snprintf(key, sizeof key, "merged.%s", t->name);
            const safetensors_tensor *want = safetensors_find(g.values, key);
            assert_int_equal(model_merge_read(there, k, merged, &changed, &why), OK);
            assert_int_equal(model_merge_read(doubled, k, twice, &other, &why), OK);
            assert_true(changed == (want != NULL));
            changed_count += changed, wanted += want != NULL;
            const int64_t count = (int64_t)(t->bytes / sizeof(float));
            const float *base = t->data;
            assert_true(relative_error(merged, want ? want->data : base, 0, count) <= 1e-6);
            const bool saved = strcmp(t->name, "lm_head.weight") == 0;
            for (int64_t n = 0; n < count && !saved; n++)
                assert_true(fabs(2.0 * merged[n] - twice[n] - base[n]) <= 1e-5);
            free(merged);
            free(twice);
        }
        assert_true(wanted >= 8);
        model_merge_close(there);
        model_merge_close(doubled);
        model_adapter_close(a);
        golden_close(&g);
    }
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_llama_equals_peft),
        IN_FOLDER(test_qwen2_equals_peft),
        IN_FOLDER(test_gpt2_equals_peft),
        cmocka_unit_test(test_adapters_of_peft_give_its_logits),
        cmocka_unit_test(test_merged_weights_are_those_of_peft),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
