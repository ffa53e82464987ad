// llama.c -- the Llama family (Touvron et al. 2023): RMS norm, rotary positions, shared key-value heads, gated
// MLP. The projections of queries, keys and values are one parameter, so that they are one matrix product; files hold
// three tensors. Gate and up likewise.
#include "model/decoder.h"
#include "model/fields.h"

// clang-format off
static const model_field FIELDS[] = {
    {BOS, .value = 1},
    {EOS, .value = 2},
    {PAD, .value = -1},
    {TIE_EMBEDDINGS, .file = {"tie_word_embeddings"}, .value = false},
    {USE_CACHE},
    {VOCAB, .file = {"vocab_size"}, .value = 32000},
    {ATTENTION_BIAS, .file = {"attention_bias"}, .value = false},
    {DROP_ATTENTION, .file = {"attention_dropout"}, .flags = FIELD_MAY_CHANGE | FIELD_NULLABLE},
    {HEAD_DIM, .file = {"head_dim"}, .flags = FIELD_NULLABLE},
    {ACTIVATION, .file = {"hidden_act"}, .value = ACT_SILU},
    {HIDDEN, .file = {"hidden_size"}, .value = 4096},
    {INIT_STD, .file = {"initializer_range"}, .value = 0.02},
    {FFN, .file = {"intermediate_size"}, .value = 11008, .flags = FIELD_OF_WIDTH},
    {MAX_SEQ, .file = {"max_position_embeddings"}, .value = 2048},
    {MLP_BIAS, .file = {"mlp_bias"}, .value = false},
    {HEADS, .file = {"num_attention_heads"}, .value = 32, .flags = FIELD_OF_WIDTH},
    {LAYERS, .file = {"num_hidden_layers"}, .value = 32, .flags = FIELD_OF_WIDTH},
    {KV_HEADS, .file = {"num_key_value_heads"}, .flags = FIELD_NULLABLE},
    {.file = {"pretraining_tp"}, .type = FIELD_FIXED, .value = 1, .json = "1"},
    {NORM_EPS, .file = {"rms_norm_eps"}, .value = 1e-6},
    ROPE_ROWS,
    {ROPE_THETA, .value = 10000},
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {
    .published =
        {{2048, 16}, {3072, 28}, {4096, 32}, {5120, 40}, {6656, 60}, {8192, 80}, {16384, 126}},
    .wide_heads = 3072,
    .gated = true,
    .rotary = true};

static const model_schema SCHEMA = {.model_type = "llama",
                                    .architectures = {"LlamaForCausalLM", "LlamaModel"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

static const decoder_form FORM = {
    .names = {PLAIN_NAMES, PRE_NORMS}, .output_bias = true, .gated = true};

DECODER_FAMILY(llama, SCHEMA, FORM);
