// test_lora.c -- which modules have adapters, as PEFT's LoraConfig says it, and adapter_config.json.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "model/adapter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const Q0 = "model.layers.0.self_attn.q_proj.weight",
                         *const Q11 = "model.layers.11.self_attn.q_proj.weight",
                         *const UP = "model.layers.1.mlp.up_proj.weight";

static bool has(const model_lora *l, const char *tensor)
{
    return model_lora_find(l, tensor).rank > 0;
}

static void names_match_whole_words_at_the_end(void **state)
{
    (void)state;
    char *targets[] = {(char[]){"q_proj"}, (char[]){"layers.1.mlp.up_proj"}};
    model_lora l = {.rank = 4, .targets = targets, .target_count = 2};
    assert_true(has(&l, Q0) && has(&l, Q11) && has(&l, UP));
    assert_false(has(&l, "model.layers.0.self_attn.v_proj.weight"));
    assert_false(has(&l, "model.layers.11.mlp.up_proj.weight"));
    assert_false(has(&l, "model.layers.0.self_attn.deq_proj.weight"));
    assert_false(has(&l, "model.layers.0.self_attn.q_proj.bias"));
}

static void all_linear_leaves_out_what_is_excluded_saved_or_of_other_layers(void **state)
{
    (void)state;
    char *targets[] = {(char[]){"all-linear"}}, *excluded[] = {(char[]){"up_proj"}},
         *saved[] = {(char[]){"layers.0.self_attn"}, (char[]){"lm_head"}};
    int layers[] = {0, 1, 3};
    model_lora l = {.rank = 4,
                    .targets = targets,
                    .excluded = excluded,
                    .saved = saved,
                    .layers = layers,
                    .target_count = 1,
                    .excluded_count = 1,
                    .saved_count = 2,
                    .layer_count = 3};
    assert_false(has(&l, UP) || has(&l, Q0) || has(&l, Q11));
    assert_true(has(&l, "model.layers.3.mlp.down_proj.weight"));
    assert_true(model_lora_trains(&l, Q0) && model_lora_trains(&l, "lm_head.weight"));
    assert_true(model_lora_trains(&l, "model.layers.3.mlp.down_proj.lora_B.weight"));
    assert_false(model_lora_trains(&l, UP) || model_lora_trains(&l, "lm_header.weight"));
    l.rank = 0;
    assert_false(has(&l, "model.layers.3.mlp.down_proj.weight"));
}

static void expressions_match_whole_names(void **state)
{
    (void)state;
    char *targets[] = {(char[]){".*layers\\.\\d\\.self_attn\\.(?:q|k)_proj"}};
    model_lora l = {.rank = 4, .targets = targets, .target_count = 1};
    const char *key;
    err e = {0};
    assert_int_equal(model_lora_check(&l, &key, &e), OK);
    assert_true(has(&l, Q0));
    assert_false(has(&l, Q11) || has(&l, UP));
    static const char *const refused[] = {"(?=q).*", "q.*?", "(q", "\\bq"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char copy[20];
        snprintf(copy, sizeof copy, "%s", refused[i]);
        targets[0] = copy;
        assert_int_equal(model_lora_check(&l, &key, &e), E_USAGE);
        assert_string_equal(key, "target_modules");
    }
}

static void patterns_set_ranks_and_scales(void **state)
{
    (void)state;
    char *targets[] = {(char[]){"all-linear"}};
    model_lora_number ranks[] = {{(char[]){"up_proj"}, 16}, {(char[]){"layers\\.11\\..*"}, 2}},
                      alphas[] = {{(char[]){"model.layers.0.self_attn.q_proj"}, 3}};
    model_lora l = {.rank = 4,
                    .alpha = 8,
                    .targets = targets,
                    .ranks = ranks,
                    .alphas = alphas,
                    .target_count = 1,
                    .rank_count = 2,
                    .alpha_count = 1};
    graph_adapter a = model_lora_find(&l, Q0);
    assert_true(a.rank == 4 && a.scale == 0.75f);
    a = model_lora_find(&l, UP);
    assert_true(a.rank == 16 && a.scale == 0.5f);
    l.rslora = true;
    a = model_lora_find(&l, UP);
    assert_true(a.rank == 16 && a.scale == 2.0f);
    a = model_lora_find(&l, Q11);
    assert_true(a.rank == 2 && a.scale == (float)(8 / sqrt(2.0)));
    l.alpha = 0, l.rslora = false; // alpha is the rank
    assert_true(model_lora_find(&l, "model.layers.2.mlp.down_proj.weight").scale == 1);
    const char *key;
    err e = {0};
    ranks[1].value = 0;
    assert_int_equal(model_lora_check(&l, &key, &e), E_USAGE);
    assert_string_equal(key, "rank_pattern");
}

// ---- adapter_config.json

static char folder[] = "/tmp/trireme-lora-XXXXXX";

static status read_text(const char *content, model_lora *out, char **base, err *e)
{
    char path[200];
    snprintf(path, sizeof path, "%s/" MODEL_LORA_CONFIG, folder);
    assert_int_equal(file_replace(path, content, strlen(content), e), OK);
    return model_lora_read(folder, out, base, e);
}

static void defaults_are_those_of_peft(void **state)
{
    (void)state;
    model_lora l;
    char *base = NULL;
    err e = {0};
    const char *json = "{\"peft_type\": \"LORA\", \"target_modules\": [\"q_proj\"], "
                       "\"base_model_name_or_path\": \"some/base\", \"unknown_of_tomorrow\": 3}";
    assert_int_equal(read_text(json, &l, &base, &e), OK);
    assert_true(l.rank == 8 && l.alpha == 8 && l.dropout == 0 && !l.rslora);
    assert_string_equal(base, "some/base");
    free(base);
    model_lora_clear(&l);
}

static void what_is_not_computed_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"\"use_dora\": true",
                                      "\"bias\": \"lora_only\"",
                                      "\"layer_replication\": [[0, 2]]",
                                      "\"target_parameters\": [\"experts.down_proj\"]",
                                      "\"trainable_token_indices\": [1]",
                                      "\"r\": 0",
                                      "\"r\": \"x\"",
                                      "\"lora_dropout\": 1",
                                      "\"rank_pattern\": {\"a\": 1.5}",
                                      "\"rank_pattern\": [1]",
                                      "\"target_modules\": 3",
                                      "\"target_modules\": [3]",
                                      "\"layers_to_transform\": \"a\"",
                                      "\"target_modules\": \"(?!x)\""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char json[300], key[40];
        model_lora l;
        err e = {0};
        snprintf(json, sizeof json, "{\"peft_type\": \"LORA\", %s%s}", bad[i],
                 strstr(bad[i], "target_modules") ? "" : ", \"target_modules\": [\"q\"]");
        if (read_text(json, &l, NULL, &e) != E_USAGE) fail_msg("%s is accepted", bad[i]);
        snprintf(key, sizeof key, ": %.*s: ", (int)strcspn(bad[i] + 1, "\""), bad[i] + 1);
        if (!strstr(e.text, key)) fail_msg("%s: %s", bad[i], e.text);
    }
    model_lora l;
    err e = {0};
    assert_int_equal(read_text("[]", &l, NULL, &e), E_USAGE);
    assert_int_equal(read_text("{", &l, NULL, &e), E_USAGE);
    assert_int_equal(read_text("{\"peft_type\": \"IA3\"}", &l, NULL, &e), E_USAGE);
}

static model_config small_llama(void)
{
    model_config c;
    model_config_defaults(model_family_find("llama"), &c);
    c.layers = 2, c.hidden = 16, c.heads = 4, c.kv_heads = 2, c.head_dim = 4, c.ffn = 24;
    c.vocab = 41, c.max_seq = 16;
    assert_int_equal(model_config_finish(&c, NULL), OK);
    return c;
}

// What is written reads back; all-linear is written as names, whole ones where a word would name other modules, too.
static void what_is_written_reads_back(void **state)
{
    (void)state;
    char *targets[] = {(char[]){"all-linear"}}, *excluded[] = {(char[]){"layers.0.mlp.up_proj"}};
    model_lora l = {.rank = 4, .alpha = 6, .dropout = 0.25, .targets = targets, .target_count = 1};
    for (int whole = 0; whole < 2; whole++) {
        const model_config c = small_llama();
        const model_options o = {.mode = GRAPH_EVAL,
                                 .batch = 1,
                                 .seq = 8,
                                 .adapter_of = model_lora_find,
                                 .adapter_arg = &l};
        model *m;
        model_lora back;
        char *json = NULL, *base = NULL;
        err e = {0};
        l.excluded = excluded, l.excluded_count = (size_t)whole;
        assert_int_equal(model_open(c.family, &c, &o, &m, &e), OK);
        assert_int_equal(model_lora_write(&l, m, "the/base", &json, &e), OK);
        assert_int_equal(read_text(json, &back, &base, &e), OK);
        assert_string_equal(base, "the/base");
        assert_true(back.rank == 4 && back.alpha == 6 && back.dropout == 0.25 && !back.transposed);
        assert_int_equal(back.target_count, whole ? 13 : 7);
        assert_string_equal(back.targets[0], whole ? "model.layers.0.mlp.down_proj" : "down_proj");
        for (int p = 0; p < m->params; p++)
            for (int i = 0; i < m->param[p].decl->pieces; i++) {
                const graph_piece *k = &m->param[p].decl->piece[i];
                char name[PARAM_NAME_BYTES];
                if (m->param[p].decl->is_adapter) continue;
                model_param_name_expand(name, k->name, m->param[p].layer);
                assert_int_equal(model_lora_find(&back, name).rank, k->adapter.rank);
            }
        free(json);
        free(base);
        model_lora_clear(&back);
        model_close(m);
    }
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return file_remove_tree(folder, NULL) == OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_match_whole_words_at_the_end),
        cmocka_unit_test(all_linear_leaves_out_what_is_excluded_saved_or_of_other_layers),
        cmocka_unit_test(expressions_match_whole_names),
        cmocka_unit_test(patterns_set_ranks_and_scales),
        cmocka_unit_test(defaults_are_those_of_peft),
        cmocka_unit_test(what_is_not_computed_is_refused),
        cmocka_unit_test(what_is_written_reads_back),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
