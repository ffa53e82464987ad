// cuda_kernels.c -- the table of the cuda device's kernels, and what plans must know of them. A kernel is
// one row. Read by the device, which launches, and by kernel_needs.h for plans. It knows no kernel's inside.
#include "device/cuda/cuda.h"
#include "device/cuda/libraries/cuda_dnn.h"

const cuda_kernel_row CUDA_KERNELS[KERNELS] = {
    [K_MATMUL] = {cuda_matmul, cuda_matmul_workspace},
    [K_BIAS_GRAD] = {cuda_bias_grad, cuda_bias_grad_workspace},
    [K_EMBEDDING] = {cuda_embedding, NULL},
    [K_EMBEDDING_GRAD] = {cuda_embedding_grad, cuda_embedding_grad_workspace},
    [K_NORM] = {cuda_norm, NULL},
    [K_NORM_GRAD] = {cuda_norm_grad, cuda_norm_grad_workspace},
    [K_QK_NORM] = {cuda_qk_norm, NULL},
    [K_QK_NORM_SUMS] = {cuda_qk_norm_sums, NULL},
    [K_QK_NORM_GRAD] = {cuda_qk_norm_grad, cuda_qk_norm_grad_workspace},
    [K_VALUE_NORM] = {cuda_value_norm, NULL},
    [K_VALUE_NORM_GRAD] = {cuda_value_norm_grad, NULL},
    [K_ROPE] = {cuda_rope, NULL},
    [K_ATTENTION] = {cuda_attention, cuda_attention_workspace},
    [K_ATTENTION_GRAD] = {cuda_attention_grad, cuda_attention_grad_workspace},
    [K_CAUSAL_CONV] = {cuda_causal_conv, NULL},
    [K_CAUSAL_CONV_GRAD] = {cuda_causal_conv_grad, NULL},
    [K_DELTA_GATES] = {cuda_delta_gates, NULL},
    [K_DELTA_GATES_GRAD] = {cuda_delta_gates_grad, NULL},
    [K_DELTA_RULE] = {cuda_delta_rule, NULL},
    [K_DELTA_RULE_GRAD] = {cuda_delta_rule_grad, cuda_delta_rule_grad_workspace},
    [K_GATE] = {cuda_gate, NULL},
    [K_GATE_GRAD] = {cuda_gate_grad, NULL},
    [K_ACTIVATION] = {cuda_activation, NULL},
    [K_ACTIVATION_GRAD] = {cuda_activation_grad, NULL},
    [K_GLU] = {cuda_glu, NULL},
    [K_GLU_GRAD] = {cuda_glu_grad, NULL},
    [K_XIELU] = {cuda_xielu, NULL},
    [K_XIELU_GRAD] = {cuda_xielu_grad, cuda_xielu_grad_workspace},
    [K_ADD] = {cuda_add, NULL},
    [K_DROPOUT] = {cuda_dropout, NULL},
    [K_INIT] = {cuda_init, NULL},
    [K_CROSS_ENTROPY] = {cuda_cross_entropy, cuda_cross_entropy_workspace},
    [K_CROSS_ENTROPY_STATS] = {cuda_cross_entropy_stats, NULL},
    [K_SQUARE_ERROR] = {cuda_square_error, cuda_square_error_workspace},
    [K_SUM_SQUARES] = {cuda_sum_squares, cuda_sum_squares_workspace},
    [K_CLIP] = {cuda_clip, NULL},
    [K_UPDATE] = {cuda_update, NULL},
    [K_CONVERT] = {cuda_convert, NULL},
    [K_COPY_ROWS] = {cuda_copy_rows, NULL},
    [K_FILL] = {cuda_fill, NULL},
    [K_DIGEST] = {cuda_digest, NULL},
    [K_REDUCE] = {cuda_reduce, NULL},
    [K_ORTHOGONALIZE] = {cuda_orthogonalize, cuda_orthogonalize_workspace},
};

static size_t workspace_bytes(const kernel_call *c)
{
    const cuda_kernel_row *row = &CUDA_KERNELS[c->kind];
    return row->workspace ? row->workspace(&c->u) : 0;
}

static const char *own_kernel(const kernel_call *c)
{
    (void)c;
    return "own kernel";
}

static const char *computed_by(const kernel_call *c)
{
    const bool taken = c->kind == K_ATTENTION
                           ? cuda_dnn_attention_workspace(&c->u.attention) > 0
                           : cuda_dnn_attention_grad_workspace(&c->u.attention_grad) > 0;
    return taken ? "cuDNN" : own_kernel(c);
}

// Rows of logits at multiples of 8 elements: a 16-bit row then starts at 16 bytes, which cuBLASLt's fastest
// algorithms ask for. The loss takes wide chunks, because a product of few rows leaves most of a GPU idle.
#define NEEDS(by)                                                                                  \
    {                                                                                              \
        .workspace_bytes = workspace_bytes, .logits_align = 8, .loss_rows = 4096,                  \
        .computed_by = (by)                                                                        \
    }
const kernel_needs CUDA_NEEDS = NEEDS(computed_by), CUDA_NEEDS_WITHOUT_CUDNN = NEEDS(own_kernel);
