// arcee.c -- AFM (Arcee 2025): Llama with an MLP without a gate, and the square of ReLU.
#include "model/decoder.h"
#include "model/fields.h"

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(128000, 128001, -1),
    PLAIN_TIE(false),
    PLAIN_ROWS(32000, 2560, 18432, 32, 32, 0, 4096),
    PLAIN_HEAD_DIM(0),
    {ACTIVATION, .file = {"hidden_act"}, .value = ACT_RELU2},
    PLAIN_EPS(1e-5),
    {ATTENTION_BIAS, .file = {"attention_bias"}, .value = false},
    {MLP_BIAS, .file = {"mlp_bias"}, .value = false},
    ROPE_ROWS,
    {ROPE_THETA, .value = 10000},
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {.published = {{2560, 36}}, .wide_heads = 3072, .rotary = true};

static const model_schema SCHEMA = {.model_type = "arcee",
                                    .architectures = {"ArceeForCausalLM", "ArceeModel"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

static const decoder_form FORM = {
    .names = {DECODER_ENDS, PRE_NORMS, .qkv = PLAIN_QKV, .output = PLAIN_OUTPUT,
              .up = {PLAIN_LAYER("mlp.up_proj"), {NULL}}, .down = PLAIN_DOWN},
    .output_bias = true};

DECODER_FAMILY(arcee, SCHEMA, FORM);
