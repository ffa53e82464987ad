// ernie4_5.c -- ERNIE 4.5 (Baidu 2025): Llama that rotates neighbouring columns.
#include "model/decoder.h"
#include "model/fields.h"

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(1, 2, 0),
    PLAIN_TIE(true),
    PLAIN_ROWS(103424, 1024, 3072, 18, 16, 2, 131072),
    PLAIN_HEAD_DIM(128),
    PLAIN_ACTIVATION,
    PLAIN_EPS(1e-5),
    {ALL_BIASES, .file = {"use_bias"}, .value = false},
    ROPE_ROWS,
    {ROPE_THETA, .value = 500000},
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {
    .published = {{1024, 18}}, .wide_heads = 3072, .gated = true, .rotary = true};

static const model_schema SCHEMA = {.model_type = "ernie4_5",
                                    .architectures = {"Ernie4_5ForCausalLM", "Ernie4_5Model"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

static const decoder_form FORM = {.names = {PLAIN_NAMES, PRE_NORMS},
                                  .interleaved = true,
                                  .output_bias = true,
                                  .mlp_has_same_bias = true,
                                  .gated = true};

DECODER_FAMILY(ernie4_5, SCHEMA, FORM);
