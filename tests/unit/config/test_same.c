// test_same.c -- compares a job with the job of an earlier run, and its model with that of a
// checkpoint, as before a run resumes.
#include "job_fixture.h"

static void check_same(const char *yaml, const char *args, const char *complaint)
{
    job *j = good_job(yaml, args);
    err e = {0};
    text found = {0};
    if (job_compare_run(j, "old.yaml", &found, &e) != OK) fail_msg("%s", e.text);
    if (!complaint)
        assert_null(found.chars);
    else if (!found.chars || !strstr(found.chars, complaint))
        fail_msg("%s", found.chars ? found.chars : "no difference");
    text_clear(&found);
    job_close(j);
}

static void a_run_resumes_only_with_its_own_job(void **state)
{
    (void)state;
    job *j = good_job(SMALL "train: {steps: 100}\n", "--launch.ranks|2");
    text t = yaml_of(j);
    put_file("old.yaml", t.chars);
    text_clear(&t);
    job_close(j);
    static const struct {
        const char *yaml, *args, *complaint;
    } all[] = {
        {SMALL "train: {steps: 100}\n", "", NULL},
        {SMALL,
         "--train.steps|200|--launch.ranks|1|--train.save_every|3|--parallel.recompute|full|"
         "--memory.budget|1Gi|--checks.watchdog|0|--data.valid|v",
         NULL},
        {SMALL, "--train.epochs|2|--train.micro_batch|2", NULL},
        {SMALL "parallel: {dp: zero3, tp: 2, pp: 2, hook: powersgd, split: [1, 1]}\n",
         "--parallel.offload.weights|host|--parallel.no_sync|off|--memory.fit|on", NULL},
        {SMALL, "--train.precision|fp16", "train.precision (fp32 there, fp16 here)"},
        {SMALL, "--train.reduce_dtype|bf16", "train.reduce_dtype (fp32 there, bf16 here)"},
        {SMALL, "--train.global_batch|32|--data.seq_len|8",
         "data.seq_len (64 there, 8 here), train.global_batch (64 there, 32 here)"},
        {SMALL, "--model.hidden|64", "model.hidden (32 there, 64 here)"},
        {SMALL, "--train.seed|1", "train.seed (0 there, 1 here)"},
        {SMALL, "--optimizer.name|sgd", "optimizer.name (adamw there, sgd here)"},
        {SMALL, "--data.train|/x", "data.train (mock there, /x here)"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        check_same(all[i].yaml, all[i].args, all[i].complaint);
    // The job.yaml of an older version has a hook without parameters.
    put_file("old.yaml", SMALL "train: {steps: 100}\nparallel: {hook: none}\n");
    j = good_job(SMALL, "");
    err e = {0};
    text found = {0};
    assert_int_equal(job_compare_run(j, "old.yaml", &found, &e), OK);
    assert_null(strstr(found.chars, "parallel"));
    text_clear(&found);
    job_close(j);
    j = good_job(SMALL, "--train.precision|fp16");
    t = yaml_of(j);
    put_file("old.yaml", t.chars);
    text_clear(&t);
    job_close(j);
    check_same(SMALL, "--train.precision|fp16|--train.fp16.hysteresis|3",
               "train.fp16.hysteresis (2 there, 3 here)");
    put_file("old.yaml", "a: [");
    j = good_job(SMALL, "");
    assert_int_equal(job_compare_run(j, "old.yaml", &found, &e), E_USAGE);
    assert_non_null(strstr(e.text, "old.yaml:"));
    assert_null(found.chars);
    job_close(j);
}

// Compares the model of `here` with the folder of a checkpoint of `there`.
static void compare_models(const char *there, const char *here, const char *differences)
{
    job *a = good_job(NULL, there), *b = good_job(NULL, here);
    err e = {0};
    text found = {0};
    char *json;
    assert_int_equal(model_config_write(&a->model.config, "float32", &json, NULL), OK);
    put_file("config.json", json);
    if (job_compare_model(b, ".", &found, &e) != OK) fail_msg("%s", e.text);
    assert_string_equal(found.chars ? found.chars : "", differences);
    text_clear(&found);
    free(json);
    job_close(a);
    job_close(b);
}

#define GPT2  "--data.train|mock|--model.family|gpt2"
#define LLAMA "--data.train|mock|--model.family|llama"
#define MLP   "--data.train|mock|--model.family|mlp|--model.features|4|--model.classes|3"

static void models_of_the_same_shapes_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *there, *here, *differences;
    } all[] = {
        {GPT2, GPT2, ""},
        {LLAMA, LLAMA, ""},
        {MLP, MLP, ""},
        {GPT2, LLAMA, "model.family (gpt2 there, llama here)"},
        {GPT2, GPT2 "|--model.heads|6", "model.heads (12 there, 6 here)"},
        {GPT2 "|--model.activation|relu", GPT2, "model.activation (relu there, gelu_new here)"},
        {GPT2, GPT2 "|--model.scale_attention|false",
         "model.scale_attention (true there, false here)"},
        {GPT2, GPT2 "|--model.scale_by_layer|true",
         "model.scale_by_layer (false there, true here)"},
        {LLAMA, LLAMA "|--model.norm_eps|1e-5", "model.norm_eps (1.0e-06 there, 1.0e-05 here)"},
        {LLAMA, LLAMA "|--model.rope_theta|500000", "model.rope_theta (10000 there, 500000 here)"},
        {LLAMA "|--model.rope|linear|--model.rope_factor|2",
         LLAMA "|--model.rope|linear|--model.rope_factor|4", "model.rope_factor (2 there, 4 here)"},
        {MLP, MLP "|--model.activation|tanh", "model.activation (relu there, tanh here)"},
        {MLP "|--model.loss|mse", MLP, "model.loss (mse there, cross_entropy here)"},
        // These fields do not make another model.
        {GPT2, GPT2 "|--model.drop_embed|0|--model.drop_attention|0|--model.init_std|1", ""},
        {LLAMA, LLAMA "|--model.rope_factor|8|--model.eos|7|--model.bos|3|--model.pad|5", ""},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        compare_models(all[i].there, all[i].here, all[i].differences);
    job *j = good_job(NULL, LLAMA);
    text found = {0};
    err e = {0};
    put_file("config.json", "{}");
    assert_int_equal(job_compare_model(j, ".", &found, &e), E_USAGE);
    assert_non_null(strstr(e.text, "./config.json: model_type: not given"));
    job_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_resumes_only_with_its_own_job),
        cmocka_unit_test(models_of_the_same_shapes_are_told_apart),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
