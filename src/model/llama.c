// llama.c -- the Llama family (Touvron et al. 2023): RMS norm, rotary positions, shared key-value
// heads, gated MLP. The projections of queries, keys and values are one parameter, so that they are
// one matrix product; files hold three tensors. Gate and up likewise. Called through model_family.
// Blocks: the embedding, the layers, the head.
#include "model/model.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>

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

// One rotary frequency, in fp32 as HuggingFace computes it. llama3 divides the frequencies of long
// waves, keeps those of short waves, and blends between (Dubey et al. 2024).
static float rope_frequency(const model_config *c, int64_t i)
{
    float f = 1.0f / powf((float)c->rope_theta, (float)(2 * i) / (float)c->head_dim);
    if (c->rope == ROPE_LINEAR) return f / (float)c->rope_factor;
    if (c->rope != ROPE_LLAMA3) return f;
    float original = (float)c->rope_original, wave = 2 * (float)M_PI / f;
    if (wave < original / (float)c->rope_high) return f;
    if (wave > original / (float)c->rope_low) return f / (float)c->rope_factor;
    float s = (original / wave - (float)c->rope_low) / ((float)c->rope_high - (float)c->rope_low);
    return (1 - s) * f / (float)c->rope_factor + s * f;
}

static graph_value *rope(graph *g, graph_value *qkv, const model_config *c)
{
    int64_t half = c->head_dim / 2;
    double *frequency = NULL;
    if (!graph_check(g, alloc_zeroed(&frequency, (size_t)half, sizeof *frequency, "", NULL)))
        return qkv;
    for (int64_t i = 0; i < half; i++) frequency[i] = (double)rope_frequency(c, i);
    graph_value *y =
        build_rope(g, qkv, c->heads + c->kv_heads, c->head_dim, c->max_seq, frequency, half);
    free(frequency);
    return y;
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
    h = rope(g, qkv(g, h, c), c);
    h = build_attention(g, h, c->heads, c->kv_heads, c->head_dim, 1 / sqrt((double)c->head_dim),
                        c->drop_attention);
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

const model_family llama_family = {.name = "llama",
                                   .blocks = llama_blocks,
                                   .key = llama_key,
                                   .trace = llama_trace,
                                   .layer = llama_layer};
