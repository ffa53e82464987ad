// kernel_cost.c -- see kernel_cost.h. A row of the table is a kernel; its function reads the sizes of the call.
#include "device/kernel_cost.h"

#include "base/nf4.h"

#include <math.h>

// Elements of `type` that a call reads or writes.
static double bytes_of(int64_t count, dtype type)
{
    return (double)count * (double)dtype_bytes(type);
}

static void set_sizes(kernel_cost *k, int64_t a, int64_t b, int64_t c)
{
    k->size[0] = (double)a;
    k->size[1] = (double)b;
    k->size[2] = (double)c;
}

static void set_elements(kernel_cost *k, dtype type, int64_t count)
{
    k->type = type;
    set_sizes(k, count, 1, 1);
}

static void set_rows(kernel_cost *k, dtype type, int64_t rows, int64_t cols)
{
    k->type = type;
    set_sizes(k, rows, cols, 1);
}

static dtype residual_of(dtype type, bool residual_fp32)
{
    return kernel_residual_type(type, residual_fp32);
}

// ---- Products and attention

// Which factors are transposed: forward, dgrad and wgrad differ. So does an activation among the sums.
static void cost_matmul(const kernel_call *c, kernel_cost *k)
{
    const kernel_matmul_args *p = &c->u.matmul;
    k->type = p->type;
    k->form = kernel_cost_matmul_form(p->trans_a, p->trans_b, p->epilogue);
    k->flops = 2.0 * (double)p->m * (double)p->n * (double)p->k;
    k->bytes = bytes_of(p->m * p->k + p->k * p->n, p->type) +
               bytes_of(p->m * p->n, p->c_type) * (1 + p->accumulate + (p->aux != NULL));
    set_sizes(k, p->m, p->n, p->k);
}

// Keys that queries at `count` consecutive positions see, summed over the queries: 1, 2, 3 … up to the window.
static double seen_from(const kernel_attention_args *p, int64_t first, int64_t count)
{
    const double from = (double)first, to = (double)(first + count),
                 window = p->form.window > 0 ? (double)p->form.window : to;
    const double all = (to * (to + 1) - from * (from + 1)) / 2;
    const double over_to = fmax(to - window, 0), over_from = fmax(from - window, 0);
    return all - (over_to * (over_to + 1) - over_from * (over_from + 1)) / 2;
}

// The same of all queries of one sequence. Documents hide more keys; where they begin is not known.
static double seen_keys(const kernel_attention_args *p)
{
    const kernel_tokens *t = &p->queries;
    if (!p->causal) return (double)t->seq * (double)p->tk;
    if (t->chunk >= t->seq) return seen_from(p, t->start[0], t->seq);
    return seen_from(p, t->start[0], t->chunk) + seen_from(p, t->start[1], t->seq - t->chunk);
}

static void set_attention(const kernel_attention_args *p, double products, kernel_cost *k)
{
    const double sequences = (double)(p->batch * p->heads);
    k->type = p->type;
    k->form = (p->form.window > 0 && p->form.window < p->tk) + (p->form.softcap > 0 ? 2 : 0) +
              (p->dropout.p > 0 ? 4 : 0);
    k->flops = 2 * products * sequences * (double)p->head_dim * seen_keys(p);
    set_sizes(k, p->batch * p->heads, p->queries.seq, p->head_dim);
}

static double attention_bytes(const kernel_attention_args *p)
{
    return bytes_of(2 * p->batch * p->queries.seq * p->heads * p->head_dim +
                        2 * p->batch * p->tk * p->kv_heads * p->head_dim,
                    p->type);
}

// Two products: the scores, and the weighted sum of values.
static void cost_attention(const kernel_call *c, kernel_cost *k)
{
    set_attention(&c->u.attention, 2, k);
    k->bytes = attention_bytes(&c->u.attention);
}

// Five: the scores again, and the gradients of the weights, of q, of k and of v.
static void cost_attention_grad(const kernel_call *c, kernel_cost *k)
{
    set_attention(&c->u.attention_grad.fwd, 5, k);
    k->bytes = 2 * attention_bytes(&c->u.attention_grad.fwd);
}

// Three products of the state with keys, values and queries; twice as many backward.
static void set_delta(const kernel_delta_rule_args *p, double products, kernel_cost *k)
{
    const int64_t rows = p->batch * p->rows.seq;
    k->type = p->type;
    k->flops = 2 * products * (double)(rows * p->heads * p->key_dim) * (double)p->value_dim;
    k->bytes = products / 3 *
               (bytes_of(rows * (kernel_delta_cols(p) + p->heads * p->value_dim), p->type) +
                bytes_of(rows * 2 * p->heads, F32));
    set_sizes(k, p->batch * p->heads, p->rows.seq, p->value_dim);
}

static void cost_delta_rule(const kernel_call *c, kernel_cost *k)
{
    set_delta(&c->u.delta_rule, 3, k);
}

static void cost_delta_rule_grad(const kernel_call *c, kernel_cost *k)
{
    set_delta(&c->u.delta_rule_grad.fwd, 6, k);
}

// ---- Rows

static void cost_bias_grad(const kernel_call *c, kernel_cost *k)
{
    const kernel_bias_grad_args *p = &c->u.bias_grad;
    set_rows(k, p->type, p->rows, p->cols);
    k->bytes = bytes_of(p->rows * p->cols, p->type);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void cost_embedding(const kernel_call *c, kernel_cost *k)
{
    const kernel_embedding_args *p = &c->u.embedding;
    set_rows(k, p->type, p->rows, p->cols);
    k->bytes = bytes_of(p->rows * p->cols, p->type) +
               bytes_of(p->rows * p->cols, residual_of(p->type, p->residual_fp32));
    if (p->positions) k->bytes += bytes_of(least(p->rows, p->row_tokens.seq) * p->cols, p->type);
}

// Tokens that repeat share a row of the gradient: half of the rows are of other tokens, as in a text. Without
// accumulation a table is cleared first.
static void cost_embedding_grad(const kernel_call *c, kernel_cost *k)
{
    const kernel_embedding_grad_args *p = &c->u.embedding_grad;
    const double dy = bytes_of(p->rows * p->cols, residual_of(p->type, p->residual_fp32));
    set_rows(k, p->type, p->rows, p->cols);
    if (p->d_tokens) {
        const int64_t table = (p->vocab > 0 ? p->vocab : p->rows) * p->cols;
        k->bytes += dy + bytes_of(least(p->rows * p->cols, table), F32);
        if (!p->accumulate_tokens) k->bytes += bytes_of(table, F32);
    }
    if (p->d_positions) {
        k->bytes += dy + 2 * bytes_of(least(p->rows, p->max_seq) * p->cols, F32);
        if (!p->accumulate_positions) k->bytes += bytes_of(p->max_seq * p->cols, F32);
    }
}

static void cost_norm(const kernel_call *c, kernel_cost *k)
{
    const kernel_norm_args *p = &c->u.norm;
    const int64_t count = p->rows * p->cols;
    set_rows(k, p->type, p->rows, p->cols);
    k->form = (p->addend != NULL) + (p->is_rms ? 2 : 0);
    k->bytes = bytes_of(count, p->type) * (p->addend ? 2 : 1) +
               bytes_of(count, residual_of(p->type, p->residual_fp32)) * (p->addend ? 2 : 1);
}

// x is read for dx and for the gradient of the gain.
static void cost_norm_grad(const kernel_call *c, kernel_cost *k)
{
    const kernel_norm_grad_args *p = &c->u.norm_grad;
    const int64_t count = p->rows * p->cols;
    set_rows(k, p->type, p->rows, p->cols);
    k->form = (p->dx == NULL) + (p->is_rms ? 2 : 0);
    k->bytes = bytes_of(count, p->type) +
               bytes_of(count, residual_of(p->type, p->residual_fp32)) *
                   ((p->dx || p->dgain) + (p->dx != NULL) + (p->dx && p->accumulate_dx));
}

// The values are copied, unless the norm is in place.
static void cost_qk_norm(const kernel_call *c, kernel_cost *k)
{
    const kernel_qk_norm_args *p = &c->u.qk_norm;
    const bool copies = p->y && p->y != (p->dy ? p->dy : p->x);
    const int64_t normed = p->rows * (p->heads + p->kv_heads) * p->head_dim,
                  values = p->rows * p->kv_heads * p->head_dim;
    set_rows(k, p->type, p->rows, (p->heads + 2 * p->kv_heads) * p->head_dim);
    k->bytes = bytes_of(normed, p->type) * (1 + (p->dy != NULL) + (p->y != NULL)) +
               (copies ? 2 * bytes_of(values, p->type) : 0);
}

// Queries and keys are copied, unless the norm is in place.
static void cost_value_norm(const kernel_call *c, kernel_cost *k)
{
    const kernel_value_norm_args *p = &c->u.value_norm;
    const bool copies = p->y != (p->dy ? p->dy : p->x);
    const int64_t normed = p->rows * p->kv_heads * p->head_dim,
                  others = p->rows * kernel_value_norm_first(p);
    set_rows(k, p->type, p->rows, kernel_value_norm_full_cols(p));
    k->bytes =
        bytes_of(normed, p->type) * (p->dy ? 3 : 2) + (copies ? 2 * bytes_of(others, p->type) : 0);
}

static void cost_rope(const kernel_call *c, kernel_cost *k)
{
    const kernel_rope_args *p = &c->u.rope;
    set_rows(k, p->type, p->rows, p->heads * p->rot);
    k->form = p->interleaved;
    k->bytes = 2 * bytes_of(p->rows * p->heads * p->rot, p->type);
}

// Before, after and x of a gated one lie side by side.
static void set_conv(const kernel_causal_conv_args *p, kernel_cost *k)
{
    set_rows(k, p->type, p->batch * p->rows.seq, p->cols);
    k->form = p->gated;
}

static void cost_causal_conv(const kernel_call *c, kernel_cost *k)
{
    const kernel_causal_conv_args *p = &c->u.causal_conv;
    set_conv(p, k);
    k->bytes = bytes_of(p->batch * p->rows.seq * p->cols, p->type) * (p->gated ? 4 : 2);
}

static void cost_causal_conv_grad(const kernel_call *c, kernel_cost *k)
{
    const kernel_causal_conv_args *p = &c->u.causal_conv_grad.fwd;
    const int x = p->gated ? 3 : 1;
    set_conv(p, k);
    k->bytes = bytes_of(p->batch * p->rows.seq * p->cols, p->type) *
               (1 + x + (c->u.causal_conv_grad.dx ? x : 0));
}

static void cost_delta_gates(const kernel_call *c, kernel_cost *k)
{
    const kernel_delta_gates_args *p = &c->u.delta_gates;
    set_rows(k, p->type, p->rows, 2 * p->heads);
    k->bytes = bytes_of(2 * p->rows * p->heads, F32) +
               bytes_of(2 * p->rows * p->heads, p->type) * (p->dx ? 2 : 1);
}

static void cost_gate(const kernel_call *c, kernel_cost *k)
{
    const kernel_gate_args *p = &c->u.gate;
    set_rows(k, p->type, p->rows, p->cols);
    k->form = p->gain != NULL;
    k->bytes = bytes_of(p->rows * p->cols, p->type) * (p->dy ? 5 : 3);
}

static void cost_glu(const kernel_call *c, kernel_cost *k)
{
    const kernel_glu_args *p = &c->u.glu;
    set_rows(k, p->type, p->rows, p->cols);
    k->form = (int)p->act;
    k->bytes = bytes_of(p->rows * p->cols, p->type) * (p->dy ? 5 : 3);
}

static void cost_dropout(const kernel_call *c, kernel_cost *k)
{
    const kernel_dropout_args *p = &c->u.dropout;
    set_rows(k, p->type, p->rows, p->cols);
    k->form = p->residual != NULL;
    k->bytes =
        bytes_of(p->rows * p->cols, p->type) +
        bytes_of(p->rows * p->cols, residual_of(p->type, p->residual_fp32)) * (p->residual ? 2 : 1);
}

static void cost_cross_entropy(const kernel_call *c, kernel_cost *k)
{
    const kernel_cross_entropy_args *p = &c->u.cross_entropy;
    set_rows(k, p->type, p->rows, p->cols);
    k->form = p->gradient;
    k->bytes = bytes_of(p->rows * p->cols, p->type) * (p->gradient ? 2 : 1);
}

static void cost_cross_entropy_stats(const kernel_call *c, kernel_cost *k)
{
    const kernel_cross_entropy_stats_args *p = &c->u.cross_entropy_stats;
    set_rows(k, p->type, p->rows, p->cols);
    k->bytes = bytes_of(p->rows * p->cols, p->type);
}

// The calls of preference losses have room for a document a row, so they have about as many rows as documents.
static void cost_document_sums(const kernel_call *c, kernel_cost *k)
{
    const int64_t documents = c->u.document_sums.documents;
    set_elements(k, F64, documents);
    k->bytes = bytes_of(documents, I32) + bytes_of(3 * documents, F64);
}

static void cost_preference(const kernel_call *c, kernel_cost *k)
{
    const kernel_preference_args *p = &c->u.preference;
    set_elements(k, F64, p->documents);
    k->form = p->weights != NULL;
    k->bytes = bytes_of(p->documents, I32) + bytes_of(2 * p->documents, F64) +
               (p->reference ? bytes_of(2 * p->documents, F32) : 0) +
               (p->weights ? bytes_of(p->documents, F32) : 0);
}

static void cost_copy_rows(const kernel_call *c, kernel_cost *k)
{
    const kernel_copy_rows_args *p = &c->u.copy_rows;
    set_rows(k, p->type, p->rows, p->cols);
    k->bytes = 2 * bytes_of(p->rows * p->cols, p->type);
}

static void cost_orthogonalize(const kernel_call *c, kernel_cost *k)
{
    const kernel_orthogonalize_args *p = &c->u.orthogonalize;
    set_rows(k, F32, p->rows, p->cols);
    k->bytes = 2 * bytes_of(p->rows * p->cols, F32);
}

// ---- Elements

static void cost_activation(const kernel_call *c, kernel_cost *k)
{
    const kernel_activation_args *p = &c->u.activation;
    set_elements(k, p->type, p->count);
    k->form = (int)p->act;
    k->bytes = bytes_of(p->count, p->type) * (p->dy ? 3 : 2);
}

static void cost_xielu(const kernel_call *c, kernel_cost *k)
{
    const kernel_xielu_args *p = &c->u.xielu;
    set_elements(k, p->type, p->count);
    k->bytes = bytes_of(p->count, p->type) * (1 + (p->dy != NULL) + (p->y != NULL));
}

static void cost_add(const kernel_call *c, kernel_cost *k)
{
    const kernel_add_args *p = &c->u.add;
    set_elements(k, p->type, p->count);
    k->form = p->b != NULL;
    k->bytes = 2 * bytes_of(p->count, residual_of(p->type, p->residual_fp32)) +
               (p->b ? bytes_of(p->count, p->type) : 0);
}

static void cost_init(const kernel_call *c, kernel_cost *k)
{
    set_elements(k, F32, c->u.init.count);
    k->form = c->u.init.normal;
    k->bytes = bytes_of(c->u.init.count, F32);
}

static void cost_square_error(const kernel_call *c, kernel_cost *k)
{
    const kernel_square_error_args *p = &c->u.square_error;
    set_elements(k, p->type, p->rows * p->cols);
    k->bytes =
        bytes_of(p->rows * p->cols, p->type) * (p->dx ? 2 : 1) + bytes_of(p->rows * p->cols, F32);
}

static void cost_sum_squares(const kernel_call *c, kernel_cost *k)
{
    set_elements(k, c->u.sum_squares.type, c->u.sum_squares.count);
    k->bytes = bytes_of(c->u.sum_squares.count, c->u.sum_squares.type);
}

static void cost_clip(const kernel_call *c, kernel_cost *k)
{
    (void)c;
    set_elements(k, F64, 1);
    k->bytes = sizeof(kernel_step);
}

// The weight, its moving average and each moment are read and written, the gradient is read.
static void cost_update(const kernel_call *c, kernel_cost *k)
{
    const kernel_update_args *p = &c->u.update;
    set_elements(k, F32, p->count);
    k->form = 2 * (int)p->rule + (p->low != NULL);
    k->bytes = bytes_of(p->count, F32) *
                   (3 + 2 * (p->m != NULL) + 2 * (p->v != NULL) + 2 * (p->average != NULL)) +
               (p->low ? bytes_of(p->count, p->low_type) : 0);
}

static void cost_convert(const kernel_call *c, kernel_cost *k)
{
    const kernel_convert_args *p = &c->u.convert;
    set_elements(k, p->dst_type, p->count);
    k->form = (p->src_type != p->dst_type) + (p->accumulate ? 2 : 0);
    k->bytes =
        bytes_of(p->count, p->src_type) + bytes_of(p->count, p->dst_type) * (1 + p->accumulate);
}

static void cost_unpack_nf4(const kernel_call *c, kernel_cost *k)
{
    const kernel_unpack_nf4_args *p = &c->u.unpack_nf4;
    set_elements(k, p->type, p->rows * p->cols);
    k->bytes =
        bytes_of(p->rows * nf4_row_words(p->cols), F32) + bytes_of(p->rows * p->cols, p->type);
}

static void cost_fill(const kernel_call *c, kernel_cost *k)
{
    set_elements(k, F32, c->u.fill.bytes / (int64_t)sizeof(float));
    k->bytes = (double)c->u.fill.bytes;
}

static void cost_digest(const kernel_call *c, kernel_cost *k)
{
    set_elements(k, F32, c->u.digest.bytes / (int64_t)sizeof(float));
    k->bytes = (double)c->u.digest.bytes;
}

static void cost_reduce(const kernel_call *c, kernel_cost *k)
{
    const kernel_reduce_args *p = &c->u.reduce;
    set_sizes(k, p->count, p->ranks, p->outs);
    k->type = p->type;
    k->bytes = bytes_of(p->count, p->type) * (p->ranks + p->outs);
}

static void (*const COST[KERNELS])(const kernel_call *c, kernel_cost *k) = {
    [K_MATMUL] = cost_matmul,
    [K_BIAS_GRAD] = cost_bias_grad,
    [K_EMBEDDING] = cost_embedding,
    [K_EMBEDDING_GRAD] = cost_embedding_grad,
    [K_NORM] = cost_norm,
    [K_NORM_GRAD] = cost_norm_grad,
    [K_QK_NORM] = cost_qk_norm,
    [K_QK_NORM_SUMS] = cost_qk_norm,
    [K_QK_NORM_GRAD] = cost_qk_norm,
    [K_VALUE_NORM] = cost_value_norm,
    [K_VALUE_NORM_GRAD] = cost_value_norm,
    [K_ROPE] = cost_rope,
    [K_ATTENTION] = cost_attention,
    [K_ATTENTION_GRAD] = cost_attention_grad,
    [K_CAUSAL_CONV] = cost_causal_conv,
    [K_CAUSAL_CONV_GRAD] = cost_causal_conv_grad,
    [K_DELTA_GATES] = cost_delta_gates,
    [K_DELTA_GATES_GRAD] = cost_delta_gates,
    [K_DELTA_RULE] = cost_delta_rule,
    [K_DELTA_RULE_GRAD] = cost_delta_rule_grad,
    [K_GATE] = cost_gate,
    [K_GATE_GRAD] = cost_gate,
    [K_ACTIVATION] = cost_activation,
    [K_ACTIVATION_GRAD] = cost_activation,
    [K_GLU] = cost_glu,
    [K_GLU_GRAD] = cost_glu,
    [K_XIELU] = cost_xielu,
    [K_XIELU_GRAD] = cost_xielu,
    [K_ADD] = cost_add,
    [K_DROPOUT] = cost_dropout,
    [K_INIT] = cost_init,
    [K_CROSS_ENTROPY] = cost_cross_entropy,
    [K_CROSS_ENTROPY_STATS] = cost_cross_entropy_stats,
    [K_DOCUMENT_SUMS] = cost_document_sums,
    [K_PREFERENCE] = cost_preference,
    [K_SQUARE_ERROR] = cost_square_error,
    [K_SUM_SQUARES] = cost_sum_squares,
    [K_CLIP] = cost_clip,
    [K_UPDATE] = cost_update,
    [K_CONVERT] = cost_convert,
    [K_UNPACK_NF4] = cost_unpack_nf4,
    [K_COPY_ROWS] = cost_copy_rows,
    [K_FILL] = cost_fill,
    [K_DIGEST] = cost_digest,
    [K_REDUCE] = cost_reduce,
    [K_ORTHOGONALIZE] = cost_orthogonalize,
};

kernel_cost kernel_cost_of(const kernel_call *c)
{
    kernel_cost k = {.kind = c->kind, .type = F32, .size = {1, 1, 1}};
    COST[c->kind](c, &k);
    return k;
}
