// kernels.h -- the specification of every kernel that a device must have.
//
// A kernel is launched as data: fill one kernel_call, and hand it to device_launch. Callers are the
// ops of graph/, the optimizer, and the code that moves gradients and weights. It does not say how.
//
// One specification, many forms:
//   this file                  what each kernel computes; products are in kernel_matmul.h, norms in
//                              kernel_norm.h, attention in kernel_attention.h, convolutions in kernel_conv.h, the gated
//                              delta rule in kernel_delta.h, packed weights in kernel_nf4.h, gates in kernel_gate.h, preference losses in
//                              kernel_preference.h, the end of a step in kernel_update.h
//   device/cpu/ref_*.c         the same in plain C, one function a kernel. The set is complete,
//                              and every other form is tested against it.
//   device/cpu/vec_*.c, cpu_*  faster forms, which override the reference kernel by kernel
//                              (cpu_kernels.c: cpu_kernels_fill)
//
// Conventions:
//   pointers    All point to device memory.
//   matrices    Row-major. Dense unless a stride is given. Strides and offsets count elements.
//   shapes      B batch, T tokens, H heads, KV heads of keys and values, D width of a head, F inner
//               width of an MLP. `cols` is the last dimension of an array.
//   `type`      Element type of activations and compute weights: F32, BF16 or F16.
//   arithmetic  fp32 inside every kernel. Results are rounded to nearest, ties to even. An F16
//               result beyond 65504 becomes Inf.
//   gradients   Gradients of parameters are always F32. `accumulate` true adds to them, false
//               overwrites them. "(+)=" below means: either of the two.
//   residual    With `residual_fp32`, and `type` BF16 or F16, the residual that the kernel reads or
//               writes is F32. Each args struct says which arrays those are; all others are of
//               `type`. Without it, the residual is of `type` too.
//   threads     No result depends on the number of threads.
//   workspace   Memory that a kernel needs while it runs comes with its call, from the memory that the
//               plan counts (kernel_needs.h). A launch allocates nothing.
//   segments    K_SUM_SQUARES, K_UPDATE and K_CONVERT can work on parts of many tensors in one
//               launch. A segment table in device memory then says where the parts lie.
//   steps       Numbers that differ from one training step to the next lie in device memory, in a
//               kernel_step (kernel_step.h). The arguments of a call point to it.
#ifndef TRIREME_DEVICE_KERNELS_H
#define TRIREME_DEVICE_KERNELS_H

#include "base/dtype.h"
#include "base/reduce.h"
#include "base/rng.h"
#include "device/kernel_attention.h"
#include "device/kernel_conv.h"
#include "device/kernel_delta.h"
#include "device/kernel_gate.h"
#include "device/kernel_matmul.h"
#include "device/kernel_nf4.h"
#include "device/kernel_norm.h"
#include "device/kernel_preference.h"
#include "device/kernel_segment.h"
#include "device/kernel_tokens.h"
#include "device/kernel_update.h"
#include "device/kernel_xielu.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum kernel_kind {
    K_MATMUL,
    K_BIAS_GRAD,
    K_EMBEDDING,
    K_EMBEDDING_GRAD,
    K_NORM,
    K_NORM_GRAD,
    K_QK_NORM,
    K_QK_NORM_SUMS,
    K_QK_NORM_GRAD,
    K_VALUE_NORM,
    K_VALUE_NORM_GRAD,
    K_ROPE,
    K_ATTENTION,
    K_ATTENTION_GRAD,
    K_CAUSAL_CONV,
    K_CAUSAL_CONV_GRAD,
    K_DELTA_GATES,
    K_DELTA_GATES_GRAD,
    K_DELTA_RULE,
    K_DELTA_RULE_GRAD,
    K_GATE,
    K_GATE_GRAD,
    K_ACTIVATION,
    K_ACTIVATION_GRAD,
    K_GLU,
    K_GLU_GRAD,
    K_XIELU,
    K_XIELU_GRAD,
    K_ADD,
    K_DROPOUT,
    K_INIT,
    K_CROSS_ENTROPY,
    K_CROSS_ENTROPY_STATS,
    K_DOCUMENT_SUMS,
    K_PREFERENCE,
    K_SQUARE_ERROR,
    K_SUM_SQUARES,
    K_CLIP,
    K_UPDATE,
    K_CONVERT,
    K_UNPACK_NF4,
    K_COPY_ROWS,
    K_FILL,
    K_DIGEST,
    K_ORTHOGONALIZE,
    K_REDUCE,
    KERNELS
} kernel_kind;

// db [cols] (+)= sum over rows of dy [rows, cols]
typedef struct kernel_bias_grad_args {
    int64_t rows, cols;
    const void *dy; // [rows, cols] of `type`
    float *db;      // [cols]
    dtype type;
    bool accumulate;
    int64_t stride; // elements from one row of dy to the next; 0: cols
} kernel_bias_grad_args;

// y [r, :] = scale * tokens [ids[r] - first, :] + positions [position of row r in its document, :]
//
// With `vocab` > 0 the table is a vocabulary shard: rows first … first+vocab-1 of the full table.
// The token of an id outside the shard adds nothing. `vocab` 0 says that the table is full.
typedef struct kernel_embedding_args {
    int64_t rows, cols;
    kernel_tokens row_tokens; // the tokens of the rows
    int64_t first, vocab;     // the ids that the table holds
    const int32_t *ids;       // [rows]
    const void *tokens;       // [vocab, cols] of `type`
    const void *positions;    // [> every position, cols] of `type`; NULL: none
    void *y;                  // [rows, cols], the residual
    float scale;
    dtype type;
    bool residual_fp32; // y is F32
} kernel_embedding_args;

// d_tokens [id - first, :]                 (+)= sum of scale * dy [r, :] over rows r with ids[r] == id
// d_positions [position of row r in its document, :] (+)= dy [r, :], row by row
//
// The rows of an id are summed in row order, and the sum is then added to d_tokens. Ids outside
// first … first+vocab-1 add nothing to d_tokens. Without accumulate_tokens (accumulate_positions)
// all of the array is set to zero first. An array that is NULL is left out.
typedef struct kernel_embedding_grad_args {
    int64_t rows, cols, first, vocab;
    int64_t max_seq;          // rows of d_positions
    kernel_tokens row_tokens; // the tokens of the rows
    const int32_t *ids;       // [rows]
    const void *dy;           // [rows, cols], the residual's gradient
    float *d_tokens;          // [vocab, cols]; NULL: not wanted
    float *d_positions;       // [max_seq, cols]; NULL: not wanted
    float scale;
    dtype type;
    bool accumulate_tokens, accumulate_positions;
    bool residual_fp32; // dy is F32
} kernel_embedding_grad_args;

// Rotary position embedding, in place. For each row r, head h < heads and i < rot/2, with
// cos, sin = table [position of row r in its document, i], and columns a, b = i, i + rot/2 (rotate-half), or
// 2i, 2i + 1 with `interleaved`:
//   x[a], x[b]  =  x[a] cos - x[b] sin,  x[b] cos + x[a] sin
typedef struct kernel_rope_args {
    int64_t rows;
    kernel_tokens row_tokens; // the tokens of the rows
    int64_t heads, head_dim;
    int64_t rot;        // leading elements of a head that are rotated, an even number
    int64_t stride;     // elements from one row of x to the next
    void *x;            // [rows, heads, head_dim] of `type`; points to head 0 of row 0
    const float *table; // [max_seq, rot/2, 2]: cosine, then sine
    bool interleaved;   // pairs are neighbours
    bool inverse;       // by the transposed matrix: the gradient
    dtype type;
} kernel_rope_args;

// K_ACTIVATION        y [count] = f(x)
// K_ACTIVATION_GRAD   y [count] = f'(x) * dy
typedef struct kernel_activation_args {
    int64_t count;
    const void *x, *dy; // [count] of `type`; dy is read by the gradient only
    void *y;            // [count] of `type`: y, or dx in the gradient; dx may be dy
    kernel_activation act;
    dtype type;
} kernel_activation_args;

// K_GLU        y [rows, F] = f(gate) * up, where x [rows, 2F] holds gate [F], then up [F]
// K_GLU_GRAD   y [rows, 2F] = dx, from x [rows, 2F] and dy [rows, F]
typedef struct kernel_glu_args {
    int64_t rows, cols; // cols = F
    const void *x;      // [rows, 2F] of `type`
    const void *dy;     // [rows, F] of `type`; read by the gradient only
    void *y;            // y [rows, F], or dx [rows, 2F] in the gradient; dx may be x
    kernel_activation act;
    dtype type;
} kernel_glu_args;

// y [count] = f * (alpha * a + beta * b); y may be a or b
typedef struct kernel_add_args {
    int64_t count;
    const void *a, *b;  // a: the residual; b: of `type`, NULL: y = alpha * a
    void *y;            // the residual
    const void *factor; // f [1] of `type`; NULL: 1
    float alpha, beta;
    dtype type;
    bool residual_fp32; // a and y are F32
} kernel_add_args;

// y [r, c] = dropped(r, c), or residual [r, c] + dropped(r, c)
//   dropped(r, c) = kept(r, c) ? x [r, c] / (1-p) : 0, rounded to `type` before it is added
//   kept(r, c)    = rng_uniform(rng_word(key, (row0 + logical row of r) * cols + c)) >= p
// where key and row0 are kernel_draw_read(draw). The gradient of x is the same call on dy, without
// `residual`. y may be any input of its own type.
typedef struct kernel_dropout_args {
    int64_t rows, cols;
    // x has columns first_col … first_col+cols-1 of rows of full_cols; full_cols 0: x has all. They key the words.
    int64_t first_col, full_cols;
    kernel_tokens row_tokens; // the tokens of the rows
    const void *x;            // [rows, cols] of `type`
    const void *residual;     // [rows, cols]; NULL: none
    void *y;                  // [rows, cols] of `type`; with `residual`, the residual
    float p;                  // probability of a zero
    kernel_draw draw;
    dtype type;
    // With `residual`, that and y are F32. Without, x is F32: the residual's gradient, of which each
    // element is rounded to `type` first.
    bool residual_fp32;
} kernel_dropout_args;

// Initial values of elements index0 … index0+count-1 of a parameter.
// y [count]: y[i] = std * (standard normal number index0+i of `key`) if `normal`, std * (2 u - 1) with the uniform
// number u if `uniform`, else constant.
// The numbers are those of rng_normal and rng_uniform, and they have the same bits on every device.
typedef struct kernel_init_args {
    int64_t count;
    float *y; // [count]
    rng_key key;
    uint64_t index0;
    float std, constant;
    bool normal, uniform;
} kernel_init_args;

// The label of a row without a target, as PyTorch's ignore_index.
enum { IGNORED_LABEL = -100 };

// For each row of outputs x of the last linear layer: loss = logsumexp(z) - z[label], where
//   z = scale * x, or with a softcap c > 0: z = c * tanh(scale * x / c)
//   *loss_sum += sum of w * the losses
//   *count    += sum of w over the rows whose label is not `ignore`
//   losses     = the losses, without w
//   logits     = L * w * dz/dx * (softmax(z) - onehot(label)), when `gradient`
// with L = loss_scale of the step, rounded to F32, dz/dx = scale, or scale * (1 - (z / c)^2), and w = the row's weight.
//
// A row whose label is `ignore` adds no loss and gets a zero gradient. The gradient is not divided
// by the number of rows. Column 0 of the logits is id `first` of the vocabulary.
//   stats NULL   The columns are the full vocabulary.
//   stats        The columns are a vocabulary shard. The row's logsumexp and the logit of its label
//                come from `stats`, which holds the result of K_CROSS_ENTROPY_STATS for each of
//                `shards` shards. They are combined in order of the shards.
typedef struct kernel_cross_entropy_args {
    int64_t rows, cols, first;
    void *logits;             // [rows, cols] of `type`
    int64_t stride;           // elements from one row of the logits to the next; 0: cols
    const int32_t *labels;    // [rows], ids of the full vocabulary
    const float *stats;       // [shards, rows, 3]; NULL: none
    int shards;               // of the vocabulary
    const float *weights;     // [rows] w; NULL: 1
    double *losses;           // [rows]; NULL: nobody asks
    double *loss_sum, *count; // device scalars; each may be NULL
    const kernel_step *step;  // NULL: as kernel_step_read says
    float scale, softcap;     // softcap 0: none
    int32_t ignore;
    bool gradient; // replace the logits by their gradient
    dtype type;
} kernel_cross_entropy_args;

// stats [rows, 3] of a vocabulary shard, whose columns are ids first … first+cols-1:
//   maximum of z
//   sum of exp(z - maximum)
//   z[label] if the shard holds the label, else 0
// with z as in kernel_cross_entropy_args.
// A row whose label is `ignore` gets three zeros. An empty shard (cols 0) gives (-Inf, 0, 0).
typedef struct kernel_cross_entropy_stats_args {
    int64_t rows, cols, first;
    const void *logits;    // [rows, cols] of `type`
    int64_t stride;        // elements from one row of the logits to the next; 0: cols
    const int32_t *labels; // [rows], ids of the full vocabulary
    float *stats;          // [rows, 3]
    float scale, softcap;  // softcap 0: none
    int32_t ignore;
    dtype type;
} kernel_cross_entropy_stats_args;

// Sums for the mean squared error, over the rows that hold a sample:
//   *loss_sum      += sum of (x - target)^2
//   *total         += number of their elements
//   dx [rows, cols] = L * 2 (x - target), with L = loss_scale of the step, rounded to F32
//
// The rows are rows first … first+rows-1 of a micro-batch, whose first *filled rows hold a sample. The
// others are padding rows: they add nothing, and their dx is zero.
typedef struct kernel_square_error_args {
    int64_t rows, cols, first;
    const int64_t *filled;    // device scalar; NULL: all rows hold a sample
    const void *x;            // [rows, cols] of `type`
    const float *target;      // [rows, cols]
    void *dx;                 // [rows, cols] of `type`; may be x; NULL: no gradient
    double *loss_sum, *total; // device scalars; each may be NULL
    const kernel_step *step;  // NULL: as kernel_step_read says
    dtype type;
} kernel_square_error_args;

// *sum += sum of x[i]^2, in F64. NaN or Inf when any element is. Each segment of x, at its `src`, has a
// sum of its own; the sums are added to *sum in the order of the table.
typedef struct kernel_sum_squares_args {
    int64_t count; // elements, of all segments together
    const void *x; // [count] of `type`: F32, BF16 or F16
    double *sum;   // device scalar
    dtype type;
    const kernel_segment *segment; // [segments]; NULL: x is one
    int64_t segments;
} kernel_sum_squares_args;

// dst [count] = src [count], between F32, BF16 and F16. With `accumulate`, where both are F32:
// dst [count] += src [count]. With a segment table it packs, unpacks or adds shards of many tensors.
typedef struct kernel_convert_args {
    int64_t count;   // elements, of all segments together
    const void *src; // [count] of src_type
    void *dst;       // [count] of dst_type
    dtype src_type, dst_type;
    bool accumulate;
    const kernel_segment *segment; // [segments]; NULL: the arrays are one
    int64_t segments;
} kernel_convert_args;

// For each r < rows: row dst_row of dst [cols] = row src_row of src [cols], where the two are the
// logical rows of r by dst_rows and by src_rows.
typedef struct kernel_copy_rows_args {
    int64_t rows, cols;
    const void *src; // of `type`
    void *dst;       // of `type`
    int64_t src_stride, dst_stride;
    kernel_tokens src_rows, dst_rows;
    dtype type;
} kernel_copy_rows_args;

// Sets `bytes` bytes of dst to zero.
typedef struct kernel_fill_args {
    void *dst;
    int64_t bytes;
} kernel_fill_args;

// *digest += sum over the 32-bit words i of x of mix64(word | (uint64_t)(index0 + i) << 32), modulo
// 2^64. mix64 is the finaliser of splitmix64. The result does not depend on the order, or on how x
// is split into calls. A last 16-bit word is extended with zeros.
typedef struct kernel_digest_args {
    int64_t bytes; // a multiple of 2
    const void *x;
    uint64_t index0; // index of word 0
    uint64_t *digest;
} kernel_digest_args;

// Makes the columns of x [rows, cols] orthonormal, in place, by modified Gram-Schmidt. For each
// column in order: divide it by (its norm + eps), then subtract its projection from every later
// column. Sums run in F64. A column that depends linearly on earlier ones ends as rounding noise. A
// column of zeros stays zero when eps > 0.
typedef struct kernel_orthogonalize_args {
    int64_t rows, cols;
    float *x; // [rows, cols]
    float eps;
} kernel_orthogonalize_args;

// out[o] [count] = in[0] op in[1] op … op in[ranks-1], element by element, for every o < outs. The order
// of the sum is the tree of base/reduce.h; F32, BF16 and F16 are combined in F32 and rounded once. The
// pointers may be memory of other ranks (device_sharing in device.h). An out may be one of the inputs
// (the same address), and must not overlap any input otherwise.
enum { KERNEL_REDUCE_RANKS = 16 };
typedef struct kernel_reduce_args {
    int64_t count;
    const void *in[KERNEL_REDUCE_RANKS]; // [ranks][count] of `type`
    void *out[KERNEL_REDUCE_RANKS];      // [outs][count] of `type`
    int ranks, outs;
    dtype type; // F32, BF16, F16, F64 or I64
    reduce_op op;
} kernel_reduce_args;

// One launch: which kernel, its arguments, and its workspace (kernel_needs.h).
typedef struct kernel_call {
    kernel_kind kind;
    union {
        kernel_matmul_args matmul;
        kernel_bias_grad_args bias_grad;
        kernel_embedding_args embedding;
        kernel_embedding_grad_args embedding_grad;
        kernel_norm_args norm;
        kernel_norm_grad_args norm_grad;
        kernel_qk_norm_args qk_norm;       // K_QK_NORM, K_QK_NORM_SUMS, K_QK_NORM_GRAD
        kernel_value_norm_args value_norm; // K_VALUE_NORM, K_VALUE_NORM_GRAD
        kernel_rope_args rope;
        kernel_attention_args attention;
        kernel_attention_grad_args attention_grad;
        kernel_causal_conv_args causal_conv;
        kernel_causal_conv_grad_args causal_conv_grad;
        kernel_delta_gates_args delta_gates; // K_DELTA_GATES, K_DELTA_GATES_GRAD
        kernel_delta_rule_args delta_rule;
        kernel_delta_rule_grad_args delta_rule_grad;
        kernel_gate_args gate;             // K_GATE, K_GATE_GRAD
        kernel_activation_args activation; // K_ACTIVATION, K_ACTIVATION_GRAD
        kernel_glu_args glu;               // K_GLU, K_GLU_GRAD
        kernel_xielu_args xielu;           // K_XIELU, K_XIELU_GRAD
        kernel_add_args add;
        kernel_dropout_args dropout;
        kernel_init_args init;
        kernel_cross_entropy_args cross_entropy;
        kernel_cross_entropy_stats_args cross_entropy_stats;
        kernel_document_sums_args document_sums;
        kernel_preference_args preference;
        kernel_square_error_args square_error;
        kernel_sum_squares_args sum_squares;
        kernel_clip_args clip;
        kernel_update_args update;
        kernel_convert_args convert;
        kernel_unpack_nf4_args unpack_nf4;
        kernel_copy_rows_args copy_rows;
        kernel_orthogonalize_args orthogonalize;
        union { // of arrays, whatever they hold
            kernel_fill_args fill;
            kernel_digest_args digest;
            kernel_reduce_args reduce;
        };
    } u;
    void *workspace;        // device memory, of undefined contents before and after; NULL: none
    size_t workspace_bytes; // at least what kernel_workspace_bytes gives for the call
} kernel_call;

// Element type of the residual in a kernel of activations of `type`.
ON_DEVICE static inline dtype kernel_residual_type(dtype type, bool residual_fp32)
{
    return residual_fp32 ? F32 : type;
}

// The elements from one row to the next of a matrix with a `stride` field, in which 0 means cols.
ON_DEVICE static inline int64_t kernel_stride(int64_t stride, int64_t cols)
{
    return stride == 0 ? cols : stride;
}

// The kernel's name for messages, such as "matmul". Static text.
const char *kernel_name(kernel_kind k);

#endif
