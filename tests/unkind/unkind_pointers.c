// unkind_pointers.c -- the pointers in the arguments of every kernel, kind by kind in the order of
// device/kernels.h. Called by unkind_device.c. A new pointer in kernels.h needs its place here.
#include "unkind/unkind_pointers.h"

#define AT(member) offsetof(kernel_call, u.member)

// The pointers of an array with one for each rank.
#define FOUR(member, first)                                                                        \
    AT(member[first]), AT(member[first + 1]), AT(member[first + 2]), AT(member[first + 3])
#define RANKS(member) FOUR(member, 0), FOUR(member, 4), FOUR(member, 8), FOUR(member, 12)
_Static_assert(KERNEL_REDUCE_RANKS == 16, "RANKS has all of them");

// Every kernel may have a workspace.
#define ROW(...)                                                                                   \
    {                                                                                              \
        offsetof(kernel_call, workspace), __VA_ARGS__                                              \
    }

#define QK_NORM                                                                                    \
    ROW(AT(qk_norm.x), AT(qk_norm.dy), AT(qk_norm.q_gain), AT(qk_norm.k_gain), AT(qk_norm.y),      \
        AT(qk_norm.rstd), AT(qk_norm.sums), AT(qk_norm.dq_gain), AT(qk_norm.dk_gain),              \
        AT(qk_norm.mean))

#define VALUE_NORM ROW(AT(value_norm.x), AT(value_norm.dy), AT(value_norm.y), AT(value_norm.rstd))

#define XIELU                                                                                      \
    ROW(AT(xielu.x), AT(xielu.dy), AT(xielu.alpha_p), AT(xielu.alpha_n), AT(xielu.beta),           \
        AT(xielu.eps), AT(xielu.y), AT(xielu.d_alpha_p), AT(xielu.d_alpha_n))

#define DELTA_GATES                                                                                \
    ROW(AT(delta_gates.x), AT(delta_gates.log_decay), AT(delta_gates.a_bias),                      \
        AT(delta_gates.gates), AT(delta_gates.d_gates), AT(delta_gates.dx),                        \
        AT(delta_gates.d_log_decay), AT(delta_gates.d_a_bias))

#define GATE                                                                                       \
    ROW(AT(gate.x), AT(gate.gate), AT(gate.dy), AT(gate.gain), AT(gate.y), AT(gate.d_gate),        \
        AT(gate.rstd), AT(gate.d_gain))

static const size_t POINTERS[KERNELS][UNKIND_POINTERS] = {
    [K_MATMUL] = ROW(AT(matmul.a), AT(matmul.b), AT(matmul.c), AT(matmul.bias), AT(matmul.aux)),
    [K_BIAS_GRAD] = ROW(AT(bias_grad.dy), AT(bias_grad.db)),
    [K_EMBEDDING] = ROW(AT(embedding.ids), AT(embedding.tokens), AT(embedding.positions),
                        AT(embedding.y), AT(embedding.row_tokens.documents)),
    [K_EMBEDDING_GRAD] =
        ROW(AT(embedding_grad.ids), AT(embedding_grad.dy), AT(embedding_grad.d_tokens),
            AT(embedding_grad.d_positions), AT(embedding_grad.row_tokens.documents)),
    [K_NORM] = ROW(AT(norm.x), AT(norm.addend), AT(norm.sum), AT(norm.gain), AT(norm.bias),
                   AT(norm.y), AT(norm.mean), AT(norm.rstd)),
    [K_NORM_GRAD] =
        ROW(AT(norm_grad.dy), AT(norm_grad.x), AT(norm_grad.gain), AT(norm_grad.mean),
            AT(norm_grad.rstd), AT(norm_grad.dx), AT(norm_grad.dgain), AT(norm_grad.dbias)),
    [K_QK_NORM] = QK_NORM,
    [K_QK_NORM_SUMS] = QK_NORM,
    [K_QK_NORM_GRAD] = QK_NORM,
    [K_VALUE_NORM] = VALUE_NORM,
    [K_VALUE_NORM_GRAD] = VALUE_NORM,
    [K_ROPE] = ROW(AT(rope.x), AT(rope.table), AT(rope.row_tokens.documents)),
    [K_ATTENTION] =
        ROW(AT(attention.q), AT(attention.k), AT(attention.v), AT(attention.o), AT(attention.lse),
            AT(attention.sinks), AT(attention.dropout.draw.step), AT(attention.queries.documents)),
    [K_ATTENTION_GRAD] =
        ROW(AT(attention_grad.fwd.q), AT(attention_grad.fwd.k), AT(attention_grad.fwd.v),
            AT(attention_grad.fwd.o), AT(attention_grad.fwd.lse), AT(attention_grad.d_o),
            AT(attention_grad.dq), AT(attention_grad.dk), AT(attention_grad.dv),
            AT(attention_grad.delta), AT(attention_grad.fwd.sinks), AT(attention_grad.d_sinks),
            AT(attention_grad.fwd.dropout.draw.step), AT(attention_grad.fwd.queries.documents)),
    [K_CAUSAL_CONV] = ROW(AT(causal_conv.x), AT(causal_conv.w), AT(causal_conv.bias),
                          AT(causal_conv.y), AT(causal_conv.rows.documents)),
    [K_CAUSAL_CONV_GRAD] =
        ROW(AT(causal_conv_grad.fwd.x), AT(causal_conv_grad.fwd.w), AT(causal_conv_grad.fwd.bias),
            AT(causal_conv_grad.fwd.y), AT(causal_conv_grad.dy), AT(causal_conv_grad.dx),
            AT(causal_conv_grad.dw), AT(causal_conv_grad.dbias),
            AT(causal_conv_grad.fwd.rows.documents)),
    [K_DELTA_GATES] = DELTA_GATES,
    [K_DELTA_GATES_GRAD] = DELTA_GATES,
    [K_DELTA_RULE] = ROW(AT(delta_rule.x), AT(delta_rule.gates), AT(delta_rule.o),
                         AT(delta_rule.state), AT(delta_rule.rows.documents)),
    [K_DELTA_RULE_GRAD] =
        ROW(AT(delta_rule_grad.fwd.x), AT(delta_rule_grad.fwd.gates), AT(delta_rule_grad.fwd.o),
            AT(delta_rule_grad.d_o), AT(delta_rule_grad.dx), AT(delta_rule_grad.d_gates),
            AT(delta_rule_grad.fwd.rows.documents)),
    [K_GATE] = GATE,
    [K_GATE_GRAD] = GATE,
    [K_ACTIVATION] = ROW(AT(activation.x), AT(activation.y)),
    [K_ACTIVATION_GRAD] = ROW(AT(activation.x), AT(activation.dy), AT(activation.y)),
    [K_GLU] = ROW(AT(glu.x), AT(glu.y)),
    [K_GLU_GRAD] = ROW(AT(glu.x), AT(glu.dy), AT(glu.y)),
    [K_XIELU] = XIELU,
    [K_XIELU_GRAD] = XIELU,
    [K_ADD] = ROW(AT(add.a), AT(add.b), AT(add.y), AT(add.factor)),
    [K_DROPOUT] = ROW(AT(dropout.x), AT(dropout.residual), AT(dropout.y), AT(dropout.draw.step),
                      AT(dropout.row_tokens.documents)),
    [K_INIT] = ROW(AT(init.y)),
    [K_CROSS_ENTROPY] =
        ROW(AT(cross_entropy.logits), AT(cross_entropy.labels), AT(cross_entropy.stats),
            AT(cross_entropy.weights), AT(cross_entropy.losses), AT(cross_entropy.loss_sum),
            AT(cross_entropy.count), AT(cross_entropy.step)),
    [K_CROSS_ENTROPY_STATS] = ROW(AT(cross_entropy_stats.logits), AT(cross_entropy_stats.labels),
                                  AT(cross_entropy_stats.stats)),
    [K_DOCUMENT_SUMS] =
        ROW(AT(document_sums.first), AT(document_sums.losses), AT(document_sums.sums)),
    [K_PREFERENCE] = ROW(AT(preference.first), AT(preference.sums), AT(preference.reference),
                         AT(preference.weights), AT(preference.loss_sum), AT(preference.count),
                         AT(preference.metrics)),
    [K_SQUARE_ERROR] = ROW(AT(square_error.x), AT(square_error.target), AT(square_error.dx),
                           AT(square_error.loss_sum), AT(square_error.total),
                           AT(square_error.filled), AT(square_error.step)),
    [K_SUM_SQUARES] = ROW(AT(sum_squares.x), AT(sum_squares.sum), AT(sum_squares.segment)),
    [K_CLIP] = ROW(AT(clip.step)),
    [K_UPDATE] = ROW(AT(update.segment), AT(update.w), AT(update.m), AT(update.v), AT(update.g),
                     AT(update.low), AT(update.average), AT(update.step), AT(update.group)),
    [K_CONVERT] = ROW(AT(convert.src), AT(convert.dst), AT(convert.segment)),
    [K_UNPACK_NF4] = ROW(AT(unpack_nf4.packed), AT(unpack_nf4.y)),
    [K_COPY_ROWS] = ROW(AT(copy_rows.src), AT(copy_rows.dst), AT(copy_rows.src_rows.documents),
                        AT(copy_rows.dst_rows.documents)),
    [K_FILL] = ROW(AT(fill.dst)),
    [K_DIGEST] = ROW(AT(digest.x), AT(digest.digest)),
    [K_ORTHOGONALIZE] = ROW(AT(orthogonalize.x)),
    [K_REDUCE] = ROW(RANKS(reduce.in), RANKS(reduce.out)),
};

const size_t *unkind_pointers(kernel_kind k)
{
    return POINTERS[k];
}
