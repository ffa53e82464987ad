// cuda_dnn_build.h -- what graphs of cuDNN are built of: tensors, operations, and the choice of an engine.
// cuda_dnn_graph.c calls it. It does not know what a graph computes.
//
// A failure is kept in the builder; the functions then do nothing, so that a graph reads without checks.
// Descriptors belong to the builder's pool.
#ifndef TRIREME_DEVICE_CUDA_CUDA_DNN_BUILD_H
#define TRIREME_DEVICE_CUDA_CUDA_DNN_BUILD_H

#include "device/cuda/libraries/cuda_dnn_graph.h"

enum { DNN_DIMS = 4, DNN_OPERATIONS = 32 };

typedef struct dnn_builder {
    const dnn_target *t;
    const dnn_shape *s;
    dnn_pool *pool;
    cudnnBackendDescriptor_t operations[DNN_OPERATIONS];
    int64_t operation_count, next_uid;
    status result;
    err *e;
} dnn_builder;

// A tensor [batch, heads, rows, columns]. `uid` DNN_INNER: one inside of the graph, with a number of its own.
// Each other number is the number of one tensor.
cudnnBackendDescriptor_t dnn_tensor(dnn_builder *b, int64_t uid, cudnnDataType_t type,
                                    const int64_t dims[DNN_DIMS], const int64_t strides[DNN_DIMS]);
// Of the shape of the scores, [batch, heads, tq, tk].
cudnnBackendDescriptor_t dnn_scores(dnn_builder *b, cudnnDataType_t type);
// One number for each row of the scores.
cudnnBackendDescriptor_t dnn_row_numbers(dnn_builder *b, int64_t uid);
cudnnBackendDescriptor_t dnn_number(dnn_builder *b, int64_t uid);

// y = mode(x, second, third); second and third may be NULL. `axis` is read by GEN_INDEX only.
void dnn_pointwise(dnn_builder *b, cudnnPointwiseMode_t mode, cudnnDataType_t math, int64_t axis,
                   cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t second,
                   cudnnBackendDescriptor_t third, cudnnBackendDescriptor_t y);
// y = x, reduced along the dimensions that are smaller in y.
void dnn_reduce(dnn_builder *b, cudnnReduceTensorOp_t how, cudnnBackendDescriptor_t x,
                cudnnBackendDescriptor_t y);
void dnn_multiply(dnn_builder *b, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y,
                  cudnnBackendDescriptor_t out);
// y = x, rounded to y's type, with the dimensions of y: its transpose.
void dnn_reshape(dnn_builder *b, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y);
// The scores x; those of a key later than the query are DNN_MASKED.
cudnnBackendDescriptor_t dnn_mask(dnn_builder *b, cudnnBackendDescriptor_t x);

// Plans the graph of all operations so far, as dnn_attention_plan says. NULL after a failure.
cudnnBackendDescriptor_t dnn_plan_of_graph(dnn_builder *b, size_t workspace_most, bool any_order);

#endif
