// phi3.c -- Phi 3 and 4 (Abdin et al. 2024): Llama whose files hold queries, keys and values as one tensor, gate and up as
// another. Rotary positions by longrope, over a part of a head.
#include "model/decoder.h"
#include "model/fields.h"

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(1, 32000, 32000),
    PLAIN_TIE(false),
    PLAIN_ROWS(32064, 3072, 8192, 32, 32, 0, 4096),
    PLAIN_HEAD_DIM(0),
    PLAIN_ACTIVATION,
    PLAIN_EPS(1e-5),
    {DROP_RESIDUAL, .file = {"resid_pdrop"}, .flags = FIELD_MAY_CHANGE},
    {WINDOW},
    // The class has a default for this key, which goes before the one among the rotary parameters.
    {.file = {"original_max_position_embeddings"}, SIZE(rope.original), .flags = FIELD_WRITTEN},
    ROPE_ROWS,
    {ROPE_THETA, .value = 10000},
    {ROPE_PARTIAL, .value = 1},
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {
    .published = {{3072, 32}, {5120, 40}}, .wide_heads = 3072, .gated = true, .rotary = true};

static const model_schema SCHEMA = {.model_type = "phi3",
                                    .architectures = {"Phi3ForCausalLM", "Phi3Model"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

static const decoder_form FORM = {
    .names = {DECODER_ENDS, PRE_NORMS, .qkv = {PLAIN_LAYER("self_attn.qkv_proj"), {NULL}},
              .output = PLAIN_OUTPUT, .up = {PLAIN_LAYER("mlp.gate_up_proj"), {NULL}},
              .down = PLAIN_DOWN},
    .gated = true};

DECODER_FAMILY(phi3, SCHEMA, FORM);
