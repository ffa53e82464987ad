// lfm2.c -- LFM2 (Liquid AI 2025): short convolutions with gates, and attention in some layers. Queries and keys are
// normalized, head by head. Older folders list the layers with attention, and have a width of the MLP from which the
// model's width follows.
#include "model/decoder.h"
#include "model/fields.h"

enum {
    ADJUSTS,
    MULTIPLE,
    MULTIPLIER
}; // of `own`: how the width of the MLP follows from the given one

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(1, 2, 0),
    {TIE_EMBEDDINGS, .file = {"tie_word_embeddings", "tie_embedding"}, .value = true},
    {USE_CACHE},
    {VOCAB, .file = {"vocab_size"}, .value = 65536},
    {HIDDEN, .file = {"hidden_size"}, .value = 2560},
    {FFN, .file = {"intermediate_size", "block_ff_dim"}, .value = 12288, .flags = FIELD_OF_WIDTH},
    {.file = {"block_auto_adjust_ff_dim"}, .type = FIELD_BOOL, OWN(ADJUSTS), .value = true, .flags = FIELD_OF_WIDTH},
    {.file = {"block_multiple_of"}, SIZE(own[MULTIPLE]), .value = 256},
    {.file = {"block_ffn_dim_multiplier"}, REAL(1e-6, 1e6, own[MULTIPLIER]), .value = 1, .flags = FIELD_NULLABLE | FIELD_ZERO_IS_NULL},
    {LAYERS, .file = {"num_hidden_layers"}, .value = 32, .flags = FIELD_OF_WIDTH},
    {HEADS, .file = {"num_attention_heads"}, .value = 32, .flags = FIELD_OF_WIDTH},
    {KV_HEADS, .file = {"num_key_value_heads"}, .value = 8, .flags = FIELD_NULLABLE | FIELD_OF_WIDTH},
    {MAX_SEQ, .file = {"max_position_embeddings"}, .value = 128000},
    PLAIN_INIT(0.02),
    PLAIN_HEAD_DIM(0),
    {.type = FIELD_WORD, .words = &MODEL_ACTIVATION_WORDS, AT(act), .value = ACT_SILU},
    {NORM_EPS, .file = {"norm_eps"}, .value = 1e-5},
    {CONV_WIDTH, .file = {"conv_L_cache"}, .value = 3},
    {CONV_BIAS, .file = {"conv_bias"}, .value = false},
    {CONV_LAYERS},
    {.file = {"full_attn_idxs"}, .type = FIELD_LAYER_NUMBERS, AT(attending)},
    ROPE_ROWS,
    {ROPE_THETA, .value = 1e6},
    NOT_PLAIN,
};
// clang-format on

// The MLP is 2/3 as wide as config.json says, times a factor, rounded up, unless it says that it is not. The model keeps
// the width that comes out, and writes it as one that does not change.
static status finish(model_config *c, err *e)
{
    (void)e;
    const int64_t multiple = c->own[MULTIPLE].integer;
    int64_t width = 2 * c->ffn / 3;
    if (c->own[MULTIPLIER].real > 0) width = (int64_t)(c->own[MULTIPLIER].real * (double)width);
    if (c->own[ADJUSTS].flag) c->ffn = (width + multiple - 1) / multiple * multiple;
    c->own[ADJUSTS].flag = false;
    return OK;
}

static const model_sizes SIZES = {
    .published = {{1024, 16}, {1536, 16}, {2048, 16}, {2560, 32}}, .gated = true, .rotary = true};

static const model_schema SCHEMA = {.model_type = "lfm2",
                                    .architectures = {"Lfm2ForCausalLM", "Lfm2Model"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES,
                                    .finish = finish};

// clang-format off
static const decoder_form FORM = {
    .names = {.embedding = "model.embed_tokens", .final_norm = "model.embedding_norm", .head = "lm_head",
              .norm = {[BEFORE_ATTENTION] = PLAIN_LAYER("operator_norm"), [BEFORE_MLP] = PLAIN_LAYER("ffn_norm")},
              .qkv = PLAIN_QKV, .output = {PLAIN_LAYER("self_attn.out_proj"), {NULL}},
              .query_norm = PLAIN_LAYER("self_attn.q_layernorm"), .key_norm = PLAIN_LAYER("self_attn.k_layernorm"),
              .conv_in = {PLAIN_LAYER("conv.in_proj"), {NULL}}, .conv_out = {PLAIN_LAYER("conv.out_proj"), {NULL}},
              .taps = PLAIN_LAYER("conv.conv"),
              .up = {PLAIN_LAYER("feed_forward.w13"), {PLAIN_LAYER("feed_forward.w1"), PLAIN_LAYER("feed_forward.w3")}},
              .down = {PLAIN_LAYER("feed_forward.w2"), {NULL}}},
    .mixer = MIXER_CONV,
    .qk_norm = QK_NORM_HEAD,
    .gated = true};
// clang-format on

DECODER_FAMILY(lfm2, SCHEMA, FORM);
