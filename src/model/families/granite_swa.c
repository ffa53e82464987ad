// granite_swa.c -- Granite with windows (IBM 2026): as Granite, but with windows in three layers of four, sinks of attention,
// and a base of the rotary frequencies for each layer.
#include "model/decoder.h"
#include "model/fields.h"

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(100257, 100257, -1),
    PLAIN_TIE(true),
    PLAIN_ROWS(100352, 2560, 8192, 24, 20, 4, 8192),
    PLAIN_HEAD_DIM(0),
    PLAIN_ACTIVATION,
    PLAIN_EPS(1e-5),
    {ATTENTION_BIAS, .file = {"attention_bias"}, .value = false},
    {MLP_BIAS, .file = {"mlp_bias"}, .value = false},
    {EMBEDDING_SCALE, .value = 1},
    {ATTENTION_SCALE, .value = 1},
    {RESIDUAL_SCALE, .value = 1},
    {LOGIT_DIVISOR, .value = 1},
    {WINDOW, .value = 128},
    {.type = FIELD_INTEGER, AT(window_pattern), .value = 4},
    {LAYER_TYPES},
    ROPE_ROWS,
    {ROPE_THETA, .value = 10000},
    {NAME("rope_layer_theta"), .help = "Lists the base of the rotary frequencies for each layer, in place of model.rope_theta; a layer with 0 does not rotate.", .file = {"layer_rope_theta"}, .type = FIELD_NUMBERS, AT(rope.layer_theta), .flags = FIELD_NULLABLE | FIELD_ZERO_IS_NULL},
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {
    .published = {{2560, 24}}, .wide_heads = 3072, .gated = true, .rotary = true};

static const model_schema SCHEMA = {.model_type = "granite_swa",
                                    .architectures = {"GraniteSWAForCausalLM", "GraniteSWAModel"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

static const decoder_form FORM = {
    .names = {PLAIN_NAMES, PRE_NORMS, .sinks = PLAIN_LAYER("self_attn")},
    .first_sees_all = true,
    .output_bias = true,
    .gated = true,
    .divides_logits = true};

DECODER_FAMILY(granite_swa, SCHEMA, FORM);
