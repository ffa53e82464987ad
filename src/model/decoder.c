// decoder.c -- builds the blocks of a decoder from its records: the embedding, the layers, the head. Called through
// model_family by every family of text models. Does not know the families.
#include "model/decoder_layer.h"

#include "graph/mixers.h"
#include "model/fields.h"

#include <math.h>
#include <stdio.h>

enum { KEY_EMBED, KEY_HEAD, KEY_LAYER };

int decoder_blocks(const void *config)
{
    return (int)((const model_config *)config)->layers + 2;
}

int decoder_layer(const void *config, int block)
{
    (void)config;
    return block - 1;
}

// The first layer that rotates by the same frequencies.
static int first_alike(const model_config *c, int layer)
{
    const model_numbers *theta = &c->rope.layer_theta;
    int first = 0;
    while (theta->count && theta->number[first] != theta->number[layer]) first++;
    return first;
}

// Layers share a graph where their numbers are the same.
int decoder_key(const void *config, int block)
{
    const model_config *c = config;
    if (block == 0) return KEY_EMBED;
    if (block == c->layers + 1) return KEY_HEAD;
    const int layer = block - 1;
    const int kind = 8 * model_layer_has(&c->wide, layer) +
                     4 * model_layer_has(&c->attending, layer) +
                     2 * model_layer_has(&c->sliding, layer) + model_layer_has(&c->rotating, layer);
    return KEY_LAYER + kind + 16 * (c->scale_by_layer ? layer : first_alike(c, layer));
}

// Declares a parameter of pieces with `rows` rows each; cols 0: a vector.
static graph_value *declare(graph *g, const decoder_tensor *t, const char *kind,
                            const int64_t rows[DECODER_PIECES], int64_t cols, graph_init init,
                            double std, const int64_t *run)
{
    char name[PARAM_NAME_BYTES];
    int64_t all = 0;
    for (int i = 0; i < DECODER_PIECES; i++) all += rows[i];
    snprintf(name, sizeof name, "%s.%s", t->name, kind);
    graph_value *w = build_weight(g, name, all, cols, init, std);
    if (!t->piece[0] && run && run[0]) build_turns(g, w, run);
    for (int i = 0; i < DECODER_PIECES && t->piece[i] && rows[i]; i++) {
        snprintf(name, sizeof name, "%s.%s", t->piece[i], kind);
        build_piece(g, w, name, rows[i]);
        if (i == 0 && run && run[0]) build_turns(g, w, run);
    }
    return w;
}

graph_value *decoder_build_vector(graph *g, const char *name, const char *kind, int64_t rows,
                                  graph_init init)
{
    return declare(g, &(decoder_tensor){name, {NULL}}, kind, (int64_t[DECODER_PIECES]){rows}, 0,
                   init, 0, NULL);
}

graph_value *decoder_build_linear(graph *g, graph_value *x, const decoder_linear *l,
                                  const decoder_form *form)
{
    graph_value *w = declare(g, l->tensor, "weight", l->rows, l->in, INIT_NORMAL, l->std, l->run),
                *b = NULL;
    if (l->heads[0] > 0) build_sections(g, w, l->rows, l->heads);
    build_roles(g, w, l->out_role, l->in_role);
    if (form->transposed) build_transposed(g, w);
    if (l->bias) {
        b = declare(g, l->tensor, "bias", l->rows, 0, INIT_ZEROS, 0, l->run);
        if (l->heads[0] > 0) build_sections(g, b, l->rows, l->heads);
        build_roles(g, b, l->out_role, ROLE_NONE);
    }
    return build_linear(g, x, w, b);
}

static graph_init gain_init(const decoder_form *form)
{
    return form->unit_offset ? INIT_ZEROS : INIT_ONES;
}

// x itself where the family has no such norm.
static graph_value *norm(graph *g, graph_value *x, const char *name, const model_config *c)
{
    const decoder_form *form = c->family->decoder;
    const graph_norm how = {
        .eps = c->norm_eps, .is_rms = !form->layer_norm, .unit_offset = form->unit_offset};
    if (!name) return x;
    graph_value *gain = decoder_build_vector(g, name, "weight", c->hidden, gain_init(form)),
                *bias = NULL;
    if (form->norm_bias) bias = decoder_build_vector(g, name, "bias", c->hidden, INIT_ZEROS);
    return build_norm(g, x, gain, bias, &how);
}

double decoder_output_std(const model_config *c)
{
    return c->family->decoder->scaled_init ? c->init_std / sqrt(2.0 * (double)c->layers)
                                           : c->init_std;
}

static double attention_scale(const model_config *c, int layer)
{
    const double under_root = (double)(c->query_scalar > 0 ? c->query_scalar : c->head_dim);
    const double scale = c->scales.attention > 0 ? c->scales.attention
                         : c->scale_attention    ? 1 / sqrt(under_root)
                                                 : 1;
    return c->scale_by_layer ? scale / (layer + 1) : scale;
}

// The numbers of a layer's heads.
typedef struct decoder_heads {
    int64_t heads, kv_heads, head_dim;
    bool of_keys; // the values are those of the keys
} decoder_heads;

static decoder_heads heads_of(const model_config *c, int layer)
{
    return (decoder_heads){.heads = c->heads,
                           .kv_heads = model_kv_heads(c, layer),
                           .head_dim = model_head_dim(c, layer),
                           .of_keys = c->keys_are_values && !model_layer_has(&c->sliding, layer)};
}

static graph_value *qk_gain(graph *g, const char *name, int64_t heads, int64_t head_dim,
                            const model_config *c)
{
    const decoder_form *form = c->family->decoder;
    const decoder_qk_norm kind = form->qk_norm;
    const bool matrix = kind == QK_NORM_OWN_GAINS;
    const int64_t all = heads * head_dim, rows = matrix                 ? heads
                                                 : kind == QK_NORM_HEAD ? head_dim
                                                                        : all;
    char piece[PARAM_NAME_BYTES];
    graph_value *w =
        declare(g, &(decoder_tensor){name, {NULL}}, "weight", (int64_t[DECODER_PIECES]){rows},
                matrix ? head_dim : 0, gain_init(form), 0, NULL);
    for (int i = 0; kind == QK_NORM_OWN_TENSORS && i < heads; i++) {
        snprintf(piece, sizeof piece, "%s.%d.weight", name, i);
        build_piece(g, w, piece, head_dim);
    }
    if (kind != QK_NORM_HEAD) build_roles(g, w, ROLE_HEADS, ROLE_NONE);
    return w;
}

static graph_value *qk_norm(graph *g, graph_value *qkv, const model_config *c, int layer)
{
    const decoder_heads h = heads_of(c, layer);
    const decoder_form *form = c->family->decoder;
    graph_qk_norm how = {.heads = h.heads,
                         .kv_heads = h.kv_heads,
                         .head_dim = h.head_dim,
                         .eps = c->norm_eps,
                         .full_width = form->qk_norm == QK_NORM_FULL,
                         .layer_norm = form->qk_norm >= QK_NORM_OWN_GAINS,
                         .unit_offset = form->unit_offset};
    how.q_gain = qk_gain(g, form->names.query_norm, h.heads, h.head_dim, c);
    how.k_gain = qk_gain(g, form->names.key_norm, h.kv_heads, h.head_dim, c);
    return build_qk_norm(g, qkv, &how);
}

// Queries and keys are normalized and rotated, in the order of the family.
static graph_value *prepare(graph *g, graph_value *qkv, const model_config *c, int layer)
{
    const decoder_form *form = c->family->decoder;
    const bool rotates = !form->names.positions && model_layer_has(&c->rotating, layer),
               norms = c->qk_norm && form->qk_norm != QK_NORM_NONE;
    if (norms && !form->qk_norm_after_rope) qkv = qk_norm(g, qkv, c, layer);
    if (rotates) qkv = model_rope_build(g, qkv, c, layer);
    return norms && form->qk_norm_after_rope ? qk_norm(g, qkv, c, layer) : qkv;
}

static graph_value *value_norm(graph *g, graph_value *qkv, const model_config *c, int layer)
{
    const decoder_heads h = heads_of(c, layer);
    const graph_value_norm how = {.heads = h.heads,
                                  .kv_heads = h.kv_heads,
                                  .head_dim = h.head_dim,
                                  .eps = c->norm_eps,
                                  .of_keys = h.of_keys};
    return c->family->decoder->norms_values ? build_value_norm(g, qkv, &how) : qkv;
}

static graph_value *sinks(graph *g, const model_config *c)
{
    const char *name = c->family->decoder->names.sinks;
    if (!name) return NULL;
    graph_value *w = decoder_build_vector(g, name, "sinks", c->heads, INIT_ZEROS);
    build_roles(g, w, ROLE_HEADS, ROLE_NONE);
    return w;
}

// Queries, keys and values. *gates gets the gates of attention's output; NULL: it has none.
static graph_value *project_qkv(graph *g, graph_value *x, const model_config *c,
                                const decoder_heads *heads, graph_value **gates)
{
    const decoder_form *form = c->family->decoder;
    const int64_t d = heads->head_dim, q = heads->heads * d, kv = heads->kv_heads * d,
                  gate = form->output_gate ? d : 0;
    decoder_linear in = {.tensor = &form->names.qkv,
                         .rows = {form->output_gate ? 2 * q : q, kv, heads->of_keys ? 0 : kv},
                         .run = {gate, gate},
                         .in = c->hidden,
                         .out_role = ROLE_HEADS,
                         .in_role = ROLE_EMBED,
                         .bias = c->attention_bias,
                         .std = c->init_std};
    // Ranks may share heads of keys where attention reads the columns of this product.
    if (!form->output_gate && !form->norms_values)
        in.heads[0] = heads->heads, in.heads[1] = in.heads[2] = heads->kv_heads;
    graph_value *h = decoder_build_linear(g, x, &in, form), *qkv = h;
    *gates = form->output_gate ? build_take_columns(g, h, q, q, &qkv) : NULL;
    return qkv;
}

static graph_value *attention(graph *g, graph_value *x, const model_config *c, int layer)
{
    const decoder_form *form = c->family->decoder;
    const decoder_heads heads = heads_of(c, layer);
    const int64_t q = heads.heads * heads.head_dim;
    const decoder_linear out = {.tensor = &form->names.output,
                                .rows = {c->hidden},
                                .in = q,
                                .out_role = ROLE_EMBED,
                                .in_role = ROLE_HEADS,
                                .bias = form->output_bias ? c->attention_bias : c->output_bias,
                                .std = decoder_output_std(c)};
    const bool has_window = model_layer_has(&c->sliding, layer);
    const graph_attention how = {.heads = heads.heads,
                                 .kv_heads = heads.kv_heads,
                                 .head_dim = heads.head_dim,
                                 .scale = attention_scale(c, layer),
                                 .dropout = c->dropout.attention,
                                 .window = has_window ? c->window : 0,
                                 .softcap = c->attention_softcap,
                                 .sinks = sinks(g, c)};
    graph_value *gates, *h = project_qkv(g, x, c, &heads, &gates);
    h = prepare(g, value_norm(g, h, c, layer), c, layer);
    h = build_attention(g, h, &how);
    if (gates) h = build_gate(g, h, gates, &(graph_gate){.gain = NULL});
    return decoder_build_linear(g, h, &out, form);
}

// A number of a layer. The values are those with which transformers starts.
static graph_value *number(graph *g, const char *name, const char *kind, double value)
{
    return declare(g, &(decoder_tensor){name, {NULL}}, kind, (int64_t[DECODER_PIECES]){1}, 0,
                   INIT_CONSTANT, value, NULL);
}

// A number that training does not change.
static graph_value *fixed_number(graph *g, const char *name, const char *kind, double value)
{
    graph_value *w = number(g, name, kind, value);
    build_constant(g, w);
    build_scalar(g, w);
    return w;
}

static graph_value *xielu(graph *g, graph_value *x, const char *name)
{
    const double beta = 0.5, alpha = 0.8;
    const graph_xielu numbers = {.alpha_p = number(g, name, "alpha_p", log(expm1(alpha))),
                                 .alpha_n = number(g, name, "alpha_n", log(expm1(alpha - beta))),
                                 .beta = fixed_number(g, name, "beta", beta),
                                 .eps = fixed_number(g, name, "eps", -1e-6)};
    return build_xielu(g, x, &numbers);
}

// Mixes the tokens of a layer.
static graph_value *mix(graph *g, graph_value *x, const model_config *c, int layer)
{
    static graph_value *(*const mixers[MIXERS])(graph *, graph_value *, const model_config *,
                                                int) = {[MIXER_ATTENTION] = attention,
                                                        [MIXER_CONV] = decoder_short_conv,
                                                        [MIXER_DELTA] = decoder_delta_rule};
    const bool attends = model_layer_has(&c->attending, layer);
    return mixers[attends ? MIXER_ATTENTION : c->family->decoder->mixer](g, x, c, layer);
}

static graph_value *mlp(graph *g, graph_value *x, const model_config *c)
{
    const decoder_form *form = c->family->decoder;
    const bool bias = form->mlp_has_same_bias ? c->attention_bias : c->mlp_bias;
    const decoder_linear up = {.tensor = &form->names.up,
                               .rows = {c->ffn, form->gated ? c->ffn : 0},
                               .in = c->hidden,
                               .out_role = ROLE_MLP,
                               .in_role = ROLE_EMBED,
                               .bias = bias,
                               .std = c->init_std};
    const decoder_linear down = {.tensor = &form->names.down,
                                 .rows = {c->hidden},
                                 .in = c->ffn,
                                 .out_role = ROLE_EMBED,
                                 .in_role = ROLE_MLP,
                                 .bias = bias,
                                 .std = decoder_output_std(c)};
    graph_value *h = decoder_build_linear(g, x, &up, form);
    h = form->gated         ? build_glu(g, h, c->act)
        : form->names.xielu ? xielu(g, h, form->names.xielu)
                            : build_activation(g, h, c->act);
    return decoder_build_linear(g, h, &down, form);
}

static graph_value *add(graph *g, graph_value *x, graph_value *h, const model_config *c)
{
    const double scale = c->scales.residual > 0 ? c->scales.residual : 1;
    return build_add(g, x, build_dropout(g, h, c->dropout.residual), 1, scale);
}

static void trace_layer(graph *g, const model_config *c, int layer)
{
    const decoder_form *form = c->family->decoder;
    const char *const *const name = form->names.norm;
    graph_value *x = build_residual(g, c->hidden);
    graph_value *read = norm(g, x, name[BEFORE_ATTENTION], c);
    x = add(g, x, norm(g, mix(g, read, c, layer), name[AFTER_ATTENTION], c), c);
    if (!c->parallel) read = norm(g, x, name[BEFORE_MLP], c);
    x = add(g, x, norm(g, mlp(g, read, c), name[AFTER_MLP], c), c);
    if (form->names.scalar) {
        graph_value *factor = number(g, form->names.scalar, "layer_scalar", 1);
        build_constant(g, factor);
        x = build_scaled(g, x, factor);
    }
    build_output(g, x);
}

static graph_value *token_table(graph *g, const char *name, const model_config *c)
{
    graph_value *w =
        declare(g, &(decoder_tensor){name, {NULL}}, "weight", (int64_t[DECODER_PIECES]){c->vocab},
                c->hidden, INIT_NORMAL, c->init_std, NULL);
    build_roles(g, w, ROLE_VOCAB, ROLE_EMBED);
    return w;
}

static void trace_embedding(graph *g, const model_config *c)
{
    const decoder_names *names = &c->family->decoder->names;
    graph_value *ids = build_ids(g), *tokens = token_table(g, names->embedding, c),
                *positions = NULL;
    if (names->positions)
        positions = declare(g, &(decoder_tensor){names->positions, {NULL}}, "weight",
                            (int64_t[DECODER_PIECES]){c->max_seq}, c->hidden, INIT_NORMAL,
                            c->init_std, NULL);
    double scale = c->scales.embedding > 0 ? c->scales.embedding : 1;
    if (c->family->decoder->scales_embedding) scale *= sqrt((double)c->hidden);
    graph_value *x = build_embedding(g, ids, tokens, positions, scale);
    build_output(g, build_dropout(g, x, c->dropout.embed));
}

static void trace_head(graph *g, const model_config *c)
{
    const decoder_names *names = &c->family->decoder->names;
    graph_value *x = norm(g, build_residual(g, c->hidden), names->final_norm, c);
    const char *name = c->tie_embeddings ? names->embedding : names->head;
    double scale = c->scales.logits > 0 ? c->scales.logits : 1;
    if (c->family->decoder->divides_logits) scale = 1 / scale;
    build_linear_cross_entropy(g, x, token_table(g, name, c), NULL, scale, c->logit_softcap);
}

void decoder_trace(graph *g, const void *config, int block)
{
    const model_config *c = config;
    if (block == 0)
        trace_embedding(g, c);
    else if (block == c->layers + 1)
        trace_head(g, c);
    else
        trace_layer(g, c, block - 1);
}
