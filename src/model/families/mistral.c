// mistral.c -- Mistral (Jiang et al. 2023): Llama whose layers all have a window, where config.json gives one.
#include "model/decoder.h"
#include "model/fields.h"

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(1, 2, -1),
    PLAIN_TIE(false),
    PLAIN_ROWS(32000, 4096, 14336, 32, 32, 8, 131072),
    PLAIN_HEAD_DIM(0),
    PLAIN_ACTIVATION,
    PLAIN_EPS(1e-6),
    {WINDOW, .value = 4096},
    ROPE_ROWS,
    {ROPE_THETA, .value = 10000},
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {.published = {{4096, 32}, {5120, 40}, {12288, 88}},
                                  .wide_heads = 3072,
                                  .gated = true,
                                  .rotary = true};

static const model_schema SCHEMA = {.model_type = "mistral",
                                    .architectures = {"MistralForCausalLM", "MistralModel"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

static const decoder_form FORM = {.names = {PLAIN_NAMES, PRE_NORMS}, .gated = true};

DECODER_FAMILY(mistral, SCHEMA, FORM);
