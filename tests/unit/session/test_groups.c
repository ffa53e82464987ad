// test_groups.c -- the parameter groups of a job and the tensors of its model: patterns that match
// none, the table of explain, and the groups that the trainer gets.
#include "session/groups.h"
#include "session/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static job *open_job(const char *family, const char *groups)
{
    const char *const args[] = {"--model.layers=2",
                                "--model.hidden=8",
                                "--model.heads=2",
                                "--model.vocab=16",
                                "--model.max_seq=8",
                                "--data.seq_len=8",
                                "--data.train=mock",
                                "--train.steps=1",
                                "--train.micro_batch=1",
                                "--train.global_batch=4",
                                "--launch.ranks=2",
                                "--optimizer={lr: 0.5, lr_scaling: linear}",
                                "--groups",
                                groups,
                                "--model.family",
                                family};
    job *j = NULL;
    err e = {.code = OK};
    if (job_open(NULL, sizeof args / sizeof *args, (char *const *)args, &j, &e) != OK)
        fail_msg("%s", e.text);
    return j;
}

static void check_inputs(const char *family, const char *groups, const char *line,
                         const char *warnings)
{
    job *j = open_job(family, groups);
    session_inputs in;
    err e = {.code = OK};
    const status s = session_inputs_open(j, &in, &e);
    if (s != (line ? E_USAGE : OK)) fail_msg("%s: %s", groups, s == OK ? "accepted" : e.text);
    if (line) assert_string_equal(e.text, line);
    if (s == OK) assert_string_equal(in.warnings.chars ? in.warnings.chars : "", warnings);
    session_inputs_close(&in);
    job_close(j);
}

static void every_pattern_matches_a_tensor(void **state)
{
    (void)state;
    check_inputs("gpt2", "[{match: '*.bias'}, {match: transformer.wte.weight}]", NULL, "");
    check_inputs("llama", "[{match: 'model.layers.*.self_attn.*', lr_scale: 2}]", NULL, "");
    check_inputs("gpt2", "[{match: '*.bias'}, {match: transformer.wt.weight}]",
                 "--groups[1].match: found transformer.wt.weight, which matches no tensor of the "
                 "model; the nearest is transformer.wte.weight",
                 NULL);
    check_inputs("llama", "[{match: 'model.layers.*.mpl.up*'}]",
                 "--groups[0].match: found model.layers.*.mpl.up*, which matches no tensor of the "
                 "model; the nearest is model.layers.0.mlp.up_proj.weight",
                 NULL);
    check_inputs("gpt2", "[{match: xq}]",
                 "--groups[0].match: found xq, which matches no tensor of the model; the nearest "
                 "is transformer.ln_f.bias",
                 NULL);
    check_inputs("llama", "[{match: 'self_attn'}]",
                 "--groups[0].match: found self_attn, which matches no tensor of the model; did "
                 "you mean *self_attn*?",
                 NULL);
}

static void tensors_of_one_parameter_are_of_one_group(void **state)
{
    (void)state;
    check_inputs("llama", "[{match: '*.layers.0.*'}, {match: '*.up_proj.*', lr_scale: 2}]",
                 "groups: model.layers.1.mlp.gate_proj.weight is in no group and "
                 "model.layers.1.mlp.up_proj.weight in groups[1] (*.up_proj.*), but they are rows "
                 "of one parameter (model.layers.1.mlp.gate_up.weight); valid: patterns that put "
                 "them in one group",
                 NULL);
    check_inputs("llama", "[{match: '*.q_proj.*'}, {match: '*.k_proj.*'}]",
                 "groups: model.layers.0.self_attn.q_proj.weight is in groups[0] (*.q_proj.*) and "
                 "model.layers.0.self_attn.k_proj.weight in groups[1] (*.k_proj.*), but they are "
                 "rows of one parameter (model.layers.0.self_attn.qkv.weight); valid: patterns "
                 "that put them in one group",
                 NULL);
}

static void a_group_without_members_is_told(void **state)
{
    (void)state;
    check_inputs("gpt2", "[{match: '*.bias', lr_scale: 2}, {match: '*.ln_1.bias'}, {match: '*'}]",
                 NULL,
                 "groups[1] has no effect, because earlier entries match all tensors that "
                 "*.ln_1.bias matches\n");
}

static text explained(const char *groups, bool json)
{
    job *j = open_job("gpt2", groups);
    session_inputs in;
    text out = {0};
    err e = {.code = OK};
    if (session_inputs_open(j, &in, &e) != OK) fail_msg("%s", e.text);
    const explain_options x = {.json = json};
    if (session_explain(j, &in, &x, &out, &e) != OK) fail_msg("%s", e.text);
    session_inputs_close(&in);
    job_close(j);
    return out;
}

static void explain_lists_the_group_of_each_parameter(void **state)
{
    (void)state;
    static const char groups[] = "[{match: '*.bias', lr_scale: 2}, {match: '*.wpe.*', trainable: "
                                 "false}]";
    text t = explained(groups, false);
    static const char *const rows[] = {
        "\nparameters:\n"
        "  transformer.wte.weight              [16, 8]  no group             trainable\n"
        "  transformer.wpe.weight              [8, 8]   groups[1] (*.wpe.*)  frozen\n"
        "  transformer.h.0.ln_1.weight         [8]      no group             trainable\n"
        "  transformer.h.0.ln_1.bias           [8]      groups[0] (*.bias)   trainable\n"
        "  transformer.h.0.attn.c_attn.weight  [8, 24]  no group             trainable\n",
        "\n  transformer.ln_f.bias               [8]      groups[0] (*.bias)   trainable\n"
        "trainable: "};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strstr(t.chars, rows[i])) fail_msg("no %s in\n%s", rows[i], t.chars);
    text_clear(&t);

    t = explained(groups, true);
    json_t *root = json_loads(t.chars, 0, NULL);
    const json_t *all = json_object_get(root, "parameters");
    assert_int_equal(json_array_size(all), 28);
    static const char *const objects[] = {
        "{\"name\":\"transformer.wte.weight\",\"shape\":[16,8],\"group\":null,\"match\":null,"
        "\"trainable\":true}",
        "{\"name\":\"transformer.wpe.weight\",\"shape\":[8,8],\"group\":1,\"match\":\"*.wpe.*\","
        "\"trainable\":false}",
        "{\"name\":\"transformer.h.0.ln_1.weight\",\"shape\":[8],\"group\":null,\"match\":null,"
        "\"trainable\":true}",
        "{\"name\":\"transformer.h.0.ln_1.bias\",\"shape\":[8],\"group\":0,\"match\":\"*.bias\","
        "\"trainable\":true}"};
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
        char *found = json_dumps(json_array_get(all, i), JSON_COMPACT | JSON_PRESERVE_ORDER);
        assert_string_equal(found, objects[i]);
        free(found);
    }
    json_decref(root);
    text_clear(&t);

    t = explained("[]", false); // without groups nothing is listed
    assert_null(strstr(t.chars, "parameters:"));
    assert_null(strstr(t.chars, "no group"));
    text_clear(&t);
}

static void the_trainer_gets_the_jobs_groups(void **state)
{
    (void)state;
    job *j = open_job("gpt2", "[{match: '*.bias', lr_scale: 2}, {match: '*', optimizer: sgd}]");
    session_inputs in = {
        .family = model_family_find("gpt2"), .config = &j->model.config, .seq_len = 8};
    trainer_options o;
    assert_int_equal(session_options(j, &in, 2, &o, NULL), OK);
    assert_int_equal(o.groups.count, 3);
    assert_string_equal(o.groups.items[0].match, "*.bias");
    assert_true(o.groups.items[0].lr_scale == 2);
    assert_int_equal(o.groups.items[1].optimizer.rule, UPDATE_SGD);
    // The learning rate of each is scaled with the two ranks.
    for (int i = 0; i < 3; i++) assert_true(o.groups.items[i].optimizer.lr == 1);
    assert_null(o.groups.items[2].match);
    session_options_clear(&o);
    assert_null(o.groups.items);
    job_close(j);
    j = open_job("gpt2", "[]");
    in.config = &j->model.config;
    assert_int_equal(session_options(j, &in, 2, &o, NULL), OK);
    assert_int_equal(o.groups.count, 0);
    session_options_clear(&o);
    job_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_matches_a_tensor),
        cmocka_unit_test(tensors_of_one_parameter_are_of_one_group),
        cmocka_unit_test(a_group_without_members_is_told),
        cmocka_unit_test(explain_lists_the_group_of_each_parameter),
        cmocka_unit_test(the_trainer_gets_the_jobs_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
