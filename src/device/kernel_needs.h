// kernel_needs.h -- what a plan must know of a device's kernels before anyone opens the device. The
// description and the open device both have it (device.h). Graphs and the trainer ask it for each call
// that they will launch, and count the bytes as memory of their own. It launches nothing.
#ifndef TRIREME_DEVICE_KERNEL_NEEDS_H
#define TRIREME_DEVICE_KERNEL_NEEDS_H

#include "device/kernels.h"

enum { KERNEL_WORKSPACE_ALIGN = 256 };

// The freedoms that a job gives kernels for speed. Zeros: nothing.
typedef struct kernel_numerics {
    bool tf32;      // kernel_matmul_args.tf32 of linear layers
    bool any_order; // kernel_attention_grad_args.any_order
} kernel_numerics;

typedef struct kernel_needs {
    // Bytes of workspace of a call. It reads kind, shapes, strides, types and flags, and of each pointer
    // only whether it is NULL. `accumulate` flags do not change it, and fewer rows or elements never need
    // more. NULL: no call needs a workspace.
    size_t (*workspace_bytes)(const kernel_call *c);
    // Rows of logits start at multiples of so many elements, which makes products of them fast; 0: 1. The
    // elements in between have no meaning.
    int64_t logits_align;
    // Rows of logits that the loss should compute at once, if a micro-batch has them; 0: as many as the
    // graph chooses. More rows make larger products and take more memory.
    int64_t loss_rows;
    // Names what computes a call of K_ATTENTION or K_ATTENTION_GRAD, for users: "cuDNN". NULL: the device has one
    // way for each kernel.
    const char *(*computed_by)(const kernel_call *c);
} kernel_needs;

// Returns whether a call of this kind may need a workspace. Kernels that work element by element, or on a few numbers,
// need none on any device, so launches of them give none.
bool kernel_takes_workspace(kernel_kind k);

// Bytes of workspace that a call needs; 0 where its kind takes none. n may be NULL: no call needs any.
size_t kernel_workspace_bytes(const kernel_needs *n, const kernel_call *c);

#endif
