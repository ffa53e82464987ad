// olmo2.c -- OLMo 2 (OLMo team 2024): norms after each half of a layer and none before; queries and keys are normalized over
// the full width.
#include "model/decoder.h"
#include "model/fields.h"

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(-1, 50279, 1),
    PLAIN_TIE(false),
    PLAIN_ROWS(50304, 4096, 11008, 32, 32, 0, 2048),
    PLAIN_HEAD_DIM(0),
    PLAIN_ACTIVATION,
    PLAIN_EPS(1e-5),
    {ATTENTION_BIAS, .file = {"attention_bias"}, .value = false},
    ROPE_ROWS,
    {ROPE_THETA, .value = 10000},
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {.published = {{2048, 16}, {4096, 32}, {5120, 40}},
                                  .wide_heads = 3072,
                                  .gated = true,
                                  .rotary = true};

static const model_schema SCHEMA = {.model_type = "olmo2",
                                    .architectures = {"Olmo2ForCausalLM", "Olmo2Model"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

static const decoder_form FORM = {.names = {PLAIN_NAMES, POST_NORMS, PLAIN_QK_NORMS},
                                  .qk_norm = QK_NORM_FULL,
                                  .output_bias = true,
                                  .gated = true};

DECODER_FAMILY(olmo2, SCHEMA, FORM);
