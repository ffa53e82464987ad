// qwen2.c -- Qwen 2 and 2.5 (Yang et al. 2024): Llama with biases of queries, keys and values.
#include "model/decoder.h"
#include "model/fields.h"

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(-1, -1, -1),
    PLAIN_TIE(false),
    PLAIN_ROWS(151936, 4096, 22016, 32, 32, 32, 32768),
    PLAIN_HEAD_DIM(0),
    PLAIN_ACTIVATION,
    PLAIN_EPS(1e-6),
    ALWAYS(attention_bias),
    {USE_WINDOW, .value = false},
    {WINDOW, .value = 4096},
    {WINDOW_FROM, .value = 28},
    {LAYER_TYPES},
    ROPE_ROWS,
    {ROPE_THETA, .value = 10000},
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {
    .published = {{896, 24}, {1536, 28}, {2048, 36}, {3584, 28}, {5120, 48}, {8192, 80}},
    .wide_heads = 3072,
    .gated = true,
    .rotary = true};

static const model_schema SCHEMA = {.model_type = "qwen2",
                                    .architectures = {"Qwen2ForCausalLM", "Qwen2Model"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

static const decoder_form FORM = {.names = {PLAIN_NAMES, PRE_NORMS}, .gated = true};

DECODER_FAMILY(qwen2, SCHEMA, FORM);
