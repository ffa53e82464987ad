// gpt2.c -- the GPT-2 family (Radford et al. 2019): learned positions, layer norm before attention and
// before the MLP, GELU. Weights are [out, in]; files hold the transpose of HuggingFace's Conv1D weights.
#include "model/decoder.h"
#include "model/fields.h"

// clang-format off
static const model_field FIELDS[] = {
    {BOS, .value = 50256},
    {EOS, .value = 50256},
    {PAD, .value = -1},
    {TIE_EMBEDDINGS, .file = {"tie_word_embeddings"}, .value = true},
    {USE_CACHE},
    {VOCAB, .file = {"vocab_size"}, .value = 50257},
    {ACTIVATION, .file = {"activation_function"}, .value = ACT_GELU_TANH},
    {DROP_ATTENTION, .file = {"attn_pdrop"}, .value = 0.1, .flags = FIELD_MAY_CHANGE},
    {DROP_EMBED, .file = {"embd_pdrop"}, .value = 0.1, .flags = FIELD_MAY_CHANGE},
    {DROP_RESIDUAL, .file = {"resid_pdrop"}, .value = 0.1, .flags = FIELD_MAY_CHANGE},
    {INIT_STD, .file = {"initializer_range"}, .value = 0.02},
    {NORM_EPS, .file = {"layer_norm_epsilon"}, .value = 1e-5},
    {.file = {"n_ctx"}, SIZE(max_seq), .flags = FIELD_WRITTEN},
    {HIDDEN, .file = {"n_embd", "hidden_size"}, .value = 768},
    {HEADS, .file = {"n_head", "num_attention_heads"}, .value = 12, .flags = FIELD_OF_WIDTH},
    {FFN, .file = {"n_inner"}, .flags = FIELD_OF_WIDTH | FIELD_NULLABLE},
    {LAYERS, .file = {"n_layer", "num_hidden_layers"}, .value = 12, .flags = FIELD_OF_WIDTH},
    {MAX_SEQ, .file = {"n_positions", "max_position_embeddings"}, .value = 1024},
    {SCALE_BY_LAYER, .file = {"scale_attn_by_inverse_layer_idx"}, .value = false},
    {SCALE_ATTENTION, .file = {"scale_attn_weights"}, .value = true},
    ALWAYS(attention_bias),
    ALWAYS(mlp_bias),
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {.published = {{768, 12}, {1024, 24}, {1280, 36}, {1600, 48}}};

static const model_schema SCHEMA = {.model_type = "gpt2",
                                    .architectures = {"GPT2LMHeadModel", "GPT2Model"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

#define GPT2_LAYER(part) "transformer.h.{}." part
static const decoder_form FORM = {
    .names = {.embedding = "transformer.wte",
              .positions = "transformer.wpe",
              .final_norm = "transformer.ln_f",
              .head = "lm_head",
              .norm = {[BEFORE_ATTENTION] = GPT2_LAYER("ln_1"), [BEFORE_MLP] = GPT2_LAYER("ln_2")},
              .qkv = {GPT2_LAYER("attn.c_attn"), {NULL}},
              .output = {GPT2_LAYER("attn.c_proj"), {NULL}},
              .up = {GPT2_LAYER("mlp.c_fc"), {NULL}},
              .down = {GPT2_LAYER("mlp.c_proj"), {NULL}}},
    .layer_norm = true,
    .norm_bias = true,
    .output_bias = true,
    .transposed = true,
    .scaled_init = true};

DECODER_FAMILY(gpt2, SCHEMA, FORM);
