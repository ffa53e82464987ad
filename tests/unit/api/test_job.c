// test_job.c -- jobs of a program: errors of single calls, and errors that a complete job has.
#include "unit/api/fixture.h"

static void keys_are_checked_when_they_are_set(void **state)
{
    (void)state;
    trm_job *job = new_job();
    REFUSE(trm_job_set(job, "train.stepz", "4", &error));
    HAS("train.stepz");
    HAS("did you mean");
    REFUSE(trm_job_set(job, "train.steps", "-4", &error));
    HAS("train.steps");
    REFUSE(trm_job_set(job, "resume", "auto", &error));
    HAS("resume");
    REFUSE(trm_job_set(job, NULL, "auto", &error));
    // The job is as before: it still has four steps.
    const char *text;
    SET(job, "model.family", "mlp", "model.features", "3", "model.classes", "2", "model.hidden",
        "4", "model.layers", "2", "data.train", "none.safetensors");
    REFUSE(trm_job_explain(job, &text, &error));
    HAS("none.safetensors");
    trm_job_close(job);
}

// Errors name keys as the program gave them, without the dashes of flags.
static void keys_are_named_without_dashes(void **state)
{
    (void)state;
    trm_job *job = new_gpt2();
    const char *text;
    REFUSE(trm_job_set(job, "train.stepz", "4", &error));
    HAS("train.stepz: unknown key; did you mean train.steps?");
    assert_int_equal(strncmp(error.text, "train.stepz", 11), 0);
    REFUSE(trm_job_set(job, "train.steps", "-4", &error));
    assert_int_equal(strncmp(error.text, "train.steps: found -4; valid: a whole number", 44), 0);
    REFUSE(trm_job_set(job, "data.train", "{path: 3", &error));
    assert_null(strstr(error.text, "--"));
    REFUSE(trm_job_set(job, "optimizer.name", "\xff", &error));
    assert_null(strstr(error.text, "--"));
    SET(job, "train.global_batch", "7");
    REFUSE(trm_job_explain(job, &text, &error));
    HAS("train.global_batch: found 7");
    assert_null(strstr(error.text, "--"));
    SET(job, "train.global_batch", "8", "memory.budget", "9Mi");
    assert_int_equal(trm_job_explain(job, &text, &error), TRM_TOO_LARGE);
    HAS("memory.budget is 9.00 MiB");
    assert_null(strstr(error.text, "--"));
    SET(job, "memory.budget", "auto", "optimizer.lr", "1e-3");
    ACCEPT(trm_job_explain(job, &text, &error));
    assert_non_null(strstr(text, " program\n"));
    assert_null(strstr(text, "command line"));
    trm_job_close(job);
}

// The keys, errors and order of a file; errors name the line of the text.
static void keys_are_set_from_yaml(void **state)
{
    (void)state;
    trm_job *job = new_gpt2();
    const char *text;
    SET(job, "optimizer.lr", "1");
    ACCEPT(trm_job_set_yaml(job,
                            "optimizer: {lr: 2e-3, betas: [0.8, 0.9]}\n"
                            "train:\n"
                            "  steps: 7  # of no use\n",
                            &error));
    ACCEPT(trm_job_set_yaml(job, "", &error));
    SET(job, "train.steps", "9");
    ACCEPT(trm_job_explain(job, &text, &error));
    assert_non_null(strstr(text, "optimizer.lr"));
    assert_non_null(strstr(strstr(text, "optimizer.lr "), "0.002"));
    assert_non_null(strstr(strstr(text, "optimizer.betas "), "yaml:1"));
    assert_non_null(strstr(strstr(text, "train.steps "), " 9 "));

    REFUSE(trm_job_set_yaml(job, "train:\n  stepz: 3\n", &error));
    assert_string_equal(error.text, "yaml:2: train.stepz: unknown key; did you mean train.steps?");
    REFUSE(trm_job_set_yaml(job, "train: {steps: -3}", &error));
    HAS("yaml:1: train.steps: found -3; valid: a whole number");
    REFUSE(trm_job_set_yaml(job, "train: {steps: 3", &error));
    HAS("yaml:");
    HAS("broken YAML");
    REFUSE(trm_job_set_yaml(job, "train: 3", &error));
    HAS("yaml:1: train: found 3; valid: a section of");
    REFUSE(trm_job_set_yaml(job, "- 3", &error));
    HAS("yaml:1: found a list; valid: sections of keys");
    REFUSE(trm_job_set_yaml(job, "parallel: {dp: ddp}\nparallel: {dp: zero1}", &error));
    HAS("given twice");
    REFUSE(trm_job_set_yaml(job, NULL, &error));
    HAS("NULL");
    // None of these calls changed the job. Keys that contradict each other are found by trm_run.
    ACCEPT(trm_job_explain(job, &text, &error));
    assert_non_null(strstr(strstr(text, "train.steps "), " 9 "));
    ACCEPT(trm_job_set_yaml(job, "\noptimizer: {name: sgd}\n", &error));
    REFUSE(trm_job_explain(job, &text, &error));
    HAS("yaml:1: optimizer.betas: not a parameter of the optimizer sgd");
    trm_job_close(job);
}

// Groups follow those of earlier calls; the key replaces all of them.
static void parameter_groups_are_added(void **state)
{
    (void)state;
    trm_job *job = new_gpt2();
    const char *text;
    ACCEPT(trm_job_add_group(job, "*.bias", "weight_decay: 0, lr_scale: 2", &error));
    ACCEPT(trm_job_add_group(job, "transformer.wte.*", "trainable: false", &error));
    REFUSE(trm_job_add_group(job, "a", "lr_scal: 2", &error));
    assert_string_equal(error.text, "groups[2].lr_scal: unknown key; did you mean lr_scale?");
    REFUSE(trm_job_add_group(job, "a", "lr_scale: -2", &error));
    assert_string_equal(error.text, "groups[2].lr_scale: found -2; valid: a number >= 0");
    REFUSE(trm_job_add_group(job, "", NULL, &error));
    HAS("groups[2].match: found \"\"; valid: a pattern of tensor names");
    REFUSE(trm_job_add_group(job, "a", "lr_scale: [", &error));
    HAS("groups:");
    HAS("broken YAML");
    REFUSE(trm_job_add_group(job, NULL, NULL, &error));
    assert_string_equal(error.text, "trm_job_add_group: the pattern is NULL");
    ACCEPT(trm_job_explain(job, &text, &error));
    assert_non_null(strstr(strstr(text, "groups[0].lr_scale "), " program\n"));
    assert_non_null(strstr(text, "groups[1].trainable "));
    assert_null(strstr(text, "groups[2]"));
    assert_non_null(strstr(text, " groups[1] (transformer.wte.*)  frozen\n"));
    ACCEPT(trm_job_add_group(job, "transformer.lnf.*", NULL, &error));
    REFUSE(trm_job_explain(job, &text, &error));
    assert_string_equal(error.text,
                        "groups[2].match: found transformer.lnf.*, which matches no tensor of the "
                        "model; the nearest is transformer.ln_f.weight");
    ACCEPT(trm_job_set_yaml(job, "groups:\n- {match: '*', lr_scale: 4}\n", &error));
    ACCEPT(trm_job_explain(job, &text, &error));
    assert_non_null(strstr(strstr(text, "groups[0].lr_scale "), " yaml:2\n"));
    assert_null(strstr(text, "groups[1]"));
    SET(job, "groups", "[]");
    ACCEPT(trm_job_explain(job, &text, &error));
    assert_null(strstr(text, "groups["));
    trm_job_close(job);
}

static void an_error_may_be_of_no_interest(void **state)
{
    (void)state;
    trm_job *job = NULL;
    assert_int_equal(trm_job_open("absent.yaml", &job, NULL), TRM_USAGE);
    assert_null(job);
    trm_job_close(job);
    REFUSE(trm_job_open("absent.yaml", &job, &error));
    HAS("absent.yaml");
    assert_int_equal(error.code, TRM_USAGE);
    assert_string_equal(trm_version(), "0.1.0");
}

static void a_job_file_is_read_at_once(void **state)
{
    (void)state;
    trm_job *job = NULL;
    const char bad[] = "train:\n  stepz: 3\n";
    assert_int_equal(file_replace("bad.yaml", bad, sizeof bad - 1, NULL), OK);
    REFUSE(trm_job_open("bad.yaml", &job, &error));
    HAS("bad.yaml:2: train.stepz");
}

static void explain_tells_values_plan_and_schedule(void **state)
{
    (void)state;
    trm_job *job = new_gpt2();
    const char *text = NULL;
    ACCEPT(trm_job_explain(job, &text, &error));
    assert_non_null(strstr(text, "train.steps"));
    assert_non_null(strstr(text, "FLOP per rank and step"));
    assert_non_null(strstr(text, "REDUCE_GRAD"));
    trm_job_close(job);
}

static void what_the_program_brings_is_not_named_too(void **state)
{
    (void)state;
    const char *text;
    trm_job *job = new_gpt2();
    SET(job, "data.train", "mock");
    REFUSE(trm_job_explain(job, &text, &error));
    HAS("data.train: given, but the program brings");
    trm_job_close(job);
    job = new_gpt2();
    SET(job, "data.seq_len", "5");
    REFUSE(trm_job_explain(job, &text, &error));
    HAS("data.seq_len");
    HAS("8 positions");
    trm_job_close(job);
}

static void impossible_data_are_refused(void **state)
{
    (void)state;
    trm_job *job = new_job();
    trm_dataset d = counting;
    d.samples = 0;
    REFUSE(trm_job_use_data(job, TRM_TRAIN, &d, &error));
    HAS("samples");
    d = counting, d.positions = -1;
    REFUSE(trm_job_use_data(job, TRM_TRAIN, &d, &error));
    HAS("positions is -1");
    d = counting, d.features = INT64_MAX;
    REFUSE(trm_job_use_data(job, TRM_TRAIN, &d, &error));
    HAS("features");
    d = counting, d.read = NULL;
    REFUSE(trm_job_use_data(job, TRM_TRAIN, &d, &error));
    HAS("read is NULL");
    trm_job_close(job);
}

static void data_that_do_not_fit_the_model_are_refused(void **state)
{
    (void)state;
    const char *text;
    trm_job *job = new_gpt2();
    trm_dataset d = counting;
    d.positions = 17; // max_seq is 16
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &d, &error));
    REFUSE(trm_job_explain(job, &text, &error));
    HAS("17");
    d = counting, d.features = 3;
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &d, &error));
    REFUSE(trm_job_explain(job, &text, &error));
    HAS("the data are vectors, the model takes tokens");
    trm_job_close(job);
}

static void a_job_that_needs_too_much_memory_says_so(void **state)
{
    (void)state;
    const char *text;
    trm_job *job = new_gpt2();
    SET(job, "memory.budget", "1Mi");
    assert_int_equal(trm_job_explain(job, &text, &error), TRM_TOO_LARGE);
    HAS("memory.budget is 1.00 MiB");
    trm_job_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keys_are_checked_when_they_are_set, enter_folder,
                                        leave_folder),
        cmocka_unit_test_setup_teardown(keys_are_named_without_dashes, enter_folder, leave_folder),
        cmocka_unit_test(keys_are_set_from_yaml),
        cmocka_unit_test(parameter_groups_are_added),
        cmocka_unit_test_setup_teardown(an_error_may_be_of_no_interest, enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(a_job_file_is_read_at_once, enter_folder, leave_folder),
        cmocka_unit_test(explain_tells_values_plan_and_schedule),
        cmocka_unit_test(what_the_program_brings_is_not_named_too),
        cmocka_unit_test(impossible_data_are_refused),
        cmocka_unit_test(data_that_do_not_fit_the_model_are_refused),
        cmocka_unit_test(a_job_that_needs_too_much_memory_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
