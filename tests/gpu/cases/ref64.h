// ref64.h -- names of the reference kernels (src/device/cpu/ref_*.c) when they are compiled a second time,
// with REF_REAL double. The compiler includes it before each of these files.
#ifndef TRIREME_TESTS_REF64_H
#define TRIREME_TESTS_REF64_H

#define REF_REAL double

#define ref_activate            ref64_activate
#define ref_activate_slope      ref64_activate_slope
#define ref_activation          ref64_activation
#define ref_activation_grad     ref64_activation_grad
#define ref_add                 ref64_add
#define ref_attention           ref64_attention
#define ref_attention_grad      ref64_attention_grad
#define ref_bias_grad           ref64_bias_grad
#define ref_causal_conv         ref64_causal_conv
#define ref_causal_conv_grad    ref64_causal_conv_grad
#define ref_clip                ref64_clip
#define ref_convert             ref64_convert
#define ref_copy_rows           ref64_copy_rows
#define ref_cross_entropy       ref64_cross_entropy
#define ref_cross_entropy_stats ref64_cross_entropy_stats
#define ref_delta_gates         ref64_delta_gates
#define ref_delta_gates_grad    ref64_delta_gates_grad
#define ref_delta_rule          ref64_delta_rule
#define ref_delta_rule_grad     ref64_delta_rule_grad
#define ref_digest              ref64_digest
#define ref_document_sums       ref64_document_sums
#define ref_dropout             ref64_dropout
#define ref_embedding           ref64_embedding
#define ref_embedding_grad      ref64_embedding_grad
#define ref_fill                ref64_fill
#define ref_gate                ref64_gate
#define ref_gate_grad           ref64_gate_grad
#define ref_glu                 ref64_glu
#define ref_glu_grad            ref64_glu_grad
#define ref_init                ref64_init
#define ref_kernels_fill        ref64_kernels_fill
#define ref_matmul              ref64_matmul
#define ref_norm                ref64_norm
#define ref_norm_grad           ref64_norm_grad
#define ref_orthogonalize       ref64_orthogonalize
#define ref_preference          ref64_preference
#define ref_reduce              ref64_reduce
#define ref_rope                ref64_rope
#define ref_square_error        ref64_square_error
#define ref_sum_squares         ref64_sum_squares
#define ref_total_of_shards     ref64_total_of_shards
#define ref_unpack_nf4          ref64_unpack_nf4
#define ref_update              ref64_update
#define ref_update_read         ref64_update_read

#endif
