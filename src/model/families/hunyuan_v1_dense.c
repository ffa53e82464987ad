// hunyuan_v1_dense.c -- Hunyuan (Tencent 2025), its dense models: Llama whose queries and keys are normalized after they are rotated.
#include "model/decoder.h"
#include "model/fields.h"

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(1, 2, 0),
    PLAIN_TIE(false),
    PLAIN_ROWS(290943, 4096, 11008, 32, 32, 0, 2048),
    PLAIN_HEAD_DIM(0),
    PLAIN_ACTIVATION,
    PLAIN_EPS(1e-5),
    {ATTENTION_BIAS, .file = {"attention_bias"}, .value = false},
    IGNORED("use_qk_norm"),
    IGNORED("pretraining_tp"),
    ROPE_ROWS,
    {ROPE_THETA, .value = 10000},
    {NAME("rope_alpha"), .help = "Sets by how much theta grows with rope dynamic.", OF_ROPE("alpha") | FIELD_NULLABLE | FIELD_ZERO_IS_NULL, REAL(0, 1e9, rope.alpha), OF_KIND(DYNAMIC)},
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {.published = {{1024, 24}, {2048, 32}, {3072, 36}, {4096, 32}},
                                  .wide_heads = 3072,
                                  .gated = true,
                                  .rotary = true};

static const model_schema SCHEMA = {
    .model_type = "hunyuan_v1_dense",
    .architectures = {"HunYuanDenseV1ForCausalLM", "HunYuanDenseV1Model"},
    .fields = FIELDS,
    .count = sizeof FIELDS / sizeof *FIELDS,
    .sizes = &SIZES};

static const decoder_form FORM = {.names = {PLAIN_NAMES, PRE_NORMS,
                                            .query_norm = PLAIN_LAYER("self_attn.query_layernorm"),
                                            .key_norm = PLAIN_LAYER("self_attn.key_layernorm")},
                                  .qk_norm = QK_NORM_HEAD,
                                  .qk_norm_after_rope = true,
                                  .output_bias = true,
                                  .gated = true};

DECODER_FAMILY(hunyuan_v1_dense, SCHEMA, FORM);
