// test_tuning.c -- the dialects of fine-tuning systems have every field of these systems' configurations with its default,
// and translated schedules have transformers' learning rates (tests/golden/trainer_fields.json, which make_trainer_fields.py
// writes).
#include "config/dialect/private.h"
#include "job_fixture.h"

#include "optim/lr.h"

#include <jansson.h>
#include <math.h>

static json_t *read_golden(void)
{
    json_error_t why;
    json_t *all = json_load_file(TESTS_DIR "/golden/trainer_fields.json", 0, &why);
    if (!all) fail_msg("%s", why.text);
    return all;
}

// A number as text is the number, and words have no case.
static bool is_same(const json_t *theirs, const char *ours)
{
    double number;
    bool flag;
    if (json_is_boolean(theirs))
        return text_to_bool(ours, &flag) && flag == (bool)json_is_true(theirs);
    if (json_is_number(theirs))
        return text_to_double(ours, &number) && number == json_number_value(theirs);
    return json_is_string(theirs) && strcasecmp(ours, json_string_value(theirs)) == 0;
}

// A default that the row of a key does not have, because its command decides it or it changes nothing.
static bool is_apart(const char *system, const char *name)
{
    static const char *const APART[][2] = {{"trl", "bf16"},      // None is true unless fp16 is
                                           {"trl", "loss_type"}, // of several commands
                                           {"axolotl", "wandb_project"},
                                           {NULL, NULL}};
    for (int i = 0; APART[i][0]; i++)
        if (strcmp(APART[i][0], system) == 0 && strcmp(APART[i][1], name) == 0) return true;
    return false;
}

static int compare_system(const char *system, const json_t *fields)
{
    const dialect *d = dialect_find(system);
    const char *name;
    json_t *value;
    int different = 0;
    assert_non_null(d);
    json_object_foreach((json_t *)fields, name, value)
    {
        const dialect_row *row = dialect_row_of_key(d, name);
        for (int i = 0; !row && d->renamed && d->renamed[i][0]; i++)
            if (strcmp(d->renamed[i][0], name) == 0) row = dialect_row_of_key(d, d->renamed[i][1]);
        if (!row) {
            print_error("%s: %s has no row\n", system, name);
            different++;
        } else if (row->fallback && !json_is_null(value) && !is_apart(system, name) &&
                   !is_same(value, row->fallback)) {
            char *s = json_dumps(value, JSON_ENCODE_ANY);
            print_error("%s: %s is %s by default, and the row has %s\n", system, name, s,
                        row->fallback);
            free(s);
            different++;
        }
    }
    return different;
}

static void every_field_has_a_row_with_its_default(void **state)
{
    static const char *const SYSTEMS[] = {"trainer", "trl", "axolotl", "llamafactory"};
    int different = 0;
    json_t *all = read_golden();
    (void)state;
    for (size_t i = 0; i < sizeof SYSTEMS / sizeof *SYSTEMS; i++) {
        const json_t *fields = json_object_get(all, SYSTEMS[i]);
        assert_true(json_object_size(fields) > 100);
        different += compare_system(SYSTEMS[i], fields);
    }
    json_decref(all);
    assert_int_equal(different, 0);
}

// ---- rates

static void put_schedule(const json_t *one)
{
    json_t *config = json_pack(
        "{s:O, s:O, s:O, s:O, s:f}", "lr_scheduler_type", json_object_get(one, "name"),
        "warmup_steps", json_object_get(one, "warmup"), "max_steps", json_object_get(one, "steps"),
        "lr_scheduler_kwargs", json_object_get(one, "kwargs"), "learning_rate", 1e-3);
    char *s = json_dumps(config, JSON_COMPACT);
    put_file("args.json", s);
    free(s);
    json_decref(config);
}

static void schedules_have_the_rates_of_transformers(void **state)
{
    size_t i;
    json_t *all = read_golden(), *one;
    (void)state;
    json_array_foreach(json_object_get(all, "rates"), i, one)
    {
        err e = {0};
        put_schedule(one);
        job *j = good_job(SMALL, "--trainer|args.json|--train.global_batch|8|--data.order|shuffle");
        assert_int_equal(job_resolve_steps(j, 800, &e), OK);
        const json_t *rates = json_object_get(one, "rates");
        for (size_t step = 0; step < json_array_size(rates); step++) {
            const double theirs = json_number_value(json_array_get(rates, step));
            const double ours = lr_at(&j->lr, j->optimizer.lr, (int64_t)step);
            if (fabs(ours - theirs) > 1e-15 + 1e-12 * theirs)
                fail_msg("%s: step %zu has %.17g, transformers %.17g",
                         json_string_value(json_object_get(one, "name")), step, ours, theirs);
        }
        job_close(j);
    }
    json_decref(all);
}

// A share of the run is rounded up, as transformers rounds it.
static void a_ratio_of_the_warm_up_is_a_share_of_the_run(void **state)
{
    err e = {0};
    (void)state;
    put_file("args.json", "{\"warmup_ratio\": 0.03, \"num_train_epochs\": 1}");
    job *j = good_job(SMALL, "--trainer|args.json|--train.global_batch|8|--data.order|shuffle");
    assert_int_equal(job_resolve_steps(j, 808, &e), OK);
    assert_int_equal(j->train.steps, 101);
    assert_int_equal(lr_warmup_length(&j->lr), 4);
    job_close(j);
    j = good_job(SMALL, "--lr_schedule.warmup_ratio|0.25|--train.steps|10");
    assert_int_equal(job_resolve_steps(j, 800, &e), OK);
    assert_int_equal(lr_warmup_length(&j->lr), 3);
    job_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_has_a_row_with_its_default),
        cmocka_unit_test(schedules_have_the_rates_of_transformers),
        cmocka_unit_test(a_ratio_of_the_warm_up_is_a_share_of_the_run),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
