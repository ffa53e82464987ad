// gemma2.c -- Gemma 2 (Gemma team 2024): norms before and after each half of a layer, every other layer with a window, bounded
// scores and logits.
#include "model/decoder.h"
#include "model/fields.h"

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(2, 1, 0),
    PLAIN_TIE(true),
    PLAIN_ROWS(256000, 2304, 9216, 26, 8, 4, 8192),
    PLAIN_HEAD_DIM(256),
    {ACTIVATION, .file = {"hidden_activation"}, .value = ACT_GELU_TANH},
    PLAIN_EPS(1e-6),
    {ATTENTION_BIAS, .file = {"attention_bias"}, .value = false},
    {WINDOW, .value = 4096},
    {.type = FIELD_INTEGER, AT(window_pattern), .value = 2},
    {LAYER_TYPES},
    {QUERY_SCALAR, .value = 256},
    {ATTENTION_SOFTCAP, .value = 50},
    {LOGIT_SOFTCAP, .value = 30},
    ONLY("use_bidirectional_attention", NAN),
    ROPE_ROWS,
    {ROPE_THETA, .value = 10000},
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {.published = {{2304, 26}, {3584, 42}, {4608, 46}},
                                  .wide_heads = 3072,
                                  .gated = true,
                                  .rotary = true};

static const model_schema SCHEMA = {.model_type = "gemma2",
                                    .architectures = {"Gemma2ForCausalLM", "Gemma2Model"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

static const decoder_form FORM = {.names = {PLAIN_NAMES, SANDWICH_NORMS},
                                  .unit_offset = true,
                                  .scales_embedding = true,
                                  .output_bias = true,
                                  .gated = true};

DECODER_FAMILY(gemma2, SCHEMA, FORM);
