// cuda_dnn_graph.h -- attention as a graph of cuDNN's operations, and the plan that executes it. cuda_dnn.c
// keeps the plans. It does not know streams or addresses.
//
// cuDNN recognises the pattern of operations and runs it as one kernel; no score is stored:
//   scores = scale * (q · k^T), masked where causal; lse = max + ln(sum(exp(scores - max)))
//   o      = (exp(scores - max) / sum) · v
// and, as the gradient, with lse as the forward pass gave it:
//   p  = exp(scores - lse)                      dv = p^T · d_o
//   ds = scale * p * (d_o · v^T - sum(o * d_o))   dk = ds^T · q   dq = ds · k
// Blocks of keys add to dq by atomics, in F32 (DNN_DQ_SUM, zeros at first), so two runs differ.
#ifndef TRIREME_DEVICE_CUDA_CUDA_DNN_GRAPH_H
#define TRIREME_DEVICE_CUDA_CUDA_DNN_GRAPH_H

#include "base/dtype.h"
#include "base/err.h"

#include <cudnn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The functions of the library that we call.
#define CUDA_DNN_FUNCTIONS(F)                                                                      \
    F(cudnnGetVersion)                                                                             \
    F(cudnnGetErrorString)                                                                         \
    F(cudnnCreate)                                                                                 \
    F(cudnnDestroy)                                                                                \
    F(cudnnSetStream)                                                                              \
    F(cudnnBackendCreateDescriptor)                                                                \
    F(cudnnBackendDestroyDescriptor)                                                               \
    F(cudnnBackendSetAttribute)                                                                    \
    F(cudnnBackendGetAttribute)                                                                    \
    F(cudnnBackendFinalize)                                                                        \
    F(cudnnBackendExecute)

#define CUDA_DNN_MEMBER(name) __typeof__(&name) name;
typedef struct dnn_functions {
    CUDA_DNN_FUNCTIONS(CUDA_DNN_MEMBER)
} dnn_functions;
#undef CUDA_DNN_MEMBER

// The key of a plan: the shapes and strides of kernel_attention_args, in elements. Keys are compared
// as bytes, so padding bytes are zero.
typedef struct dnn_shape {
    int64_t batch, tq, tk, heads, kv_heads, head_dim;
    int64_t q_stride, k_stride, v_stride, o_stride, k_batch, v_batch;
    int64_t type, causal, gradient; // a dtype, two bools
} dnn_shape;

// The numbers by which the pack of addresses names tensors. Others are inside of the graph.
enum {
    DNN_Q = 1,
    DNN_K,
    DNN_V,
    DNN_O,
    DNN_LSE,
    DNN_SCALE,
    DNN_MASKED,
    // Of the gradient:
    DNN_DO,
    DNN_DQ,
    DNN_DK,
    DNN_DV,
    DNN_DQ_SUM, // [batch, heads, tq, head_dim] F32, in an order of the library's own
    DNN_ONE,    // 1
    DNN_INNER
};

// Descriptors that live as long as the plan that refers to them.
typedef struct dnn_pool {
    cudnnBackendDescriptor_t *items;
    size_t count, room;
} dnn_pool;

void dnn_pool_clear(const dnn_functions *f, dnn_pool *pool);

// The target of plans: the device of `handle`; or, where that is NULL, for a described device
// (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR), which needs no GPU.
typedef struct dnn_target {
    const dnn_functions *f;
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t device;
} dnn_target;

// Makes a plan of attention, by the first engine that the library proposes, compiles, needs at most
// `workspace_most` bytes for, and, but for a gradient, says to be deterministic. E_USAGE where the library has none; the line
// says what it answered. The caller clears the pool in both cases.
status dnn_attention_plan(const dnn_target *t, const dnn_shape *s, size_t workspace_most,
                          dnn_pool *pool, cudnnBackendDescriptor_t *plan, err *e);

#endif
