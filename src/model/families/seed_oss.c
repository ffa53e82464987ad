// seed_oss.c -- Seed-OSS (ByteDance 2025): Llama with biases of queries, keys and values, and with dropout.
#include "model/decoder.h"
#include "model/fields.h"

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(0, 2, 1),
    PLAIN_TIE(false),
    PLAIN_SIZES(155136, 4096, 27648, 64, 80, 8, 524288),
    PLAIN_INIT(0.02),
    PLAIN_DROPOUT(0.1),
    PLAIN_HEAD_DIM(128),
    PLAIN_ACTIVATION,
    PLAIN_EPS(1e-6),
    {ATTENTION_BIAS, .file = {"attention_bias"}, .value = true},
    {OUTPUT_BIAS, .file = {"attention_out_bias"}, .value = false},
    {MLP_BIAS, .file = {"mlp_bias"}, .value = false},
    {DROP_RESIDUAL, .file = {"residual_dropout"}, .value = 0.1, .flags = FIELD_MAY_CHANGE},
    ROPE_ROWS,
    {ROPE_THETA, .value = 10000},
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {
    .published = {{5120, 64}}, .wide_heads = 3072, .gated = true, .rotary = true};

static const model_schema SCHEMA = {.model_type = "seed_oss",
                                    .architectures = {"SeedOssForCausalLM", "SeedOssModel"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

static const decoder_form FORM = {.names = {PLAIN_NAMES, PRE_NORMS}, .gated = true};

DECODER_FAMILY(seed_oss, SCHEMA, FORM);
