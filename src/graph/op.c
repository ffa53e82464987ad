// op.c -- the table of ops: one line for each. Called by whatever walks a list of nodes.
#include "graph/op.h"

const graph_op_info *graph_op_find(graph_op kind)
{
    static const graph_op_info *const table[OPS] = {
        [OP_EMBEDDING] = &op_embedding,
        [OP_LINEAR] = &op_linear,
        [OP_LINEAR_ACTIVATION] = &op_linear_activation,
        [OP_NORM] = &op_norm,
        [OP_ADD_NORM] = &op_add_norm,
        [OP_ROPE] = &op_rope,
        [OP_ATTENTION] = &op_attention,
        [OP_ACTIVATION] = &op_activation,
        [OP_GLU] = &op_glu,
        [OP_ADD] = &op_add,
        [OP_DROPOUT] = &op_dropout,
        [OP_DROPOUT_ADD] = &op_dropout_add,
        [OP_CONVERT] = &op_convert,
        [OP_COPY_TO_TP] = &op_copy_to_tp,
        [OP_REDUCE_FROM_TP] = &op_reduce_from_tp,
        [OP_GATHER_FROM_SP] = &op_gather_from_sp,
        [OP_SCATTER_TO_SP] = &op_scatter_to_sp,
        [OP_GATHER_FROM_CP] = &op_gather_from_cp,
        [OP_SCATTER_TO_CP] = &op_scatter_to_cp,
        [OP_LINEAR_CROSS_ENTROPY] = &op_linear_cross_entropy,
        [OP_LINEAR_SQUARE_ERROR] = &op_linear_square_error,
        [OP_EMBEDDING_GRAD] = &op_embedding_grad,
        [OP_LINEAR_GRAD_INPUT] = &op_linear_grad_input,
        [OP_LINEAR_GRAD_WEIGHT] = &op_linear_grad_weight,
        [OP_NORM_GRAD] = &op_norm_grad,
        [OP_ATTENTION_GRAD] = &op_attention_grad,
        [OP_ACTIVATION_GRAD] = &op_activation_grad,
        [OP_GLU_GRAD] = &op_glu_grad,
    };
    return table[kind];
}
