// qwen3.c -- Qwen 3 (Yang et al. 2025): Llama whose queries and keys are normalized, head by head.
#include "model/decoder.h"
#include "model/fields.h"

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(-1, -1, -1),
    PLAIN_TIE(false),
    PLAIN_ROWS(151936, 4096, 22016, 32, 32, 32, 32768),
    PLAIN_HEAD_DIM(128),
    PLAIN_ACTIVATION,
    PLAIN_EPS(1e-6),
    {ATTENTION_BIAS, .file = {"attention_bias"}, .value = false},
    {USE_WINDOW, .value = false},
    {WINDOW, .value = 4096},
    {WINDOW_FROM, .value = 28},
    {LAYER_TYPES},
    ROPE_ROWS,
    {ROPE_THETA, .value = 10000},
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {.published = {{1024, 28}, {2560, 36}, {5120, 64}},
                                  .wide_heads = 3072,
                                  .gated = true,
                                  .rotary = true};

static const model_schema SCHEMA = {.model_type = "qwen3",
                                    .architectures = {"Qwen3ForCausalLM", "Qwen3Model"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

static const decoder_form FORM = {.names = {PLAIN_NAMES, PRE_NORMS, PLAIN_QK_NORMS},
                                  .qk_norm = QK_NORM_HEAD,
                                  .output_bias = true,
                                  .gated = true};

DECODER_FAMILY(qwen3, SCHEMA, FORM);
