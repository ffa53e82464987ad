// decoder_layer.h -- parts of a decoder's layer that decoder.c and decoder_mixers.c share. No family reads it.
#ifndef TRIREME_MODEL_DECODER_LAYER_H
#define TRIREME_MODEL_DECODER_LAYER_H

#include "model/decoder.h"

// A linear layer from `in` columns to the rows of its pieces.
typedef struct decoder_linear {
    const decoder_tensor *tensor;
    int64_t rows[PARAM_SECTIONS], in;
    // The first piece is parts, of which files hold so many rows in turn; 0: it is not
    int64_t run[PARAM_SECTIONS];
    int64_t heads[PARAM_SECTIONS]; // of the rows of each; 0: ranks share no heads
    graph_role out_role, in_role;
    bool bias;
    double std;
} decoder_linear;

graph_value *decoder_build_linear(graph *g, graph_value *x, const decoder_linear *l,
                                  const decoder_form *form);
// A parameter of one dimension, NAME.kind.
graph_value *decoder_build_vector(graph *g, const char *name, const char *kind, int64_t rows,
                                  graph_init init);
// The deviation of the initial weights of a projection to the residual (Radford et al. 2019).
double decoder_output_std(const model_config *c);

// after * conv(before * x), between two projections.
//   x [rows, hidden] -> [rows, hidden]
graph_value *decoder_short_conv(graph *g, graph_value *x, const model_config *c, int layer);
// A gated delta rule behind a convolution of its queries, keys and values; its output is normed and gated.
//   x [rows, hidden] -> [rows, hidden]
graph_value *decoder_delta_rule(graph *g, graph_value *x, const model_config *c, int layer);

#endif
