// starcoder2.c -- StarCoder 2 (Lozhkov et al. 2024): layer norm, an MLP without a gate, biases everywhere.
#include "model/decoder.h"
#include "model/fields.h"

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(50256, 50256, -1),
    PLAIN_TIE(true),
    PLAIN_SIZES(49152, 3072, 12288, 30, 24, 2, 4096),
    PLAIN_INIT(0.018042),
    PLAIN_DROPOUT(0),
    PLAIN_HEAD_DIM(0),
    {ACTIVATION, .file = {"hidden_act"}, .value = ACT_GELU_TANH},
    {NORM_EPS, .file = {"norm_epsilon"}, .value = 1e-5},
    {ALL_BIASES, .file = {"use_bias"}, .value = true},
    {DROP_RESIDUAL, .file = {"residual_dropout"}, .flags = FIELD_MAY_CHANGE},
    {DROP_EMBED, .file = {"embedding_dropout"}, .flags = FIELD_MAY_CHANGE},
    {WINDOW},
    ROPE_ROWS,
    {ROPE_THETA, .value = 10000},
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {
    .published = {{3072, 30}, {4608, 32}, {6144, 40}}, .wide_heads = 3072, .rotary = true};

static const model_schema SCHEMA = {.model_type = "starcoder2",
                                    .architectures = {"Starcoder2ForCausalLM", "Starcoder2Model"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

static const decoder_form FORM = {
    .names = {DECODER_ENDS, PRE_NORMS, .qkv = PLAIN_QKV, .output = PLAIN_OUTPUT,
              .up = {PLAIN_LAYER("mlp.c_fc"), {NULL}}, .down = {PLAIN_LAYER("mlp.c_proj"), {NULL}}},
    .layer_norm = true,
    .norm_bias = true,
    .output_bias = true,
    .mlp_has_same_bias = true};

DECODER_FAMILY(starcoder2, SCHEMA, FORM);
