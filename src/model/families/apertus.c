// apertus.c -- Apertus (Swiss AI 2025): normalized queries and keys, and an MLP without a gate whose activation has two
// learned numbers in each layer.
#include "model/decoder.h"
#include "model/fields.h"

static const model_words XIELU_WORDS = {"xielu", {{"xielu", 0}}};

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(1, 2, 3),
    PLAIN_TIE(false),
    PLAIN_ROWS(131072, 4096, 14336, 32, 32, 0, 65536),
    PLAIN_HEAD_DIM(0),
    {.file = {"hidden_act"}, .type = FIELD_WORD, .words = &XIELU_WORDS, OWN(0)},
    PLAIN_EPS(1e-5),
    {ATTENTION_BIAS, .file = {"attention_bias"}, .value = false},
    ROPE_ROWS,
    {ROPE_THETA, .value = 12e6},
    OTHERWISE(WORD, rope.kind, ROPE_LLAMA3),
    OTHERWISE(REAL, rope.factor, 8),
    OTHERWISE(INTEGER, rope.original, 8192),
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {
    .published = {{4096, 32}, {8192, 80}}, .wide_heads = 3072, .rotary = true};

static const model_schema SCHEMA = {.model_type = "apertus",
                                    .architectures = {"ApertusForCausalLM", "ApertusModel"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

static const decoder_form FORM = {
    .names = {DECODER_ENDS, PLAIN_QK_NORMS,
              .norm = {[BEFORE_ATTENTION] = PLAIN_LAYER("attention_layernorm"),
                       [BEFORE_MLP] = PLAIN_LAYER("feedforward_layernorm")},
              .qkv = PLAIN_QKV, .output = PLAIN_OUTPUT, .up = {PLAIN_LAYER("mlp.up_proj"), {NULL}},
              .down = PLAIN_DOWN, .xielu = PLAIN_LAYER("mlp.act_fn")},
    .qk_norm = QK_NORM_HEAD,
    .output_bias = true};

DECODER_FAMILY(apertus, SCHEMA, FORM);
