// sinks_family.h -- for tests: a family whose attention has a window, a cap and sinks.
#ifndef TRIREME_TESTS_SINKS_FAMILY_H
#define TRIREME_TESTS_SINKS_FAMILY_H

#include "graph/graph.h"
#include "model/model.h"

static int sinks_blocks(const void *config)
{
    (void)config;
    return 3;
}

static int sinks_key(const void *config, int block)
{
    (void)config;
    return block;
}

static void sinks_trace(graph *g, const void *config, int block)
{
    const model_config *c = config;
    if (block == 0) {
        graph_value *table = build_weight(g, "tokens", 37, 16, INIT_NORMAL, 1);
        build_roles(g, table, ROLE_VOCAB, ROLE_EMBED);
        build_output(g, build_embedding(g, build_ids(g), table, NULL, 1));
        return;
    }
    graph_value *x = build_residual(g, 16);
    if (block == 2) {
        graph_value *w = build_weight(g, "head", 37, 16, INIT_NORMAL, 1);
        build_roles(g, w, ROLE_VOCAB, ROLE_EMBED);
        build_linear_cross_entropy(g, x, w, NULL, 1, 0);
        return;
    }
    graph_value *w = build_weight(g, "qkv", 8 * 4, 16, INIT_NORMAL, 1);
    graph_value *o = build_weight(g, "o", 16, 16, INIT_NORMAL, 1);
    graph_value *sinks = build_weight(g, "sinks", 4, 0, INIT_NORMAL, 1);
    build_roles(g, w, ROLE_HEADS, ROLE_EMBED);
    build_roles(g, o, ROLE_EMBED, ROLE_HEADS);
    build_roles(g, sinks, ROLE_HEADS, ROLE_NONE);
    graph_value *h = build_attention(g, build_linear(g, x, w, NULL),
                                     &(graph_attention){.heads = 4,
                                                        .kv_heads = 2,
                                                        .head_dim = 4,
                                                        .scale = 2,
                                                        .dropout = c->dropout.attention,
                                                        .window = 4,
                                                        .softcap = 1.5,
                                                        .sinks = sinks});
    build_output(g, build_add(g, x, build_linear(g, h, o, NULL), 1, 1));
}

static const model_family sinks_family = {.name = "sinks",
                                          .blocks = sinks_blocks,
                                          .key = sinks_key,
                                          .trace = sinks_trace,
                                          .layer = sinks_key};

#endif
