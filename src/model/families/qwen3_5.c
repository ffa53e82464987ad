// qwen3_5.c -- Qwen 3.5, the dense text models (Qwen team 2026): gated delta rules, and attention with gates in every
// fourth layer. Heads rotate a quarter of their columns.
#include "model/decoder.h"
#include "model/fields.h"

static const model_words SILU = {"silu", {{"silu", ACT_SILU}}};

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(-1, -1, -1),
    PLAIN_TIE(false),
    PLAIN_ROWS(248320, 4096, 12288, 32, 16, 4, 32768),
    PLAIN_HEAD_DIM(256),
    {.file = {"hidden_act"}, .type = FIELD_WORD, .words = &SILU, AT(act), .value = ACT_SILU},
    PLAIN_EPS(1e-6),
    {ATTENTION_BIAS, .file = {"attention_bias"}, .value = false},
    {DELTA_KEY_HEADS, .value = 16},
    {DELTA_HEADS, .value = 32},
    {DELTA_KEY_DIM, .value = 128},
    {DELTA_HEAD_DIM, .value = 128},
    {CONV_WIDTH, .file = {"linear_conv_kernel_dim"}, .value = 4},
    {ATTENTION_PATTERN, .value = 4},
    {DELTA_LAYERS},
    ROPE_ROWS,
    {ROPE_THETA, .value = 10000},
    {ROPE_PARTIAL, .value = 0.25},
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {
    .published = {{1024, 24}, {2048, 24}, {2560, 32}, {4096, 32}, {5120, 64}},
    .wide_heads = 1,
    .gated = true,
    .rotary = true};

static const model_schema SCHEMA = {.model_type = "qwen3_5_text",
                                    .architectures = {"Qwen3_5ForCausalLM", "Qwen3_5TextModel"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

#define DELTA(part) PLAIN_LAYER("linear_attn." part)
// clang-format off
static const decoder_form FORM = {
    .names = {PLAIN_NAMES, PRE_NORMS, PLAIN_QK_NORMS,
              .delta = {.qkv = {DELTA("in_proj_qkv"), {NULL}}, .gate = {DELTA("in_proj_z"), {NULL}},
                        .ba = {DELTA("in_proj_ba"), {DELTA("in_proj_b"), DELTA("in_proj_a")}},
                        .output = {DELTA("out_proj"), {NULL}},
                        .log_decay = DELTA("A_log"), .a_bias = DELTA("dt_bias"), .norm = DELTA("norm")},
              .taps = DELTA("conv1d")},
    .unit_offset = true,
    .mixer = MIXER_DELTA,
    .output_gate = true,
    .qk_norm = QK_NORM_HEAD,
    .output_bias = true,
    .gated = true};
// clang-format on

DECODER_FAMILY(qwen3_5, SCHEMA, FORM);
