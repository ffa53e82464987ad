// own_model.c -- makes a model_family of a program's trm_family, and checks that each block as a
// whole is valid. builder.c checks the single calls.
#include "api/api.h"

#include <string.h>

enum { BLOCKS_MAX = 4096 };

static int own_blocks(const void *config)
{
    const api_model *m = config;
    return m->of.blocks(m->config);
}

static int own_key(const void *config, int block)
{
    const api_model *m = config;
    return m->of.key ? m->of.key(m->config, block) : block;
}

static int own_layer(const void *config, int block)
{
    const api_model *m = config;
    return m->of.layer ? m->of.layer(m->config, block) : block;
}

static void own_trace(graph *g, const void *config, int block)
{
    const api_model *m = config;
    const bool first = block == 0, last = block == own_blocks(config) - 1;
    trm_builder b = {.g = g};
    m->of.trace(&b, m->config, block);
    if (first && !g->ids) graph_misuse(g, "the first block must call trm_ids or trm_features");
    if (first && g->input) graph_misuse(g, "trm_input: the first block has no block before it");
    if (!first && g->ids) graph_misuse(g, "trm_ids and trm_features are for the first block");
    if (!first && !g->input) graph_misuse(g, "the block must call trm_input");
    if (last && !b.has_loss)
        graph_misuse(g, "the last block must call trm_cross_entropy or trm_square_error");
    if (last && g->output) graph_misuse(g, "trm_output: the last block has no block after it");
    if (!last && b.has_loss) graph_misuse(g, "a loss is for the last block");
    if (!last && !g->output) graph_misuse(g, "the block must call trm_output");
    if (g->first_error.code != OK) err_prefix(&g->first_error, "%s, block %d: ", m->of.name, block);
}

status api_model_make(api_model *m, const trm_family *of, const void *config, err *e)
{
    status result = OK;
    if (!of->name || !of->name[0]) FAIL(E_USAGE, "model: the family has no name");
    if (!of->blocks || !of->trace)
        FAIL(E_USAGE, "model: the family %s lacks its function %s", of->name,
             of->trace ? "blocks" : "trace");
    const int blocks = of->blocks(config);
    if (blocks < 1 || blocks > BLOCKS_MAX)
        FAIL(E_USAGE, "model: the family %s has %d blocks; valid: 1 to %d", of->name, blocks,
             BLOCKS_MAX);
    *m = (api_model){.ops = {.name = of->name,
                             .blocks = own_blocks,
                             .key = own_key,
                             .trace = own_trace,
                             .layer = own_layer},
                     .of = *of,
                     .config = config};
done:
    return result;
}
