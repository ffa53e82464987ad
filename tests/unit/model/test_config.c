// test_config.c -- config.json is read as HuggingFace reads it, unsupported values are refused by name,
// and a written config.json reads back as the same model.
// LONG: the names of the golden folders stand in lines of their own
#include "base/file.h"
#include "model/model.h"
#include "model/schema.h"
#include "own_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/trireme-config-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return file_remove_tree(folder, NULL) == OK ? 0 : -1;
}

static status read_text(const char *json, model_config *c, err *e)
{
    char *path = own_path(folder, "config.json");
    assert_int_equal(file_replace(path, json, strlen(json), NULL), OK);
    free(path);
    return model_config_read(folder, c, e);
}

static void read_good(const char *json, model_config *c)
{
    err e = {0};
    if (read_text(json, c, &e) != OK) fail_msg("%s", e.text);
}

static void refuse(const char *json, const char *because)
{
    err e = {0};
    model_config c;
    assert_int_equal(read_text(json, &c, &e), E_USAGE);
    if (!strstr(e.text, because)) fail_msg("\"%s\" does not say \"%s\"", e.text, because);
    assert_non_null(strstr(e.text, "config.json"));
    assert_null(strchr(e.text, '\n'));
}

static void missing_fields_have_the_defaults_of_huggingface(void **state)
{
    (void)state;
    model_config c;
    read_good("{\"model_type\": \"gpt2\", \"model_max_length\": 1000000000000000019884624838656, "
              "\"scale\": NaN, \"limits\": [1e999, -Infinity]}",
              &c);
    assert_ptr_equal(c.family, model_family_find("gpt2"));
    assert_int_equal(c.layers, 12);
    assert_int_equal(c.hidden, 768);
    assert_int_equal(c.kv_heads, 12);
    assert_int_equal(c.head_dim, 64);
    assert_int_equal(c.ffn, 3072);
    assert_int_equal(c.vocab, 50257);
    assert_int_equal(c.max_seq, 1024);
    assert_int_equal(c.act, ACT_GELU_TANH);
    assert_true(c.tie_embeddings && c.scale_attention && !c.scale_by_layer);
    assert_true(c.dropout.embed == 0.1 && c.dropout.attention == 0.1 && c.dropout.residual == 0.1);
    assert_true(c.norm_eps == 1e-5 && c.init_std == 0.02);
    assert_int_equal(c.eos, 50256);
    read_good("{\"model_type\": \"llama\"}", &c);
    assert_int_equal(c.hidden, 4096);
    assert_int_equal(c.kv_heads, 32);
    assert_int_equal(c.head_dim, 128);
    assert_int_equal(c.ffn, 11008);
    assert_int_equal(c.act, ACT_SILU);
    assert_true(!c.tie_embeddings && !c.attention_bias && !c.mlp_bias);
    assert_true(c.rope.kind == ROPE_DEFAULT && c.rope.theta == 10000 && c.norm_eps == 1e-6);
    assert_int_equal(c.bos, 1);
    assert_int_equal(c.pad, -1);
}

static void every_field_of_gpt2_is_read(void **state)
{
    (void)state;
    model_config c;
    read_good("{\"model_type\":\"gpt2\",\"architectures\":[\"GPT2LMHeadModel\"],\"n_layer\":3,"
              "\"n_embd\":48,\"n_head\":4,\"n_inner\":100,\"vocab_size\":300,\"n_positions\":77,"
              "\"n_ctx\":77,\"activation_function\":\"gelu\",\"resid_pdrop\":0,\"embd_pdrop\":0.25,"
              "\"attn_pdrop\":0.5,\"layer_norm_epsilon\":0.001,\"initializer_range\":0.1,"
              "\"scale_attn_weights\":false,\"scale_attn_by_inverse_layer_idx\":true,"
              "\"reorder_and_upcast_attn\":true,\"tie_word_embeddings\":false,"
              "\"summary_type\":\"cls_index\",\"use_cache\":true,\"add_cross_attention\":false,"
              "\"task_specific_params\":{\"text-generation\":{\"do_sample\":true}},"
              "\"bos_token_id\":7,\"eos_token_id\":[8,9,3000],\"pad_token_id\":null}",
              &c);
    assert_int_equal(c.layers, 3);
    assert_int_equal(c.hidden, 48);
    assert_int_equal(c.heads, 4);
    assert_int_equal(c.head_dim, 12);
    assert_int_equal(c.ffn, 100);
    assert_int_equal(c.vocab, 300);
    assert_int_equal(c.max_seq, 77);
    assert_int_equal(c.act, ACT_GELU);
    assert_true(c.dropout.residual == 0 && c.dropout.embed == 0.25 && c.dropout.attention == 0.5);
    assert_true(c.norm_eps == 0.001 && c.init_std == 0.1);
    assert_true(!c.scale_attention && c.scale_by_layer && !c.tie_embeddings);
    assert_int_equal(c.bos, 7);
    assert_int_equal(c.eos, 8);
    assert_int_equal(c.more_eos_count, 1); // 3000 is not in the vocabulary
    assert_int_equal(c.more_eos[0], 9);
}

#define LLAMA                                                                                      \
    "\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":2,"                         \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"intermediate_size\":96,"                \
    "\"vocab_size\":100,\"max_position_embeddings\":50"

static void every_field_of_llama_is_read(void **state)
{
    (void)state;
    model_config c;
    read_good("{" LLAMA ",\"head_dim\":24,\"hidden_act\":\"gelu_pytorch_tanh\",\"mlp_bias\":true,"
              "\"attention_bias\":true,\"attention_dropout\":0.125,\"rms_norm_eps\":1e-4,"
              "\"tie_word_embeddings\":true,\"pretraining_tp\":1,\"pad_token_id\":3,"
              "\"quantization_config\":null,\"rope_theta\":500000.0}",
              &c);
    assert_int_equal(c.head_dim, 24);
    assert_int_equal(c.kv_heads, 2);
    assert_int_equal(c.ffn, 96);
    assert_int_equal(c.act, ACT_GELU_TANH);
    assert_true(c.mlp_bias && c.attention_bias && c.tie_embeddings);
    assert_true(c.dropout.attention == 0.125 && c.norm_eps == 1e-4 && c.rope.theta == 500000);
    assert_int_equal(c.pad, 3);
    assert_true(c.rope.kind == ROPE_DEFAULT);
}

static void rope_is_read_as_versions_4_and_5_write_it(void **state)
{
    (void)state;
    model_config c;
    read_good("{" LLAMA ",\"rope_theta\":500.0,\"rope_scaling\":{\"type\":\"linear\","
              "\"factor\":4}}",
              &c);
    assert_true(c.rope.kind == ROPE_LINEAR && c.rope.factor == 4 && c.rope.theta == 500);
    read_good("{" LLAMA ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,"
              "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
              "\"original_max_position_embeddings\":8192},\"rope_theta\":500000.0}",
              &c);
    assert_true(c.rope.kind == ROPE_LLAMA3 && c.rope.factor == 8 && c.rope.low == 1 &&
                c.rope.high == 4);
    assert_true(c.rope.original == 8192 && c.rope.theta == 500000);
    read_good("{" LLAMA ",\"rope_parameters\":{\"rope_type\":\"llama3\",\"factor\":2.0,"
              "\"low_freq_factor\":1.0,\"high_freq_factor\":3.0,\"rope_theta\":777.0}}",
              &c);
    assert_true(c.rope.kind == ROPE_LLAMA3 && c.rope.factor == 2 && c.rope.theta == 777);
    assert_int_equal(c.rope.original, 50); // as long as the model's own when not given
    read_good("{" LLAMA ",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":5.0},"
              "\"rope_scaling\":null}",
              &c);
    assert_true(c.rope.kind == ROPE_DEFAULT && c.rope.theta == 5);
    // both: version 5 takes rope_scaling
    read_good("{" LLAMA ",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":5.0},"
              "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2.0}}",
              &c);
    assert_true(c.rope.kind == ROPE_LINEAR && c.rope.theta == 10000);
}

// The defaults of a family whose class stretches positions, and an object that replaces all of them.
static void families_that_stretch_positions_keep_their_defaults(void **state)
{
    (void)state;
    model_config c;
    read_good("{\"model_type\":\"ministral3\"}", &c);
    assert_true(c.rope.kind == ROPE_YARN && c.rope.factor == 16 && c.rope.original == 16384);
    assert_true(c.rope.mscale == 1 && c.rope.mscale_all == 1 && c.rope.query_growth == 0.1);
    read_good("{\"model_type\":\"ministral3\",\"max_position_embeddings\":64,\"rope_parameters\":"
              "{\"rope_type\":\"yarn\",\"original_max_position_embeddings\":16}}",
              &c);
    assert_true(c.rope.factor == 4 && c.rope.original == 16 && c.rope.theta == 1e6);
    assert_true(c.rope.mscale == 0 && c.rope.mscale_all == 0 && c.rope.query_growth == 0);
    read_good("{\"model_type\":\"apertus\"}", &c);
    assert_true(c.rope.kind == ROPE_LLAMA3 && c.rope.factor == 8 && c.rope.original == 8192);
    read_good("{\"model_type\":\"granite_swa\",\"num_hidden_layers\":5}", &c);
    const bool window[] = {false, true, true, true, false};
    for (int i = 0; i < 5; i++) assert_int_equal(model_layer_has(&c.sliding, i), window[i]);
}

static void values_that_would_change_arithmetic_are_refused_by_name(void **state)
{
    (void)state;
    refuse("{\"model_type\":\"gpt2\",\"add_cross_attention\":true}", "add_cross_attention: found");
    refuse("{\"model_type\":\"gpt2\",\"activation_function\":\"quick_gelu\"}",
           "activation_function: found \"quick_gelu\", valid are gelu,");
    refuse("{\"model_type\":\"gpt2\",\"pruned_heads\":{\"1\":[0]}}", "pruned_heads");
    refuse("{\"model_type\":\"gpt2\",\"architectures\":[\"GPT2ForSequenceClassification\"]}",
           "architectures");
    refuse("{" LLAMA ",\"sliding_window\":4096}", "sliding_window: found 4096");
    refuse("{" LLAMA ",\"layer_types\":[\"full_attention\",\"sliding_attention\"]}", "layer_types");
    refuse("{" LLAMA ",\"pretraining_tp\":2}", "pretraining_tp: found 2");
    refuse("{" LLAMA ",\"partial_rotary_factor\":0.5}", "partial_rotary_factor: found 0.5");
    refuse("{" LLAMA ",\"partial_rotary_factor\":0}", "partial_rotary_factor: found 0");
    refuse("{" LLAMA ",\"quantization_config\":{\"bits\":4}}", "quantization_config");
    refuse("{" LLAMA ",\"residual_multiplier\":0.22}", "residual_multiplier");
    refuse("{" LLAMA ",\"auto_map\":{\"AutoModelForCausalLM\":\"x.Y\"}}", "auto_map");
    refuse("{" LLAMA ",\"rope_scaling\":{\"rope_type\":\"ntk\",\"factor\":2.0}}", "\"ntk\"");
    refuse("{" LLAMA ",\"rope_scaling\":{\"type\":\"dynamic\"}}", "rope_scaling: factor");
    refuse("{" LLAMA ",\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1],"
           "\"long_factor\":[2]}}",
           "rope_short: found 1 and 1 factors");
    refuse("{\"model_type\":\"qwen3\",\"num_hidden_layers\":3,\"use_sliding_window\":true,"
           "\"layer_types\":[\"full_attention\"]}",
           "layer_types: found 1 items, valid is one for each of the 3 layers");
    refuse("{\"model_type\":\"qwen3\",\"layer_types\":[\"linear_attention\"]}",
           "layer_types: found \"linear_attention\" for layer 0, valid are full_attention and");
    refuse("{\"model_type\":\"gemma3_text\",\"rope_parameters\":{\"sliding_attention\":"
           "{\"rope_type\":\"yarn\"}}}",
           "sliding_attention: rope_type: found \"yarn\", valid is default");
    refuse("{" LLAMA ",\"use_qk_norm\":true}", "use_qk_norm: found true");
    refuse("{\"model_type\":\"gemma4_text\"}",
           "hidden_size_per_layer_input: found 256, valid is 0");
    refuse("{\"model_type\":\"gemma4_text\",\"num_kv_shared_layers\":2}",
           "num_kv_shared_layers: found 2, which changes the model");
    refuse("{\"model_type\":\"gemma4_text\",\"hidden_size_per_layer_input\":0,"
           "\"per_layer_config\":{\"1\":{\"head_dim\":8},\"2\":{\"head_dim\":12}}}",
           "per_layer_config: layer 2: found 12, valid is one number for all layers");
    refuse("{\"model_type\":\"apertus\",\"hidden_act\":\"silu\"}",
           "hidden_act: found \"silu\", valid are xielu");
    refuse("{\"model_type\":\"granite_swa\",\"num_hidden_layers\":2,\"layer_rope_theta\":[0]}",
           "layer_rope_theta: found 1 items, valid is one for each of the 2 layers");
    refuse("{\"model_type\":\"ministral3\",\"rope_parameters\":{\"rope_type\":\"linear\","
           "\"factor\":2,\"llama_4_scaling_beta\":0.1}}",
           "rope_query_growth: found 0.1, valid without model.rope yarn is null");
    refuse("{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\"}}", "rope_scaling: factor");
    refuse("{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":\"2\"}}", "factor");
    refuse("{" LLAMA ",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":2.0}}", "low_freq_factor");
    refuse("{" LLAMA ",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\"}}}",
           "rope_parameters: full_attention");
    refuse("{" LLAMA ",\"rope_parameters\":{\"rope_type\":\"default\","
           "\"partial_rotary_factor\":0.25}}",
           "partial_rotary_factor");
}

static void huge_numbers_and_nan_are_refused_in_known_fields(void **state)
{
    (void)state;
    refuse("{\"model_type\": \"gpt2\", \"n_embd\": 1000000000000000019884624838656}",
           "n_embd: found");
    refuse("{\"model_type\": \"gpt2\", \"layer_norm_epsilon\": NaN}",
           "layer_norm_epsilon: found \"NaN\"");
}

static void broken_files_and_values_are_refused(void **state)
{
    (void)state;
    err e = {0};
    model_config c;
    assert_int_equal(model_config_read("/nonexistent", &c, &e), E_USAGE);
    assert_non_null(strstr(e.text, "found /nonexistent, which is not a folder"));
    refuse("{\"model_type\": ", "config.json:1:");
    refuse("[]", "not an object");
    refuse("{}", "model_type: not given");
    refuse("{\"model_type\":\"mixtral\"}", "model_type: found \"mixtral\", valid are gpt2");
    refuse("{\"model_type\":3}", "model_type: found 3");
    refuse("{\"model_type\":\"gpt2\",\"n_layer\":3,\"n_layer\":4}", "duplicate");
    refuse("{\"model_type\":\"gpt2\",\"n_layer\":0}", "n_layer: found 0, valid are whole numbers");
    refuse("{\"model_type\":\"gpt2\",\"n_layer\":-1}", "n_layer: found -1");
    refuse("{\"model_type\":\"gpt2\",\"n_layer\":\"3\"}", "n_layer: found \"3\"");
    refuse("{\"model_type\":\"gpt2\",\"n_layer\":1.5}", "n_layer: found 1.5");
    refuse("{\"model_type\":\"gpt2\",\"n_layer\":null}", "n_layer: found null");
    refuse("{\"model_type\":\"gpt2\",\"n_embd\":9999999999}", "n_embd: found 9999999999");
    refuse("{\"model_type\":\"gpt2\",\"n_head\":7}", "hidden: found 768");
    refuse("{\"model_type\":\"gpt2\",\"resid_pdrop\":1.0}", "resid_pdrop: found 1");
    refuse("{\"model_type\":\"gpt2\",\"tie_word_embeddings\":1}", "tie_word_embeddings: found 1");
    refuse("{\"model_type\":\"gpt2\",\"eos_token_id\":[]}", "eos_token_id: found []");
    refuse("{\"model_type\":\"gpt2\",\"eos_token_id\":\"a\"}", "eos_token_id");
    refuse("{\"model_type\":\"llama\",\"num_key_value_heads\":3}", "kv_heads: found 3");
    refuse("{" LLAMA ",\"head_dim\":9}", "head_dim: found 9, valid are even");
    refuse("{" LLAMA ",\"rope_theta\":0}", "rope_theta: found 0");
    refuse("{\"model_type\":\"llama\",\"num_hidden_layers\":60000,\"hidden_size\":"
           "2000000000,\"num_attention_heads\":1}",
           "parameters");
    refuse("{\"model_type\":\"llama\",\"num_hidden_layers\":2000000000}",
           "num_hidden_layers: found 2000000000, valid are whole numbers from 1 to 65536");
    refuse("{\"model_type\":\"trireme_mlp\",\"features\":3}", "classes: not given");
    refuse("{\"model_type\":\"trireme_mlp\",\"classes\":3}", "features: not given");
    refuse("{\"model_type\":\"trireme_mlp\",\"classes\":3,\"features\":2,\"loss\":\"hinge\"}",
           "loss: found \"hinge\", valid are cross_entropy, mse");
}

static status set(model_config *c, const char *field, const char *json, err *e)
{
    json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    status result = model_config_set(c, field, value, e);
    json_decref(value);
    return result;
}

static void fields_are_set_by_either_name(void **state)
{
    (void)state;
    model_config c;
    err e = {0};
    model_config_defaults(model_family_find("gpt2"), &c);
    assert_int_equal(set(&c, "layers", "4", &e), OK);
    assert_int_equal(set(&c, "n_embd", "64", &e), OK);
    assert_int_equal(set(&c, "heads", "8", &e), OK);
    assert_int_equal(set(&c, "vocab_size", "512", &e), OK);
    assert_int_equal(set(&c, "activation", "\"relu\"", &e), OK);
    assert_int_equal(model_config_finish(&c, &e), OK);
    assert_int_equal(c.layers, 4);
    assert_int_equal(c.ffn, 256);
    assert_int_equal(c.head_dim, 8);
    assert_int_equal(c.act, ACT_RELU);
    assert_int_equal(c.eos, -1); // 50256 is not in a vocabulary of 512
    model_config_defaults(model_family_find("llama"), &c);
    assert_int_equal(set(&c, "rope", "\"llama3\"", &e), OK);
    assert_int_equal(set(&c, "rope_factor", "8", &e), OK);
    assert_int_equal(set(&c, "rope_scaling", "{\"type\":\"linear\",\"factor\":2.0}", &e), OK);
    assert_true(c.rope.kind == ROPE_LINEAR && c.rope.factor == 2);
}

static void unknown_fields_are_refused_with_a_suggestion(void **state)
{
    (void)state;
    model_config c;
    err e = {0};
    model_config_defaults(model_family_find("gpt2"), &c);
    assert_int_equal(set(&c, "hiden", "64", &e), E_USAGE);
    assert_non_null(strstr(e.text, "did you mean hidden?"));
    assert_int_equal(set(&c, "kv_heads", "4", &e), E_USAGE); // gpt2 has none
    assert_non_null(strstr(e.text, "kv_heads: not a field of gpt2 models"));
    assert_int_equal(set(&c, "zzzzzzzzzzzz", "4", &e), E_USAGE);
    assert_null(strstr(e.text, "did you mean"));
}

static void same_model(const model_config *a, const model_config *b)
{
    assert_ptr_equal(a->family, b->family);
    assert_true(a->layers == b->layers && a->hidden == b->hidden && a->heads == b->heads);
    assert_true(a->kv_heads == b->kv_heads && a->head_dim == b->head_dim && a->ffn == b->ffn);
    assert_true(a->vocab == b->vocab && a->max_seq == b->max_seq && a->act == b->act);
    assert_true(a->norm_eps == b->norm_eps && a->init_std == b->init_std);
    assert_true(a->tie_embeddings == b->tie_embeddings && a->mlp_bias == b->mlp_bias);
    assert_true(a->attention_bias == b->attention_bias);
    assert_true(a->scale_attention == b->scale_attention && a->scale_by_layer == b->scale_by_layer);
    assert_true(a->dropout.embed == b->dropout.embed &&
                a->dropout.attention == b->dropout.attention);
    assert_true(a->dropout.residual == b->dropout.residual && a->rope.kind == b->rope.kind);
    assert_true(a->rope.theta == b->rope.theta && a->rope.original == b->rope.original);
    if (a->rope.kind != ROPE_DEFAULT) assert_true(a->rope.factor == b->rope.factor);
    if (a->rope.kind == ROPE_LLAMA3)
        assert_true(a->rope.low == b->rope.low && a->rope.high == b->rope.high);
    assert_true(a->bos == b->bos && a->eos == b->eos && a->pad == b->pad);
    assert_int_equal(a->more_eos_count, b->more_eos_count);
    assert_memory_equal(a->more_eos, b->more_eos, sizeof a->more_eos);
    assert_memory_equal(a->own, b->own, sizeof a->own);
}

static void a_written_config_reads_back_as_the_same_model(void **state)
{
    (void)state;
    static const char *const files[] = {
        "{\"model_type\":\"gpt2\"}",
        "{\"model_type\":\"gpt2\",\"n_inner\":100,\"layer_norm_epsilon\":3e-7,\"resid_pdrop\":0,"
        "\"scale_attn_weights\":false,\"scale_attn_by_inverse_layer_idx\":true,\"bos_token_id\":"
        "null,\"activation_function\":\"tanh\",\"tie_word_embeddings\":false}",
        "{" LLAMA ",\"head_dim\":24,\"rope_theta\":123456.789,\"eos_token_id\":[5,6,7]}",
        "{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":3.3}}",
        "{" LLAMA ",\"rope_parameters\":{\"rope_type\":\"llama3\",\"factor\":8.0,"
        "\"low_freq_factor\":1.1,\"high_freq_factor\":4.0,\"original_max_position_embeddings\":20,"
        "\"rope_theta\":500000.0},\"attention_bias\":true,\"mlp_bias\":true}",
        "{\"model_type\":\"trireme_mlp\",\"features\":5,\"classes\":1,\"loss\":\"mse\","
        "\"layers\":3,\"hidden\":7,\"activation\":\"silu\"}",
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        model_config a, b;
        read_good(files[i], &a);
        char *json;
        assert_int_equal(model_config_write(&a, "bfloat16", &json, NULL), OK);
        assert_non_null(strstr(json, "\"torch_dtype\": \"bfloat16\""));
        read_good(json, &b);
        same_model(&a, &b);
        free(json);
    }
}

static void a_class_that_transformers_has_itself_is_read(void **state)
{
    (void)state;
    model_config c;
    read_good(
        "{\"model_type\":\"phi3\",\"auto_map\":{\"AutoConfig\":\"configuration_phi3.Phi3Config\","
        "\"AutoModelForCausalLM\":\"modeling_phi3.Phi3ForCausalLM\"}}",
        &c);
    refuse(
        "{\"model_type\":\"phi3\",\"auto_map\":{\"AutoModelForCausalLM\":\"x.OtherForCausalLM\"}}",
        "auto_map");
}

// A field of one family does not exist for another, and a family refuses what it does not support itself.
static void each_family_refuses_for_itself(void **state)
{
    (void)state;
    model_config c;
    refuse("{\"model_type\":\"gpt2\",\"sliding_window\":4096}", "sliding_window: found 4096");
    refuse("{" LLAMA ",\"layer_types\":[3]}", "layer_types: found 3, valid is full_attention");
    read_good("{" LLAMA ",\"layer_types\":[\"full_attention\"],\"n_layer\":9}", &c);
    assert_int_equal(c.layers, 2);
    read_good("{\"model_type\":\"trireme_mlp\",\"features\":5,\"classes\":2,\"sliding_window\":4}",
              &c);
}

static void check_row(const model_family *of, const model_field *f)
{
    const model_field *rows[MODEL_FIELDS];
    char key[64];
    snprintf(key, sizeof key, "model.%s", f->name);
    assert_string_equal(f->key, key);
    assert_true(f->help && f->help[0] && f->file[0]);
    assert_ptr_equal(model_field_find(of, f->name), f);
    assert_ptr_equal(model_field_named(of, f->name), f);
    if (f->type <= FIELD_REAL && f->value != 0)
        assert_true(f->value >= f->low && f->value <= f->high);
    for (int i = model_fields_list(of, rows) - 1; i >= 0; i--)
        if (rows[i] != f) assert_int_not_equal(rows[i]->member, f->member);
    for (int i = 0; i < of->schema->count; i++) {
        const model_field *other = &of->schema->fields[i];
        assert_true(other == f || !other->name || strcmp(other->name, f->name) != 0);
    }
    // Help's words are words of the field.
    for (const char *word = f->words ? f->words->valid : ""; *word;) {
        char one[32];
        int value;
        const size_t bytes = strcspn(word, ", ");
        snprintf(one, sizeof one, "%.*s", (int)bytes, word);
        json_t *given = json_string(one);
        if (strcmp(one, "and") != 0) assert_true(model_word_find(f->words, given, &value));
        json_decref(given);
        word += bytes + strspn(word + bytes, ", ");
    }
}

static void the_table_of_every_family_is_sound(void **state)
{
    (void)state;
    const model_field *all[MODEL_FIELDS];
    const int count = model_fields_list(NULL, all);
    for (int i = 0; MODEL_FAMILIES[i]; i++) {
        const model_field *rows[MODEL_FIELDS];
        const int own = model_fields_list(MODEL_FAMILIES[i], rows);
        assert_ptr_equal(model_family_find(MODEL_FAMILIES[i]->name), MODEL_FAMILIES[i]);
        assert_string_equal(MODEL_FAMILY_NAMES[i], MODEL_FAMILIES[i]->name);
        // A family's order is that of all families, each of which has a field once.
        for (int k = 0, at = 0; k < own; k++, at++) {
            check_row(MODEL_FAMILIES[i], rows[k]);
            while (at < count && strcmp(all[at]->name, rows[k]->name) != 0) at++;
            assert_true(at < count);
        }
    }
    assert_string_equal(all[0]->name, "features");
    assert_string_equal(all[count - 1]->name, "pad");
}

// Fails where the two have a field that is printed differently.
static void same_fields(const model_config *a, const model_config *b)
{
    const model_field *rows[MODEL_FIELDS];
    for (int i = model_fields_list(a->family, rows) - 1; i >= 0; i--) {
        text x = {0}, y = {0};
        if (!model_field_is_compared(a, rows[i])) continue;
        model_field_add(a, rows[i], false, &x);
        model_field_add(b, rows[i], false, &y);
        if (strcmp(x.chars, y.chars) != 0)
            fail_msg("%s: %s: %s became %s", a->family->name, rows[i]->name, x.chars, y.chars);
        text_clear(&x);
        text_clear(&y);
    }
}

// As the classes of transformers demand it: a whole number, and a key beside the rotary parameters.
static void fields_are_written_as_their_classes_read_them(void **state)
{
    (void)state;
    static const char *const written[][2] = {
        {"gemma2", "\"query_pre_attn_scalar\": 5,"},
        {"gemma3_text", "\"query_pre_attn_scalar\": 5,"},
        {"phi3_longrope", ",\n  \"original_max_position_embeddings\": 8,"}};
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++) {
        char path[512], *json;
        model_config c;
        snprintf(path, sizeof path, "%s/golden/models/%s", TESTS_DIR, written[i][0]);
        assert_int_equal(model_config_read(path, &c, NULL), OK);
        assert_int_equal(model_config_write(&c, "float32", &json, NULL), OK);
        if (!strstr(json, written[i][1])) fail_msg("%s: %s", written[i][0], json);
        free(json);
    }
}

static void the_golden_folders_are_read_and_written(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt2_new",
                                        "gpt2_variants",
                                        "llama_gqa",
                                        "llama_llama3",
                                        "llama_linear",
                                        "mlp_classes",
                                        "mlp_values",
                                        "llama_yarn",
                                        "llama_longrope",
                                        "qwen2_window",
                                        "qwen3",
                                        "gemma2",
                                        "gemma3_text",
                                        "smollm3",
                                        "phi3_longrope",
                                        "granite",
                                        "olmo3",
                                        "exaone4",
                                        "glm4",
                                        "cohere2",
                                        "ernie4_5",
                                        "stablelm",
                                        "starcoder2",
                                        "hunyuan_v1_dense",
                                        "granite_swa",
                                        "ministral3",
                                        "apertus",
                                        "cohere",
                                        "stablelm_parallel",
                                        "llama_dynamic_long",
                                        "lfm2",
                                        "lfm2_numbers",
                                        "qwen3_5",
                                        "qwen3_next",
                                        "gemma4_text"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[512], *json;
        model_config c, back;
        err e = {0};
        snprintf(path, sizeof path, "%s/golden/models/%s", TESTS_DIR, names[i]);
        if (model_config_read(path, &c, &e) != OK) fail_msg("%s", e.text);
        assert_int_equal(model_config_write(&c, "float32", &json, NULL), OK);
        read_good(json, &back);
        same_fields(&c, &back);
        free(json);
    }
}

// The text model of a folder of several parts, with what its class says outside of text_config.
static void the_config_of_several_parts_is_that_of_the_text_model(void **state)
{
    (void)state;
    model_config c;
    read_good(
        "{\"model_type\":\"gemma3\",\"architectures\":[\"Gemma3ForConditionalGeneration\"],"
        "\"eos_token_id\":[1,106],\"bos_token_id\":3,\"text_config\":{\"num_hidden_layers\":7,"
        "\"architectures\":[\"Other\"],\"bos_token_id\":4,\"final_logit_softcapping\":30,"
        "\"rope_parameters\":{\"sliding_attention\":{\"rope_type\":\"default\"}}}}",
        &c);
    assert_string_equal(c.family->name, "gemma3");
    assert_int_equal(c.layers, 7);
    assert_true(c.tie_embeddings);
    assert_int_equal(c.eos, 1);
    assert_int_equal(c.more_eos[0], 106);
    assert_int_equal(c.bos, 4);
    assert_true(c.logit_softcap == 0);
    assert_true(c.rope.local_theta == 10000);
    read_good("{\"model_type\":\"gemma3\",\"tie_word_embeddings\":false,\"text_config\":"
              "{\"tie_word_embeddings\":true}}",
              &c);
    assert_false(c.tie_embeddings);
    read_good("{\"model_type\":\"mistral3\",\"text_config\":{\"model_type\":\"mistral\"}}", &c);
    assert_string_equal(c.family->name, "mistral");
    assert_false(c.tie_embeddings);
    refuse("{\"model_type\":\"gemma3\"}", "text_config: not given");
    refuse("{\"model_type\":\"gemma3\",\"text_config\":3}",
           "text_config: found 3; valid: an object");
    refuse("{\"model_type\":\"gemma3\",\"auto_map\":{\"AutoModel\":\"a.B\"},\"text_config\":{}}",
           "text_config: auto_map: the model is computed by Python code");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_config_of_several_parts_is_that_of_the_text_model),
        cmocka_unit_test(missing_fields_have_the_defaults_of_huggingface),
        cmocka_unit_test(every_field_of_gpt2_is_read),
        cmocka_unit_test(every_field_of_llama_is_read),
        cmocka_unit_test(rope_is_read_as_versions_4_and_5_write_it),
        cmocka_unit_test(families_that_stretch_positions_keep_their_defaults),
        cmocka_unit_test(values_that_would_change_arithmetic_are_refused_by_name),
        cmocka_unit_test(huge_numbers_and_nan_are_refused_in_known_fields),
        cmocka_unit_test(broken_files_and_values_are_refused),
        cmocka_unit_test(fields_are_set_by_either_name),
        cmocka_unit_test(unknown_fields_are_refused_with_a_suggestion),
        cmocka_unit_test(a_written_config_reads_back_as_the_same_model),
        cmocka_unit_test(each_family_refuses_for_itself),
        cmocka_unit_test(a_class_that_transformers_has_itself_is_read),
        cmocka_unit_test(the_table_of_every_family_is_sound),
        cmocka_unit_test(the_golden_folders_are_read_and_written),
        cmocka_unit_test(fields_are_written_as_their_classes_read_them),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
