// test_dialect.c -- a configuration of another system in a program: as a string and as a file, over the job file and
// below the program's own settings.
#include "unit/api/fixture.h"

#include <stdio.h>

static const char CONFIG[] = "{\n"
                             "  \"train_batch_size\": 8,\n"
                             "  \"gradient_accumulation_steps\": 2,\n"
                             "  \"bf16\": {\"enabled\": true},\n"
                             "  \"gradient_clipping\": 0.5,\n"
                             "  \"zero_optimization\": {\"stage\": 2}\n"
                             "}\n";

static void write_text(const char *path, const char *content)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(content, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

// Returns whether explain prints the key with this value.
static bool explains(trm_job *job, const char *key, const char *value)
{
    const char *text;
    char word[64];
    ACCEPT(trm_job_explain(job, &text, &error));
    snprintf(word, sizeof word, "%s ", key);
    const char *line = strstr(text, word);
    assert_non_null(line);
    snprintf(word, sizeof word, " %s ", value);
    const char *found = strstr(line, word);
    return found && found < strchr(line, '\n');
}

static void a_string_of_deepspeed_sets_keys(void **state)
{
    (void)state;
    trm_job *job = new_gpt2();
    const char *lost = "";
    ACCEPT(trm_job_set_dialect(job, "deepspeed", CONFIG, &lost, &error));
    assert_null(lost);
    assert_true(explains(job, "parallel.dp", "zero2"));
    assert_true(explains(job, "train.precision", "bf16"));
    assert_true(explains(job, "train.micro_batch", "2")); // 8 of 2 ranks with an accumulation of 2
    assert_true(explains(job, "train.clip_grad_norm", "0.5"));
    const char *text;
    ACCEPT(trm_job_explain(job, &text, &error));
    assert_non_null(strstr(text, "deepspeed:6: zero_optimization.stage"));
    trm_job_close(job);
}

// A job file < the configuration < the program's settings, whether these come before or after.
static void a_file_wins_over_the_job_file_and_settings_win_over_it(void **state)
{
    (void)state;
    trm_job *job = NULL;
    write_text("ds.json", CONFIG);
    write_text("job.yaml",
               "model: {family: gpt2, vocab: 16, layers: 1, hidden: 16, heads: 2, max_seq: 16}\n"
               "train: {steps: 4, global_batch: 8, clip_grad_norm: 3}\n"
               "parallel: {dp: ddp}\n"
               "launch: {ranks: 2, as: threads, threads_per_rank: 1}\n");
    ACCEPT(trm_job_open("job.yaml", &job, &error));
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &counting, &error));
    SET(job, "train.clip_grad_norm", "7");
    assert_true(explains(job, "parallel.dp", "ddp"));
    ACCEPT(trm_job_read_dialect(job, "deepspeed", "ds.json", NULL, &error));
    assert_true(explains(job, "parallel.dp", "zero2"));
    assert_true(explains(job, "train.clip_grad_norm", "7"));
    SET(job, "parallel.dp", "zero3");
    assert_true(explains(job, "parallel.dp", "zero3"));
    trm_job_close(job);
}

static void values_without_an_equal_are_lines(void **state)
{
    (void)state;
    trm_job *job = new_gpt2();
    const char *lost = NULL;
    ACCEPT(trm_job_set_dialect(job, "deepspeed",
                               "{\"sparse_gradients\": true,\n \"zero_optimisation\": {}}", &lost,
                               &error));
    assert_non_null(lost);
    assert_non_null(
        strstr(lost, "deepspeed:1: sparse_gradients: found true; gradients of embeddings"));
    assert_non_null(strstr(lost, "\ndeepspeed:2: zero_optimisation: unknown key, which DeepSpeed "
                                 "ignores; did you mean zero_optimization?"));
    trm_job_close(job);
}

static void mistakes_are_one_line_and_change_nothing(void **state)
{
    (void)state;
    trm_job *job = new_gpt2();
    const char *lost = "";
    REFUSE(trm_job_set_dialect(job, "deepsped", CONFIG, &lost, &error));
    HAS("found system deepsped; valid: deepspeed");
    assert_null(lost);
    REFUSE(trm_job_set_dialect(job, "deepspeed", NULL, NULL, &error));
    REFUSE(trm_job_set_dialect(job, "deepspeed", "{\"zero_optimization\": {\"stage\": 4}}", NULL,
                               &error));
    HAS("deepspeed:1: zero_optimization.stage: found 4; valid: 0, 1, 2, 3");
    REFUSE(trm_job_set_dialect(job, "deepspeed", "{\"zero_optimization\": {", NULL, &error));
    HAS("deepspeed:1: broken JSON");
    assert_int_not_equal(trm_job_read_dialect(job, "deepspeed", "none.json", NULL, &error), TRM_OK);
    HAS("none.json");
    REFUSE(trm_job_set(job, "deepspeed", "ds.json", &error));
    HAS("deepspeed: this is no key; valid: trm_job_read_dialect");
    assert_true(explains(job, "parallel.dp", "auto") || explains(job, "parallel.dp", "ddp"));
    trm_job_close(job);
}

static trm_status train(trm_trainer *t, void *arg, trm_error *e)
{
    trm_status how = TRM_OK;
    while (how == TRM_OK && trm_trainer_steps_left(t) > 0) how = trm_trainer_step(t, arg, e);
    return how;
}

static void the_job_trains(void **state)
{
    (void)state;
    trm_job *job = new_gpt2();
    trm_step s = {.step = 0};
    SET(job, "launch.ranks", "1");
    ACCEPT(trm_job_set_dialect(job, "deepspeed", CONFIG, NULL, &error));
    ACCEPT(trm_run(job, train, &s, &error));
    assert_int_equal(s.step, 4);
    trm_job_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_string_of_deepspeed_sets_keys),
        cmocka_unit_test(a_file_wins_over_the_job_file_and_settings_win_over_it),
        cmocka_unit_test(values_without_an_equal_are_lines),
        cmocka_unit_test(mistakes_are_one_line_and_change_nothing),
        cmocka_unit_test(the_job_trains),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
