// qwen3_next.c -- Qwen 3 Next (Qwen team 2025) without experts: as Qwen 3.5, but files hold the projections of a gated delta
// rule key head by key head. Experts are refused.
#include "model/decoder.h"
#include "model/fields.h"

enum {
    EXPERTS,
    SPARSE_STEP
}; // of `own`: every so many layers one has experts, but for those of `dense`

static const model_words SILU = {"silu", {{"silu", ACT_SILU}}};

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(-1, -1, -1),
    PLAIN_TIE(false),
    PLAIN_ROWS(151936, 2048, 5632, 48, 16, 2, 32768),
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
    {.file = {"num_experts"}, .type = FIELD_INTEGER, .low = 0, .high = INT32_MAX, OWN(EXPERTS), .value = 512, .flags = FIELD_OF_WIDTH},
    {.file = {"decoder_sparse_step"}, SIZE(own[SPARSE_STEP]), .value = 1},
    {.file = {"mlp_only_layers"}, .type = FIELD_LAYER_NUMBERS, AT(dense)},
    ROPE_ROWS,
    {ROPE_THETA, .value = 10000},
    {ROPE_PARTIAL, .value = 0.25},
    NOT_PLAIN,
};
// clang-format on

static status finish(model_config *c, err *e)
{
    status result = OK;
    for (int64_t i = 0; i < c->layers && c->own[EXPERTS].integer > 0; i++)
        if (!model_layer_has(&c->dense, i) && (i + 1) % c->own[SPARSE_STEP].integer == 0)
            FAIL(E_USAGE,
                 "num_experts: found %lld, but experts are not supported, and layer %lld has them; "
                 "valid is 0, or mlp_only_layers with each such layer",
                 (long long)c->own[EXPERTS].integer, (long long)i);
    if (c->dense.count) c->dense.count = c->layers;
done:
    return result;
}

static const model_sizes SIZES = {
    .published = {{2048, 48}}, .wide_heads = 1, .gated = true, .rotary = true};

static const model_schema SCHEMA = {.model_type = "qwen3_next",
                                    .architectures = {"Qwen3NextForCausalLM", "Qwen3NextModel"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES,
                                    .finish = finish};

#define DELTA(part) PLAIN_LAYER("linear_attn." part)
// clang-format off
static const decoder_form FORM = {
    .names = {PLAIN_NAMES, PRE_NORMS, PLAIN_QK_NORMS,
              .delta = {.qkv = {DELTA("in_proj_qkvz"), {NULL}}, .ba = {DELTA("in_proj_ba"), {NULL}},
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

DECODER_FAMILY(qwen3_next, SCHEMA, FORM);
