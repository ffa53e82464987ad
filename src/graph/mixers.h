// mixers.h -- the build functions of ops that mix tokens without attention, and of gates. A part of graph.h for the model
// families that have them: convolutions and the gated delta rule. graph.h says what holds for all build functions.
#ifndef TRIREME_GRAPH_MIXERS_H
#define TRIREME_GRAPH_MIXERS_H

#include "graph/graph.h"

// Causal convolution along the tokens of each sequence, as kernel_conv.h specifies it.
typedef struct graph_conv {
    graph_value *w,
        *bias; // parameters [cols, taps] and [cols], whose rows have the role of the columns; bias may be NULL
    bool gated; // x [rows, 3 * cols] holds before, after and x:   after * conv(before * x)
    bool silu;  // silu(conv(x))
} graph_conv;
//   x [rows, cols], or [rows, 3 * cols] where gated   -> [rows, cols]
graph_value *build_causal_conv(graph *g, graph_value *x, const graph_conv *form);
// The gated delta rule and its gates, as kernel_delta.h specifies them. Queries and keys are normalized to a length of 1,
// and queries are divided by sqrt(key_dim).
//   x [rows, 2 * heads]: b, then a   log_decay, a_bias: parameters [heads] whose rows are ROLE_HEADS
//   -> gates [rows, 2 * heads] F32
graph_value *build_delta_gates(graph *g, graph_value *x, graph_value *log_decay,
                               graph_value *a_bias);
typedef struct graph_delta {
    int64_t heads, key_heads, key_dim, value_dim; // heads: of values
    double eps;                                   // of the norms
} graph_delta;
//   qkv [rows, 2 * key_heads * key_dim + heads * value_dim]   -> [rows, heads * value_dim]
graph_value *build_delta_rule(graph *g, graph_value *qkv, graph_value *gates,
                              const graph_delta *form);
// f(gate) * x, where f is the logistic function, or silu. With a gain each head of head_dim columns of x is normed before
// (RMS norm), and the gain, a parameter [head_dim], is that of all heads.
typedef struct graph_gate {
    graph_value *gain; // NULL: no norm
    int64_t head_dim;
    double eps;
    bool silu;
} graph_gate;
//   x, gate [rows, cols]   -> [rows, cols]
graph_value *build_gate(graph *g, graph_value *x, graph_value *gate, const graph_gate *form);
// Takes columns first … first+cols-1 out of x -> [rows, cols]. *rest [rows, columns of x - cols] gets the others. Both
// results must be used.
graph_value *build_take_columns(graph *g, graph_value *x, int64_t first, int64_t cols,
                                graph_value **rest);

#endif
