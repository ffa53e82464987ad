// Whether a job is that of an earlier run, and whether its model is that of a checkpoint: asked
// before a run resumes.
#include "job_fixture.h"

static text yaml_of(const job *j)
{
    text t = {0};
    job_write_yaml(j, &t);
    return t;
}

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

static void a_run_goes_on_only_with_its_own_job(void **state)
{
    (void)state;
    job *j = good_job(SMALL "train: {steps: 100}\n", "--launch.ranks|2");
    text t = yaml_of(j);
    put_file("old.yaml", t.chars);
    text_clear(&t);
    job_close(j);
    check_same(SMALL "train: {steps: 100}\n", "", NULL);
    check_same(SMALL,
               "--train.steps|200|--launch.ranks|1|--train.save_every|3|--parallel.recompute|full|"
               "--memory.budget|1Gi|--checks.watchdog|0|--data.valid|v",
               NULL);
    check_same(SMALL, "--train.epochs|2|--train.micro_batch|2", NULL);
    check_same(SMALL "parallel: {dp: zero3, tp: 2, pp: 2, hook: powersgd, split: [1, 1]}\n",
               "--parallel.offload.weights|host|--parallel.no_sync|off|--memory.fit|on", NULL);
    check_same(SMALL, "--train.precision|fp16", "train.precision (fp32 there, fp16 here)");
    check_same(SMALL, "--train.reduce_dtype|bf16", "train.reduce_dtype (fp32 there, bf16 here)");
    check_same(SMALL, "--train.global_batch|32|--data.seq_len|8",
               "data.seq_len (64 there, 8 here), train.global_batch (64 there, 32 here)");
    check_same(SMALL, "--model.hidden|64", "model.hidden (32 there, 64 here)");
    check_same(SMALL, "--train.seed|1", "train.seed (0 there, 1 here)");
    check_same(SMALL, "--optimizer.name|sgd", "optimizer.name (adamw there, sgd here)");
    check_same(SMALL, "--data.train|/x", "data.train (mock there, /x here)");
    // An older version's hook had no parameters.
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

// The job's model against the folder that a checkpoint of `there` would have.
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
    compare_models(GPT2, GPT2, "");
    compare_models(LLAMA, LLAMA, "");
    compare_models(MLP, MLP, "");
    compare_models(GPT2, LLAMA, "model.family (gpt2 there, llama here)");
    compare_models(GPT2, GPT2 "|--model.heads|6", "model.heads (12 there, 6 here)");
    compare_models(GPT2 "|--model.activation|relu", GPT2,
                   "model.activation (relu there, gelu_new here)");
    compare_models(GPT2, GPT2 "|--model.scale_attention|false",
                   "model.scale_attention (true there, false here)");
    compare_models(GPT2, GPT2 "|--model.scale_by_layer|true",
                   "model.scale_by_layer (false there, true here)");
    compare_models(LLAMA, LLAMA "|--model.norm_eps|1e-5",
                   "model.norm_eps (1.0e-06 there, 1.0e-05 here)");
    compare_models(LLAMA, LLAMA "|--model.rope_theta|500000",
                   "model.rope_theta (10000 there, 500000 here)");
    compare_models(LLAMA "|--model.rope|linear|--model.rope_factor|2",
                   LLAMA "|--model.rope|linear|--model.rope_factor|4",
                   "model.rope_factor (2 there, 4 here)");
    compare_models(MLP, MLP "|--model.activation|tanh", "model.activation (relu there, tanh here)");
    compare_models(MLP "|--model.loss|mse", MLP, "model.loss (mse there, cross_entropy here)");
    // What does not make another model of the same weights.
    compare_models(GPT2, GPT2 "|--model.drop_embed|0|--model.drop_attention|0|--model.init_std|1",
                   "");
    compare_models(LLAMA, LLAMA "|--model.rope_factor|8|--model.eos|7|--model.bos|3|--model.pad|5",
                   "");
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
        cmocka_unit_test(a_run_goes_on_only_with_its_own_job),
        cmocka_unit_test(models_of_the_same_shapes_are_told_apart),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
