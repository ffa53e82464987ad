// config_write.c -- writes a config.json that transformers loads. Called for checkpoints and exports.
// Where versions 4 and 5 of transformers read different fields, it writes both: torch_dtype and dtype,
// rope_theta with rope_scaling and rope_parameters. Does not know where the file goes.
#include "model/config_fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Adds the shortest decimal that reads back as the same double. It has a "." or an "e", so that
// Python reads a float.
static void add_real(text *t, double v)
{
    char s[40];
    int digits = v >= 10 && v < 1e15 ? (int)log10(v) + 1 : 1; // 500000.0 rather than 5e+05
    do snprintf(s, sizeof s, "%.*g", digits, v);
    while (strtod(s, NULL) != v && digits++ < 17);
    text_addf(t, "%s%s", s, strpbrk(s, ".e") ? "" : ".0");
}

static void put_real(text *t, const char *key, double v)
{
    text_addf(t, ",\n  \"%s\": ", key);
    add_real(t, v);
}

static void put_int(text *t, const char *key, int64_t v)
{
    text_addf(t, ",\n  \"%s\": %" PRId64, key, v);
}

static void put_bool(text *t, const char *key, bool v)
{
    text_addf(t, ",\n  \"%s\": %s", key, v ? "true" : "false");
}

static void put_word(text *t, const char *key, const char *v)
{
    text_addf(t, ",\n  \"%s\": \"%s\"", key, v);
}

static void put_token(text *t, const char *key, int64_t v)
{
    if (v < 0)
        text_addf(t, ",\n  \"%s\": null", key);
    else
        put_int(t, key, v);
}

static void put_tokens(text *t, const model_config *c)
{
    put_token(t, "bos_token_id", c->bos);
    if (c->more_eos_count == 0) {
        put_token(t, "eos_token_id", c->eos);
    } else {
        text_addf(t, ",\n  \"eos_token_id\": [%" PRId64, c->eos);
        for (int i = 0; i < c->more_eos_count; i++) text_addf(t, ", %" PRId64, c->more_eos[i]);
        text_add(t, "]");
    }
    put_token(t, "pad_token_id", c->pad);
}

static void write_gpt2(text *t, const model_config *c)
{
    put_word(t, "activation_function", model_activation_name(c->act));
    put_real(t, "attn_pdrop", c->dropout.attention);
    put_real(t, "embd_pdrop", c->dropout.embed);
    put_real(t, "resid_pdrop", c->dropout.residual);
    put_real(t, "initializer_range", c->init_std);
    put_real(t, "layer_norm_epsilon", c->norm_eps);
    put_int(t, "n_ctx", c->max_seq);
    put_int(t, "n_embd", c->hidden);
    put_int(t, "n_head", c->heads);
    put_int(t, "n_inner", c->ffn);
    put_int(t, "n_layer", c->layers);
    put_int(t, "n_positions", c->max_seq);
    put_bool(t, "scale_attn_by_inverse_layer_idx", c->scale_by_layer);
    put_bool(t, "scale_attn_weights", c->scale_attention);
}

// Adds {"rope_type": ..., ...}. rope_parameters of version 5 have theta inside.
static void put_rope(text *t, const char *key, const model_config *c, bool with_theta)
{
    text_addf(t, ",\n  \"%s\": {", key);
    if (c->rope.kind != ROPE_DEFAULT) {
        text_add(t, "\"factor\": ");
        add_real(t, c->rope.factor);
        text_add(t, ", ");
    }
    if (c->rope.kind == ROPE_LLAMA3) {
        text_add(t, "\"high_freq_factor\": ");
        add_real(t, c->rope.high);
        text_add(t, ", \"low_freq_factor\": ");
        add_real(t, c->rope.low);
        text_addf(t, ", \"original_max_position_embeddings\": %" PRId64 ", ", c->rope.original);
    }
    if (with_theta) {
        text_add(t, "\"rope_theta\": ");
        add_real(t, c->rope.theta);
        text_add(t, ", ");
    }
    text_addf(t, "\"rope_type\": \"%s\"}", MODEL_ROPE_WORDS[c->rope.kind]);
}

static void write_llama(text *t, const model_config *c)
{
    put_bool(t, "attention_bias", c->attention_bias);
    put_real(t, "attention_dropout", c->dropout.attention);
    put_int(t, "head_dim", c->head_dim);
    put_word(t, "hidden_act", model_activation_name(c->act));
    put_int(t, "hidden_size", c->hidden);
    put_real(t, "initializer_range", c->init_std);
    put_int(t, "intermediate_size", c->ffn);
    put_int(t, "max_position_embeddings", c->max_seq);
    put_bool(t, "mlp_bias", c->mlp_bias);
    put_int(t, "num_attention_heads", c->heads);
    put_int(t, "num_hidden_layers", c->layers);
    put_int(t, "num_key_value_heads", c->kv_heads);
    put_int(t, "pretraining_tp", 1);
    put_real(t, "rms_norm_eps", c->norm_eps);
    put_rope(t, "rope_parameters", c, true);
    // Version 5 prefers rope_scaling where it is not null, and then reads rope_theta from beside it.
    if (c->rope.kind == ROPE_DEFAULT)
        text_add(t, ",\n  \"rope_scaling\": null");
    else
        put_rope(t, "rope_scaling", c, false);
    put_real(t, "rope_theta", c->rope.theta);
}

static void write_mlp(text *t, const model_config *c)
{
    put_word(t, "activation", model_activation_name(c->act));
    put_int(t, "classes", c->vocab);
    put_int(t, "features", c->mlp.features);
    put_int(t, "hidden", c->hidden);
    put_int(t, "layers", c->layers);
    put_word(t, "loss", MODEL_LOSS_WORDS[c->mlp.loss]);
}

status model_config_write(const model_config *c, const char *dtype_word, char **out, err *e)
{
    static const char *const names[FAMILIES][2] = {
        {"GPT2LMHeadModel", "gpt2"}, {"LlamaForCausalLM", "llama"}, {"TriremeMLP", "trireme_mlp"}};
    text t = {0};
    text_addf(&t, "{\n  \"architectures\": [\"%s\"]", names[c->family][0]);
    put_word(&t, "model_type", names[c->family][1]);
    put_word(&t, "dtype", dtype_word);
    put_word(&t, "torch_dtype", dtype_word);
    if (c->family == FAMILY_MLP) {
        write_mlp(&t, c);
    } else {
        put_tokens(&t, c);
        put_bool(&t, "tie_word_embeddings", c->tie_embeddings);
        put_bool(&t, "use_cache", true);
        put_int(&t, "vocab_size", c->vocab);
        if (c->family == FAMILY_GPT2)
            write_gpt2(&t, c);
        else
            write_llama(&t, c);
    }
    text_add(&t, "\n}\n");
    return text_take(&t, out, e);
}
