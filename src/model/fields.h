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
#define HEADS NAME("heads"), .help = "Sets the number of attention heads; the default gives each a width of 64, or 128 in llama models from model.hidden 3072 on.", SIZE(heads)
#define KV_HEADS NAME("kv_heads"), .help = "Sets the number of key and value heads; the default is model.heads.", SIZE(kv_heads)
#define HEAD_DIM NAME("head_dim"), .help = "Sets the width of an attention head; the default is model.hidden divided by model.heads.", SIZE_TO(1 << 16, head_dim)
#define FFN NAME("ffn"), .help = "Sets the width of the feed-forward layers; the default is 4 times model.hidden in gpt2 models, 8/3 of it in llama models, rounded up to a multiple of 256 (32 below model.hidden 1024).", SIZE(ffn)
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
// A row adds the flags of dropout: DROPS, or FIELD_NULLABLE as well.
#define DROP_EMBED NAME("drop_embed"), .help = "Sets the dropout probability of embeddings.", PROBABILITY(dropout.embed)
#define DROP_ATTENTION NAME("drop_attention"), .help = "Sets the dropout probability of attention weights.", PROBABILITY(dropout.attention)
#define DROP_RESIDUAL NAME("drop_residual"), .help = "Sets the dropout probability of the values that a layer adds to the residual.", PROBABILITY(dropout.residual)

// Fields whose names are the same in all families of transformers.
#define BOS NAME("bos"), .help = "Sets the id of the token that begins a text.", .file = {"bos_token_id"}, .type = FIELD_TOKEN, .flags = FIELD_MAY_CHANGE, AT(bos)
#define EOS NAME("eos"), .help = "Sets the id of the token that ends a text, or a list of such ids.", .file = {"eos_token_id"}, .type = FIELD_TOKENS, .flags = FIELD_MAY_CHANGE, AT(eos)
#define PAD NAME("pad"), .help = "Sets the id of the token that pads sequences.", .file = {"pad_token_id"}, .type = FIELD_TOKEN, .flags = FIELD_MAY_CHANGE, AT(pad)
#define USE_CACHE .file = {"use_cache"}, .type = FIELD_FIXED, .flags = FIELD_WRITTEN, .json = "true"

// The object of rotary positions and the fields in it.
#define ROPE_SCALED (1u << ROPE_LINEAR | 1u << ROPE_LLAMA3)
#define ROPE_ROWS \
    {.file = {"rope_parameters", "rope_scaling"}, .type = FIELD_ROPE}, \
    {NAME("rope_factor"), .help = "Sets the factor by which rotary positions are scaled.", .file = {"factor"}, REAL(1e-3, 1e6, rope.factor), .value = 1, .flags = FIELD_OF_ROPE | FIELD_OF_KIND, .kinds = ROPE_SCALED}, \
    {NAME("rope_high"), .help = "Sets the high frequency factor of llama3's scaling.", .file = {"high_freq_factor"}, REAL(1e-6, 1e6, rope.high), .value = 4, .flags = FIELD_OF_ROPE | FIELD_OF_KIND, .kinds = 1u << ROPE_LLAMA3}, \
    {NAME("rope_low"), .help = "Sets the low frequency factor of llama3's scaling.", .file = {"low_freq_factor"}, REAL(1e-6, 1e6, rope.low), .value = 1, .flags = FIELD_OF_ROPE | FIELD_OF_KIND, .kinds = 1u << ROPE_LLAMA3}, \
    {NAME("rope_original"), .help = "Sets the sequence length, in tokens, that the model had before llama3's scaling; the default is model.max_seq.", .file = {"original_max_position_embeddings"}, SIZE(rope.original), .flags = FIELD_OF_ROPE | FIELD_NULLABLE, .kinds = 1u << ROPE_LLAMA3}, \
    {NAME("rope_theta"), .help = "Sets the base of the rotary frequencies.", .file = {"rope_theta"}, REAL(1, 1e15, rope.theta), .value = 10000, .flags = FIELD_OF_ROPE}, \
    {NAME("rope"), .help = "Chooses how rotary position embeddings are scaled.", .file = {"rope_type", "type"}, .type = FIELD_WORD, .words = &MODEL_ROPE_WORDS, AT(rope.kind), .flags = FIELD_OF_ROPE}

// Fields with which models of transformers leave the plain decoder. The family refuses all but the plain value. A row
// of the family before these reads the field instead.
#define ONLY(key, plain) {.file = {key}, .type = FIELD_FIXED, .value = plain}
#define NOT_PLAIN \
    ONLY("add_cross_attention", NAN), ONLY("is_encoder_decoder", NAN), ONLY("cross_attention_hidden_size", NAN), ONLY("pruned_heads", NAN), \
    ONLY("quantization_config", NAN), ONLY("compression_config", NAN), ONLY("sliding_window", NAN), ONLY("use_sliding_window", NAN), \
    ONLY("attention_chunk_size", NAN), ONLY("no_rope_layers", NAN), ONLY("use_qk_norm", NAN), ONLY("qk_layernorm", NAN), ONLY("alibi", NAN), \
    ONLY("clip_qkv", NAN), ONLY("attn_logit_softcapping", NAN), ONLY("final_logit_softcapping", NAN), ONLY("num_local_experts", NAN), \
    ONLY("num_experts", NAN), ONLY("n_routed_experts", NAN), ONLY("pretraining_tp", 1), ONLY("partial_rotary_factor", 1), ONLY("rotary_pct", 1), \
    ONLY("embedding_multiplier", 1), ONLY("attention_multiplier", NAN), ONLY("residual_multiplier", 1), ONLY("logits_scaling", 1), \
    ONLY("logit_scale", 1), {.file = {"layer_types"}, .type = FIELD_EACH, .words = &MODEL_FULL_ATTENTION}
// clang-format on

// Rotates the queries and keys of qkv.
graph_value *model_rope_build(graph *g, graph_value *qkv, const model_config *c);

#endif
