// cuda_needs.h -- what a plan must know of the cuda device's kernels. It is in every build, so that jobs for GPUs can be
// planned where there is neither a GPU nor CUDA.
#ifndef TRIREME_DEVICE_CUDA_NEEDS_H
#define TRIREME_DEVICE_CUDA_NEEDS_H

#include "device/kernel_needs.h"

struct device_description;

#ifdef __cplusplus
extern "C" {
#endif

// Of the device's kernels, and the same on a machine without cuDNN. Static.
extern const kernel_needs CUDA_NEEDS, CUDA_NEEDS_WITHOUT_CUDNN;

// The bytes of a GPU's memory that a process takes beside its allocations: the context, our kernels, and those of
// cuBLASLt and cuDNN. An estimate, from no measurement of ours.
static inline size_t cuda_own_bytes(void)
{
    return (size_t)768 << 20;
}

// Fills what is known of a GPU that is not here, without name and free bytes: of Hopper, with cuDNN.
void cuda_describe_absent(struct device_description *out);

// Workspaces of single kernels, which tests ask for; `args` is the kernel's struct.
size_t cuda_matmul_workspace(const void *args);
size_t cuda_attention_grad_workspace(const void *args);
size_t attention_decode_workspace(const kernel_attention_args *p);

// Rows to which cuDNN may pad, and bytes of one of its calls beside what grows with a gradient's shape; plans that need
// more are not used.
enum { CUDA_DNN_TILE = 128, CUDA_DNN_WORKSPACE = 64 << 10 };
// Returns whether cuDNN takes the shape, whatever the addresses are.
bool cuda_dnn_takes(const kernel_attention_args *p);
// Bytes of the sums of dq, so that what follows is aligned; and of the library's own workspace.
size_t cuda_dnn_gradient_sums(const kernel_attention_args *p);
size_t cuda_dnn_gradient_workspace(const kernel_attention_args *p);
// Return the least workspace of a call that cuDNN may take; 0 for others. The own kernel's need comes beside it: the
// workspace of a call is the larger of the two.
size_t cuda_dnn_attention_workspace(const kernel_attention_args *p);
size_t cuda_dnn_attention_grad_workspace(const kernel_attention_grad_args *g);

#ifdef __cplusplus
}
#endif

#endif
