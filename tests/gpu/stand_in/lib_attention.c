// lib_attention.c -- recognises and computes graphs of attention for the stand-in of cuDNN (lib_cudnn.h). The
// operations of the graph are executed one by one, for each batch and head, with the types and strides that
// its descriptors give: an error in a descriptor gives a wrong result. Every distinct graph goes to the tape.
#include "lib_cudnn.h"

#include "base/dtype.h"
#include "runtime.h"
#include "tape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 48, OPERATIONS = 32, WIDTH_MOST = 128 };

typedef struct tensor {
    int64_t uid;
    int64_t type; // cudnnDataType_t
    int64_t align;
    bool is_virtual, by_value;
    bool is_reordered; // sums to which the library adds, in an order of its own
    int64_t dim[CUDNN_DIMS], stride[CUDNN_DIMS];
    void *address;
    float value; // by_value
    float *
        buffer; // of one batch and head: [dim[2], dim[3]]; of virtual tensors and of sums over heads
} tensor;

typedef struct operation {
    char
        kind; // M product, x and s reductions of rows, h sum over heads, T transpose, others pointwise
    int64_t axis;   // of G
    int in[3], out; // tensors; -1: none
} operation;

// A graph, free of descriptors.
typedef struct attention {
    tensor tensors[TENSORS];
    operation operations[OPERATIONS];
    int tensor_count, operation_count;
    char pattern[OPERATIONS + 1]; // the kinds in order
    void *workspace;
    size_t workspace_bytes;
} attention;

// The library's fused kernels: scaled scores, perhaps masked, softmax with its statistics, product.
static const char PLAIN[] = "M*x-esl+/M", CAUSAL[] = "M*GG>?x-esl+/M";

// Where the operations of the gradient's pattern are: those of the mask and of the sums over heads may lack.
typedef struct gradient_places {
    int scores, stats, dv, dp, dk, dq;
} gradient_places;

static int add_tensor(attention *a, const cudnn_descriptor *d)
{
    tensor t = {.uid = cudnn_number(d, CUDNN_ATTR_TENSOR_UNIQUE_ID),
                .type = cudnn_number(d, CUDNN_ATTR_TENSOR_DATA_TYPE),
                .align = cudnn_number(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)};
    t.is_virtual = cudnn_find(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL) &&
                   cudnn_number(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
    t.by_value = cudnn_find(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE) &&
                 cudnn_number(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
    t.is_reordered =
        cudnn_find(d, CUDNN_ATTR_TENSOR_REORDERING_MODE) &&
        cudnn_number(d, CUDNN_ATTR_TENSOR_REORDERING_MODE) == CUDNN_TENSOR_REORDERING_F16x16;
    memcpy(t.dim, cudnn_find(d, CUDNN_ATTR_TENSOR_DIMENSIONS)->values, sizeof t.dim);
    memcpy(t.stride, cudnn_find(d, CUDNN_ATTR_TENSOR_STRIDES)->values, sizeof t.stride);
    for (int i = 0; i < a->tensor_count; i++)
        if (a->tensors[i].uid == t.uid) return i;
    if (a->tensor_count == TENSORS) stand_in_die("cuDNN: the graph has too many tensors");
    a->tensors[a->tensor_count] = t;
    return a->tensor_count++;
}

static int add_optional(attention *a, const cudnn_descriptor *d, int name)
{
    return cudnn_find(d, name) ? add_tensor(a, cudnn_link(d, name)) : -1;
}

static char pointwise_kind(int64_t mode)
{
    switch (mode) {
    case CUDNN_POINTWISE_MUL:
        return '*';
    case CUDNN_POINTWISE_GEN_INDEX:
        return 'G';
    case CUDNN_POINTWISE_CMP_GE:
        return '>';
    case CUDNN_POINTWISE_BINARY_SELECT:
        return '?';
    case CUDNN_POINTWISE_SUB:
        return '-';
    case CUDNN_POINTWISE_EXP:
        return 'e';
    case CUDNN_POINTWISE_LOG:
        return 'l';
    case CUDNN_POINTWISE_ADD:
        return '+';
    case CUDNN_POINTWISE_DIV:
        return '/';
    case CUDNN_POINTWISE_IDENTITY:
        return '=';
    }
    return '!';
}

static operation read_operation(attention *a, const cudnn_descriptor *d)
{
    operation o = {.kind = '!', .in = {-1, -1, -1}};
    if (d->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
        o.kind = 'M';
        o.in[0] = add_tensor(a, cudnn_link(d, CUDNN_ATTR_OPERATION_MATMUL_ADESC));
        o.in[1] = add_tensor(a, cudnn_link(d, CUDNN_ATTR_OPERATION_MATMUL_BDESC));
        o.out = add_tensor(a, cudnn_link(d, CUDNN_ATTR_OPERATION_MATMUL_CDESC));
    } else if (d->type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) {
        const cudnn_descriptor *r = cudnn_link(d, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
        o.kind =
            cudnn_number(r, CUDNN_ATTR_REDUCTION_OPERATOR) == CUDNN_REDUCE_TENSOR_MAX ? 'x' : 's';
        o.in[0] = add_tensor(a, cudnn_link(d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
        o.out = add_tensor(a, cudnn_link(d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
        if (o.kind == 's' && a->tensors[o.out].dim[3] > 1) o.kind = 'h';
    } else if (d->type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) {
        o.kind = 'T';
        o.in[0] = add_tensor(a, cudnn_link(d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
        o.out = add_tensor(a, cudnn_link(d, CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
    } else if (d->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) {
        const cudnn_descriptor *p = cudnn_link(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
        o.kind = pointwise_kind(cudnn_number(p, CUDNN_ATTR_POINTWISE_MODE));
        if (o.kind == 'G') o.axis = cudnn_number(p, CUDNN_ATTR_POINTWISE_AXIS);
        o.in[0] = add_tensor(a, cudnn_link(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
        o.in[1] = add_optional(a, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
        o.in[2] = add_optional(a, d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
        o.out = add_tensor(a, cudnn_link(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    }
    return o;
}

static void read_graph(attention *a, const cudnn_descriptor *graph)
{
    const cudnn_attribute *ops = cudnn_find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    memset(a, 0, sizeof *a);
    for (int64_t i = 0; i < ops->count; i++) {
        a->operations[i] = read_operation(a, ((cudnn_descriptor *const *)ops->values)[i]);
        a->pattern[i] = a->operations[i].kind;
    }
    a->operation_count = (int)ops->count;
}

static const tensor *input(const attention *a, int op, int i)
{
    return &a->tensors[a->operations[op].in[i]];
}

static const tensor *output(const attention *a, int op)
{
    return &a->tensors[a->operations[op].out];
}

// A matrix of 16-bit numbers whose rows, along `dense`, are read 16 bytes at a time.
static bool is_matrix(const tensor *t, int64_t type, int dense)
{
    const int64_t others = t->stride[0] | t->stride[1] | t->stride[dense == 3 ? 2 : 3];
    return t->type == type && t->stride[dense] == 1 && others % 8 == 0 && t->dim[dense] % 8 == 0 &&
           t->dim[dense] <= WIDTH_MOST && t->align >= 16;
}

// The kernels of the gradient: delta, probabilities, dv, gradients of scores, dk, dq.
static bool is_gradient(const attention *a, gradient_places *x)
{
    for (int causal = 0; causal < 2; causal++)
        for (int groups = 0; groups < 2; groups++) {
            char pattern[OPERATIONS + 1];
            const char *mask = causal ? "GG>?" : "", *sum = groups ? "h" : "";
            snprintf(pattern, sizeof pattern, "*s*M*%s-eTM%sM*-**TM%sTM=", mask, sum, sum);
            const int stats = 5 + 4 * causal, dv = stats + 3 + groups;
            *x = (gradient_places){.scores = 3,
                                   .stats = stats,
                                   .dv = dv,
                                   .dp = dv + 1,
                                   .dk = dv + 7 + groups,
                                   .dq = dv + 10 + groups};
            if (strcmp(a->pattern, pattern) == 0) return true;
        }
    return false;
}

bool lib_attention_is_gradient(const cudnn_descriptor *graph)
{
    attention a;
    gradient_places x;
    read_graph(&a, graph);
    return is_gradient(&a, &x);
}

static bool supports_gradient(const attention *a, const gradient_places *x, const char **why)
{
    const tensor *d_o = input(a, 0, 0), *o = input(a, 0, 1), *q = input(a, x->scores, 0);
    const tensor *k = input(a, x->scores, 1), *v = input(a, x->dp, 1), *dv = output(a, x->dv);
    const tensor *lse = input(a, x->stats, 1), *dk = output(a, x->dk), *dq = output(a, x->dq);
    const tensor *sums = input(a, x->dq, 0);
    const tensor *const rows[] = {d_o, o, q, dv, dk, dq};
    *why = "a type, a width or a stride that the engine does not take";
    if (q->type != CUDNN_DATA_BFLOAT16 && q->type != CUDNN_DATA_HALF) return false;
    for (int i = 0; i < 6; i++)
        if (!is_matrix(rows[i], q->type, 3) || rows[i]->is_virtual) return false;
    if (!is_matrix(k, q->type, 2) || !is_matrix(v, q->type, 2) || lse->type != CUDNN_DATA_FLOAT ||
        lse->is_virtual)
        return false;
    *why = "the sums of dq are not in the library's order, or not in memory";
    if (!sums->is_reordered || sums->is_virtual || sums->type != CUDNN_DATA_FLOAT) return false;
    *why = "shapes that do not belong together";
    return memcmp(q->dim, o->dim, sizeof q->dim) == 0 &&
           memcmp(q->dim, d_o->dim, sizeof q->dim) == 0 &&
           memcmp(q->dim, dq->dim, sizeof q->dim) == 0 &&
           memcmp(q->dim, sums->dim, sizeof q->dim) == 0 &&
           memcmp(dk->dim, dv->dim, sizeof dk->dim) == 0 &&
           memcmp(k->dim, v->dim, sizeof k->dim) == 0 && k->dim[1] == dk->dim[1] &&
           k->dim[2] == dk->dim[3] && k->dim[3] == dk->dim[2] && q->dim[3] == k->dim[2] &&
           q->dim[1] % k->dim[1] == 0 && lse->dim[2] == q->dim[2] && lse->dim[3] == 1;
}

static bool supports_forward(const attention *a, const char **why)
{
    const int last = a->operation_count - 1;
    const tensor *q = input(a, 0, 0), *k = input(a, 0, 1), *p = input(a, last, 0);
    const tensor *v = input(a, last, 1), *o = output(a, last), *lse = output(a, last - 2);
    *why = "a type, a width or a stride that the engine does not take";
    if (q->type != CUDNN_DATA_BFLOAT16 && q->type != CUDNN_DATA_HALF) return false;
    if (!is_matrix(q, q->type, 3) || !is_matrix(k, q->type, 2) || !is_matrix(v, q->type, 3) ||
        !is_matrix(o, q->type, 3) || p->type != q->type || lse->type != CUDNN_DATA_FLOAT)
        return false;
    *why = "shapes that do not belong together";
    return q->dim[3] == k->dim[2] && k->dim[3] == v->dim[2] && k->dim[1] == v->dim[1] &&
           q->dim[1] % k->dim[1] == 0 && memcmp(q->dim, o->dim, sizeof q->dim) == 0 &&
           lse->dim[2] == q->dim[2] && lse->dim[3] == 1 && !lse->is_virtual && !o->is_virtual;
}

bool lib_attention_supports(const cudnn_descriptor *graph, const char **why)
{
    attention a;
    gradient_places x;
    read_graph(&a, graph);
    if (is_gradient(&a, &x)) return supports_gradient(&a, &x, why);
    *why = "the pattern of operations is not one of attention";
    if (strcmp(a.pattern, PLAIN) != 0 && strcmp(a.pattern, CAUSAL) != 0) return false;
    return supports_forward(&a, why);
}

static int64_t offset(const tensor *t, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return b * t->stride[0] + h * t->stride[1] + i * t->stride[2] + j * t->stride[3];
}

static float rounded(const tensor *t, float x)
{
    return t->type == CUDNN_DATA_BFLOAT16 ? bf16_to_float(float_to_bf16(x))
           : t->type == CUDNN_DATA_HALF   ? fp16_to_float(float_to_fp16(x))
                                          : x;
}

// The element at [i, j] of a tensor's batch b, for head h of `heads`. Dimensions of 1 are repeated.
static float load(const tensor *t, int64_t b, int64_t h, int64_t heads, int64_t i, int64_t j)
{
    if (t->by_value) return t->value;
    if (t->dim[2] == 1) i = 0;
    if (t->dim[3] == 1) j = 0;
    if (t->is_virtual) return t->buffer[i * t->dim[3] + j];
    const int64_t at = offset(t, b, h * t->dim[1] / heads, i, j);
    if (t->type == CUDNN_DATA_FLOAT) return ((const float *)t->address)[at];
    const uint16_t bits = ((const uint16_t *)t->address)[at];
    return t->type == CUDNN_DATA_BFLOAT16 ? bf16_to_float(bits) : fp16_to_float(bits);
}

static void store(const tensor *t, int64_t b, int64_t h, int64_t i, int64_t j, float x)
{
    if (t->is_virtual)
        t->buffer[i * t->dim[3] + j] = rounded(t, x);
    else if (t->type == CUDNN_DATA_FLOAT)
        ((float *)t->address)[offset(t, b, h, i, j)] = x;
    else
        ((uint16_t *)t->address)[offset(t, b, h, i, j)] =
            t->type == CUDNN_DATA_BFLOAT16 ? float_to_bf16(x) : float_to_fp16(x);
}

static void run_product(const tensor *x, const tensor *y, const tensor *out, int64_t b, int64_t h,
                        int64_t heads)
{
    const int64_t m = out->dim[2], n = out->dim[3], k = x->dim[3];
    float *right = malloc(sizeof *right * (size_t)(k * n)), *sum = malloc(sizeof *sum * (size_t)n);
    if (!right || !sum) stand_in_die("cuDNN: no memory");
    for (int64_t l = 0; l < k; l++)
        for (int64_t j = 0; j < n; j++) right[l * n + j] = load(y, b, h, heads, l, j);
    // Sums in the library's own order are added to what is there, beginning anywhere.
    const int64_t first = out->is_reordered ? (int64_t)(stand_in_random() % (uint64_t)k) : 0;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++)
            sum[j] = out->is_reordered ? load(out, b, h, heads, i, j) : 0;
        for (int64_t turn = 0; turn < k; turn++) {
            const int64_t l = (first + turn) % k;
            const float left = load(x, b, h, heads, i, l);
            for (int64_t j = 0; j < n; j++) sum[j] += left * right[l * n + j];
        }
        for (int64_t j = 0; j < n; j++) store(out, b, h, i, j, sum[j]);
    }
    free(right);
    free(sum);
}

static void run_reduction(char kind, const tensor *x, const tensor *out, int64_t b, int64_t h,
                          int64_t heads)
{
    for (int64_t i = 0; i < x->dim[2]; i++) {
        float y = kind == 'x' ? -INFINITY : 0;
        for (int64_t j = 0; j < x->dim[3]; j++) {
            const float e = load(x, b, h, heads, i, j);
            y = kind == 'x' ? fmaxf(y, e) : y + e;
        }
        store(out, b, h, i, 0, y);
    }
}

static void run_transpose(const tensor *x, const tensor *out, int64_t b, int64_t h, int64_t heads)
{
    for (int64_t i = 0; i < out->dim[2]; i++)
        for (int64_t j = 0; j < out->dim[3]; j++)
            store(out, b, h, i, j, load(x, b, h, heads, j, i));
}

// The sum over the heads that share a head of the output; the buffer has it in F32.
static void run_head_sum(const tensor *x, const tensor *out, int64_t b, int64_t h, int64_t heads)
{
    const int64_t shared = heads / out->dim[1];
    for (int64_t i = 0; i < out->dim[2]; i++)
        for (int64_t j = 0; j < out->dim[3]; j++) {
            float *sum = &out->buffer[i * out->dim[3] + j];
            *sum = (h % shared ? *sum : 0) + load(x, b, h, heads, i, j);
            store(out, b, h / shared, i, j, *sum);
        }
}

static float apply(char kind, float x, float second, float third)
{
    switch (kind) {
    case '*':
        return x * second;
    case '>':
        return x >= second;
    case '?':
        return third != 0 ? x : second;
    case '-':
        return x - second;
    case 'e':
        return expf(x);
    case 'l':
        return logf(x);
    case '+':
        return x + second;
    case '=':
        return x;
    }
    return x / second;
}

static void run_pointwise(const operation *o, const tensor *t, int64_t b, int64_t h, int64_t heads)
{
    const tensor *out = &t[o->out];
    for (int64_t i = 0; i < out->dim[2]; i++)
        for (int64_t j = 0; j < out->dim[3]; j++) {
            const float x = load(&t[o->in[0]], b, h, heads, i, j);
            const float second = o->in[1] < 0 ? 0 : load(&t[o->in[1]], b, h, heads, i, j);
            const float third = o->in[2] < 0 ? 0 : load(&t[o->in[2]], b, h, heads, i, j);
            store(out, b, h, i, j,
                  o->kind == 'G' ? (float)(o->axis == 2 ? i : j)
                                 : apply(o->kind, x, second, third));
        }
}

static void check_memory(const attention *a)
{
    for (int i = 0; i < a->tensor_count; i++) {
        const tensor *t = &a->tensors[i];
        if (t->is_virtual || t->by_value) continue;
        const int64_t last = offset(t, t->dim[0] - 1, t->dim[1] - 1, t->dim[2] - 1, t->dim[3] - 1);
        const size_t bytes = t->type == CUDNN_DATA_FLOAT ? 4 : 2;
        stand_in_check_range("cudnnBackendExecute", t->address, (size_t)(last + 1) * bytes);
    }
    stand_in_check_range("cudnnBackendExecute: workspace", a->workspace, a->workspace_bytes);
    memset(a->workspace, 0xff, a->workspace_bytes);
}

static void run_attention(void *state)
{
    attention *a = state;
    const tensor *q = input(a, 0, 0); // or d_o, of the same dimensions
    check_memory(a);
    for (int i = 0; i < a->tensor_count; i++) {
        tensor *t = &a->tensors[i];
        t->buffer = malloc(sizeof(float) * (size_t)(t->dim[2] * t->dim[3]));
        if (!t->buffer) stand_in_die("cuDNN: no memory");
    }
    for (int64_t b = 0; b < q->dim[0]; b++)
        for (int64_t h = 0; h < q->dim[1]; h++)
            for (int i = 0; i < a->operation_count; i++) {
                const operation *o = &a->operations[i];
                const tensor *t = a->tensors;
                if (o->kind == 'M')
                    run_product(&t[o->in[0]], &t[o->in[1]], &t[o->out], b, h, q->dim[1]);
                else if (o->kind == 'x' || o->kind == 's')
                    run_reduction(o->kind, &t[o->in[0]], &t[o->out], b, h, q->dim[1]);
                else if (o->kind == 'h')
                    run_head_sum(&t[o->in[0]], &t[o->out], b, h, q->dim[1]);
                else if (o->kind == 'T')
                    run_transpose(&t[o->in[0]], &t[o->out], b, h, q->dim[1]);
                else
                    run_pointwise(o, t, b, h, q->dim[1]);
            }
    for (int i = 0; i < a->tensor_count; i++)
        free(a->tensors[i].buffer), a->tensors[i].buffer = NULL;
}

static void write_tape(const attention *a)
{
    gradient_places x;
    const int last = a->operation_count - 1;
    const bool gradient = is_gradient(a, &x);
    const tensor *q = input(a, gradient ? x.scores : 0, 0),
                 *k = input(a, gradient ? x.scores : 0, 1);
    const tensor *v = input(a, gradient ? x.dp : last, 1);
    const tensor *o = gradient ? input(a, 0, 1) : output(a, last);
    tape_write("%s type=%s batch=%ld heads=%ld kv_heads=%ld tq=%ld tk=%ld head_dim=%ld causal=%d "
               "q_stride=%ld k_stride=%ld v_stride=%ld o_stride=%ld k_batch=%ld v_batch=%ld",
               gradient ? "attention_grad" : "attention",
               q->type == CUDNN_DATA_BFLOAT16 ? "bf16" : "fp16", (long)q->dim[0], (long)q->dim[1],
               (long)k->dim[1], (long)q->dim[2], (long)k->dim[3], (long)q->dim[3],
               strchr(a->pattern, '?') != NULL, (long)q->stride[2], (long)k->stride[3],
               (long)v->stride[gradient ? 3 : 2], (long)o->stride[2], (long)k->stride[0],
               (long)v->stride[0]);
}

// Gives each tensor that is not inside of the graph its address.
static cudnnStatus_t bind(attention *a, const lib_attention_pack *pack)
{
    for (int i = 0; i < a->tensor_count; i++) {
        tensor *t = &a->tensors[i];
        int j = 0;
        while (j < pack->count && pack->uid[j] != t->uid) j++;
        if (t->is_virtual) continue;
        if (j == pack->count || !pack->address[j]) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
        if (t->by_value) {
            t->value = *(const float *)pack->address[j];
        } else {
            if ((uintptr_t)pack->address[j] % (uintptr_t)t->align)
                return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
            t->address = pack->address[j];
        }
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t lib_attention_issue(const cudnn_descriptor *graph, const lib_attention_pack *pack,
                                  void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    attention *a = malloc(sizeof *a);
    if (!a) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    read_graph(a, graph);
    a->workspace = workspace, a->workspace_bytes = workspace_bytes;
    const cudnnStatus_t s = workspace ? bind(a, pack) : CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (s != CUDNN_STATUS_SUCCESS) {
        free(a);
        return s;
    }
    write_tape(a);
    const stand_in_work work = {
        .name = "cudnnBackendExecute", .run = run_attention, .release = free, .state = a};
    return stand_in_issue(stream, work) == cudaSuccess ? CUDNN_STATUS_SUCCESS
                                                       : CUDNN_STATUS_EXECUTION_FAILED;
}
