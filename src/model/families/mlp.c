// mlp.c -- a multi-layer perceptron on vectors: `layers` linear layers of width `hidden` with an
// activation between them. The loss is cross-entropy over `vocab` classes, or squared error against
// `vocab` targets. Called through model_family. Each linear layer is a block.
#include "model/fields.h"

#include <math.h>

enum { KEY_FIRST, KEY_MIDDLE, KEY_LAST, KEY_ONLY };
enum { FEATURES, LOSS }; // numbers of the family's own
enum { CROSS_ENTROPY, MSE };

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
    graph_value *x =
        block == 0 ? build_features(g, c->own[FEATURES].integer) : build_input(g, c->hidden);
    int64_t in = graph_value_cols(x), out = last ? c->vocab : c->hidden;
    // This deviation keeps the variance of activations through rectifiers (He et al. 2015).
    graph_value *w =
        build_weight(g, "layers.{}.weight", out, in, INIT_NORMAL, sqrt(2.0 / (double)in));
    graph_value *b = build_weight(g, "layers.{}.bias", out, 0, INIT_ZEROS, 0);
    if (!last)
        build_output(g, build_activation(g, build_linear(g, x, w, b), c->act));
    else if (c->own[LOSS].word == MSE)
        build_linear_square_error(g, x, w, b);
    else
        build_linear_cross_entropy(g, x, w, b, 1, 0);
}

static const model_words LOSS_WORDS = {"cross_entropy, mse",
                                       {{"cross_entropy", CROSS_ENTROPY}, {"mse", MSE}}};

// clang-format off
static const model_field FIELDS[] = {
    {ACTIVATION, .file = {"activation"}, .value = ACT_RELU},
    {NAME("classes"), .help = "Sets the number of classes, or of targets with loss mse.", .file = {"classes", "vocab"}, SIZE(vocab)},
    {NAME("features"), .help = "Sets how many features an input vector has.", .file = {"features"}, SIZE(own[FEATURES])},
    {HIDDEN, .file = {"hidden"}, .value = 128},
    {LAYERS, .file = {"layers"}, .value = 2},
    {NAME("loss"), .help = "Chooses the loss: cross_entropy for classes, mse for regression.", .file = {"loss"}, .type = FIELD_WORD, .words = &LOSS_WORDS, OWN(LOSS), .after = offsetof(model_config, act)},
};
// clang-format on

static status mlp_finish(model_config *c, err *e)
{
    if (c->own[LOSS].word != CROSS_ENTROPY || c->vocab >= 2) return OK;
    return err_set(e, E_USAGE,
                   "classes: found 1, valid with loss cross_entropy are numbers from 2");
}

static const model_schema SCHEMA = {.model_type = "trireme_mlp",
                                    .architectures = {"TriremeMLP"},
                                    .fields = FIELDS,
                                    .count = sizeof FIELDS / sizeof *FIELDS,
                                    .finish = mlp_finish};

const model_family mlp_family = {.name = "mlp",
                                 .schema = &SCHEMA,
                                 .reads_vectors = true,
                                 .blocks = mlp_blocks,
                                 .key = mlp_key,
                                 .trace = mlp_trace,
                                 .layer = mlp_layer};
