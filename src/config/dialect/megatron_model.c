// megatron_model.c -- the family and the fields of the model that Megatron-LM's arguments describe: learned positions
// and layer norms are GPT-2's, rotary positions with RMS norms and gates are Llama's, or Qwen's with biases or norms of
// queries and keys. megatron_finish.c calls it.
#include "config/dialect/megatron.h"

#include <string.h>

typedef struct megatron_model {
    int64_t layers, hidden, heads;
    bool rope, rms, gated, biased, qkv_biased, qk_norm;
} megatron_model;

enum { HIDDEN_MOST = 1 << 28 }; // four times as much, the size of the MLP, is an int

static const char POSITIONS[] = "position_embedding_type";

static status set_flag(const dialect_reader *r, const char *key, bool value, const char *theirs,
                       err *e)
{
    return dialect_set(r, key, value ? "true" : "false", theirs, NULL, e);
}

static megatron_model describe(const dialect_reader *r)
{
    megatron_model m = {
        .rope = dialect_is_on(r, "use_rotary_position_embeddings") ||
                strcmp(dialect_text(r, POSITIONS), "rope") == 0,
        .rms = strcmp(dialect_text(r, "normalization"), "RMSNorm") == 0,
        .gated = dialect_is_on(r, "swiglu"),
        .biased = !dialect_is_on(r, "disable_bias_linear"),
        .qkv_biased = dialect_is_on(r, "add_qkv_bias"),
        .qk_norm = dialect_is_on(r, "qk_layernorm"),
    };
    dialect_count(r, "num_layers", &m.layers);
    dialect_count(r, "hidden_size", &m.hidden);
    dialect_count(r, "num_attention_heads", &m.heads);
    return m;
}

static const char *family_of(const megatron_model *m)
{
    if (!m->rope && !m->rms && !m->gated && m->biased && !m->qk_norm) return "gpt2";
    if (m->rope && !m->rms && !m->gated && !m->qk_norm) return "starcoder2";
    if (!m->rope || !m->rms || !m->gated) return NULL;
    if (m->qk_norm) return m->biased || m->qkv_biased ? NULL : "qwen3";
    if (m->qkv_biased && !m->biased) return "qwen2";
    return "llama";
}

// The vocabulary, padded as Megatron-LM pads it.
static status set_vocab(const dialect_reader *r, err *e)
{
    int64_t vocab = 0, each = 128, tp = 1, extra = 0;
    const char *theirs = "vocab_size", *tokenizer = dialect_text(r, "tokenizer_type");
    if (dialect_count(r, "padded_vocab_size", &vocab))
        return dialect_set_count(r, "model.vocab", vocab, "padded_vocab_size", NULL, e);
    if (!dialect_count(r, "vocab_size", &vocab) || vocab < 1) {
        // Scripts of older versions, which had this tokenizer by default, name its files alone.
        const bool gpt2 = tokenizer ? strcmp(tokenizer, "GPT2BPETokenizer") == 0
                                    : dialect_value(r, "merge_file") != NULL;
        theirs = tokenizer ? "tokenizer_type" : "merge_file";
        vocab = gpt2 ? 50257 : 0;
    }
    if (!vocab)
        return dialect_remark_on(
            r, "tokenizer_type", true, e,
            "the tokenizer says the size of the vocabulary; give model.vocab, padded to a multiple "
            "of --make-vocab-size-divisible-by, or else it is the family's default");
    dialect_count(r, "vocab_extra_ids", &extra);
    dialect_count(r, "make_vocab_size_divisible_by", &each);
    dialect_count(r, "tensor_model_parallel_size", &tp);
    if (tp < 1 || each < 1 || each > INT32_MAX || tp > INT32_MAX || vocab > INT32_MAX ||
        extra > INT32_MAX)
        return dialect_refuse(r, theirs, e, "found a vocabulary that is too large");
    vocab += extra;
    each *= tp;
    if (!dialect_is_on(r, "no_pad_vocab_size")) vocab = (vocab + each - 1) / each * each;
    return dialect_set_count(r, "model.vocab", vocab, theirs,
                             "padded to a multiple of make-vocab-size-divisible-by x "
                             "tensor-model-parallel-size",
                             e);
}

static status set_sizes(const dialect_reader *r, const megatron_model *m, const char *family,
                        err *e)
{
    status result = OK;
    int64_t n = 0, groups = 1;
    const bool gpt2 = strcmp(family, "gpt2") == 0;
    if (m->hidden > HIDDEN_MOST)
        return dialect_refuse(r, "hidden_size", e, "found %lld; valid: at most %d",
                              (long long)m->hidden, HIDDEN_MOST);
    if (dialect_count(r, "ffn_hidden_size", &n))
        TRY(dialect_set_count(r, "model.ffn", n, "ffn_hidden_size", NULL, e));
    else if (m->hidden > 0)
        TRY(dialect_set_count(r, "model.ffn",
                              m->gated ? m->hidden * 8 / 3 / 64 * 64 : 4 * m->hidden,
                              "ffn_hidden_size", NULL, e));
    if (dialect_count(r, "kv_channels", &n)) {
        if (gpt2 && m->heads > 0 && n != m->hidden / m->heads)
            return dialect_refuse(r, "kv_channels", e,
                                  "found %lld; valid in GPT-2's family: hidden-size / "
                                  "num-attention-heads",
                                  (long long)n);
        if (!gpt2) TRY(dialect_set_count(r, "model.head_dim", n, "kv_channels", NULL, e));
    } else if (strcmp(family, "qwen3") == 0 && m->heads > 0) {
        TRY(dialect_set_count(r, "model.head_dim", m->hidden / m->heads, "kv_channels", NULL, e));
    }
    dialect_count(r, "num_query_groups", &groups);
    if (dialect_is_on(r, "group_query_attention")) {
        if (gpt2)
            return dialect_refuse(r, "group_query_attention", e,
                                  "found it with learned positions; no family of models has both");
        TRY(dialect_set_count(r, "model.kv_heads", groups, "num_query_groups", NULL, e));
    } else if (!gpt2 && m->heads > 0) {
        TRY(dialect_set_count(r, "model.kv_heads", m->heads, "num_attention_heads", NULL, e));
    }
done:
    return result;
}

static status set_rope(const dialect_reader *r, err *e)
{
    status result = OK;
    double base = 10000, factor = 8;
    dialect_number(r, "rotary_base", &base);
    TRY(dialect_set_number(r, "model.rope_theta", base, "rotary_base", NULL, e));
    if (!dialect_is_on(r, "use_rope_scaling")) return OK;
    dialect_number(r, "rope_scaling_factor", &factor);
    TRY(dialect_set(r, "model.rope", "llama3", "use_rope_scaling", NULL, e));
    TRY(dialect_set_number(r, "model.rope_factor", factor, "rope_scaling_factor", NULL, e));
    TRY(dialect_set_number(r, "model.rope_low", 1, "use_rope_scaling", NULL, e));
    TRY(dialect_set_number(r, "model.rope_high", 4, "use_rope_scaling", NULL, e));
    TRY(dialect_set_count(r, "model.rope_original", 8192, "use_rope_scaling", NULL, e));
done:
    return result;
}

static status set_dropout(const dialect_reader *r, const char *family, err *e)
{
    status result = OK;
    double attention = 0.1, hidden = 0.1;
    const bool has_hidden = strcmp(family, "gpt2") == 0 || strcmp(family, "starcoder2") == 0;
    dialect_number(r, "attention_dropout", &attention);
    dialect_number(r, "hidden_dropout", &hidden);
    TRY(dialect_set_number(r, "model.drop_attention", attention, "attention_dropout", NULL, e));
    if (!has_hidden && hidden != 0)
        return dialect_refuse(r, "hidden_dropout", e,
                              "found %g, Megatron-LM's default is 0.1; valid in %s models: 0",
                              hidden, family);
    if (!has_hidden) return OK;
    TRY(dialect_set_number(r, "model.drop_embed", hidden, "hidden_dropout", NULL, e));
    TRY(dialect_set_number(r, "model.drop_residual", hidden, "hidden_dropout", NULL, e));
done:
    return result;
}

// The activation function, and biases where the family has a choice.
static status set_layers(const dialect_reader *r, const megatron_model *m, const char *family,
                         err *e)
{
    status result = OK;
    const bool squared = dialect_is_on(r, "squared_relu");
    const bool exact = dialect_is_on(r, "no_bias_gelu_fusion") && !dialect_is_on(r, "openai_gelu");
    if (squared && m->gated)
        return dialect_refuse(r, "squared_relu", e, "found it beside --swiglu; valid: one of them");
    if (squared)
        TRY(dialect_set(r, "model.activation", "relu2", "squared_relu", NULL, e));
    else if (!m->gated)
        TRY(dialect_set(r, "model.activation", exact || !m->biased ? "gelu" : "gelu_new",
                        "no_bias_gelu_fusion", "the fused GELU is the one of tanh", e));
    if (strcmp(family, "llama") == 0 && m->biased) {
        TRY(set_flag(r, "model.attention_bias", true, "disable_bias_linear", e));
        TRY(set_flag(r, "model.mlp_bias", true, "disable_bias_linear", e));
    }
    if (strcmp(family, "starcoder2") == 0) {
        if (m->qkv_biased && !m->biased)
            return dialect_refuse(r, "add_qkv_bias", e,
                                  "found it with --disable-bias-linear and "
                                  "layer norms; no family of models has it");
        TRY(set_flag(r, "model.bias", m->biased, "disable_bias_linear", e));
    }
    if (strcmp(family, "gpt2") != 0)
        TRY(dialect_remark_on(r, "init_method_std", true, e,
                              "projections to the residual start with it, too; Megatron-LM divides "
                              "theirs by the square root of twice the layers"));
done:
    return result;
}

status megatron_finish_model(const dialect_reader *r, err *e)
{
    status result = OK;
    const megatron_model m = describe(r);
    const char *family = family_of(&m);
    if (dialect_value(r, "num_experts"))
        return dialect_refuse(r, "num_experts", e,
                              "mixtures of experts are planned, not written yet");
    if (!dialect_value(r, "num_layers") && !dialect_value(r, "hidden_size")) return OK;
    if (!family)
        return dialect_refuse(
            r, m.rope ? "normalization" : POSITIONS, e,
            "found %s positions, %s, %s, biases %s, norms of queries and keys %s; valid: learned "
            "positions and layer norms with biases, rotary positions with layer norms, or rotary "
            "positions with --normalization RMSNorm and --swiglu",
            m.rope ? "rotary" : "learned", m.rms ? "RMS norms" : "layer norms",
            m.gated ? "gates" : "no gates", m.biased ? "on" : "off", m.qk_norm ? "on" : "off");
    TRY(dialect_set(r, "model.family", family, m.rope ? POSITIONS : "num_layers", NULL, e));
    if (!dialect_value(r, "norm_epsilon") && !dialect_value(r, "layernorm_epsilon"))
        TRY(dialect_set(r, "model.norm_eps", "1e-5", "norm_epsilon", NULL, e));
    if (!dialect_value(r, "init_method_std"))
        TRY(dialect_set(r, "model.init_std", "0.02", "init_method_std", NULL, e));
    TRY(set_sizes(r, &m, family, e));
    TRY(set_layers(r, &m, family, e));
    TRY(set_vocab(r, e));
    if (m.rope) TRY(set_rope(r, e));
    TRY(set_dropout(r, family, e));
    TRY(set_flag(r, "model.tie_embeddings",
                 !dialect_is_on(r, "untie_embeddings_and_output_weights"),
                 "untie_embeddings_and_output_weights", e));
done:
    return result;
}
