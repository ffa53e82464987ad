// smollm3.c -- SmolLM 3 (HuggingFace 2025): Llama that does not rotate queries and keys in one layer of four.
#include "model/decoder.h"
#include "model/fields.h"

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(128000, 128001, 128004),
    PLAIN_TIE(true),
    PLAIN_ROWS(128256, 2048, 11008, 36, 16, 4, 32768),
    PLAIN_HEAD_DIM(0),
    PLAIN_ACTIVATION,
    PLAIN_EPS(1e-6),
    {ATTENTION_BIAS, .file = {"attention_bias"}, .value = false},
    {MLP_BIAS, .file = {"mlp_bias"}, .value = false},
    {ROTATING_LAYERS},
    {ROTARY_PATTERN, .value = 4},
    IGNORED("pretraining_tp"),
    ROPE_ROWS,
    {ROPE_THETA, .value = 2000000},
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {
    .published = {{2048, 36}}, .wide_heads = 3072, .gated = true, .rotary = true};

static const model_schema SCHEMA = {.model_type = "smollm3",
                                    .architectures = {"SmolLM3ForCausalLM", "SmolLM3Model"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

static const decoder_form FORM = {
    .names = {PLAIN_NAMES, PRE_NORMS}, .output_bias = true, .gated = true};

DECODER_FAMILY(smollm3, SCHEMA, FORM);
