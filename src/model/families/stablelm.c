// stablelm.c -- StableLM 2 (Bellagente et al. 2024): Llama with layer norm, which rotates a quarter of each head.
#include "model/decoder.h"
#include "model/fields.h"

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(0, 0, -1),
    PLAIN_TIE(false),
    PLAIN_ROWS(50304, 2560, 6912, 32, 32, 32, 4096),
    PLAIN_ACTIVATION,
    {NORM_EPS, .file = {"layer_norm_eps"}, .value = 1e-5},
    {ATTENTION_BIAS, .file = {"use_qkv_bias"}, .value = false},
    {QK_NORM, .file = {"qk_layernorm"}, .value = false},
    {DROP_RESIDUAL, .file = {"hidden_dropout"}, .flags = FIELD_MAY_CHANGE},
    {NAME("parallel_residual"), .help = "Lets attention and the feed-forward layers read the same norm.", .file = {"use_parallel_residual"}, .type = FIELD_BOOL, AT(parallel), .value = false},
    ROPE_ROWS,
    {ROPE_THETA, .value = 10000},
    {ROPE_PARTIAL, .value = 0.25},
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {.published = {{2048, 24}, {2560, 32}, {5120, 40}},
                                  .wide_heads = 3072,
                                  .gated = true,
                                  .rotary = true};

static const model_schema SCHEMA = {.model_type = "stablelm",
                                    .architectures = {"StableLmForCausalLM", "StableLmModel"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

static const decoder_form FORM = {
    .names = {PLAIN_NAMES, PRE_NORMS, .query_norm = PLAIN_LAYER("self_attn.q_layernorm.norms"),
              .key_norm = PLAIN_LAYER("self_attn.k_layernorm.norms")},
    .qk_norm = QK_NORM_OWN_TENSORS,
    .layer_norm = true,
    .norm_bias = true,
    .gated = true};

DECODER_FAMILY(stablelm, SCHEMA, FORM);
