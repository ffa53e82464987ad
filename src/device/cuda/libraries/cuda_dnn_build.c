// cuda_dnn_build.c -- see cuda_dnn_build.h.
#include "device/cuda/libraries/cuda_dnn_build.h"

#include "base/alloc.h"

#include <stdlib.h>

enum { PROPOSALS_MOST = 16, TENSOR_ALIGN = 16 };

void dnn_pool_clear(const dnn_functions *f, dnn_pool *pool)
{
    while (pool->count > 0) f->cudnnBackendDestroyDescriptor(pool->items[--pool->count]);
    free(pool->items);
    *pool = (dnn_pool){0};
}

static void check(dnn_builder *b, cudnnStatus_t s, const char *what)
{
    if (b->result != OK || s == CUDNN_STATUS_SUCCESS) return;
    b->result = err_set(b->e, E_USAGE, "cuDNN: %s gave %s", what, b->t->f->cudnnGetErrorString(s));
}

static cudnnBackendDescriptor_t create(dnn_builder *b, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t d = NULL;
    if (b->result == OK)
        b->result = alloc_grow(&b->pool->items, &b->pool->room, b->pool->count + 1, sizeof(d),
                               "the descriptors of a plan", b->e);
    if (b->result != OK) return NULL;
    check(b, b->t->f->cudnnBackendCreateDescriptor(type, &d), "a new descriptor");
    if (d) b->pool->items[b->pool->count++] = d;
    return d;
}

static void set(dnn_builder *b, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    if (b->result == OK)
        check(b, b->t->f->cudnnBackendSetAttribute(d, name, type, count, values), "an attribute");
}

static void set_descriptor(dnn_builder *b, cudnnBackendDescriptor_t d,
                           cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value)
{
    set(b, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finalize(dnn_builder *b, cudnnBackendDescriptor_t d, const char *what)
{
    if (b->result == OK) check(b, b->t->f->cudnnBackendFinalize(d), what);
}

cudnnBackendDescriptor_t dnn_tensor(dnn_builder *b, int64_t uid, cudnnDataType_t type,
                                    const int64_t dims[DNN_DIMS], const int64_t strides[DNN_DIMS])
{
    cudnnBackendDescriptor_t d = create(b, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const int64_t align = TENSOR_ALIGN;
    const cudnnBackendTensorReordering_t order = CUDNN_TENSOR_REORDERING_F16x16;
    const bool is_inner = uid == DNN_INNER;
    const bool by_value = uid == DNN_SCALE || uid == DNN_MASKED || uid == DNN_ONE;
    if (is_inner) uid = b->next_uid++;
    set(b, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(b, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, DNN_DIMS, dims);
    set(b, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, DNN_DIMS, strides);
    set(b, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    set(b, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
    if (uid == DNN_DQ_SUM)
        set(b, d, CUDNN_ATTR_TENSOR_REORDERING_MODE, CUDNN_TYPE_TENSOR_REORDERING_MODE, 1, &order);
    if (is_inner) set(b, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_inner);
    if (by_value) set(b, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    finalize(b, d, "a tensor");
    return d;
}

cudnnBackendDescriptor_t dnn_scores(dnn_builder *b, cudnnDataType_t type)
{
    const dnn_shape *s = b->s;
    return dnn_tensor(b, DNN_INNER, type, (int64_t[]){s->batch, s->heads, s->tq, s->tk},
                      (int64_t[]){s->heads * s->tq * s->tk, s->tq * s->tk, s->tk, 1});
}

cudnnBackendDescriptor_t dnn_row_numbers(dnn_builder *b, int64_t uid)
{
    const dnn_shape *s = b->s;
    return dnn_tensor(b, uid, CUDNN_DATA_FLOAT, (int64_t[]){s->batch, s->heads, s->tq, 1},
                      (int64_t[]){s->heads * s->tq, s->tq, 1, 1});
}

cudnnBackendDescriptor_t dnn_number(dnn_builder *b, int64_t uid)
{
    const int64_t ones[DNN_DIMS] = {1, 1, 1, 1};
    return dnn_tensor(b, uid, CUDNN_DATA_FLOAT, ones, ones);
}

static void add_operation(dnn_builder *b, cudnnBackendDescriptor_t d)
{
    finalize(b, d, "an operation");
    b->operations[b->operation_count++] = d;
}

void dnn_pointwise(dnn_builder *b, cudnnPointwiseMode_t mode, cudnnDataType_t math, int64_t axis,
                   cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t second,
                   cudnnBackendDescriptor_t third, cudnnBackendDescriptor_t y)
{
    cudnnBackendDescriptor_t p = create(b, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(b, p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(b, p, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &math);
    if (mode == CUDNN_POINTWISE_GEN_INDEX)
        set(b, p, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    finalize(b, p, "a pointwise operation");
    cudnnBackendDescriptor_t d = create(b, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_descriptor(b, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, p);
    set_descriptor(b, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (second) set_descriptor(b, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, second);
    if (third) set_descriptor(b, d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, third);
    set_descriptor(b, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    add_operation(b, d);
}

void dnn_reduce(dnn_builder *b, cudnnReduceTensorOp_t how, cudnnBackendDescriptor_t x,
                cudnnBackendDescriptor_t y)
{
    const cudnnDataType_t math = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t r = create(b, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(b, r, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math);
    set(b, r, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how);
    finalize(b, r, "a reduction");
    cudnnBackendDescriptor_t d = create(b, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_descriptor(b, d, CUDNN_ATTR_OPERATION_REDUCTION_DESC, r);
    set_descriptor(b, d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_descriptor(b, d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    add_operation(b, d);
}

void dnn_multiply(dnn_builder *b, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y,
                  cudnnBackendDescriptor_t out)
{
    const cudnnDataType_t math = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t m = create(b, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(b, m, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math);
    finalize(b, m, "a product");
    cudnnBackendDescriptor_t d = create(b, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_descriptor(b, d, CUDNN_ATTR_OPERATION_MATMUL_ADESC, x);
    set_descriptor(b, d, CUDNN_ATTR_OPERATION_MATMUL_BDESC, y);
    set_descriptor(b, d, CUDNN_ATTR_OPERATION_MATMUL_CDESC, out);
    set_descriptor(b, d, CUDNN_ATTR_OPERATION_MATMUL_DESC, m);
    add_operation(b, d);
}

void dnn_reshape(dnn_builder *b, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y)
{
    cudnnBackendDescriptor_t d = create(b, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_descriptor(b, d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_descriptor(b, d, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    add_operation(b, d);
}

cudnnBackendDescriptor_t dnn_mask(dnn_builder *b, cudnnBackendDescriptor_t x)
{
    cudnnBackendDescriptor_t row = dnn_scores(b, CUDNN_DATA_INT32),
                             column = dnn_scores(b, CUDNN_DATA_INT32);
    cudnnBackendDescriptor_t seen = dnn_scores(b, CUDNN_DATA_BOOLEAN),
                             y = dnn_scores(b, CUDNN_DATA_FLOAT);
    dnn_pointwise(b, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 2, x, NULL, NULL, row);
    dnn_pointwise(b, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 3, x, NULL, NULL, column);
    dnn_pointwise(b, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, 0, row, column, NULL, seen);
    dnn_pointwise(b, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, 0, x,
                  dnn_number(b, DNN_MASKED), seen, y);
    return y;
}

static cudnnBackendDescriptor_t finish_graph(dnn_builder *b)
{
    cudnnBackendDescriptor_t graph = create(b, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(b, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, b->operation_count,
        b->operations);
    if (b->t->handle)
        set(b, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &b->t->handle);
    finalize(b, graph, "the graph of attention");
    return graph;
}

// Asks the library for configurations of engines, the best first.
static int64_t propose(dnn_builder *b, cudnnBackendDescriptor_t graph,
                       cudnnBackendDescriptor_t proposed[PROPOSALS_MOST])
{
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    int64_t count = 0;
    cudnnBackendDescriptor_t h = create(b, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_descriptor(b, h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(b, h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (b->t->device) set_descriptor(b, h, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, b->t->device);
    finalize(b, h, "the choice of an engine");
    for (int i = 0; i < PROPOSALS_MOST; i++)
        proposed[i] = create(b, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (b->result == OK)
        check(b,
              b->t->f->cudnnBackendGetAttribute(h, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                CUDNN_TYPE_BACKEND_DESCRIPTOR, PROPOSALS_MOST,
                                                &count, proposed),
              "the list of engines");
    return b->result == OK ? count : 0;
}

// Returns whether two runs of the engine may differ. An engine that does not say so counts as one that may.
static bool is_nondeterministic(dnn_builder *b, cudnnBackendDescriptor_t config)
{
    const dnn_functions *f = b->t->f;
    cudnnBackendDescriptor_t engine = create(b, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count = 0;
    if (b->result != OK ||
        f->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                    &engine) != CUDNN_STATUS_SUCCESS ||
        f->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                    CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                                    &count, notes) != CUDNN_STATUS_SUCCESS)
        return true;
    for (int64_t i = 0; i < count; i++)
        if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) return true;
    return false;
}

// The plan of a configuration. NULL where it does not compile or needs more workspace.
static cudnnBackendDescriptor_t compile(dnn_builder *b, cudnnBackendDescriptor_t config,
                                        size_t workspace_most)
{
    int64_t bytes = 0, count = 0;
    cudnnBackendDescriptor_t plan = create(b, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (b->t->handle)
        set(b, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &b->t->handle);
    else
        set_descriptor(b, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, b->t->device);
    set_descriptor(b, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (b->result != OK || b->t->f->cudnnBackendFinalize(plan) != CUDNN_STATUS_SUCCESS) return NULL;
    check(b,
          b->t->f->cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                            CUDNN_TYPE_INT64, 1, &count, &bytes),
          "the workspace of a plan");
    return b->result == OK && (uint64_t)bytes <= workspace_most ? plan : NULL;
}

cudnnBackendDescriptor_t dnn_plan_of_graph(dnn_builder *b, size_t workspace_most, bool any_order)
{
    cudnnBackendDescriptor_t proposed[PROPOSALS_MOST], plan = NULL, graph = finish_graph(b);
    const int64_t count = propose(b, graph, proposed);
    for (int64_t i = 0; i < count && !plan; i++)
        if (any_order || !is_nondeterministic(b, proposed[i]))
            plan = compile(b, proposed[i], workspace_most);
    if (b->result == OK && !plan)
        b->result = err_set(b->e, E_USAGE, "cuDNN has no engine for this attention (%ld proposed)",
                            (long)count);
    return b->result == OK ? plan : NULL;
}
