// bench_kernels_rows.c -- the rows of `trireme bench kernels`, and the calls of attention, loss and parameters.
// It does not measure, and does not print.
#include "cmd/bench/bench_kernels.h"

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/nf4.h"
#include "base/size.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const bench_model BENCH_MODELS[] = {
    {"gpt2", 1024, 768, 12, 12, 64, 3072, 50257, false},
    {"small", 512, 384, 6, 6, 64, 1536, 4096, false},
    {"llama", 2048, 2048, 32, 8, 64, 8192, 128256, true},
};
const int BENCH_MODEL_COUNT = sizeof BENCH_MODELS / sizeof *BENCH_MODELS;

// ---- Attention

static kernel_attention_args attention_of(bench_arena *m, const bench_sizes *q)
{
    const bench_model *x = q->model;
    const int64_t width = (x->heads + 2 * x->kv_heads) * x->head_dim,
                  element = (int64_t)dtype_bytes(q->type);
    char *qkv = bench_array(m, q->tokens * width, q->type);
    return (kernel_attention_args){.batch = q->tokens / x->seq,
                                   .tk = x->seq,
                                   .heads = x->heads,
                                   .kv_heads = x->kv_heads,
                                   .head_dim = x->head_dim,
                                   .queries = bench_tokens(q),
                                   .q_stride = width,
                                   .k_stride = width,
                                   .v_stride = width,
                                   .o_stride = x->heads * x->head_dim,
                                   .k_batch = x->seq * width,
                                   .v_batch = x->seq * width,
                                   .q = qkv,
                                   .k = qkv + x->heads * x->head_dim * element,
                                   .v = qkv + (x->heads + x->kv_heads) * x->head_dim * element,
                                   .o = bench_array(m, q->tokens * x->heads * x->head_dim, q->type),
                                   .lse = bench_array(m, q->tokens * x->heads, F32),
                                   .scale = 1 / sqrtf((float)x->head_dim),
                                   .causal = true,
                                   .type = q->type};
}

static void set_attention_shape(const bench_sizes *q, bench_call *c)
{
    const bench_model *x = q->model;
    snprintf(c->shape, sizeof c->shape, "B%lld H%lld T%lld D%lld", (long long)(q->tokens / x->seq),
             (long long)x->heads, (long long)x->seq, (long long)x->head_dim);
}

void bench_attention(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    c->call.u.attention = attention_of(m, q);
    set_attention_shape(q, c);
}

// The query of one new token for each sequence, as in generation.
static void describe_decode(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const bench_model *x = q->model;
    kernel_attention_args *a = &c->call.u.attention;
    *a = attention_of(m, q);
    a->queries = kernel_tokens_from(1, x->seq - 1);
    snprintf(c->shape, sizeof c->shape, "B%lld H%lld T1 of %lld D%lld", (long long)a->batch,
             (long long)x->heads, (long long)x->seq, (long long)x->head_dim);
}

static void describe_attention_grad(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const bench_model *x = q->model;
    const kernel_attention_args f = attention_of(m, q);
    char *d_qkv = bench_array(m, q->tokens * f.q_stride, q->type);
    c->call.u.attention_grad =
        (kernel_attention_grad_args){.fwd = f,
                                     .d_o = bench_array(m, q->tokens * f.o_stride, q->type),
                                     .dq = d_qkv,
                                     .dk = d_qkv + ((const char *)f.k - (const char *)f.q),
                                     .dv = d_qkv + ((const char *)f.v - (const char *)f.q),
                                     .delta = bench_array(m, q->tokens * x->heads, F32)};
    set_attention_shape(q, c);
}

// ---- Loss

enum { LOSS_ROWS = 8192, LOGITS_ALIGN = 64 };

static void describe_cross_entropy(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const int64_t rows = q->tokens < LOSS_ROWS ? q->tokens : LOSS_ROWS, cols = q->model->vocab;
    const int64_t stride = (cols + LOGITS_ALIGN - 1) / LOGITS_ALIGN * LOGITS_ALIGN;
    void *logits = bench_array(m, rows * stride, q->type);
    const int32_t *labels = bench_ids(m, q);
    const bool stats = c->call.kind == K_CROSS_ENTROPY_STATS;
    if (stats)
        c->call.u.cross_entropy_stats =
            (kernel_cross_entropy_stats_args){.rows = rows,
                                              .cols = cols,
                                              .logits = logits,
                                              .stride = stride,
                                              .labels = labels,
                                              .stats = bench_array(m, 3 * rows, F32),
                                              .scale = 1,
                                              .ignore = IGNORED_LABEL,
                                              .type = q->type};
    else
        c->call.u.cross_entropy = (kernel_cross_entropy_args){.rows = rows,
                                                              .cols = cols,
                                                              .logits = logits,
                                                              .stride = stride,
                                                              .labels = labels,
                                                              .loss_sum = bench_array(m, 2, F32),
                                                              .count = bench_array(m, 2, F32),
                                                              .scale = 1,
                                                              .ignore = IGNORED_LABEL,
                                                              .gradient = true,
                                                              .type = q->type};
    bench_set_shape(c, rows, cols);
}

static void describe_square_error(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const int64_t rows = q->tokens, cols = q->model->cols, count = rows * cols;
    void *x = bench_array(m, count, q->type);
    c->call.u.square_error = (kernel_square_error_args){.rows = rows,
                                                        .cols = cols,
                                                        .x = x,
                                                        .target = bench_array(m, count, F32),
                                                        .dx = x,
                                                        .loss_sum = bench_array(m, 2, F32),
                                                        .type = q->type};
    bench_set_shape(c, rows, cols);
}

// ---- Parameters

enum { MATRICES = 4 }; // of a block; each has a vector beside it
enum {
    FLAT_ARRAYS = 8,   // matrices of an MLP that a flat array is as large as
    REDUCE_ARRAYS = 4, // and an array of each of REDUCE_RANKS ranks
    REDUCE_RANKS = 4,
};

// A segment table of the matrices and vectors of a block, and their elements.
static const kernel_segment *segments_of(bench_arena *m, const bench_sizes *q, int64_t *segments,
                                         int64_t *count)
{
    const bench_model *x = q->model;
    const int64_t sizes[2 * MATRICES] = {
        x->cols * 3 * x->cols, x->cols, x->cols * x->cols,  x->cols,
        x->inner * x->cols,    x->cols, x->inner * x->cols, x->inner};
    kernel_segment table[2 * MATRICES];
    int64_t offset = 0;
    *segments = 2 * MATRICES;
    for (int i = 0; i < *segments; i++) {
        const int64_t n = sizes[i];
        table[i] = (kernel_segment){n, offset, offset, offset, i % 2 == 0};
        offset += n;
    }
    *count = offset;
    return bench_upload(m, table, sizeof table);
}

static void set_segments(bench_call *c, int64_t count, int64_t segments)
{
    snprintf(c->shape, sizeof c->shape, "%lld, %lld segments", (long long)count,
             (long long)segments);
}

static void describe_sum_squares(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    kernel_sum_squares_args *a = &c->call.u.sum_squares;
    a->segment = segments_of(m, q, &a->segments, &a->count);
    a->x = bench_array(m, a->count, F32);
    a->sum = bench_array(m, 2, F32);
    a->type = F32;
    set_segments(c, a->count, a->segments);
}

// AdamW with a rounded copy of the weights, where they are not F32.
static void describe_update(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    static const kernel_step_group group = {.lr = 1e-4f, .beta1 = 0.9f, .c1 = 0.5f, .c2 = 0.5f};
    kernel_update_args *a = &c->call.u.update;
    a->segment = segments_of(m, q, &a->segments, &a->count);
    a->w = bench_array(m, a->count, F32);
    a->m = bench_array(m, a->count, F32);
    a->v = bench_array(m, a->count, F32);
    a->g = bench_array(m, a->count, F32);
    if (q->type != F32) a->low = bench_array(m, a->count, q->type);
    a->low_type = q->type;
    a->rule = UPDATE_ADAMW;
    a->beta2 = 0.95f, a->eps = 1e-8f, a->weight_decay = 0.1f;
    a->group = bench_upload(m, &group, sizeof group);
    set_segments(c, a->count, a->segments);
}

static void describe_clip(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    static const kernel_step step = {.loss_scale = 1, .sums = {1, 1, 1, 0, 1}};
    (void)q;
    c->call.u.clip = (kernel_clip_args){bench_upload(m, &step, sizeof step), 1};
    snprintf(c->shape, sizeof c->shape, "1");
}

// Flat arrays, which are larger than a cache.
static void describe_flat(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const int64_t count = FLAT_ARRAYS * q->model->inner * q->model->cols;
    float *x = bench_array(m, count, F32);
    bench_set_shape(c, FLAT_ARRAYS * q->model->inner, q->model->cols);
    if (c->call.kind == K_FILL) c->call.u.fill = (kernel_fill_args){x, count * (int64_t)sizeof *x};
    if (c->call.kind == K_INIT)
        c->call.u.init = (kernel_init_args){.count = count, .y = x, .std = 1, .normal = true};
    if (c->call.kind == K_DIGEST)
        c->call.u.digest = (kernel_digest_args){
            .bytes = count * (int64_t)sizeof *x, .x = x, .digest = bench_array(m, 2, F32)};
    if (c->call.kind != K_CONVERT) return;
    c->call.u.convert = (kernel_convert_args){.count = count,
                                              .src = x,
                                              .dst = bench_array(m, count, q->type),
                                              .src_type = F32,
                                              .dst_type = q->type};
}

// Packed rows; whatever the bytes are, they are codes.
static void describe_unpack_nf4(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const int64_t rows = FLAT_ARRAYS * q->model->inner,
                  cols = size_max(q->model->cols / NF4_BLOCK, 1) * NF4_BLOCK;
    c->call.u.unpack_nf4 =
        (kernel_unpack_nf4_args){.rows = rows,
                                 .cols = cols,
                                 .packed = bench_array(m, rows * nf4_row_words(cols), F32),
                                 .y = bench_array(m, rows * cols, q->type),
                                 .type = q->type};
    bench_set_shape(c, rows, cols);
}

// The sum of the arrays of ranks, which all lie on this device.
static void describe_reduce(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    kernel_reduce_args *a = &c->call.u.reduce;
    const int64_t rows = REDUCE_ARRAYS * q->model->inner;
    a->count = rows * q->model->cols;
    a->ranks = REDUCE_RANKS;
    a->outs = 1;
    a->type = q->type;
    a->op = REDUCE_SUM;
    for (int i = 0; i < a->ranks; i++) a->in[i] = bench_array(m, a->count, a->type);
    a->out[0] = bench_array(m, a->count, a->type);
    snprintf(c->shape, sizeof c->shape, "%lld x %lld, %d ranks", (long long)rows,
             (long long)q->model->cols, REDUCE_RANKS);
}

// The factor of a matrix of the MLP, of PowerSGD's rank 4. Every column is read and written once more than
// there are columns before it, but all fits in a cache.
static void describe_orthogonalize(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const int64_t rows = q->model->inner, cols = 4;
    c->call.u.orthogonalize = (kernel_orthogonalize_args){
        .rows = rows, .cols = cols, .x = bench_array(m, rows * cols, F32), .eps = 1e-8f};
    bench_set_shape(c, rows, cols);
}

// ---- Preferences

// The documents of a preference loss: one pair in each sequence. The others for which a run has room are empty.
typedef struct bench_documents {
    int64_t count, rows;
    const int32_t *first;
    const double *sums;
} bench_documents;

static bench_documents documents_of(bench_arena *m, const bench_sizes *q)
{
    const int64_t seq = q->model->seq, each = seq + 2, sequences = q->tokens / seq;
    bench_documents out = {.count = sequences * each, .rows = sequences * seq};
    const size_t count = (size_t)out.count;
    int32_t *first = NULL;
    double *sums = NULL;
    if (m->result == OK)
        m->result = alloc_zeroed(&first, count + 1, sizeof *first, "bench kernels", &m->failure);
    if (m->result == OK)
        m->result = alloc_zeroed(&sums, count, 2 * sizeof *sums, "bench kernels", &m->failure);
    for (int64_t d = 0; m->result == OK && d < out.count; d++) {
        const int64_t rows = d % each < 2 ? seq / 2 : 0;
        first[d + 1] = first[d] + (int32_t)rows;
        sums[2 * d] = -1.5 * (double)rows, sums[2 * d + 1] = (double)rows;
    }
    if (m->result == OK) {
        out.first = bench_upload(m, first, (count + 1) * sizeof *first);
        out.sums = bench_upload(m, sums, count * 2 * sizeof *sums);
    }
    free(first);
    free(sums);
    return out;
}

static void describe_preference(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    const bench_documents d = documents_of(m, q);
    snprintf(c->shape, sizeof c->shape, "%lld documents, %lld rows", (long long)d.count,
             (long long)d.rows);
    if (c->call.kind == K_DOCUMENT_SUMS)
        c->call.u.document_sums =
            (kernel_document_sums_args){.documents = d.count,
                                        .first = d.first,
                                        .losses = bench_array(m, 2 * d.rows, F32),
                                        .sums = bench_array(m, 4 * d.count, F32)};
    if (c->call.kind != K_PREFERENCE) return;
    c->call.u.preference =
        (kernel_preference_args){.documents = d.count,
                                 .form = {.kind = PREFERENCE_SIGMOID, .beta = 0.1},
                                 .first = d.first,
                                 .sums = d.sums,
                                 .reference = bench_array(m, 2 * d.count, F32),
                                 .weights = bench_array(m, d.rows, F32),
                                 .loss_sum = bench_array(m, 2, F32),
                                 .count = bench_array(m, 2, F32),
                                 .metrics = bench_array(m, (int64_t)2 * PREFERENCE_SUMS, F32)};
}

const bench_kernel_row BENCH_ROWS[] = {
    {K_MATMUL, bench_forward, true, true},
    {K_MATMUL, bench_dgrad, true, true},
    {K_MATMUL, bench_wgrad, true, true},
    {K_BIAS_GRAD, bench_bias_grad, true, false},
    {K_EMBEDDING, bench_embedding, true, true},
    {K_EMBEDDING_GRAD, bench_embedding_grad, true, true},
    {K_NORM, bench_norm, true, true},
    {K_NORM_GRAD, bench_norm_grad, true, true},
    {K_QK_NORM, bench_qk_norm, false, true},
    {K_QK_NORM_SUMS, bench_qk_norm, false, true},
    {K_QK_NORM_GRAD, bench_qk_norm, false, true},
    {K_VALUE_NORM, bench_value_norm, false, true},
    {K_VALUE_NORM_GRAD, bench_value_norm, false, true},
    {K_ROPE, bench_rope, false, true},
    {K_ATTENTION, bench_attention, true, true},
    {K_ATTENTION, describe_decode, true, true},
    {K_ATTENTION_GRAD, describe_attention_grad, true, true},
    {K_CAUSAL_CONV, bench_causal_conv, false, true},
    {K_CAUSAL_CONV_GRAD, bench_causal_conv, false, true},
    {K_DELTA_GATES, bench_delta_gates, false, true},
    {K_DELTA_GATES_GRAD, bench_delta_gates, false, true},
    {K_DELTA_RULE, bench_delta_rule, false, true},
    {K_DELTA_RULE_GRAD, bench_delta_rule, false, true},
    {K_GATE, bench_gate, false, true},
    {K_GATE_GRAD, bench_gate, false, true},
    {K_ACTIVATION, bench_activation, true, false},
    {K_ACTIVATION_GRAD, bench_activation, true, false},
    {K_GLU, bench_glu, false, true},
    {K_GLU_GRAD, bench_glu, false, true},
    {K_XIELU, bench_xielu, false, true},
    {K_XIELU_GRAD, bench_xielu, false, true},
    {K_ADD, bench_add, true, true},
    {K_DROPOUT, bench_dropout, true, false},
    {K_INIT, describe_flat, true, true},
    {K_CROSS_ENTROPY, describe_cross_entropy, true, true},
    {K_CROSS_ENTROPY_STATS, describe_cross_entropy, true, true},
    {K_DOCUMENT_SUMS, describe_preference, true, true},
    {K_PREFERENCE, describe_preference, true, true},
    {K_SQUARE_ERROR, describe_square_error, true, false},
    {K_SUM_SQUARES, describe_sum_squares, true, true},
    {K_CLIP, describe_clip, true, false},
    {K_UPDATE, describe_update, true, true},
    {K_CONVERT, describe_flat, true, true},
    {K_UNPACK_NF4, describe_unpack_nf4, true, true},
    {K_COPY_ROWS, bench_copy_rows, true, true},
    {K_FILL, describe_flat, true, true},
    {K_DIGEST, describe_flat, true, true},
    {K_REDUCE, describe_reduce, true, true},
    {K_ORTHOGONALIZE, describe_orthogonalize, true, false},
};
const int BENCH_ROW_COUNT = sizeof BENCH_ROWS / sizeof *BENCH_ROWS;
