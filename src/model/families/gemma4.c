// gemma4.c -- Gemma 4 (Gemma team 2026), its dense text model without embeddings by layer: as Gemma 3, but with normed values,
// heads of another width in layers without a window, and a factor at the end of each layer.
#include "model/decoder.h"
#include "model/fields.h"

#include <inttypes.h>

enum { LAYER_INPUTS }; // a number of the family's own

static status gemma4_finish(model_config *c, err *e)
{
    status result = OK;
    const model_layer_set *s = &c->sliding;
    if (c->own[LAYER_INPUTS].integer)
        FAIL(E_USAGE,
             "hidden_size_per_layer_input: found %" PRId64 ", valid is 0: embeddings by layer are "
             "not supported",
             c->own[LAYER_INPUTS].integer);
    if (s->count && s->count == c->layers && model_layer_has(s, c->layers - 1))
        FAIL(E_USAGE,
             "layer_types: found sliding_attention for the last layer, valid is full_attention");
    if (!c->keys_are_values && !c->wide.count) c->full_kv_heads = 0; // as transformers
done:
    return result;
}

// clang-format off
static const model_field FIELDS[] = {
    TOKENS(2, 1, 0),
    PLAIN_TIE(true),
    PLAIN_ROWS(262144, 2304, 9216, 30, 8, 4, 131072),
    PLAIN_HEAD_DIM(256),
    {NAME("full_head_dim"), .help = "Sets the width of an attention head in layers without a window; the default is model.head_dim.", .file = {"global_head_dim"}, SIZE_TO(1 << 16, full_head_dim), .value = 512, .flags = FIELD_NULLABLE | FIELD_OF_WIDTH | FIELD_ZERO_IS_NULL},
    {NAME("full_kv_heads"), .help = "Sets the number of key and value heads in layers without a window, where model.keys_are_values is true; the default is model.kv_heads.", .file = {"num_global_key_value_heads"}, SIZE(full_kv_heads), .flags = FIELD_NULLABLE | FIELD_ZERO_IS_NULL},
    {NAME("keys_are_values"), .help = "Takes the values of layers without a window from their keys.", .file = {"attention_k_eq_v"}, .type = FIELD_BOOL, AT(keys_are_values), .value = false},
    {.file = {"per_layer_config"}, .type = FIELD_WIDE},
    {.file = {"hidden_size_per_layer_input"}, .type = FIELD_INTEGER, .high = INT32_MAX, OWN(LAYER_INPUTS), .value = 256, .flags = FIELD_OF_WIDTH},
    {ACTIVATION, .file = {"hidden_activation"}, .value = ACT_GELU_TANH},
    PLAIN_EPS(1e-6),
    {ATTENTION_BIAS, .file = {"attention_bias"}, .value = false},
    {WINDOW, .value = 512},
    {.type = FIELD_INTEGER, AT(window_pattern), .value = 6},
    {LAYER_TYPES},
    {LOGIT_SOFTCAP},
    {.type = FIELD_BOOL, AT(scale_attention), .value = false},
    ONLY("use_bidirectional_attention", NAN), ONLY("num_kv_shared_layers", NAN), ONLY("enable_moe_block", NAN), ONLY("use_double_wide_mlp", NAN),
    ROPE_ROWS,
    {ROPE_THETA, .value = 1e6},
    {ROPE_PARTIAL, .value = 0.25},
    {ROPE_LOCAL_THETA, .value = 10000},
    OTHERWISE(WORD, rope.kind, ROPE_PROPORTIONAL),
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {
    .published = {{2304, 30}}, .wide_heads = 3072, .gated = true, .rotary = true};

static const model_schema SCHEMA = {.model_type = "gemma4_text",
                                    .architectures = {"Gemma4ForCausalLM", "Gemma4TextModel"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES,
                                    .finish = gemma4_finish};

static const decoder_form FORM = {
    .names = {PLAIN_NAMES, SANDWICH_NORMS, PLAIN_QK_NORMS, .scalar = "model.layers.{}"},
    .qk_norm = QK_NORM_HEAD,
    .norms_values = true,
    .local_rope = true,
    .scales_embedding = true,
    .output_bias = true,
    .gated = true};

DECODER_FAMILY(gemma4, SCHEMA, FORM);
