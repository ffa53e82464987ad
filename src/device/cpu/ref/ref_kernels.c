// ref_kernels.c -- the table of the reference kernels. It is complete: every kernel has an entry,
// so a faster form is an override and is never required. Called by cpu_kernels_fill, and by the
// tests that compare other forms with the reference.
#include "device/cpu/ref/ref.h"

void ref_kernels_fill(cpu_kernels *k)
{
    *k = (cpu_kernels){.run = {
                           [K_MATMUL] = ref_matmul,
                           [K_BIAS_GRAD] = ref_bias_grad,
                           [K_EMBEDDING] = ref_embedding,
                           [K_EMBEDDING_GRAD] = ref_embedding_grad,
                           [K_NORM] = ref_norm,
                           [K_NORM_GRAD] = ref_norm_grad,
                           [K_QK_NORM] = ref_qk_norm,
                           [K_QK_NORM_SUMS] = ref_qk_norm_sums,
                           [K_QK_NORM_GRAD] = ref_qk_norm_grad,
                           [K_VALUE_NORM] = ref_value_norm,
                           [K_VALUE_NORM_GRAD] = ref_value_norm_grad,
                           [K_ROPE] = ref_rope,
                           [K_ATTENTION] = ref_attention,
                           [K_ATTENTION_GRAD] = ref_attention_grad,
                           [K_ACTIVATION] = ref_activation,
                           [K_ACTIVATION_GRAD] = ref_activation_grad,
                           [K_GLU] = ref_glu,
                           [K_GLU_GRAD] = ref_glu_grad,
                           [K_XIELU] = ref_xielu,
                           [K_XIELU_GRAD] = ref_xielu_grad,
                           [K_ADD] = ref_add,
                           [K_DROPOUT] = ref_dropout,
                           [K_INIT] = ref_init,
                           [K_CROSS_ENTROPY] = ref_cross_entropy,
                           [K_CROSS_ENTROPY_STATS] = ref_cross_entropy_stats,
                           [K_SQUARE_ERROR] = ref_square_error,
                           [K_SUM_SQUARES] = ref_sum_squares,
                           [K_CLIP] = ref_clip,
                           [K_UPDATE] = ref_update,
                           [K_CONVERT] = ref_convert,
                           [K_COPY_ROWS] = ref_copy_rows,
                           [K_FILL] = ref_fill,
                           [K_DIGEST] = ref_digest,
                           [K_ORTHOGONALIZE] = ref_orthogonalize,
                           [K_REDUCE] = ref_reduce,
                       }};
}
