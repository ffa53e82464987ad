// test_param_groups.c -- which group each parameter of a model belongs to.
#include "train/param_groups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
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

// As in bitsandbytes: weights of linear layers are packed, but not the table, the norms and the last layer.
static void frozen_weights_of_linear_layers_are_packed(void **state)
{
    (void)state;
    model *m = open_llama();
    const param_group items[] = {
        {.match = "model.layers.0.*", .frozen = true}, {.match = "*norm*"}, {.frozen = true}};
    param_groups split;
    int of[64];
    err e = {0};
    text t = {0};
    assert_int_equal(param_groups_split(&(param_groups){items, 3}, &split, &e), OK);
    assert_int_equal(split.count, 5);
    assert_int_equal(param_groups_assign(m, &split, of, &e), OK);
    static const struct {
        const char *name;
        int group;
    } want[] = {{"model.embed_tokens.weight", 4},
                {"model.layers.0.self_attn.qkv.weight", 0},
                {"model.layers.0.self_attn.o_proj.weight", 0},
                {"model.layers.0.input_layernorm.weight", 1},
                {"model.layers.1.mlp.gate_up.weight", 3},
                {"model.layers.1.mlp.down_proj.weight", 3},
                {"model.layers.1.input_layernorm.weight", 2},
                {"lm_head.weight", 4}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const int found = group_of(m, of, want[i].name);
        if (found != want[i].group) fail_msg("%s is in group %d", want[i].name, found);
    }
    for (int i = 0; i < split.count; i++)
        assert_int_equal(split.items[i].storage == STORAGE_NF4, i == 0 || i == 3);
    for (int i = 0; i < split.count; i++) {
        text_add(&t, i ? ", " : "");
        param_groups_describe(&split, i, &t);
    }
    assert_string_equal(t.chars, "groups[0] (model.layers.0.*), groups[0] (model.layers.0.*), "
                                 "groups[1] (*norm*), no group, no group");
    text_clear(&t);
    free((param_group *)split.items);
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
        cmocka_unit_test(frozen_weights_of_linear_layers_are_packed),
        cmocka_unit_test(two_tensors_of_one_parameter_must_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
