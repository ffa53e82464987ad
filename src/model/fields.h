// fields.h -- the rows that families share: Trireme's names with help, type, range and member. Families
// include it; a row of theirs adds HuggingFace's names and defaults: {HIDDEN, .file = {"n_embd"}, .value = 768}.
// A row that no other family has is written out in the family, with a member of its own: OWN(number).
#ifndef TRIREME_MODEL_FIELDS_H
#define TRIREME_MODEL_FIELDS_H

#include "model/model.h"
#include "model/schema.h"

#include <math.h>
#include <stddef.h>

// clang-format off
#define AT(of) .member = offsetof(model_config, of)
#define OWN(number) AT(own[number])
#define NAME(of) .name = of, .key = "model." of

#define SIZE_TO(most, of) .type = FIELD_INTEGER, .low = 1, .high = most, AT(of)
#define SIZE(of) SIZE_TO(INT32_MAX, of)
#define REAL(least, most, of) .type = FIELD_REAL, .low = least, .high = most, AT(of)
#define PROBABILITY(of) REAL(0, 0.999999, of)

#define LAYERS NAME("layers"), .help = "Sets the number of layers; the default is that of the family's published model of this width, fewer below their smallest.", SIZE_TO(MODEL_LAYERS, layers)
#define HIDDEN NAME("hidden"), .help = "Sets the width of the residual (hidden size).", SIZE(hidden)
#define HEADS NAME("heads"), .help = "Sets the number of attention heads; the default gives each a width of 64, or 128 from model.hidden 3072 on, except in gpt2 models.", SIZE(heads)
#define KV_HEADS NAME("kv_heads"), .help = "Sets the number of key and value heads; the default is model.heads.", SIZE(kv_heads)
#define HEAD_DIM NAME("head_dim"), .help = "Sets the width of an attention head; the default is model.hidden divided by model.heads.", SIZE_TO(1 << 16, head_dim)
#define FFN NAME("ffn"), .help = "Sets the width of the feed-forward layers; the default is 8/3 of model.hidden in models with a gate, rounded up to a multiple of 256 (32 below model.hidden 1024), and 4 times model.hidden in others.", SIZE(ffn)
#define VOCAB NAME("vocab"), .help = "Sets the number of tokens in the vocabulary.", SIZE(vocab)
#define MAX_SEQ NAME("max_seq"), .help = "Sets the longest sequence that the model takes, in tokens.", SIZE(max_seq)
#define ACTIVATION NAME("activation"), .help = "Chooses the activation function of the feed-forward layers.", .type = FIELD_WORD, .words = &MODEL_ACTIVATION_WORDS, AT(act)
#define NORM_EPS NAME("norm_eps"), .help = "Sets the number that normalization layers add to the variance.", REAL(0, 1, norm_eps)
#define INIT_STD NAME("init_std"), .help = "Sets the standard deviation of random initial weights.", REAL(0, 1, init_std), .flags = FIELD_MAY_CHANGE
#define TIE_EMBEDDINGS NAME("tie_embeddings"), .help = "Uses the token embedding's weights in the output layer, too (tied weights).", .type = FIELD_BOOL, AT(tie_embeddings)
#define ATTENTION_BIAS NAME("attention_bias"), .help = "Adds a bias to the projections of attention.", .type = FIELD_BOOL, AT(attention_bias)
#define MLP_BIAS NAME("mlp_bias"), .help = "Adds a bias to the projections of the feed-forward layers.", .type = FIELD_BOOL, AT(mlp_bias)
#define SCALE_ATTENTION NAME("scale_attention"), .help = "Divides attention scores by the square root of the head's width.", .type = FIELD_BOOL, AT(scale_attention)
#define SCALE_BY_LAYER NAME("scale_by_layer"), .help = "Divides attention scores by the number of the layer, too.", .type = FIELD_BOOL, AT(scale_by_layer)
#define OUTPUT_BIAS NAME("output_bias"), .help = "Adds a bias to the output projection of attention.", .type = FIELD_BOOL, AT(output_bias)
#define ALL_BIASES NAME("bias"), .help = "Adds a bias to the projections of attention and of the feed-forward layers.", .type = FIELD_BOOL, AT(attention_bias)
#define QK_NORM NAME("qk_norm"), .help = "Normalizes queries and keys, each head with gains of its own.", .type = FIELD_BOOL, AT(qk_norm)
#define WINDOW NAME("window"), .help = "Sets how many tokens a layer with a window sees, the token itself included.", .file = {"sliding_window"}, SIZE(window), .flags = FIELD_NULLABLE | FIELD_ZERO_IS_NULL
#define USE_WINDOW NAME("use_window"), .help = "Gives layers a window of model.window tokens.", .file = {"use_sliding_window"}, .type = FIELD_BOOL, AT(use_window)
#define WINDOW_PATTERN NAME("window_pattern"), .help = "Says that every so many layers one sees all tokens, where model.layer_types is not given.", .file = {"sliding_window_pattern"}, SIZE(window_pattern), .flags = FIELD_NULLABLE
#define WINDOW_FROM NAME("window_from"), .help = "Sets the first layer, from 0, that has a window, where model.layer_types is not given.", .file = {"max_window_layers"}, .type = FIELD_INTEGER, .low = 0, .high = MODEL_LAYERS, AT(window_from), .flags = FIELD_NULLABLE
#define LAYER_TYPES NAME("layer_types"), .help = "Lists which layers see all tokens (full_attention) and which have a window (sliding_attention).", .file = {"layer_types"}, .type = FIELD_LAYERS, .words = &MODEL_WINDOW_WORDS, AT(sliding)
#define ROTATING_LAYERS NAME("rope_layers"), .help = "Lists which layers rotate queries and keys (1) and which do not (0).", .file = {"no_rope_layers"}, .type = FIELD_LAYERS, .words = &MODEL_ROTATION_WORDS, AT(rotating)
#define ROTARY_PATTERN NAME("rope_pattern"), .help = "Says that every so many layers one does not rotate, where model.rope_layers is not given.", .file = {"no_rope_layer_interval"}, SIZE(rotary_pattern), .flags = FIELD_NULLABLE
#define CONV_LAYERS NAME("conv_layers"), .help = "Lists which layers have attention (full_attention) and which a short convolution (conv).", .file = {"layer_types"}, .type = FIELD_LAYERS, .words = &MODEL_CONV_WORDS, AT(attending)
#define DELTA_LAYERS NAME("delta_layers"), .help = "Lists which layers have attention (full_attention) and which a gated delta rule (linear_attention).", .file = {"layer_types"}, .type = FIELD_LAYERS, .words = &MODEL_LINEAR_WORDS, AT(attending)
#define CONV_WIDTH NAME("conv_width"), .help = "Sets how many tokens a convolution sees, the token itself included.", SIZE_TO(KERNEL_CONV_WIDTH, conv_width)
#define DELTA_KEY_HEADS NAME("delta_key_heads"), .help = "Sets the number of heads of queries and keys of a gated delta rule.", .file = {"linear_num_key_heads"}, SIZE(delta.key_heads)
#define DELTA_HEADS NAME("delta_heads"), .help = "Sets the number of heads of values of a gated delta rule.", .file = {"linear_num_value_heads"}, SIZE(delta.heads)
#define DELTA_KEY_DIM NAME("delta_key_dim"), .help = "Sets the width of a head of queries or keys of a gated delta rule.", .file = {"linear_key_head_dim"}, SIZE_TO(KERNEL_DELTA_DIM, delta.key_dim)
#define DELTA_HEAD_DIM NAME("delta_head_dim"), .help = "Sets the width of a head of values of a gated delta rule.", .file = {"linear_value_head_dim"}, SIZE_TO(KERNEL_DELTA_DIM, delta.head_dim)
#define ATTENTION_PATTERN NAME("attention_pattern"), .help = "Says that every so many layers one has attention, where model.delta_layers is not given.", .file = {"full_attention_interval"}, SIZE(attention_pattern), .flags = FIELD_NULLABLE
#define CONV_BIAS NAME("conv_bias"), .help = "Adds a bias to short convolutions and to their projections.", .type = FIELD_BOOL, AT(conv_bias)
#define ATTENTION_SOFTCAP NAME("attention_softcap"), .help = "Bounds attention scores s by this number c, as c * tanh(s / c).", .file = {"attn_logit_softcapping"}, REAL(0, 1e9, attention_softcap), .flags = FIELD_NULLABLE | FIELD_ZERO_IS_NULL
#define LOGIT_SOFTCAP NAME("logit_softcap"), .help = "Bounds logits x by this number c, as c * tanh(x / c).", .file = {"final_logit_softcapping"}, REAL(0, 1e9, logit_softcap), .flags = FIELD_NULLABLE | FIELD_ZERO_IS_NULL
#define QUERY_SCALAR NAME("query_scalar"), .help = "Divides attention scores by the square root of this number instead of that of the head's width.", .file = {"query_pre_attn_scalar"}, SIZE(query_scalar)
#define FACTOR(of) REAL(1e-9, 1e9, scales.of)
#define EMBEDDING_SCALE NAME("embedding_scale"), .help = "Multiplies embeddings by this number.", .file = {"embedding_multiplier"}, FACTOR(embedding)
#define ATTENTION_SCALE NAME("attention_scale"), .help = "Multiplies attention scores by this number, instead of dividing them by the square root of the head's width.", .file = {"attention_multiplier"}, FACTOR(attention)
#define RESIDUAL_SCALE NAME("residual_scale"), .help = "Multiplies what attention and the feed-forward layers add to the residual by this number.", .file = {"residual_multiplier"}, FACTOR(residual)
#define LOGIT_DIVISOR NAME("logit_divisor"), .help = "Divides the logits by this number.", .file = {"logits_scaling"}, FACTOR(logits)
#define LOGIT_SCALE NAME("logit_scale"), .help = "Multiplies the logits by this number.", .file = {"logit_scale"}, FACTOR(logits)
// A row adds the flags of dropout: DROPS, or FIELD_NULLABLE as well.
#define DROP_EMBED NAME("drop_embed"), .help = "Sets the dropout probability of embeddings.", PROBABILITY(dropout.embed)
#define DROP_ATTENTION NAME("drop_attention"), .help = "Sets the dropout probability of attention weights.", PROBABILITY(dropout.attention)
#define DROP_RESIDUAL NAME("drop_residual"), .help = "Sets the dropout probability of the values that a layer adds to the residual.", PROBABILITY(dropout.residual)

// Rows whose names in config.json most decoders share, with the defaults of the family.
#define PLAIN_SIZES(vocab_, hidden_, ffn_, layers_, heads_, kv_heads_, positions_) \
    {USE_CACHE}, {VOCAB, .file = {"vocab_size"}, .value = vocab_}, {HIDDEN, .file = {"hidden_size"}, .value = hidden_}, \
    {FFN, .file = {"intermediate_size"}, .value = ffn_, .flags = FIELD_OF_WIDTH}, \
    {LAYERS, .file = {"num_hidden_layers"}, .value = layers_, .flags = FIELD_OF_WIDTH}, \
    {HEADS, .file = {"num_attention_heads"}, .value = heads_, .flags = FIELD_OF_WIDTH}, \
    {KV_HEADS, .file = {"num_key_value_heads"}, .value = kv_heads_, .flags = FIELD_NULLABLE | FIELD_OF_WIDTH}, \
    {MAX_SEQ, .file = {"max_position_embeddings"}, .value = positions_}
#define PLAIN_ROWS(...) PLAIN_SIZES(__VA_ARGS__), PLAIN_INIT(0.02), PLAIN_DROPOUT(0)
#define PLAIN_INIT(std) {INIT_STD, .file = {"initializer_range"}, .value = std}
#define PLAIN_DROPOUT(p) {DROP_ATTENTION, .file = {"attention_dropout"}, .value = p, .flags = FIELD_MAY_CHANGE | FIELD_NULLABLE}
#define PLAIN_HEAD_DIM(columns) {HEAD_DIM, .file = {"head_dim"}, .value = columns, .flags = FIELD_NULLABLE | FIELD_OF_WIDTH}
#define PLAIN_ACTIVATION {ACTIVATION, .file = {"hidden_act"}, .value = ACT_SILU}
#define PLAIN_TIE(tied) {TIE_EMBEDDINGS, .file = {"tie_word_embeddings"}, .value = tied}
#define PLAIN_EPS(eps) {NORM_EPS, .file = {"rms_norm_eps"}, .value = eps}
#define TOKENS(bos_, eos_, pad_) {BOS, .value = bos_}, {EOS, .value = eos_}, {PAD, .value = pad_}

// Fields whose names are the same in all families of transformers.
#define BOS NAME("bos"), .help = "Sets the id of the token that begins a text.", .file = {"bos_token_id"}, .type = FIELD_TOKEN, .flags = FIELD_MAY_CHANGE, AT(bos)
#define EOS NAME("eos"), .help = "Sets the id of the token that ends a text, or a list of such ids.", .file = {"eos_token_id"}, .type = FIELD_TOKENS, .flags = FIELD_MAY_CHANGE, AT(eos)
#define PAD NAME("pad"), .help = "Sets the id of the token that pads sequences.", .file = {"pad_token_id"}, .type = FIELD_TOKEN, .flags = FIELD_MAY_CHANGE, AT(pad)
// What is always so in a family, and no field of config.json.
#define ALWAYS(of) {.type = FIELD_BOOL, AT(of), .value = true}

#define USE_CACHE .file = {"use_cache"}, .type = FIELD_FIXED, .flags = FIELD_WRITTEN, .json = "true"

// The object of rotary positions and the fields in it.
#define ROPE_SCALED (1u << ROPE_LINEAR | 1u << ROPE_DYNAMIC | 1u << ROPE_YARN | 1u << ROPE_LONGROPE | 1u << ROPE_LLAMA3 | 1u << ROPE_PROPORTIONAL)
#define OF_ROPE(word) .file = {word}, .flags = FIELD_OF_ROPE
#define OF_KIND(kind) .kinds = 1u << ROPE_##kind
#define ROPE_ROWS \
    {.file = {"rope_parameters", "rope_scaling"}, .type = FIELD_ROPE}, \
    {NAME("rope_factor"), .help = "Sets the factor by which rotary positions are scaled.", .file = {"factor"}, REAL(1e-3, 1e6, rope.factor), .flags = FIELD_OF_ROPE | FIELD_NULLABLE | FIELD_ZERO_IS_NULL, .kinds = ROPE_SCALED, .needed = 1u << ROPE_LINEAR | 1u << ROPE_DYNAMIC | 1u << ROPE_LLAMA3}, \
    {NAME("rope_high"), .help = "Sets the high frequency factor of llama3's scaling.", .file = {"high_freq_factor"}, REAL(1e-6, 1e6, rope.high), .value = 4, .flags = FIELD_OF_ROPE, OF_KIND(LLAMA3), .needed = 1u << ROPE_LLAMA3}, \
    {NAME("rope_low"), .help = "Sets the low frequency factor of llama3's scaling.", .file = {"low_freq_factor"}, REAL(1e-6, 1e6, rope.low), .value = 1, .flags = FIELD_OF_ROPE, OF_KIND(LLAMA3), .needed = 1u << ROPE_LLAMA3}, \
    {NAME("rope_original"), .help = "Sets the sequence length, in tokens, that the model had before its positions were scaled (llama3, yarn, longrope); the default is model.max_seq.", OF_ROPE("original_max_position_embeddings") | FIELD_NULLABLE, SIZE(rope.original), .kinds = 1u << ROPE_LLAMA3 | 1u << ROPE_YARN | 1u << ROPE_LONGROPE}, \
    {NAME("rope_fast"), .help = "Sets how many turns within model.rope_original a pair makes whose frequency yarn keeps.", OF_ROPE("beta_fast") | FIELD_NULLABLE, REAL(1e-6, 1e6, rope.fast), .value = 32, OF_KIND(YARN)}, \
    {NAME("rope_slow"), .help = "Sets how many turns within model.rope_original a pair makes whose frequency yarn divides by model.rope_factor.", OF_ROPE("beta_slow") | FIELD_NULLABLE, REAL(1e-6, 1e6, rope.slow), .value = 1, OF_KIND(YARN)}, \
    {NAME("rope_truncate"), .help = "Rounds the bounds of yarn to whole pairs.", OF_ROPE("truncate"), .type = FIELD_BOOL, AT(rope.truncate), .value = true, OF_KIND(YARN)}, \
    {NAME("rope_mscale"), .help = "Sets the numerator's coefficient in yarn's factor of queries and keys.", OF_ROPE("mscale") | FIELD_NULLABLE | FIELD_ZERO_IS_NULL, REAL(0, 1e6, rope.mscale), OF_KIND(YARN)}, \
    {NAME("rope_mscale_all"), .help = "Sets the denominator's coefficient in yarn's factor of queries and keys.", OF_ROPE("mscale_all_dim") | FIELD_NULLABLE | FIELD_ZERO_IS_NULL, REAL(0, 1e6, rope.mscale_all), OF_KIND(YARN)}, \
    {NAME("rope_attention"), .help = "Sets the factor of rotated queries and keys; the default follows from model.rope_factor (yarn, longrope).", OF_ROPE("attention_factor") | FIELD_NULLABLE | FIELD_ZERO_IS_NULL, REAL(0, 1e6, rope.attention), .kinds = 1u << ROPE_YARN | 1u << ROPE_LONGROPE}, \
    {NAME("rope_short"), .help = "Lists longrope's divisors of the frequencies for sequences of up to model.rope_original tokens.", OF_ROPE("short_factor"), .type = FIELD_NUMBERS, AT(rope.shorter), OF_KIND(LONGROPE), .needed = 1u << ROPE_LONGROPE}, \
    {NAME("rope_long"), .help = "Lists longrope's divisors of the frequencies for longer sequences.", OF_ROPE("long_factor"), .type = FIELD_NUMBERS, AT(rope.longer), OF_KIND(LONGROPE), .needed = 1u << ROPE_LONGROPE}, \
    {NAME("rope"), .help = "Chooses how rotary position embeddings are scaled.", .file = {"rope_type", "type"}, .type = FIELD_WORD, .words = &MODEL_ROPE_WORDS, AT(rope.kind), .flags = FIELD_OF_ROPE}
// The family's default of a member whose row others share; it stands behind that row.
#define OTHERWISE(field_type, of, number) {.type = FIELD_##field_type, AT(of), .value = number}
// A row adds its default.
#define ROPE_THETA NAME("rope_theta"), .help = "Sets the base of the rotary frequencies.", OF_ROPE("rope_theta") | FIELD_BESIDE, REAL(1, 1e15, rope.theta)
#define ROPE_PARTIAL NAME("rope_partial"), .help = "Sets the share of a head's columns that is rotated.", OF_ROPE("partial_rotary_factor") | FIELD_BESIDE, REAL(1e-3, 1, rope.partial)
#define ROPE_LOCAL_THETA NAME("rope_local_theta"), .help = "Sets the base of the rotary frequencies of layers with a window.", OF_ROPE("rope_local_base_freq") | FIELD_BESIDE, REAL(1, 1e15, rope.local_theta)

// Fields with which models of transformers leave the plain decoder. The family refuses all but the plain value. A row
// of the family before these reads the field instead.
#define ONLY(key, plain) {.file = {key}, .type = FIELD_FIXED, .value = plain}
// A field that does not change what transformers computes.
#define IGNORED(key) {.file = {key}, .type = FIELD_IGNORED}
#define NOT_PLAIN \
    ONLY("add_cross_attention", NAN), ONLY("is_encoder_decoder", NAN), ONLY("cross_attention_hidden_size", NAN), ONLY("pruned_heads", NAN), \
    ONLY("compression_config", NAN), ONLY("sliding_window", NAN), ONLY("use_sliding_window", NAN), \
    ONLY("attention_chunk_size", NAN), ONLY("no_rope_layers", NAN), ONLY("use_qk_norm", NAN), ONLY("qk_layernorm", NAN), ONLY("alibi", NAN), \
    ONLY("clip_qkv", NAN), ONLY("attn_logit_softcapping", NAN), ONLY("final_logit_softcapping", NAN), ONLY("num_local_experts", NAN), \
    ONLY("num_experts", NAN), ONLY("n_routed_experts", NAN), ONLY("pretraining_tp", 1), ONLY("partial_rotary_factor", 1), ONLY("rotary_pct", 1), \
    ONLY("embedding_multiplier", 1), ONLY("attention_multiplier", NAN), ONLY("residual_multiplier", 1), ONLY("logits_scaling", 1), \
    ONLY("logit_scale", 1), {.file = {"layer_types"}, .type = FIELD_EACH, .words = &MODEL_FULL_ATTENTION}
// clang-format on

// Rotates the queries and keys of qkv, in a layer that rotates.
graph_value *model_rope_build(graph *g, graph_value *qkv, const model_config *c, int layer);

#endif
