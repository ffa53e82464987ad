// cuda.h -- shared by the files of the cuda device: the context in which a kernel is launched, and the
// table of kernels. Only registry.c, device/cpu/ and tests/ include it beside device/cuda/. C and CUDA
// C++ read it.
//
// A kernel has a host side, a function of a context and of its own args struct (a member of
// kernel_call.u). It issues work to the context's stream and returns. It allocates nothing, keeps no
// state, never waits, and may be recorded. The specification is device/kernels.h.
#ifndef TRIREME_DEVICE_CUDA_CUDA_H
#define TRIREME_DEVICE_CUDA_CUDA_H

#include "base/err.h"
#include "device/cuda/needs/cuda_needs.h"
#include "device/kernels.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cuda_blas;
struct cuda_dnn;

// The arguments of the host side of a kernel.
typedef struct cuda_context {
    cudaStream_t stream;
    void *workspace; // of the call; at least what its row of the table asks for
    size_t workspace_bytes;
    struct cuda_blas *blas; // matrix products (cuda_matmul.c)
    struct cuda_dnn *dnn;   // fused attention (cuda_dnn.c); NULL: own kernels only
    err *failure; // of the stream: the first failure since its last sync; code OK when none
} cuda_context;

// Notes a failure of a launch, if it is the stream's first: "WHAT: MESSAGE".
void cuda_failed(const cuda_context *x, const char *what, const char *message);
// Notes cudaGetLastError() after a launch of kernel `what`.
void cuda_check_launch(const cuda_context *x, const char *what);

// Lets blocks of `kernel` have so much shared memory; more than CUDA_SHARED_BYTES must be asked for, and every GPU from
// compute capability 8.0 up has CUDA_SHARED_EVERYWHERE. Called before a launch.
enum { CUDA_SHARED_BYTES = 48 << 10, CUDA_SHARED_EVERYWHERE = 99 << 10 };
// The most bytes that a block can have on the calling thread's GPU.
size_t cuda_most_shared(void);
void cuda_allow_shared(const void *kernel, size_t bytes);

// `args` points to the kernel's args struct. Pointers in it are aligned to their elements, not more.
// Counts may be 0.
typedef void (*cuda_kernel)(const cuda_context *x, const void *args);

// Of cuda_kernels.c.
extern const cuda_kernel CUDA_KERNELS[KERNELS];

// The host sides. Each is in cuda_STEM.cu with the stem of the cpu device's file.
void cuda_matmul(const cuda_context *x, const void *args);
void cuda_bias_grad(const cuda_context *x, const void *args);
void cuda_embedding(const cuda_context *x, const void *args);
void cuda_embedding_grad(const cuda_context *x, const void *args);
void cuda_norm(const cuda_context *x, const void *args);
void cuda_norm_grad(const cuda_context *x, const void *args);
void cuda_qk_norm(const cuda_context *x, const void *args);
void cuda_qk_norm_sums(const cuda_context *x, const void *args);
void cuda_qk_norm_grad(const cuda_context *x, const void *args);
void cuda_value_norm(const cuda_context *x, const void *args);
void cuda_value_norm_grad(const cuda_context *x, const void *args);
void cuda_rope(const cuda_context *x, const void *args);
void cuda_attention(const cuda_context *x, const void *args);
void cuda_attention_grad(const cuda_context *x, const void *args);
void cuda_causal_conv(const cuda_context *x, const void *args);
void cuda_causal_conv_grad(const cuda_context *x, const void *args);
void cuda_delta_gates(const cuda_context *x, const void *args);
void cuda_delta_gates_grad(const cuda_context *x, const void *args);
void cuda_delta_rule(const cuda_context *x, const void *args);
void cuda_delta_rule_grad(const cuda_context *x, const void *args);
void cuda_gate(const cuda_context *x, const void *args);
void cuda_gate_grad(const cuda_context *x, const void *args);
void cuda_activation(const cuda_context *x, const void *args);
void cuda_activation_grad(const cuda_context *x, const void *args);
void cuda_glu(const cuda_context *x, const void *args);
void cuda_glu_grad(const cuda_context *x, const void *args);
void cuda_xielu(const cuda_context *x, const void *args);
void cuda_xielu_grad(const cuda_context *x, const void *args);
void cuda_add(const cuda_context *x, const void *args);
void cuda_dropout(const cuda_context *x, const void *args);
void cuda_init(const cuda_context *x, const void *args);
void cuda_cross_entropy(const cuda_context *x, const void *args);
void cuda_cross_entropy_stats(const cuda_context *x, const void *args);
void cuda_document_sums(const cuda_context *x, const void *args);
void cuda_preference(const cuda_context *x, const void *args);
void cuda_square_error(const cuda_context *x, const void *args);
void cuda_sum_squares(const cuda_context *x, const void *args);
void cuda_clip(const cuda_context *x, const void *args);
void cuda_update(const cuda_context *x, const void *args);
void cuda_convert(const cuda_context *x, const void *args);
void cuda_unpack_nf4(const cuda_context *x, const void *args);
void cuda_copy_rows(const cuda_context *x, const void *args);
void cuda_fill(const cuda_context *x, const void *args);
void cuda_digest(const cuda_context *x, const void *args);
void cuda_orthogonalize(const cuda_context *x, const void *args);
// Writes the GPU's clock, which begins at any time, in nanoseconds. No kernel of kernels.h: cuda_clock.c has its use.
void cuda_time(const cuda_context *x, int64_t *slot);
void cuda_reduce(const cuda_context *x, const void *args);

#ifdef __cplusplus
}
#endif

#endif
