// lib_cudnn.c -- the stand-in of cuDNN's graph API (include/cudnn.h): descriptors, and what may be set in each
// of them. A graph is checked and computed in lib_attention.c. Like the library it refuses attributes of
// another type, descriptors that are not finalized, and graphs that it does not recognise; and it proposes
// engines that the caller must not want: one that is not deterministic, and one that needs much workspace.
#include "lib_cudnn.h"

#include "runtime.h"

#include <stdlib.h>
#include <string.h>

struct cudnnContext {
    int device;
    cudaStream_t stream;
};

// The engines in the order in which they are proposed.
enum { ENGINE_UNORDERED, ENGINE_LARGE, ENGINE_GOOD, ENGINES };
static const int64_t WORKSPACES[ENGINES] = {0, INT64_C(64) << 20, 256};

typedef struct rule {
    int descriptor, name, type;
    int64_t most; // values
    bool needed;
} rule;

// What may be set in a descriptor, and what must have been when it is finalized.
static const rule RULES[] = {
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, true},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 8, true},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 8, true},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, true},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, true},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, false},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, false},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_REORDERING_MODE,
     CUDNN_TYPE_TENSOR_REORDERING_MODE, 1, false},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESHAPE_XDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESHAPE_YDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1,
     true},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1,
     true},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, false},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, false},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, false},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_OPERATOR,
     CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, true},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1,
     true},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_DESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_XDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_YDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true},
    {CUDNN_BACKEND_MATMUL_DESCRIPTOR, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, true},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_DESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_ADESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_BDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_CDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE,
     1, true},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_OPS,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_VALUES, true},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1,
     true},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE,
     1, true},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
     CUDNN_VALUES, true},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
     CUDNN_TYPE_VOID_PTR, CUDNN_VALUES, true},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
     1, false},
};
enum { RULE_COUNT = sizeof RULES / sizeof *RULES };

size_t cudnnGetVersion(void)
{
    return 91900;
}

const char *cudnnGetErrorString(cudnnStatus_t s)
{
    switch (s) {
    case CUDNN_STATUS_SUCCESS:
        return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM:
        return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER:
        return "CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER";
    case CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED:
        return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
    case CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE:
        return "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE";
    case CUDNN_STATUS_NOT_SUPPORTED:
        return "CUDNN_STATUS_NOT_SUPPORTED";
    default:
        return "CUDNN_STATUS_EXECUTION_FAILED";
    }
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    int device;
    if (cudaGetDevice(&device) != cudaSuccess) return CUDNN_STATUS_NOT_INITIALIZED;
    *handle = calloc(1, sizeof **handle);
    if (!*handle) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    (*handle)->device = device;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *out)
{
    cudnn_descriptor *d = calloc(1, sizeof *d);
    if (!d) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    d->type = (int)type;
    *out = d;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
    if (descriptor)
        memset(descriptor, 0xff, sizeof(cudnn_descriptor)); // a plan that refers to it breaks
    free(descriptor);
    return CUDNN_STATUS_SUCCESS;
}

const cudnn_attribute *cudnn_find(const cudnn_descriptor *d, int name)
{
    for (int i = 0; i < d->attributes; i++)
        if (d->attribute[i].name == name) return &d->attribute[i];
    return NULL;
}

static size_t type_bytes(int type)
{
    return type == CUDNN_TYPE_BOOLEAN ? sizeof(bool)
           : type == CUDNN_TYPE_DATA_TYPE || type == CUDNN_TYPE_HEUR_MODE ||
                   type == CUDNN_TYPE_POINTWISE_MODE ||
                   type == CUDNN_TYPE_REDUCTION_OPERATOR_TYPE ||
                   type == CUDNN_TYPE_TENSOR_REORDERING_MODE
               ? sizeof(int)
               : 8;
}

int64_t cudnn_number(const cudnn_descriptor *d, int name)
{
    const cudnn_attribute *a = cudnn_find(d, name);
    int64_t value = 0; // the hosts of GPUs are little-endian
    if (!a) stand_in_die("cuDNN: attribute %d of descriptor %d was not set", name, d->type);
    memcpy(&value, a->values, type_bytes(a->type));
    return value;
}

cudnn_descriptor *cudnn_link(const cudnn_descriptor *d, int name)
{
    return (cudnn_descriptor *)(intptr_t)cudnn_number(d, name);
}

static const rule *find_rule(int descriptor, int name)
{
    for (int i = 0; i < RULE_COUNT; i++)
        if (RULES[i].descriptor == descriptor && RULES[i].name == name) return &RULES[i];
    return NULL;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values)
{
    cudnn_descriptor *d = descriptor;
    if (!d || !values) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    const rule *r = find_rule(d->type, (int)name);
    if (!r || d->finalized || count < 1 || count > r->most) return CUDNN_STATUS_BAD_PARAM;
    if (r->type != (int)type) return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        for (int64_t i = 0; i < count; i++) {
            const cudnn_descriptor *value = ((cudnn_descriptor *const *)values)[i];
            if (!value) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
            if (!value->finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
        }
    cudnn_attribute *a = (cudnn_attribute *)cudnn_find(d, (int)name);
    if (!a) a = &d->attribute[d->attributes++];
    *a = (cudnn_attribute){.name = (int)name, .type = (int)type, .count = count};
    memcpy(a->values, values, type_bytes((int)type) * (size_t)count);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize_tensor(const cudnn_descriptor *d)
{
    const cudnn_attribute *dims = cudnn_find(d, CUDNN_ATTR_TENSOR_DIMENSIONS);
    const cudnn_attribute *strides = cudnn_find(d, CUDNN_ATTR_TENSOR_STRIDES);
    const int64_t align = cudnn_number(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    if (dims->count != strides->count) return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
    for (int64_t i = 0; i < dims->count; i++)
        if (((const int64_t *)dims->values)[i] < 1) return CUDNN_STATUS_BAD_PARAM;
    return align > 0 && (align & (align - 1)) == 0 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    cudnn_descriptor *d = descriptor;
    cudnnStatus_t s = CUDNN_STATUS_SUCCESS;
    if (!d) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    for (int i = 0; i < RULE_COUNT; i++)
        if (RULES[i].descriptor == d->type && RULES[i].needed && !cudnn_find(d, RULES[i].name))
            return CUDNN_STATUS_BAD_PARAM;
    if (d->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) s = finalize_tensor(d);
    if (d->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
        d->graph = cudnn_link(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    if (d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
        const cudnn_descriptor *config = cudnn_link(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
        d->graph = config->graph, d->engine = config->engine;
    }
    d->finalized = s == CUDNN_STATUS_SUCCESS;
    return s;
}

// Fills the configurations of engines that the caller has created.
static cudnnStatus_t get_engines(const cudnn_descriptor *d, int64_t wanted, int64_t *count,
                                 cudnn_descriptor **configs)
{
    const char *why;
    *count = 0;
    if (!lib_attention_supports(d->graph, &why)) return CUDNN_STATUS_SUCCESS;
    for (int i = 0; i < ENGINES && i < wanted; i++) {
        if (!configs[i] || configs[i]->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
            return CUDNN_STATUS_BAD_PARAM;
        configs[i]->engine = i, configs[i]->graph = d->graph, configs[i]->finalized = true;
        ++*count;
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t get_notes(const cudnn_descriptor *engine, int64_t wanted, int64_t *count,
                               int *notes)
{
    *count = engine->engine == ENGINE_UNORDERED ? 2 : 1;
    if (wanted < *count) return CUDNN_STATUS_BAD_PARAM;
    notes[0] = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    if (*count == 2) notes[1] = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted,
                                       int64_t *count, void *values)
{
    const cudnn_descriptor *d = descriptor;
    if (!d || !count || !values) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (!d->finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        return get_engines(d, wanted, count, values);
    if (name == CUDNN_ATTR_ENGINECFG_ENGINE && type == CUDNN_TYPE_BACKEND_DESCRIPTOR &&
        wanted == 1) {
        cudnn_descriptor *engine = *(cudnn_descriptor **)values;
        engine->engine = d->engine, engine->finalized = true, *count = 1;
        return CUDNN_STATUS_SUCCESS;
    }
    if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && type == CUDNN_TYPE_NUMERICAL_NOTE)
        return get_notes(d, wanted, count, values);
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64 &&
        wanted == 1) {
        *(int64_t *)values = WORKSPACES[d->engine], *count = 1;
        return CUDNN_STATUS_SUCCESS;
    }
    return CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variant_pack)
{
    const cudnn_descriptor *p = plan, *v = variant_pack;
    lib_attention_pack pack = {.count = 0};
    if (!handle || !p || !v) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (!p->finalized || !v->finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    if (p->engine == ENGINE_UNORDERED && !lib_attention_is_gradient(p->graph))
        stand_in_die("cuDNN: the engine gives other bits each time");
    const cudnn_attribute *uids = cudnn_find(v, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const cudnn_attribute *addresses = cudnn_find(v, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    const cudnn_attribute *workspace = cudnn_find(v, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    if (uids->count != addresses->count || !workspace) return CUDNN_STATUS_BAD_PARAM;
    pack.count = (int)uids->count;
    memcpy(pack.uid, uids->values, sizeof *pack.uid * (size_t)pack.count);
    memcpy(pack.address, addresses->values, sizeof *pack.address * (size_t)pack.count);
    return lib_attention_issue(p->graph, &pack, *(void *const *)workspace->values,
                               (size_t)WORKSPACES[p->engine], handle->stream);
}
