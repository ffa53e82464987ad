// llama.c -- the Llama family (Touvron et al. 2023): RMS norm, rotary positions, shared key-value
// heads, gated MLP. The projections of queries, keys and values are one parameter, so that they are
// one matrix product; files hold three tensors. Gate and up likewise. Called through model_family.
// Blocks: the embedding, the layers, the head.
#include "model/fields.h"

#include <math.h>

enum { KEY_EMBED, KEY_HEAD, KEY_LAYER };

static int llama_blocks(const void *config)
{
    return (int)((const model_config *)config)->layers + 2;
}

static int llama_key(const void *config, int block)
{
    const model_config *c = config;
    return block == 0 ? KEY_EMBED : block == c->layers + 1 ? KEY_HEAD : KEY_LAYER;
}

static int llama_layer(const void *config, int block)
{
    (void)config;
    return block - 1;
}

static graph_value *norm(graph *g, graph_value *x, const char *gain, const model_config *c)
{
    return build_rms_norm(g, x, build_weight(g, gain, c->hidden, 0, INIT_ONES, 0), c->norm_eps);
}

static graph_value *qkv_bias(graph *g, const model_config *c)
{
    graph_value *b = build_weight(g, "model.layers.{}.self_attn.qkv.bias",
                                  (c->heads + 2 * c->kv_heads) * c->head_dim, 0, INIT_ZEROS, 0);
    build_roles(g, b, ROLE_HEADS, ROLE_NONE);
    build_piece(g, b, "model.layers.{}.self_attn.q_proj.bias", c->heads * c->head_dim);
    build_piece(g, b, "model.layers.{}.self_attn.k_proj.bias", c->kv_heads * c->head_dim);
    build_piece(g, b, "model.layers.{}.self_attn.v_proj.bias", c->kv_heads * c->head_dim);
    return b;
}

static graph_value *qkv(graph *g, graph_value *x, const model_config *c)
{
    graph_value *w = build_weight(g, "model.layers.{}.self_attn.qkv.weight",
                                  (c->heads + 2 * c->kv_heads) * c->head_dim, c->hidden,
                                  INIT_NORMAL, c->init_std);
    build_roles(g, w, ROLE_HEADS, ROLE_EMBED);
    build_piece(g, w, "model.layers.{}.self_attn.q_proj.weight", c->heads * c->head_dim);
    build_piece(g, w, "model.layers.{}.self_attn.k_proj.weight", c->kv_heads * c->head_dim);
    build_piece(g, w, "model.layers.{}.self_attn.v_proj.weight", c->kv_heads * c->head_dim);
    return build_linear(g, x, w, c->attention_bias ? qkv_bias(g, c) : NULL);
}

static graph_value *gate_up(graph *g, graph_value *x, const model_config *c)
{
    graph_value *w = build_weight(g, "model.layers.{}.mlp.gate_up.weight", 2 * c->ffn, c->hidden,
                                  INIT_NORMAL, c->init_std),
                *b = NULL;
    build_roles(g, w, ROLE_MLP, ROLE_EMBED);
    build_piece(g, w, "model.layers.{}.mlp.gate_proj.weight", c->ffn);
    build_piece(g, w, "model.layers.{}.mlp.up_proj.weight", c->ffn);
    if (c->mlp_bias) {
        b = build_weight(g, "model.layers.{}.mlp.gate_up.bias", 2 * c->ffn, 0, INIT_ZEROS, 0);
        build_roles(g, b, ROLE_MLP, ROLE_NONE);
        build_piece(g, b, "model.layers.{}.mlp.gate_proj.bias", c->ffn);
        build_piece(g, b, "model.layers.{}.mlp.up_proj.bias", c->ffn);
    }
    return build_linear(g, x, w, b);
}

static graph_value *project(graph *g, graph_value *x, const char *weight, const char *bias,
                            bool has_bias, int64_t in, graph_role cols, const model_config *c)
{
    graph_value *w = build_weight(g, weight, c->hidden, in, INIT_NORMAL, c->init_std);
    build_roles(g, w, ROLE_EMBED, cols);
    return build_linear(g, x, w,
                        has_bias ? build_weight(g, bias, c->hidden, 0, INIT_ZEROS, 0) : NULL);
}

static void llama_layer_trace(graph *g, const model_config *c)
{
    graph_value *x = build_residual(g, c->hidden);

    graph_value *h = norm(g, x, "model.layers.{}.input_layernorm.weight", c);
    h = model_rope_build(g, qkv(g, h, c), c);
    h = build_attention(g, h, c->heads, c->kv_heads, c->head_dim, 1 / sqrt((double)c->head_dim),
                        c->dropout.attention);
    h = project(g, h, "model.layers.{}.self_attn.o_proj.weight",
                "model.layers.{}.self_attn.o_proj.bias", c->attention_bias, c->heads * c->head_dim,
                ROLE_HEADS, c);
    x = build_add(g, x, h, 1, 1);

    h = norm(g, x, "model.layers.{}.post_attention_layernorm.weight", c);
    h = build_glu(g, gate_up(g, h, c), c->act);
    h = project(g, h, "model.layers.{}.mlp.down_proj.weight", "model.layers.{}.mlp.down_proj.bias",
                c->mlp_bias, c->ffn, ROLE_MLP, c);
    build_output(g, build_add(g, x, h, 1, 1));
}

static graph_value *token_table(graph *g, const char *name, const model_config *c)
{
    graph_value *w = build_weight(g, name, c->vocab, c->hidden, INIT_NORMAL, c->init_std);
    build_roles(g, w, ROLE_VOCAB, ROLE_EMBED);
    return w;
}

static void llama_trace(graph *g, const void *config, int block)
{
    const model_config *c = config;
    if (block == 0) {
        graph_value *ids = build_ids(g);
        build_output(
            g, build_embedding(g, ids, token_table(g, "model.embed_tokens.weight", c), NULL, 1));
    } else if (block == c->layers + 1) {
        graph_value *x = norm(g, build_residual(g, c->hidden), "model.norm.weight", c);
        const char *name = c->tie_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
        build_linear_cross_entropy(g, x, token_table(g, name, c), NULL, 1);
    } else {
        llama_layer_trace(g, c);
    }
}

// clang-format off
static const model_field FIELDS[] = {
    {BOS, .value = 1},
    {EOS, .value = 2},
    {PAD, .value = -1},
    {TIE_EMBEDDINGS, .file = {"tie_word_embeddings"}, .value = false},
    {USE_CACHE},
    {VOCAB, .file = {"vocab_size"}, .value = 32000},
    {ATTENTION_BIAS, .file = {"attention_bias"}, .value = false},
    {DROP_ATTENTION, .file = {"attention_dropout"}, .flags = FIELD_MAY_CHANGE | FIELD_NULLABLE},
    {HEAD_DIM, .file = {"head_dim"}, .flags = FIELD_NULLABLE},
    {ACTIVATION, .file = {"hidden_act"}, .value = ACT_SILU},
    {HIDDEN, .file = {"hidden_size"}, .value = 4096},
    {INIT_STD, .file = {"initializer_range"}, .value = 0.02},
    {FFN, .file = {"intermediate_size"}, .value = 11008, .flags = FIELD_OF_WIDTH},
    {MAX_SEQ, .file = {"max_position_embeddings"}, .value = 2048},
    {MLP_BIAS, .file = {"mlp_bias"}, .value = false},
    {HEADS, .file = {"num_attention_heads"}, .value = 32, .flags = FIELD_OF_WIDTH},
    {LAYERS, .file = {"num_hidden_layers"}, .value = 32, .flags = FIELD_OF_WIDTH},
    {KV_HEADS, .file = {"num_key_value_heads"}, .flags = FIELD_NULLABLE},
    {.file = {"pretraining_tp"}, .type = FIELD_FIXED, .value = 1, .json = "1"},
    {NORM_EPS, .file = {"rms_norm_eps"}, .value = 1e-6},
    ROPE_ROWS,
    NOT_PLAIN,
};
// clang-format on

static const model_sizes SIZES = {
    .published =
        {{2048, 16}, {3072, 28}, {4096, 32}, {5120, 40}, {6656, 60}, {8192, 80}, {16384, 126}},
    .wide_heads = 3072,
    .gated = true,
    .rotary = true};

static const model_schema SCHEMA = {.model_type = "llama",
                                    .architectures = {"LlamaForCausalLM", "LlamaModel"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .sizes = &SIZES};

const model_family llama_family = {.name = "llama",
                                   .schema = &SCHEMA,
                                   .blocks = llama_blocks,
                                   .key = llama_key,
                                   .trace = llama_trace,
                                   .layer = llama_layer};
