// test_deepspeed.c -- DeepSpeed's files mean what DeepSpeed's own parser says (tests/golden/deepspeed_values.json, which
// make_deepspeed_values.py writes), and what several keys decide together becomes our keys.
#include "config/dialect/dialect.h"
#include "job_fixture.h"

#include <jansson.h>

// ---- values

static bool same_number(const json_t *a, const json_t *b)
{
    double x, y;
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    if (json_is_string(a) && json_is_number(b))
        return text_to_double(json_string_value(a), &x) && x == json_number_value(b);
    if (!json_is_string(a) || !json_is_string(b)) return false;
    return text_to_double(json_string_value(a), &x) && text_to_double(json_string_value(b), &y) &&
           x == y;
}

// Words of DeepSpeed have no case; numbers are equal whatever their type.
static bool is_same(const json_t *ours, const json_t *theirs)
{
    if (same_number(ours, theirs)) return true;
    if (json_is_string(ours) && json_is_string(theirs))
        return strcasecmp(json_string_value(ours), json_string_value(theirs)) == 0;
    if (!json_is_array(ours) || !json_is_array(theirs)) return json_equal(ours, theirs);
    bool same = json_array_size(ours) == json_array_size(theirs);
    for (size_t i = 0; same && i < json_array_size(ours); i++)
        same = is_same(json_array_get(ours, i), json_array_get(theirs, i));
    return same;
}

static int compare_values(const json_t *config, const json_t *ours, const json_t *theirs)
{
    int different = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)theirs, key, value)
    {
        const json_t *mine = json_object_get(ours, key);
        if (is_same(mine, value)) continue;
        char *a = json_dumps(config, JSON_COMPACT), *b = json_dumps(value, JSON_ENCODE_ANY),
             *c = mine ? json_dumps(mine, JSON_ENCODE_ANY) : NULL;
        print_error("%s\n  %s: DeepSpeed has %s, we have %s\n", a, key, b, c ? c : "nothing");
        free(a), free(b), free(c);
        different++;
    }
    return different;
}

static void put_config(const json_t *config)
{
    char *s = json_dumps(config, JSON_INDENT(1));
    put_file("ds.json", s);
    free(s);
}

static json_t *read_golden(void)
{
    json_error_t why;
    json_t *all = json_load_file(TESTS_DIR "/golden/deepspeed_values.json", 0, &why);
    if (!all) fail_msg("%s", why.text);
    return all;
}

// Returns the number of values that differ.
static int compare_record(const json_t *one, const json_t *defaults)
{
    int different = 0;
    translation t = {0};
    err e = {0};
    const json_t *config = json_object_get(one, "config");
    const bool refused = json_is_true(json_object_get(one, "refused"));
    put_config(config);
    const status s = dialect_read_file(dialect_find("deepspeed"), "ds.json", &t, &e);
    if ((s != OK) != refused || (s != OK && s != E_USAGE)) {
        char *dump = json_dumps(config, JSON_COMPACT);
        print_error("%s\n  status %d: %s\n", dump, (int)s, e.text);
        free(dump);
        different++;
    } else if (s == OK) {
        json_t *theirs = json_copy((json_t *)defaults);
        json_object_update(theirs, json_object_get(one, "values"));
        different = compare_values(config, t.effective, theirs);
        json_decref(theirs);
    }
    translation_clear(&t);
    return different;
}

static void every_value_is_that_of_deepspeeds_parser(void **state)
{
    (void)state;
    json_t *all = read_golden(), *one;
    size_t i;
    int different = 0, compared = 0;
    json_array_foreach(json_object_get(all, "records"), i, one)
    {
        if (json_object_get(one, "worlds")) continue;
        different += compare_record(one, json_object_get(all, "defaults"));
        compared++;
    }
    json_decref(all);
    assert_true(compared > 280);
    assert_int_equal(different, 0);
}

// ---- the batch

// Solves the job's batch for `ranks`; false: refused.
static bool solve(int ranks, int64_t *batch, int64_t *micro, char *why, size_t room)
{
    char args[64];
    job *j = NULL;
    err e = {0};
    snprintf(args, sizeof args, "--launch.ranks|%d|--deepspeed|ds.json", ranks);
    const bool good = open_job(SMALL, args, &j, &e) == OK;
    if (good) *batch = j->train.global_batch, *micro = j->train.micro_batch;
    snprintf(why, room, "%s", e.text);
    job_close(j);
    return good;
}

static void batch_micro_batch_and_accumulation_are_solved_as_deepspeed_solves_them(void **state)
{
    (void)state;
    json_t *all = read_golden(), *one, *solved;
    size_t i;
    const char *world;
    int compared = 0;
    json_array_foreach(json_object_get(all, "records"), i, one)
    {
        const json_t *config = json_object_get(one, "config");
        const bool elastic = json_object_get(config, "elasticity") != NULL;
        put_config(config);
        json_object_foreach(json_object_get(one, "worlds"), world, solved)
        {
            int64_t batch = 0, micro = 0;
            char why[1024];
            const bool good = solve(atoi(world), &batch, &micro, why, sizeof why);
            // An elastic batch is for the counts that a remark lists; the micro-batch stays the job's.
            if (elastic && !json_is_array(solved)) continue;
            if (good != json_is_array(solved))
                fail_msg("%s on %s ranks: %s", json_dumps(config, 0), world, why);
            if (!good) continue;
            assert_int_equal(batch, json_integer_value(json_array_get(solved, 0)));
            if (!elastic) assert_int_equal(micro, json_integer_value(json_array_get(solved, 1)));
            compared++;
        }
    }
    json_decref(all);
    assert_true(compared > 20);
}

// ---- what wins

static job *job_with(const char *yaml, const char *json)
{
    put_file("ds.json", json);
    return good_job(yaml, "--launch.ranks|2|--deepspeed|ds.json");
}

static void auto_and_defaults_give_way_to_the_job_and_values_do_not(void **state)
{
    (void)state;
    job *j =
        job_with(SMALL "train: {precision: bf16, micro_batch: 2}\noptimizer: {betas: [0.8, 0.9]}\n",
                 "{\"train_batch_size\": 8, \"fp16\": {\"enabled\": \"auto\"}, \"optimizer\": "
                 "{\"type\": \"Adam\", \"params\": {\"lr\": 0.5, \"betas\": \"auto\"}}}");
    assert_int_equal(j->train.global_batch, 8);
    assert_int_equal(j->train.micro_batch, 2); // DeepSpeed's default is one micro-batch of 4
    assert_int_equal(job_dtype(j), BF16);
    assert_true(j->optimizer.lr == 0.5 && j->optimizer.beta1 == 0.8);
    assert_int_equal(j->lr.name, LR_CONSTANT); // no scheduler
    job_close(j);
    j = job_with(SMALL "train: {precision: bf16}\nlr_schedule: {name: linear}\n",
                 "{\"train_batch_size\": 8, \"optimizer\": {\"type\": \"Adam\", \"params\": "
                 "{\"adam_w_mode\": false}}, \"zero_optimization\": {\"stage\": 1, "
                 "\"offload_param\": {\"device\": \"cpu\"}}}");
    assert_int_equal(j->train.micro_batch, 4);
    assert_int_equal(j->optimizer.rule, UPDATE_ADAM);
    assert_true(j->optimizer.lr == 1e-3 && j->optimizer.beta2 == 0.999);
    assert_int_equal(j->lr.name, LR_LINEAR);
    assert_int_equal(j->strategy.offload.tier[PLAN_WEIGHTS],
                     TIER_DEVICE); // only stage 3 offloads weights
    job_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_is_that_of_deepspeeds_parser),
        cmocka_unit_test(auto_and_defaults_give_way_to_the_job_and_values_do_not),
        cmocka_unit_test(batch_micro_batch_and_accumulation_are_solved_as_deepspeed_solves_them),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
