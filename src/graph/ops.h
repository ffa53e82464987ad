// ops.h -- the kinds of nodes of a graph, one line for each. Part of graph.h; op.c makes the table of their rows of it.
#ifndef TRIREME_GRAPH_OPS_H
#define TRIREME_GRAPH_OPS_H

// The kinds of nodes: OP_EMBEDDING, whose row is op_embedding (op.h). fuse.c makes those that stand for two nodes.
#define GRAPH_OPS(OP)                                                                              \
    OP(EMBEDDING, embedding)                                                                       \
    OP(LINEAR, linear)                                                                             \
    OP(LINEAR_ACTIVATION, linear_activation)                                                       \
    OP(LOW_RANK, low_rank)                                                                         \
    OP(NORM, norm)                                                                                 \
    OP(ADD_NORM, add_norm)                                                                         \
    OP(QK_NORM, qk_norm)                                                                           \
    OP(VALUE_NORM, value_norm)                                                                     \
    OP(ROPE, rope)                                                                                 \
    OP(ATTENTION, attention)                                                                       \
    OP(CAUSAL_CONV, causal_conv)                                                                   \
    OP(DELTA_GATES, delta_gates)                                                                   \
    OP(DELTA_RULE, delta_rule)                                                                     \
    OP(GATE, gate)                                                                                 \
    OP(TAKE_COLUMNS, take_columns)                                                                 \
    OP(ACTIVATION, activation)                                                                     \
    OP(GLU, glu)                                                                                   \
    OP(XIELU, xielu)                                                                               \
    OP(ADD, add)                                                                                   \
    OP(DROPOUT, dropout)                                                                           \
    OP(DROPOUT_ADD, dropout_add)                                                                   \
    OP(CONVERT, convert)                                                                           \
    OP(COPY_TO_TP, copy_to_tp)                                                                     \
    OP(REDUCE_FROM_TP, reduce_from_tp)                                                             \
    OP(GATHER_FROM_SP, gather_from_sp)                                                             \
    OP(SCATTER_TO_SP, scatter_to_sp)                                                               \
    OP(GATHER_FROM_CP, gather_from_cp)                                                             \
    OP(SCATTER_TO_CP, scatter_to_cp)                                                               \
    OP(LINEAR_CROSS_ENTROPY, linear_cross_entropy)                                                 \
    OP(LINEAR_SQUARE_ERROR, linear_square_error)                                                   \
    OP(EMBEDDING_GRAD, embedding_grad)                                                             \
    OP(LINEAR_GRAD_INPUT, linear_grad_input)                                                       \
    OP(LINEAR_GRAD_WEIGHT, linear_grad_weight)                                                     \
    OP(LOW_RANK_GRAD_INPUT, low_rank_grad_input)                                                   \
    OP(LOW_RANK_GRAD_WEIGHT, low_rank_grad_weight)                                                 \
    OP(NORM_GRAD, norm_grad)                                                                       \
    OP(QK_NORM_GRAD, qk_norm_grad)                                                                 \
    OP(VALUE_NORM_GRAD, value_norm_grad)                                                           \
    OP(ATTENTION_GRAD, attention_grad)                                                             \
    OP(CAUSAL_CONV_GRAD, causal_conv_grad)                                                         \
    OP(DELTA_GATES_GRAD, delta_gates_grad)                                                         \
    OP(DELTA_RULE_GRAD, delta_rule_grad)                                                           \
    OP(GATE_GRAD, gate_grad)                                                                       \
    OP(TAKE_COLUMNS_GRAD, take_columns_grad)                                                       \
    OP(ACTIVATION_GRAD, activation_grad)                                                           \
    OP(GLU_GRAD, glu_grad)                                                                         \
    OP(XIELU_GRAD, xielu_grad)

#define GRAPH_ENUMERATOR(kind, name) OP_##kind,
typedef enum graph_op { GRAPH_OPS(GRAPH_ENUMERATOR) OPS } graph_op;
#undef GRAPH_ENUMERATOR

#endif
