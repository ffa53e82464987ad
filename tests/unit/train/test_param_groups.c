// test_param_groups.c -- which group each parameter of a model belongs to.
#include "train/param_groups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static model *open_llama(void)
{
    model_config config;
    const model_options o = {.mode = GRAPH_TRAIN, .type = F32, .batch = 1, .seq = 8};
    model *m = NULL;
    err e = {0};
    model_config_defaults_of_job(model_family_find("llama"), &config);
    config.layers = 2, config.hidden = 16, config.heads = 2, config.ffn = 24;
    config.vocab = 32, config.max_seq = 8;
    assert_int_equal(model_config_finish(&config, &e), OK);
    if (model_open(model_family_find("llama"), &config, &o, &m, &e) != OK) fail_msg("%s", e.text);
    return m;
}

static int group_of(const model *m, const int *groups, const char *param)
{
    for (int p = 0; p < m->params; p++)
        if (strcmp(m->param[p].name, param) == 0) return groups[p];
    fail_msg("no parameter %s", param);
    return -1;
}

static void a_parameter_of_several_tensors_has_their_group(void **state)
{
    (void)state;
    model *m = open_llama();
    const param_group items[] = {
        {.match = "model.layers.0.*"}, {.match = "*norm*"}, {.match = NULL}};
    const param_groups groups = {items, 3};
    int of[64];
    err e = {0};
    assert_int_equal(param_groups_assign(m, &groups, of, &e), OK);
    assert_int_equal(group_of(m, of, "model.layers.0.self_attn.qkv.weight"), 0);
    assert_int_equal(group_of(m, of, "model.layers.0.input_layernorm.weight"), 0);
    assert_int_equal(group_of(m, of, "model.layers.1.input_layernorm.weight"), 1);
    assert_int_equal(group_of(m, of, "model.norm.weight"), 1);
    assert_int_equal(group_of(m, of, "model.layers.1.mlp.gate_up.weight"), 2);
    model_close(m);
}

static void two_tensors_of_one_parameter_must_agree(void **state)
{
    (void)state;
    model *m = open_llama();
    const param_group items[] = {{.match = "*.k_proj.*"}, {.match = NULL}};
    const param_groups groups = {items, 2};
    int of[64];
    err e = {0};
    assert_int_equal(param_groups_assign(m, &groups, of, &e), E_USAGE);
    assert_string_equal(e.text,
                        "groups: model.layers.0.self_attn.q_proj.weight is in no group and "
                        "model.layers.0.self_attn.k_proj.weight in groups[0] (*.k_proj.*), but "
                        "they are rows of one parameter (model.layers.0.self_attn.qkv.weight); "
                        "valid: patterns that put them in one group");
    model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parameter_of_several_tensors_has_their_group),
        cmocka_unit_test(two_tensors_of_one_parameter_must_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
