// granite.c -- Granite 3 (Granite team 2024): Llama with factors of embeddings, scores, the residual and logits.
#include "model/decoder.h"
#include "model/fields.h"

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(1, 2, -1),
    PLAIN_TIE(false),
    PLAIN_ROWS(32000, 4096, 11008, 32, 32, 0, 2048),
    PLAIN_HEAD_DIM(0),
    PLAIN_ACTIVATION,
    PLAIN_EPS(1e-6),
    {ATTENTION_BIAS, .file = {"attention_bias"}, .value = false},
    {MLP_BIAS, .file = {"mlp_bias"}, .value = false},
    {EMBEDDING_SCALE, .value = 1},
    {ATTENTION_SCALE, .value = 1},
    {RESIDUAL_SCALE, .value = 1},
    {LOGIT_DIVISOR, .value = 1},
    ROPE_ROWS,
    {ROPE_THETA, .value = 10000},
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {
    .published = {{2048, 40}, {4096, 40}}, .wide_heads = 3072, .gated = true, .rotary = true};

static const model_schema SCHEMA = {.model_type = "granite",
                                    .architectures = {"GraniteForCausalLM", "GraniteModel"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

static const decoder_form FORM = {
    .names = {PLAIN_NAMES, PRE_NORMS}, .output_bias = true, .gated = true, .divides_logits = true};

DECODER_FAMILY(granite, SCHEMA, FORM);
