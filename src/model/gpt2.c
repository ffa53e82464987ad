// gpt2.c -- the GPT-2 family (Radford et al. 2019): learned positions, layer norm before attention and
// before the MLP, GELU. Weights are [out, in]; files hold the transpose of HuggingFace's Conv1D
// weights. Called through model_family. Blocks: the embedding, the layers, the head.
#include "model/fields.h"

#include <math.h>

enum { KEY_EMBED, KEY_HEAD, KEY_LAYER };

static int gpt2_blocks(const void *config)
{
    return (int)((const model_config *)config)->layers + 2;
}

static int gpt2_key(const void *config, int block)
{
    const model_config *c = config;
    if (block == 0) return KEY_EMBED;
    if (block == c->layers + 1) return KEY_HEAD;
    // With scale_by_layer the scale of attention depends on the layer, so no two layers share a graph.
    return c->scale_by_layer ? KEY_LAYER + block : KEY_LAYER;
}

static int gpt2_layer(const void *config, int block)
{
    (void)config;
    return block - 1;
}

static graph_value *norm(graph *g, graph_value *x, const char *gain, const char *bias,
                         const model_config *c)
{
    graph_value *w = build_weight(g, gain, c->hidden, 0, INIT_ONES, 0);
    graph_value *b = build_weight(g, bias, c->hidden, 0, INIT_ZEROS, 0);
    return build_layer_norm(g, x, w, b, c->norm_eps);
}

static graph_value *conv1d(graph *g, graph_value *x, const char *weight, const char *bias,
                           int64_t out, int64_t in, graph_role rows, graph_role cols, double std)
{
    graph_value *w = build_weight(g, weight, out, in, INIT_NORMAL, std);
    build_roles(g, w, rows, cols);
    build_transposed(g, w);
    graph_value *b = build_weight(g, bias, out, 0, INIT_ZEROS, 0);
    build_roles(g, b, rows, ROLE_NONE);
    return build_linear(g, x, w, b);
}

static graph_value *token_table(graph *g, const model_config *c)
{
    graph_value *w =
        build_weight(g, "transformer.wte.weight", c->vocab, c->hidden, INIT_NORMAL, c->init_std);
    build_roles(g, w, ROLE_VOCAB, ROLE_EMBED);
    return w;
}

static void gpt2_embed(graph *g, const model_config *c)
{
    graph_value *ids = build_ids(g), *tokens = token_table(g, c);
    graph_value *positions =
        build_weight(g, "transformer.wpe.weight", c->max_seq, c->hidden, INIT_NORMAL, c->init_std);
    graph_value *x = build_embedding(g, ids, tokens, positions, 1);
    build_output(g, build_dropout(g, x, c->dropout.embed));
}

static void gpt2_layer_trace(graph *g, const model_config *c, int layer)
{
    double residual_std = c->init_std / sqrt(2.0 * (double)c->layers);
    double scale = (c->scale_attention ? 1 / sqrt((double)c->head_dim) : 1) /
                   (c->scale_by_layer ? layer + 1 : 1);
    graph_value *x = build_residual(g, c->hidden);

    graph_value *h = norm(g, x, "transformer.h.{}.ln_1.weight", "transformer.h.{}.ln_1.bias", c);
    h = conv1d(g, h, "transformer.h.{}.attn.c_attn.weight", "transformer.h.{}.attn.c_attn.bias",
               3 * c->hidden, c->hidden, ROLE_HEADS, ROLE_EMBED, c->init_std);
    h = build_attention(g, h, c->heads, c->heads, c->head_dim, scale, c->dropout.attention);
    h = conv1d(g, h, "transformer.h.{}.attn.c_proj.weight", "transformer.h.{}.attn.c_proj.bias",
               c->hidden, c->hidden, ROLE_EMBED, ROLE_HEADS, residual_std);
    x = build_add(g, x, build_dropout(g, h, c->dropout.residual), 1, 1);

    h = norm(g, x, "transformer.h.{}.ln_2.weight", "transformer.h.{}.ln_2.bias", c);
    h = conv1d(g, h, "transformer.h.{}.mlp.c_fc.weight", "transformer.h.{}.mlp.c_fc.bias", c->ffn,
               c->hidden, ROLE_MLP, ROLE_EMBED, c->init_std);
    h = build_activation(g, h, c->act);
    h = conv1d(g, h, "transformer.h.{}.mlp.c_proj.weight", "transformer.h.{}.mlp.c_proj.bias",
               c->hidden, c->ffn, ROLE_EMBED, ROLE_MLP, residual_std);
    build_output(g, build_add(g, x, build_dropout(g, h, c->dropout.residual), 1, 1));
}

static void gpt2_head(graph *g, const model_config *c)
{
    graph_value *x = build_residual(g, c->hidden);
    x = norm(g, x, "transformer.ln_f.weight", "transformer.ln_f.bias", c);
    graph_value *w;
    if (c->tie_embeddings) {
        w = token_table(g, c);
    } else {
        w = build_weight(g, "lm_head.weight", c->vocab, c->hidden, INIT_NORMAL, c->init_std);
        build_roles(g, w, ROLE_VOCAB, ROLE_EMBED);
    }
    build_linear_cross_entropy(g, x, w, NULL, 1);
}

static void gpt2_trace(graph *g, const void *config, int block)
{
    const model_config *c = config;
    if (block == 0)
        gpt2_embed(g, c);
    else if (block == c->layers + 1)
        gpt2_head(g, c);
    else
        gpt2_layer_trace(g, c, block - 1);
}

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
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {.published = {{768, 12}, {1024, 24}, {1280, 36}, {1600, 48}}};

static const model_schema SCHEMA = {.model_type = "gpt2",
                                    .architectures = {"GPT2LMHeadModel", "GPT2Model"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

const model_family gpt2_family = {.name = "gpt2",
                                  .schema = &SCHEMA,
                                  .blocks = gpt2_blocks,
                                  .key = gpt2_key,
                                  .trace = gpt2_trace,
                                  .layer = gpt2_layer};
