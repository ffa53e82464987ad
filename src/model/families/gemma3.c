// gemma3.c -- Gemma 3 (Gemma team 2025), its text model: as Gemma 2, but with normalized queries and keys instead of bounded
// scores, one layer in six without a window, and a rotary table of their own for layers with one.
#include "model/decoder.h"
#include "model/fields.h"

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(2, 1, 0),
    PLAIN_TIE(true),
    PLAIN_ROWS(262208, 2304, 9216, 26, 8, 4, 131072),
    PLAIN_HEAD_DIM(256),
    {ACTIVATION, .file = {"hidden_activation"}, .value = ACT_GELU_TANH},
    PLAIN_EPS(1e-6),
    {ATTENTION_BIAS, .file = {"attention_bias"}, .value = false},
    {WINDOW, .value = 4096},
    {WINDOW_PATTERN, .value = 6},
    {LAYER_TYPES},
    {QUERY_SCALAR, .value = 256},
    IGNORED("attn_logit_softcapping"),
    {LOGIT_SOFTCAP},
    ONLY("use_bidirectional_attention", NAN),
    ROPE_ROWS,
    {ROPE_THETA, .value = 1000000},
    {ROPE_LOCAL_THETA, .value = 10000},
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {
    .published = {{640, 18}, {1152, 26}, {2560, 34}, {3840, 48}, {5376, 62}},
    .wide_heads = 3072,
    .gated = true,
    .rotary = true};

static const model_schema SCHEMA = {.model_type = "gemma3_text",
                                    .architectures = {"Gemma3ForCausalLM", "Gemma3TextModel"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

static const decoder_form FORM = {.names = {PLAIN_NAMES, SANDWICH_NORMS, PLAIN_QK_NORMS},
                                  .unit_offset = true,
                                  .qk_norm = QK_NORM_HEAD,
                                  .local_rope = true,
                                  .scales_embedding = true,
                                  .output_bias = true,
                                  .gated = true};

DECODER_FAMILY(gemma3, SCHEMA, FORM);
