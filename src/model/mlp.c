// mlp.c -- a multi-layer perceptron on vectors: `layers` linear layers of width `hidden` with an
// activation between them. The loss is cross-entropy over `vocab` classes, or squared error against
// `vocab` targets. Called through model_family. Each linear layer is a block.
#include "model/model.h"

#include <math.h>

enum { KEY_FIRST, KEY_MIDDLE, KEY_LAST, KEY_ONLY };

static int mlp_blocks(const void *config)
{
    return (int)((const model_config *)config)->layers;
}

static int mlp_key(const void *config, int block)
{
    int last = mlp_blocks(config) - 1;
    if (last == 0) return KEY_ONLY;
    return block == 0 ? KEY_FIRST : block == last ? KEY_LAST : KEY_MIDDLE;
}

static int mlp_layer(const void *config, int block)
{
    (void)config;
    return block;
}

static void mlp_trace(graph *g, const void *config, int block)
{
    const model_config *c = config;
    bool last = block == c->layers - 1;
    graph_value *x = block == 0 ? build_features(g, c->features) : build_input(g, c->hidden);
    int64_t in = graph_value_cols(x), out = last ? c->vocab : c->hidden;
    // This deviation keeps the variance of activations through rectifiers (He et al. 2015).
    graph_value *w =
        build_weight(g, "layers.{}.weight", out, in, INIT_NORMAL, sqrt(2.0 / (double)in));
    graph_value *b = build_weight(g, "layers.{}.bias", out, 0, INIT_ZEROS, 0);
    if (!last)
        build_output(g, build_activation(g, build_linear(g, x, w, b), c->act));
    else if (c->loss == LOSS_MSE)
        build_linear_square_error(g, x, w, b);
    else
        build_linear_cross_entropy(g, x, w, b, 1);
}

const model_family mlp_family = {
    .name = "mlp", .blocks = mlp_blocks, .key = mlp_key, .trace = mlp_trace, .layer = mlp_layer};
