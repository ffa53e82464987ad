// cohere.c -- Command R (Cohere 2024): attention and MLP side by side behind one layer norm without a bias.
#include "model/decoder.h"
#include "model/fields.h"

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(5, 255001, 0),
    PLAIN_TIE(true),
    PLAIN_ROWS(256000, 8192, 22528, 40, 64, 0, 8192),
    PLAIN_ACTIVATION,
    {NORM_EPS, .file = {"layer_norm_eps"}, .value = 1e-5},
    {ATTENTION_BIAS, .file = {"attention_bias"}, .value = false},
    {LOGIT_SCALE, .value = 0.0625},
    {QK_NORM, .file = {"use_qk_norm"}, .value = false},
    ALWAYS(parallel),
    ROPE_ROWS,
    {ROPE_THETA, .value = 500000},
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {
    .published = {{8192, 40}, {12288, 64}}, .wide_heads = 3072, .gated = true, .rotary = true};

static const model_schema SCHEMA = {.model_type = "cohere",
                                    .architectures = {"CohereForCausalLM", "CohereModel"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

static const decoder_form FORM = {
    .names = {PLAIN_NAMES, PLAIN_QK_NORMS,
              .norm = {[BEFORE_ATTENTION] = PLAIN_LAYER("input_layernorm")}},
    .qk_norm = QK_NORM_OWN_GAINS,
    .layer_norm = true,
    .interleaved = true,
    .output_bias = true,
    .gated = true};

DECODER_FAMILY(cohere, SCHEMA, FORM);
