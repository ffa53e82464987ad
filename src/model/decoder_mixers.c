// decoder_mixers.c -- what mixes the tokens of a layer that has no attention: a short convolution (LFM2), or a gated delta
// rule (Yang et al. 2024; Qwen 3.5). Called by decoder.c through its table of mixers.
#include "model/decoder_layer.h"

#include "graph/mixers.h"

#include <stdio.h>

// The taps of a convolution of `cols` columns.
static graph_value *taps(graph *g, const model_config *c, int64_t cols, graph_role role)
{
    char name[PARAM_NAME_BYTES];
    snprintf(name, sizeof name, "%s.weight", c->family->decoder->names.taps);
    graph_value *w = build_weight(g, name, cols, c->conv_width, INIT_NORMAL, c->init_std);
    build_roles(g, w, role, ROLE_NONE);
    build_conv_weight(g, w);
    return w;
}

graph_value *decoder_short_conv(graph *g, graph_value *x, const model_config *c, int layer)
{
    (void)layer;
    const decoder_form *form = c->family->decoder;
    const decoder_linear in = {.tensor = &form->names.conv_in,
                               .rows = {c->hidden, c->hidden, c->hidden},
                               .in = c->hidden,
                               .out_role = ROLE_MLP,
                               .in_role = ROLE_EMBED,
                               .bias = c->conv_bias,
                               .std = c->init_std};
    const decoder_linear out = {.tensor = &form->names.conv_out,
                                .rows = {c->hidden},
                                .in = c->hidden,
                                .out_role = ROLE_EMBED,
                                .in_role = ROLE_MLP,
                                .bias = c->conv_bias,
                                .std = decoder_output_std(c)};
    graph_value *h = decoder_build_linear(g, x, &in, form), *bias = NULL;
    if (c->conv_bias) {
        bias = decoder_build_vector(g, form->names.taps, "bias", c->hidden, INIT_ZEROS);
        build_roles(g, bias, ROLE_MLP, ROLE_NONE);
    }
    h = build_causal_conv(
        g, h, &(graph_conv){.w = taps(g, c, c->hidden, ROLE_MLP), .bias = bias, .gated = true});
    return decoder_build_linear(g, h, &out, form);
}

// A parameter with a number for each head, under its full name.
static graph_value *head_numbers(graph *g, const char *name, int64_t heads)
{
    graph_value *w = build_weight(g, name, heads, 0, INIT_ONES, 0);
    build_roles(g, w, ROLE_HEADS, ROLE_NONE);
    return w;
}

// A projection of a gated delta rule from the residual.
static graph_value *delta_in(graph *g, graph_value *x, const model_config *c,
                             const decoder_linear *l)
{
    decoder_linear in = *l;
    in.in = c->hidden, in.std = c->init_std;
    in.out_role = ROLE_HEADS, in.in_role = ROLE_EMBED;
    return decoder_build_linear(g, x, &in, c->family->decoder);
}

// Queries, keys and values; *z gets the gates of the output. Files have them apart, or as one tensor, key head by key
// head.
static graph_value *delta_qkv(graph *g, graph_value *x, const model_config *c, graph_value **z)
{
    const decoder_delta *names = &c->family->decoder->names.delta;
    const model_delta_config *d = &c->delta;
    const int64_t keys = d->key_heads * d->key_dim, values = d->heads * d->head_dim,
                  group = values / d->key_heads, qkv = 2 * keys + values;
    graph_value *rest;
    if (names->gate.name) {
        *z = delta_in(g, x, c, &(decoder_linear){.tensor = &names->gate, .rows = {values}});
        return delta_in(g, x, c, &(decoder_linear){.tensor = &names->qkv, .rows = {qkv}});
    }
    const decoder_linear all = {.tensor = &names->qkv,
                                .rows = {qkv + values},
                                .run = {d->key_dim, d->key_dim, group, group}};
    *z = build_take_columns(g, delta_in(g, x, c, &all), qkv, values, &rest);
    return rest;
}

// The gates of the rule.
static graph_value *delta_gates(graph *g, graph_value *x, const model_config *c)
{
    const decoder_delta *names = &c->family->decoder->names.delta;
    const int64_t heads = c->delta.heads, group = heads / c->delta.key_heads;
    const bool apart = names->ba.piece[0] != NULL;
    const decoder_linear apart_in = {.tensor = &names->ba, .rows = {heads, heads}},
                         in = {.tensor = &names->ba, .rows = {2 * heads}, .run = {group, group}};
    return build_delta_gates(g, delta_in(g, x, c, apart ? &apart_in : &in),
                             head_numbers(g, names->log_decay, heads),
                             head_numbers(g, names->a_bias, heads));
}

graph_value *decoder_delta_rule(graph *g, graph_value *x, const model_config *c, int layer)
{
    (void)layer;
    const decoder_form *form = c->family->decoder;
    const decoder_delta *names = &form->names.delta;
    const model_delta_config *d = &c->delta;
    const int64_t values = d->heads * d->head_dim;
    const graph_delta rule = {.heads = d->heads,
                              .key_heads = d->key_heads,
                              .key_dim = d->key_dim,
                              .value_dim = d->head_dim,
                              .eps = 1e-6};
    const decoder_linear out = {.tensor = &names->output,
                                .rows = {c->hidden},
                                .in = values,
                                .out_role = ROLE_EMBED,
                                .in_role = ROLE_HEADS,
                                .std = decoder_output_std(c)};
    graph_value *z, *qkv = delta_qkv(g, x, c, &z), *gates = delta_gates(g, x, c);
    qkv = build_causal_conv(
        g, qkv,
        &(graph_conv){.w = taps(g, c, 2 * d->key_heads * d->key_dim + values, ROLE_HEADS),
                      .silu = true});
    graph_value *h = build_delta_rule(g, qkv, gates, &rule);
    const graph_gate how = {
        .gain = decoder_build_vector(g, names->norm, "weight", d->head_dim, INIT_ONES),
        .head_dim = d->head_dim,
        .eps = c->norm_eps,
        .silu = true};
    return decoder_build_linear(g, build_gate(g, h, z, &how), &out, form);
}
