// glm4.c -- GLM 4 of 2025: as GLM, but with a norm after each half of a layer, too.
#include "model/decoder.h"
#include "model/fields.h"

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(-1, 151329, 151329),
    PLAIN_TIE(false),
    PLAIN_ROWS(151552, 4096, 13696, 40, 32, 2, 131072),
    PLAIN_HEAD_DIM(128),
    PLAIN_ACTIVATION,
    PLAIN_EPS(1.5625e-7),
    {ATTENTION_BIAS, .file = {"attention_bias"}, .value = true},
    ROPE_ROWS,
    {ROPE_THETA, .value = 10000},
    {ROPE_PARTIAL, .value = 0.5},
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {
    .published = {{4096, 40}, {6144, 61}}, .wide_heads = 3072, .gated = true, .rotary = true};

static const model_schema SCHEMA = {.model_type = "glm4",
                                    .architectures = {"Glm4ForCausalLM", "Glm4Model"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

static const decoder_form FORM = {
    .names = {DECODER_ENDS,
              .norm = {[BEFORE_ATTENTION] = PLAIN_LAYER("input_layernorm"),
                       [AFTER_ATTENTION] = PLAIN_LAYER("post_self_attn_layernorm"),
                       [BEFORE_MLP] = PLAIN_LAYER("post_attention_layernorm"),
                       [AFTER_MLP] = PLAIN_LAYER("post_mlp_layernorm")},
              .qkv = PLAIN_QKV, .output = PLAIN_OUTPUT,
              .up = {PLAIN_LAYER("mlp.gate_up_proj"), {NULL}}, .down = PLAIN_DOWN},
    .interleaved = true,
    .gated = true};

DECODER_FAMILY(glm4, SCHEMA, FORM);
