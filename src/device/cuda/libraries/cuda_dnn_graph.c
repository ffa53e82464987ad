// cuda_dnn_graph.c -- the graphs of attention and of its gradient (cuda_dnn_graph.h), and their plans. The
// library knows these patterns of operations, and runs each as one kernel or two.
#include "device/cuda/libraries/cuda_dnn_build.h"

static cudnnDataType_t type_of(const dnn_shape *s)
{
    return s->type == BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

// Queries, their gradient, outputs and their gradient.
static cudnnBackendDescriptor_t query_rows(dnn_builder *b, int64_t uid, int64_t stride)
{
    const dnn_shape *s = b->s;
    return dnn_tensor(b, uid, type_of(s), (int64_t[]){s->batch, s->heads, s->tq, s->head_dim},
                      (int64_t[]){s->tq * stride, s->head_dim, stride, 1});
}

// Keys or values, or their gradient.
static cudnnBackendDescriptor_t key_rows(dnn_builder *b, int64_t uid, int64_t batch, int64_t stride)
{
    const dnn_shape *s = b->s;
    return dnn_tensor(b, uid, type_of(s), (int64_t[]){s->batch, s->kv_heads, s->tk, s->head_dim},
                      (int64_t[]){batch, s->head_dim, stride, 1});
}

// The same as their transpose, which products read.
static cudnnBackendDescriptor_t key_columns(dnn_builder *b, int64_t uid, int64_t batch,
                                            int64_t stride)
{
    const dnn_shape *s = b->s;
    return dnn_tensor(b, uid, type_of(s), (int64_t[]){s->batch, s->kv_heads, s->head_dim, s->tk},
                      (int64_t[]){batch, s->head_dim, 1, stride});
}

// scale * q · k^T, masked where causal.
static cudnnBackendDescriptor_t scaled_scores(dnn_builder *b, cudnnBackendDescriptor_t q,
                                              cudnnBackendDescriptor_t k,
                                              cudnnBackendDescriptor_t scale)
{
    cudnnBackendDescriptor_t product = dnn_scores(b, CUDNN_DATA_FLOAT);
    cudnnBackendDescriptor_t scaled = dnn_scores(b, CUDNN_DATA_FLOAT);
    dnn_multiply(b, q, k, product);
    dnn_pointwise(b, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, 0, product, scale, NULL, scaled);
    return b->s->causal ? dnn_mask(b, scaled) : scaled;
}

// The softmax of the rows of x, and the logarithm of its sums in DNN_LSE.
static cudnnBackendDescriptor_t softmax(dnn_builder *b, cudnnBackendDescriptor_t x,
                                        cudnnDataType_t type)
{
    cudnnBackendDescriptor_t max = dnn_row_numbers(b, DNN_INNER),
                             sum = dnn_row_numbers(b, DNN_INNER);
    cudnnBackendDescriptor_t log = dnn_row_numbers(b, DNN_INNER), lse = dnn_row_numbers(b, DNN_LSE);
    cudnnBackendDescriptor_t shifted = dnn_scores(b, CUDNN_DATA_FLOAT);
    cudnnBackendDescriptor_t power = dnn_scores(b, CUDNN_DATA_FLOAT), y = dnn_scores(b, type);
    dnn_reduce(b, CUDNN_REDUCE_TENSOR_MAX, x, max);
    dnn_pointwise(b, CUDNN_POINTWISE_SUB, CUDNN_DATA_FLOAT, 0, x, max, NULL, shifted);
    dnn_pointwise(b, CUDNN_POINTWISE_EXP, CUDNN_DATA_FLOAT, 0, shifted, NULL, NULL, power);
    dnn_reduce(b, CUDNN_REDUCE_TENSOR_ADD, power, sum);
    dnn_pointwise(b, CUDNN_POINTWISE_LOG, CUDNN_DATA_FLOAT, 0, sum, NULL, NULL, log);
    dnn_pointwise(b, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, 0, max, log, NULL, lse);
    dnn_pointwise(b, CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, 0, power, sum, NULL, y);
    return y;
}

static void build_forward(dnn_builder *b)
{
    const dnn_shape *s = b->s;
    cudnnBackendDescriptor_t q = query_rows(b, DNN_Q, s->q_stride);
    cudnnBackendDescriptor_t k = key_columns(b, DNN_K, s->k_batch, s->k_stride);
    cudnnBackendDescriptor_t v = key_rows(b, DNN_V, s->v_batch, s->v_stride);
    cudnnBackendDescriptor_t o = query_rows(b, DNN_O, s->o_stride);
    cudnnBackendDescriptor_t x = scaled_scores(b, q, k, dnn_number(b, DNN_SCALE));
    dnn_multiply(b, softmax(b, x, type_of(s)), v, o);
}

// ---- The gradient

// mode(x, second) in F32, of the shape of the scores.
static cudnnBackendDescriptor_t on_scores(dnn_builder *b, cudnnPointwiseMode_t mode,
                                          cudnnBackendDescriptor_t x,
                                          cudnnBackendDescriptor_t second)
{
    cudnnBackendDescriptor_t y = dnn_scores(b, CUDNN_DATA_FLOAT);
    dnn_pointwise(b, mode, CUDNN_DATA_FLOAT, 0, x, second, NULL, y);
    return y;
}

// For each query, the sum of the elements of o * d_o.
static cudnnBackendDescriptor_t sum_of_outputs(dnn_builder *b, cudnnBackendDescriptor_t o,
                                               cudnnBackendDescriptor_t d_o,
                                               cudnnBackendDescriptor_t one)
{
    const dnn_shape *s = b->s;
    cudnnBackendDescriptor_t sum = dnn_row_numbers(b, DNN_INNER);
    cudnnBackendDescriptor_t delta = dnn_row_numbers(b, DNN_INNER);
    cudnnBackendDescriptor_t product = dnn_tensor(
        b, DNN_INNER, CUDNN_DATA_FLOAT, (int64_t[]){s->batch, s->heads, s->tq, s->head_dim},
        (int64_t[]){s->heads * s->tq * s->head_dim, s->tq * s->head_dim, s->heads * s->head_dim,
                    1});
    dnn_pointwise(b, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, 0, d_o, o, NULL, product);
    dnn_reduce(b, CUDNN_REDUCE_TENSOR_ADD, product, sum);
    dnn_pointwise(b, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, 0, sum, one, NULL, delta);
    return delta;
}

// out = x^T · y: the gradient of keys or values, summed over the heads that share them.
static void multiply_transposed(dnn_builder *b, cudnnBackendDescriptor_t x,
                                cudnnBackendDescriptor_t y, cudnnBackendDescriptor_t out)
{
    const dnn_shape *s = b->s;
    cudnnBackendDescriptor_t turned =
        dnn_tensor(b, DNN_INNER, type_of(s), (int64_t[]){s->batch, s->heads, s->tk, s->tq},
                   (int64_t[]){s->heads * s->tq * s->tk, s->tq * s->tk, 1, s->tk});
    dnn_reshape(b, x, turned);
    if (s->heads == s->kv_heads) {
        dnn_multiply(b, turned, y, out);
        return;
    }
    cudnnBackendDescriptor_t each = dnn_tensor(
        b, DNN_INNER, type_of(s), (int64_t[]){s->batch, s->heads, s->tk, s->head_dim},
        (int64_t[]){s->heads * s->tk * s->head_dim, s->tk * s->head_dim, s->head_dim, 1});
    dnn_multiply(b, turned, y, each);
    dnn_reduce(b, CUDNN_REDUCE_TENSOR_ADD, each, out);
}

// dq = ds · k, by way of sums in F32, to which blocks of keys add in any order.
static void multiply_to_queries(dnn_builder *b, cudnnBackendDescriptor_t ds,
                                cudnnBackendDescriptor_t k)
{
    const dnn_shape *s = b->s;
    cudnnBackendDescriptor_t turned = key_rows(b, DNN_INNER, s->k_batch, s->k_stride);
    cudnnBackendDescriptor_t sum = dnn_tensor(
        b, DNN_DQ_SUM, CUDNN_DATA_FLOAT, (int64_t[]){s->batch, s->heads, s->tq, s->head_dim},
        (int64_t[]){s->heads * s->tq * s->head_dim, s->tq * s->head_dim, s->head_dim, 1});
    cudnnBackendDescriptor_t dq = query_rows(b, DNN_DQ, s->q_stride);
    dnn_reshape(b, k, turned);
    dnn_multiply(b, ds, turned, sum);
    dnn_pointwise(b, CUDNN_POINTWISE_IDENTITY, CUDNN_DATA_FLOAT, 0, sum, NULL, NULL, dq);
}

static void build_gradient(dnn_builder *b)
{
    const dnn_shape *s = b->s;
    cudnnBackendDescriptor_t q = query_rows(b, DNN_Q, s->q_stride);
    cudnnBackendDescriptor_t k = key_columns(b, DNN_K, s->k_batch, s->k_stride);
    cudnnBackendDescriptor_t v = key_columns(b, DNN_V, s->v_batch, s->v_stride);
    cudnnBackendDescriptor_t o = query_rows(b, DNN_O, s->o_stride);
    cudnnBackendDescriptor_t d_o = query_rows(b, DNN_DO, s->o_stride);
    cudnnBackendDescriptor_t one = dnn_number(b, DNN_ONE), scale = dnn_number(b, DNN_SCALE);
    cudnnBackendDescriptor_t delta = sum_of_outputs(b, o, d_o, one);
    cudnnBackendDescriptor_t x = scaled_scores(b, q, k, scale);
    x = on_scores(b, CUDNN_POINTWISE_SUB, x, dnn_row_numbers(b, DNN_LSE));
    cudnnBackendDescriptor_t p = on_scores(b, CUDNN_POINTWISE_EXP, x, NULL);
    multiply_transposed(b, p, d_o, key_rows(b, DNN_DV, s->v_batch, s->v_stride));
    cudnnBackendDescriptor_t dp = dnn_scores(b, CUDNN_DATA_FLOAT);
    dnn_multiply(b, d_o, v, dp);
    cudnnBackendDescriptor_t ds = on_scores(b, CUDNN_POINTWISE_MUL, dp, one);
    ds = on_scores(b, CUDNN_POINTWISE_SUB, ds, delta);
    ds = on_scores(b, CUDNN_POINTWISE_MUL, ds, p);
    ds = on_scores(b, CUDNN_POINTWISE_MUL, ds, scale);
    multiply_transposed(b, ds, q, key_rows(b, DNN_DK, s->k_batch, s->k_stride));
    multiply_to_queries(b, ds, k);
}

status dnn_attention_plan(const dnn_target *t, const dnn_shape *s, size_t workspace_most,
                          dnn_pool *pool, cudnnBackendDescriptor_t *plan, err *e)
{
    dnn_builder b = {.t = t, .s = s, .pool = pool, .next_uid = DNN_INNER, .e = e};
    if (s->gradient)
        build_gradient(&b);
    else
        build_forward(&b);
    *plan = dnn_plan_of_graph(&b, workspace_most, s->gradient);
    return b.result;
}
