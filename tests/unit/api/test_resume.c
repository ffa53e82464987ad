// test_resume.c -- the checkpoints from which a program resumes, and the files of its runs in
// train.out: errors name another model or batch, and no file of an earlier run is lost.
#include "unit/api/fixture.h"

#include <stdio.h>

typedef struct resume_calls {
    const char *from; // NULL: do not resume; "": resume from the newest checkpoint of train.out
    int steps;        // at most
    bool save;        // a checkpoint after the steps
    uint64_t began_at;
} resume_calls;

static trm_status follow(trm_trainer *t, void *arg, trm_error *e)
{
    resume_calls *p = arg;
    trm_status how = TRM_OK;
    trm_step s = {.step = 0};
    if (p->from) how = trm_trainer_resume(t, *p->from ? p->from : NULL, e);
    for (int i = 0; how == TRM_OK && i < p->steps; i++) {
        how = trm_trainer_step(t, &s, e);
        if (i == 0 && trm_trainer_rank(t) == 0) p->began_at = s.step - 1;
    }
    return how == TRM_OK && p->save ? trm_trainer_save(t, e) : how;
}

static trm_job *job_in(const char *out)
{
    trm_job *job = new_gpt2();
    SET(job, "train.steps", "100", "train.keep", "0", "train.out", out);
    return job;
}

static uint64_t go(const char *out, const char *from, int steps, bool save)
{
    resume_calls p = {.from = from, .steps = steps, .save = save};
    trm_job *job = job_in(out);
    ACCEPT(trm_run(job, follow, &p, &error));
    trm_job_close(job);
    return p.began_at;
}

static bool there(const char *folder, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return file_exists(path);
}

static void going_back_leaves_the_later_checkpoints_beside(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) assert_int_equal(go("back", "", 2, true), 2 * i);
    // Resuming from an older checkpoint changes nothing; the first step after it does, also without
    // a save.
    go("back", "back/checkpoints/step-00000002", 0, false);
    assert_true(there("back", "checkpoints/step-00000006"));
    assert_int_equal(go("back", "back/checkpoints/step-00000002", 1, false), 2);
    assert_true(there("back", "checkpoints-1/step-00000006"));
    assert_true(there("back", "checkpoints-1/step-00000004"));
    assert_int_equal(go("back", "", 1, true), 2);
    assert_int_equal(go("back", "back", 1, true), 3); // the newest checkpoint of a run's folder
    assert_false(there("back", "checkpoints-2"));
}

static void a_run_that_does_not_resume_keeps_the_earlier_one_beside(void **state)
{
    (void)state;
    go("anew", NULL, 2, true);
    go("anew", NULL, 0, false);
    assert_true(there("anew", "checkpoints/step-00000002") && there("anew", "log.jsonl"));
    // Its first step writes the log.
    go("anew", NULL, 1, false);
    assert_true(there("anew", "checkpoints-1/step-00000002") && there("anew", "log-1.jsonl"));
    assert_false(there("anew", "checkpoints/step-00000002"));
    go("anew", NULL, 1, true);
    assert_true(there("anew", "checkpoints/step-00000001") && there("anew", "log-2.jsonl"));
    // The same after resuming from another folder.
    assert_int_equal(go("anew", "anew/checkpoints-1/step-00000002", 1, true), 2);
    assert_true(there("anew", "checkpoints-3/step-00000001"));
    assert_false(there("anew", "checkpoints/step-00000001"));
}

static void refuse(const char *key, const char *value, const char *because)
{
    resume_calls p = {.from = "whole", .steps = 1};
    trm_job *job = job_in("other");
    SET(job, key, value);
    REFUSE(trm_run(job, follow, &p, &error));
    if (!strstr(error.text, because)) fail_msg("%s", error.text);
    HAS("whole/checkpoints/step-00000002 was saved by a run with other values: ");
    trm_job_close(job);
}

static void a_checkpoint_of_another_model_or_batch_is_refused(void **state)
{
    (void)state;
    go("whole", NULL, 2, true);
    refuse("model.heads", "1", "model.heads (2 there, 1 here)");
    refuse("model.activation", "relu", "model.activation (gelu_new there, relu here)");
    refuse("train.global_batch", "16", "train.global_batch (8 there, 16 here)");
    refuse("train.seed", "5", "train.seed (0 there, 5 here)");
    assert_false(file_exists("other"));
    assert_int_equal(go("other", "whole", 1, true), 2);
}

// The number of samples and of steps say how large the batches were, where there was a step.
static void a_checkpoint_of_no_step_fits_every_batch_and_one_of_a_step_its_own(void **state)
{
    (void)state;
    resume_calls p = {.from = "begun/checkpoints/step-00000000", .steps = 1};
    go("begun", NULL, 0, true);
    trm_job *job = job_in("larger");
    SET(job, "train.global_batch", "16");
    ACCEPT(trm_run(job, follow, &p, &error));
    assert_int_equal(p.began_at, 0);
    assert_int_equal(go("begun", "", 1, true), 0);
    p.from = "begun/checkpoints/step-00000001";
    REFUSE(trm_run(job, follow, &p, &error));
    HAS("begun/checkpoints/step-00000001 was saved by a run with other values: train.global_batch "
        "(8 there, 16 here)");
    trm_job_close(job);
    assert_int_equal(go("begun", "", 1, true), 1);
}

static int two_blocks(const void *config)
{
    (void)config;
    return 2;
}

static void trace(trm_builder *b, const void *config, int block)
{
    trm_value *w = trm_weight(b, block ? "b" : "a", VOCAB, 8, TRM_NORMAL, 0.1);
    if (block == 0)
        trm_output(b, trm_embedding(b, trm_ids(b), w, NULL));
    else
        trm_cross_entropy(b, trm_input(b, 8), w, NULL);
    (void)config;
}

static trm_status run_own(const char *config_json, const char *from)
{
    const trm_family family = {.name = "own", .blocks = two_blocks, .trace = trace};
    resume_calls p = {.from = from, .steps = 1, .save = true};
    trm_job *job = new_job();
    SET(job, "train.out", from ? "own2" : "own");
    ACCEPT(trm_job_use_model(job, &family, NULL, config_json, &error));
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &counting, &error));
    trm_status how = trm_run(job, follow, &p, &error);
    trm_job_close(job);
    return how;
}

static void a_models_own_config_json_says_whose_it_is(void **state)
{
    (void)state;
    ACCEPT(run_own("{\"model_type\": \"own\", \"scale\": 2}", NULL));
    REFUSE(run_own("{\"model_type\": \"own\", \"scale\": 3}", "own"));
    HAS("config.json of the model");
    ACCEPT(run_own("{\"scale\": 2, \"model_type\": \"own\"}", "own"));
}

static trm_status remove_and_save(trm_trainer *t, void *arg, trm_error *e)
{
    (void)arg;
    trm_status how = trm_trainer_save(t, e);
    if (how == TRM_OK && trm_trainer_rank(t) == 0 && file_remove_tree("gone", NULL) != OK)
        return trm_fail(e, TRM_FAILED, "cannot remove it");
    if (how == TRM_OK) how = trm_trainer_step(t, NULL, e);
    return how == TRM_OK ? trm_trainer_save(t, e) : how;
}

static void a_removed_folder_is_not_made_again(void **state)
{
    (void)state;
    trm_job *job = job_in("gone");
    assert_int_equal(trm_run(job, remove_and_save, NULL, &error), TRM_FAILED);
    HAS("gone: the folder was removed during the run; the checkpoint of step 1 is not saved");
    assert_false(file_exists("gone"));
    trm_job_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(going_back_leaves_the_later_checkpoints_beside),
        cmocka_unit_test(a_run_that_does_not_resume_keeps_the_earlier_one_beside),
        cmocka_unit_test(a_checkpoint_of_another_model_or_batch_is_refused),
        cmocka_unit_test(a_checkpoint_of_no_step_fits_every_batch_and_one_of_a_step_its_own),
        cmocka_unit_test(a_models_own_config_json_says_whose_it_is),
        cmocka_unit_test(a_removed_folder_is_not_made_again),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
