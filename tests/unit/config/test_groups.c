// test_groups.c -- the list `groups` of a job: its values, where they come from, its error lines, and
// which of it may change when a run resumes.
#include "config/keys.h"
#include "config/private.h"
#include "job_fixture.h"

#define THREE                                                                                      \
    SMALL "optimizer: {eps: 1e-6, weight_decay: 0.3}\n"                                            \
          "groups:\n"                                                                              \
          "  - {match: '*.bias', weight_decay: 0, lr_scale: 2}\n"                                  \
          "  - match: transformer.wte.*\n"                                                         \
          "    trainable: no\n"                                                                    \
          "    dp: FULL_SHARD\n"                                                                   \
          "    offload: {weights: host}\n"                                                         \
          "  - {match: '*', optimizer: sgd}\n"

static param_group *groups_of(const job *j)
{
    param_group *g = NULL;
    int count;
    assert_int_equal(job_solve_groups(j, &g, &count, NULL), OK);
    assert_int_equal(count, j->groups + 1);
    return g;
}

static void an_entry_has_the_jobs_settings_but_for_its_own(void **state)
{
    (void)state;
    job *j = good_job(THREE, "--train.precision|bf16|--parallel.offload.optimizer|host");
    param_group *g = groups_of(j);
    assert_int_equal(j->groups, 3);
    assert_string_equal(g[0].match, "*.bias");
    assert_true(!g[0].frozen && g[0].lr_scale == 2 && g[0].precision == BF16);
    assert_true(g[0].optimizer.rule == UPDATE_ADAMW && g[0].optimizer.eps == 1e-6);
    assert_true(g[0].optimizer.beta1 == 0.9 && g[0].optimizer.beta2 == 0.95);
    assert_string_equal(g[0].dp.inner.name, "ddp");
    assert_int_equal(g[0].tier[PLAN_OPTIMIZER_STATE], TIER_HOST);
    // A given weight decay applies to vectors, too.
    assert_true(g[0].optimizer.weight_decay == 0 && g[0].optimizer.decay_all);

    assert_true(g[1].frozen && g[1].lr_scale == 1 && !g[1].optimizer.decay_all);
    assert_true(g[1].optimizer.weight_decay == 0.3);
    assert_string_equal(g[1].dp.inner.name, "zero3");
    assert_string_equal(g[1].dp.outer.name, "ddp");
    assert_int_equal(g[1].tier[PLAN_WEIGHTS], TIER_HOST);
    assert_int_equal(g[1].tier[PLAN_GRADIENTS], TIER_DEVICE);

    // Another optimizer has its own defaults.
    assert_true(g[2].optimizer.rule == UPDATE_SGD && g[2].optimizer.beta1 == 0.9);
    assert_true(g[2].optimizer.weight_decay == 0 && g[2].optimizer.eps == 0);
    assert_true(g[2].optimizer.lr == j->optimizer.lr && !g[2].optimizer.decay_all);

    assert_null(g[3].match);
    assert_true(!g[3].frozen && g[3].lr_scale == 1);
    assert_memory_equal(&g[3].optimizer, &j->optimizer, sizeof g[3].optimizer);
    free(g);
    job_close(j);
    j = good_job(SMALL, "");
    g = groups_of(j);
    assert_int_equal(j->groups, 0);
    assert_null(g[0].match);
    free(g);
    job_close(j);
}

static void every_key_of_an_entry_is_read(void **state)
{
    (void)state;
    job *j = good_job(SMALL "groups:\n- {match: a, optimizer: lion, betas: [0.5, 0.25],\n"
                            "   weight_decay: 3, decay: matrices, dtype: fp32,\n"
                            "   dp: [zero1, zero3], offload: {gradients: host, optimizer: host}}\n"
                            "- {match: b, optimizer: sgd, momentum: 0.125}\n"
                            "- {match: c, eps: 0.5, decay: all, offload.weights: host}\n",
                      "--train.precision|bf16");
    param_group *g = groups_of(j);
    assert_true(g[0].optimizer.rule == UPDATE_LION && g[0].optimizer.beta1 == 0.5);
    assert_true(g[0].optimizer.beta2 == 0.25 && g[0].optimizer.weight_decay == 3);
    assert_true(!g[0].optimizer.decay_all && g[0].precision == F32);
    assert_string_equal(g[0].dp.outer.name, "zero1");
    assert_string_equal(g[0].dp.inner.name, "zero3");
    assert_int_equal(g[0].tier[PLAN_GRADIENTS], TIER_HOST);
    assert_int_equal(g[0].tier[PLAN_OPTIMIZER_STATE], TIER_HOST);
    assert_true(g[1].optimizer.beta1 == 0.125);
    assert_true(g[2].optimizer.eps == 0.5 && g[2].optimizer.decay_all);
    assert_int_equal(g[2].tier[PLAN_WEIGHTS], TIER_HOST);
    free(g);
    job_close(j);
}

static void the_command_line_wins(void **state)
{
    (void)state;
    job *j = good_job(THREE, "--groups|[{match: x, lr_scale: 0.5}]");
    assert_int_equal(j->groups, 1);
    assert_string_equal(j->group[0].value.match, "x");
    job_close(j);
    j = good_job(THREE, "--groups|[]");
    assert_int_equal(j->groups, 0);
    text t = yaml_of(j);
    assert_null(strstr(t.chars, "groups"));
    text_clear(&t);
    job_close(j);
}

static void entries_are_refused_by_name(void **state)
{
    (void)state;
    static const refusal all[] = {
        {SMALL "groups:\n- {match: a}\n- match: b\n  lr_scale: -2", "",
         "job.yaml:6: groups[1].lr_scale: found -2; valid: a number >= 0"},
        {SMALL, "--groups|[{match: a, lr_scale: x}]",
         "--groups[0].lr_scale: found x; valid: a number >= 0"},
        {SMALL "groups: [{match: a, lr_scal: 2}]", "",
         "job.yaml:3: groups[0].lr_scal: unknown key; did you mean lr_scale?"},
        {SMALL "groups: [{match: a, offload: {weigths: host}}]", "",
         "job.yaml:3: groups[0].offload.weigths: unknown key; did you mean offload.weights?"},
        {SMALL "groups: [{match: a, requires_grad: false}]", "",
         "job.yaml:3: groups[0].requires_grad: unknown key; valid: match, trainable, lr_scale, "
         "optimizer, betas, momentum, eps, weight_decay, decay, dtype, dp, offload.weights, "
         "offload.gradients, offload.optimizer"},
        {SMALL "groups: [{lr_scale: 2}]", "",
         "job.yaml:3: groups[0].match: not given; valid: a pattern of tensor names, as "
         "\"*.bias\""},
        {SMALL "groups: [{match: [a, b]}]", "",
         "job.yaml:3: groups[0].match: found [a, b]; valid: a pattern of tensor names, as "
         "\"*.bias\""},
        {SMALL "groups: [{match: ''}]", "",
         "job.yaml:3: groups[0].match: found \"\"; valid: a pattern of tensor names, as "
         "\"*.bias\""},
        {SMALL "groups: [a]", "",
         "job.yaml:3: groups[0].match: found the entry a; valid: keys, as {match: \"*.bias\"}"},
        {SMALL "groups: {match: a}", "",
         "job.yaml:3: groups: found {match: a}; valid: a list of parameter groups, as [{match: "
         "\"*.bias\", weight_decay: 0}]"},
        {SMALL "groups:", "",
         "job.yaml:3: groups: found nothing; valid: a list of parameter groups, as [{match: "
         "\"*.bias\", weight_decay: 0}]"},
        {SMALL "groups: [{match: a, offload: host}]", "",
         "job.yaml:3: groups[0].offload: found host; valid: a section of weights, gradients, "
         "optimizer"},
        {SMALL "groups: [{match: a, offload: {weights: host}, offload.weights: host}]", "",
         "job.yaml:3: groups[0].offload.weights: given twice in one entry"},
        {SMALL "groups: [{match: a, trainable: maybe}]", "",
         "job.yaml:3: groups[0].trainable: found maybe; valid: false, true"},
        {SMALL, "--groups.lr_scale|2",
         "--groups.lr_scale: unknown option; valid: groups with a list, as [{match: \"*.bias\", "
         "weight_decay: 0}]"},
        {SMALL "group: []", "", "job.yaml:3: group: unknown key; did you mean groups?"},
    };
    ASSERT_ALL_REFUSED(all);
}

static void entries_must_agree_with_the_job(void **state)
{
    (void)state;
    static const refusal all[] = {
        {SMALL "groups:\n- {match: a, optimizer: sgd, betas: [0.9, 0.99]}", "",
         "job.yaml:4: groups[0].betas: not a parameter of the optimizer sgd "
         "(groups[0].optimizer)"},
        {SMALL "groups: [{match: a, momentum: 0.9}]", "",
         "job.yaml:3: groups[0].momentum: not a parameter of the optimizer adamw "
         "(optimizer.name)"},
        {SMALL "groups: [{match: a, dtype: fp16}]", "--train.precision|bf16",
         "job.yaml:3: groups[0].dtype: found fp16; valid: fp32 or bf16"},
        {SMALL "groups: [{match: a, dtype: bf16}]", "",
         "job.yaml:3: groups[0].dtype: found bf16; valid: fp32, as train.precision"},
        {SMALL "groups: [{match: a, dp: [zero3, zero1]}]", "",
         "job.yaml:3: groups[0].dp: zero3 over dp_replicate shards weights, zero1 over dp_shard "
         "does not; valid: shard them on dp_shard too, or nothing there (ddp)"},
        {SMALL "groups: [{match: a, dp: HYBRID_SHARD}]", "",
         "job.yaml:3: groups[0].dp: found HYBRID_SHARD, which keeps several copies of the shards; "
         "valid: with parallel.dp_replicate 2 or more, their number"},
        {SMALL "groups:\n- match: a\n  offload:\n    weights: file", "",
         "job.yaml:6: groups[0].offload.weights: found file; it needs parallel.offload.path, a "
         "folder"},
    };
    ASSERT_ALL_REFUSED(all);
}

static void settings_of_frozen_parameters_have_no_effect(void **state)
{
    (void)state;
    job *j = good_job(SMALL "groups: [{match: a, trainable: true, lr_scale: 2},\n"
                            "  {match: b, trainable: false, dp: zero3, optimizer: sgd,\n"
                            "   weight_decay: 0, offload: {gradients: host}}]\n",
                      "");
#define LINE(key)                                                                                  \
    "groups[1]." key                                                                               \
    " has no effect, because groups[1].trainable is false; valid: with trainable true\n"
    assert_string_equal(j->warnings.chars,
                        LINE("optimizer") LINE("weight_decay") LINE("offload.gradients"));
    // The job.yaml of the run warns of the same keys.
    text t = yaml_of(j);
    job *again = good_job(t.chars, "");
    assert_string_equal(again->warnings.chars, j->warnings.chars);
    text_clear(&t);
    job_close(again);
    job_close(j);
}

static void assert_written(const char *yaml, const char *args, const char *list)
{
    job *first = good_job(yaml, args);
    text once = yaml_of(first), line = {0};
    text_addf(&line, "\ngroups: %s\n", list);
    if (!strstr(once.chars, line.chars)) fail_msg("%s\nnot in\n%s", line.chars, once.chars);
    job *second = good_job(once.chars, "");
    text twice = yaml_of(second);
    assert_string_equal(once.chars, twice.chars);
    param_group *a = groups_of(first), *b = groups_of(second);
    assert_int_equal(first->groups, second->groups);
    for (int i = 0; i < first->groups; i++) {
        assert_string_equal(a[i].match, b[i].match);
        b[i].match = a[i].match;
    }
    assert_memory_equal(a, b, ((size_t)first->groups + 1) * sizeof *a);
    free(a);
    free(b);
    text_clear(&line);
    text_clear(&once);
    text_clear(&twice);
    job_close(first);
    job_close(second);
}

static void job_yaml_reads_back_to_the_same_groups(void **state)
{
    (void)state;
    assert_written(THREE, "",
                   "[{match: \"*.bias\", lr_scale: 2, weight_decay: 0, decay: all}, "
                   "{match: \"transformer.wte.*\", trainable: false, dp: zero3, offload: "
                   "{weights: host}}, "
                   "{match: \"*\", optimizer: sgd, momentum: 0.9, weight_decay: 0, decay: "
                   "matrices}]");
    assert_written(SMALL "groups: [{match: 'a\"\\*: {', lr_scale: 1e-5}]", "",
                   "[{match: \"a\\\"\\\\*: {\", lr_scale: 1.0e-05}]");
    assert_written(SMALL,
                   "--train.precision|bf16|--optimizer.name|lion|--groups|"
                   "[{match: a, optimizer: adam, dtype: fp32, dp: [zero1, zero2], offload: "
                   "{weights: host, optimizer: host}}, {match: b, optimizer: lion, betas: "
                   "[0.5, 0.5]}, {match: c}]",
                   "[{match: a, optimizer: adam, betas: [0.9, 0.999], eps: 1.0e-08, weight_decay: "
                   "0, decay: matrices, dtype: fp32, dp: [zero1, zero2], offload: {weights: host, "
                   "optimizer: host}}, {match: b, optimizer: lion, betas: [0.5, 0.5]}, "
                   "{match: c}]");
}

static void explain_tells_the_origin_of_each_setting(void **state)
{
    (void)state;
    job *j = good_job(THREE, "");
    text t = {0}, value = {0}, from = {0};
    job_explain(j, true, &t);
    json_t *root = json_loads(t.chars, 0, NULL);
    static const struct {
        const char *path, *value, *origin;
    } expected[] = {
        {"groups[0].match", "\"*.bias\"", "job.yaml:5"},
        {"groups[0].trainable", "true", "default"},
        {"groups[0].lr_scale", "2", "job.yaml:5"},
        {"groups[0].optimizer", "\"adamw\"", "optimizer.name"},
        {"groups[0].eps", "1e-6", "optimizer.eps"},
        {"groups[0].decay", "\"all\"", "weight_decay"},
        {"groups[1].trainable", "false", "job.yaml:7"},
        {"groups[1].dp", "\"zero3\"", "job.yaml:8"},
        {"groups[1].offload.weights", "\"host\"", "job.yaml:9"},
        {"groups[2].optimizer", "\"sgd\"", "job.yaml:10"},
        {"groups[2].momentum", "0.9", "default"},
        {"groups[2].weight_decay", "0", "default"},
        {"groups[2].decay", "\"matrices\"", "optimizer.decay"},
        {"groups[2].dtype", "\"fp32\"", "train.precision"},
        {"groups[2].offload.optimizer", "\"device\"", "parallel.offload.optimizer"},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const json_t *entry = json_object_get(root, expected[i].path);
        if (!entry) fail_msg("no %s", expected[i].path);
        char *found = json_dumps(json_object_get(entry, "value"),
                                 JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(12));
        assert_memory_equal(found, expected[i].value, strlen(expected[i].value));
        assert_string_equal(json_string_value(json_object_get(entry, "origin")),
                            expected[i].origin);
        free(found);
    }
    // Frozen parameters read no settings of the update; sgd reads no eps.
    assert_null(json_object_get(root, "groups[1].lr_scale"));
    assert_null(json_object_get(root, "groups[1].offload.optimizer"));
    assert_null(json_object_get(root, "groups[2].eps"));
    assert_null(json_object_get(root, "groups"));
    json_decref(root);
    assert_true(job_find_value(j, "groups.lr_scale", &value, &from));
    assert_memory_equal(value.chars, "[{match: \"*.bias\", lr_scale: 2,", 31);
    assert_string_equal(from.chars, "job.yaml:4");
    text_clear(&t);
    text_clear(&value);
    text_clear(&from);
    job_close(j);
}

static void groups_follow_a_changed_copy_of_the_job(void **state)
{
    (void)state;
    // memory.fit changes copies of the job, and the groups follow.
    job *j = good_job(THREE, "");
    job changed = *j;
    changed.strategy.dp.inner = *policy_find("zero2");
    changed.train.precision = PRECISION_BF16;
    param_group *g = groups_of(&changed);
    assert_string_equal(g[0].dp.inner.name, "zero2");
    assert_string_equal(g[1].dp.inner.name, "zero3");
    assert_int_equal(g[0].precision, BF16);
    free(g);
    job_close(j);
}

static void groups_that_shard_need_the_sharded_axis(void **state)
{
    (void)state;
    static const struct {
        const char *args;
        int replicate, shard;
    } all[] = {{"--groups|[{match: a, lr_scale: 2}]", 4, 1},
               {"--groups|[{match: a, dp: ddp}]", 4, 1},
               {"--groups|[{match: a, lr_scale: 2}, {match: b, dp: zero1}]", 1, 4},
               {"--parallel.dp_replicate|2|--groups|[{match: b, dp: zero3}]", 2, 2}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        job *j = good_job(SMALL, all[i].args);
        mesh m;
        assert_int_equal(job_solve_mesh(j, 4, &m, NULL), OK);
        assert_int_equal(m.size[AXIS_DP_REPLICATE], all[i].replicate);
        assert_int_equal(m.size[AXIS_DP_SHARD], all[i].shard);
        job_close(j);
    }
}

static void check_same(const char *args, const char *complaint)
{
    job *j = good_job(SMALL, args);
    err e = {0};
    text found = {0};
    if (job_compare_run(j, "old.yaml", &found, &e) != OK) fail_msg("%s", e.text);
    if (complaint)
        assert_string_equal(found.chars ? found.chars : "no difference", complaint);
    else
        assert_null(found.chars);
    text_clear(&found);
    job_close(j);
}

static void keep_old(const char *yaml, const char *args)
{
    job *j = good_job(yaml, args);
    text t = yaml_of(j);
    put_file("old.yaml", t.chars);
    text_clear(&t);
    job_close(j);
}

static void a_run_resumes_only_with_its_own_groups(void **state)
{
    (void)state;
    keep_old(SMALL, "--groups|[{match: a, lr_scale: 2, dp: zero1}, {match: b, dp: zero2}]");
    check_same("--groups|[{match: a, lr_scale: 2, dp: zero1}, {match: b, dp: zero2}]", NULL);
    // Layouts may change, also in entries that have nothing else.
    check_same("--groups|[{match: a, lr_scale: 2}]", NULL);
    check_same("--groups|[{match: a, lr_scale: 2, dp: zero3, offload: {weights: host}}, "
               "{match: c, dp: zero3}]",
               NULL);
    // The message shows the first entry that differs.
    check_same("--groups|[{match: a, lr_scale: 3, dp: zero1}]",
               "groups[0] ({match: a, lr_scale: 2} there, {match: a, lr_scale: 3} here)");
    check_same("", "groups[0] ({match: a, lr_scale: 2} there, none here)");
    // The parameters of an entry before it would leave the group.
    check_same("--groups|[{match: b, dp: zero2}, {match: a, lr_scale: 2}]",
               "groups[0] ({match: a, lr_scale: 2} there, {match: b} here)");
    check_same("--groups|[{match: a, lr_scale: 2}, {match: b, trainable: false}]",
               "groups[1] (none there, {match: b, trainable: false} here)");
    keep_old(SMALL, "");
    check_same("--groups|[{match: a, dp: zero3}]", NULL);
    check_same("--groups|[{match: a, trainable: false}]",
               "groups[0] (none there, {match: a, trainable: false} here)");
}

static void calls_of_a_program_append_groups(void **state)
{
    (void)state;
    text first = {0}, second = {0};
    job_write_group("*.x: \"y\"", "lr_scale: 3, offload: {weights: host}", &first);
    job_write_group("b", NULL, &second);
    const job_call calls[] = {{JOB_CALL_GROUP, first.chars},
                              {JOB_CALL_GROUP, second.chars},
                              {JOB_CALL_OPTION, (char *)"--groups=[{match: z}]"},
                              {JOB_CALL_GROUP, second.chars}};
    job_own own = {.by_calls = true, .call = calls, .calls = 2};
    job *j = NULL;
    err e = {0};
    text t = {0};
    put_file("job.yaml", SMALL "groups:\n  - {match: a, lr_scale: 2}\n");
    if (job_open_own("job.yaml", 0, NULL, &own, &j, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(j->groups, 3);
    assert_string_equal(j->group[0].value.match, "a");
    assert_string_equal(j->group[1].value.match, "*.x: \"y\"");
    assert_string_equal(j->group[2].value.match, "b");
    job_explain(j, true, &t);
    json_t *root = json_loads(t.chars, 0, NULL);
    static const char *const origins[][2] = {{"groups[0].lr_scale", "job.yaml:4"},
                                             {"groups[1].lr_scale", "program"},
                                             {"groups[2].match", "program"}};
    for (size_t i = 0; i < sizeof origins / sizeof origins[0]; i++)
        assert_string_equal(
            json_string_value(json_object_get(json_object_get(root, origins[i][0]), "origin")),
            origins[i][1]);
    json_decref(root);
    job_close(j);
    own.calls = 4; // the list replaces all before it
    assert_int_equal(job_open_own("job.yaml", 0, NULL, &own, &j, &e), OK);
    assert_int_equal(j->groups, 2);
    assert_string_equal(j->group[0].value.match, "z");
    job_close(j);
    text_clear(&t);
    text_clear(&first);
    text_clear(&second);
}

// The row of each key is one bit, and the keys that entries inherit from exist with the same type.
static void rows_of_an_entry_fit_those_of_the_job(void **state)
{
    (void)state;
    text t = {0};
    assert_true(GROUP_KEY_COUNT <= 32);
    job_help(&t);
    for (int i = 0; i < GROUP_KEY_COUNT; i++) {
        const job_key *k = &GROUP_KEYS[i];
        assert_non_null(strstr(t.chars, k->path));
        assert_true(k->help && *k->help);
        if (!k->inherits) continue;
        const job_key *own = key_find(k->inherits);
        assert_non_null(own);
        assert_int_equal(own->type, k->type);
        for (int w = 0; k->words && k->words[w]; w++) // the job may have more, behind them
            assert_string_equal(k->words[w], own->words[w]);
    }
    text_clear(&t);
    assert_int_equal(job_help_topic("groups", &t, NULL), OK);
    assert_non_null(strstr(t.chars, "\n  flag       --groups VALUE\n"));
    assert_non_null(strstr(t.chars, "\n  groups.offload.weights "));
    text_clear(&t);
    assert_int_equal(job_help_topic("groups.betas", &t, NULL), OK);
    assert_non_null(strstr(t.chars, "\n  default    optimizer.betas\n"));
    assert_non_null(strstr(t.chars, "groups.optimizer adamw or adam or lion\n"));
    assert_null(strstr(t.chars, "flag"));
    text_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_has_the_jobs_settings_but_for_its_own),
        cmocka_unit_test(every_key_of_an_entry_is_read),
        cmocka_unit_test(the_command_line_wins),
        cmocka_unit_test(entries_are_refused_by_name),
        cmocka_unit_test(entries_must_agree_with_the_job),
        cmocka_unit_test(settings_of_frozen_parameters_have_no_effect),
        cmocka_unit_test(job_yaml_reads_back_to_the_same_groups),
        cmocka_unit_test(explain_tells_the_origin_of_each_setting),
        cmocka_unit_test(groups_follow_a_changed_copy_of_the_job),
        cmocka_unit_test(groups_that_shard_need_the_sharded_axis),
        cmocka_unit_test(a_run_resumes_only_with_its_own_groups),
        cmocka_unit_test(calls_of_a_program_append_groups),
        cmocka_unit_test(rows_of_an_entry_fit_those_of_the_job),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
