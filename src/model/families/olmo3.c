// olmo3.c -- OLMo 3 (OLMo team 2025): as OLMo 2, but with windows in three layers of four. Only the others stretch their rotary
// positions.
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
    {WINDOW, .value = 4096},
    {.type = FIELD_INTEGER, AT(window_pattern), .value = 4},
    {LAYER_TYPES},
    ROPE_ROWS,
    {ROPE_THETA, .value = 500000},
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {
    .published = {{4096, 32}, {5120, 64}}, .wide_heads = 3072, .gated = true, .rotary = true};

static const model_schema SCHEMA = {.model_type = "olmo3",
                                    .architectures = {"Olmo3ForCausalLM", "Olmo3Model"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

static const decoder_form FORM = {.names = {PLAIN_NAMES, POST_NORMS, PLAIN_QK_NORMS},
                                  .qk_norm = QK_NORM_FULL,
                                  .local_rope = true,
                                  .output_bias = true,
                                  .gated = true};

DECODER_FAMILY(olmo3, SCHEMA, FORM);
