// cohere2.c -- Command R7B and A (Cohere 2024): as Command R, but with windows in three layers of four. The others do not rotate.
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
    {WINDOW, .value = 4096},
    {WINDOW_PATTERN, .value = 4},
    {LAYER_TYPES},
    ALWAYS(parallel),
    ROPE_ROWS,
    {ROPE_THETA, .value = 10000},
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {
    .published = {{4096, 32}, {12288, 64}}, .wide_heads = 3072, .gated = true, .rotary = true};

static const model_schema SCHEMA = {.model_type = "cohere2",
                                    .architectures = {"Cohere2ForCausalLM", "Cohere2Model"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

static const decoder_form FORM = {
    .names = {PLAIN_NAMES, .norm = {[BEFORE_ATTENTION] = PLAIN_LAYER("input_layernorm")}},
    .layer_norm = true,
    .rotates_with_window = true,
    .interleaved = true,
    .output_bias = true,
    .gated = true};

DECODER_FAMILY(cohere2, SCHEMA, FORM);
