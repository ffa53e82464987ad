// cuda_dnn.h -- attention by cuDNN's fused kernels, for the calls that cuDNN takes. cuda_attention asks it
// first, and launches our own kernel where it returns false. Plans are made by cuda_dnn_prepare, once for
// each shape, which takes about a second; a call whose shape was not prepared is not taken.
//
// cuDNN takes 16-bit types, heads of a multiple of 8 up to 128 elements, 64 queries or more, rows aligned to 16
// bytes, and, where causal, queries whose positions are 0, 1, 2 and so on (so no context parallelism and no
// decoding). It takes no dropout, no window, no cap, no sinks and no documents. lse is as kernels.h says. Two runs give the same bits.
#ifndef TRIREME_DEVICE_CUDA_CUDA_DNN_H
#define TRIREME_DEVICE_CUDA_CUDA_DNN_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

// Returns whether this machine's cuDNN can be used. It opens the library and no GPU, so a process that forks later
// may call it. E_USAGE says in one line what is missing.
status cuda_dnn_find(err *e);

// Opens cuDNN for the current device. *out is NULL, without an error, where cuDNN is missing or older than
// what we need: own kernels then do all. `why` (may be NULL) then says what was missing, in one line. The
// description has said the same (cuda_describe.c). E_USAGE where cuDNN is there and does not start.
status cuda_dnn_open(struct cuda_dnn **out, err *why, err *e);
void cuda_dnn_close(struct cuda_dnn *d); // may be NULL

// Makes the plan of a K_ATTENTION or K_ATTENTION_GRAD that cuDNN takes; other calls are ignored. Where the library finds no
// engine for the shape, the shape is remembered as one that it does not take. d may be NULL.
status cuda_dnn_prepare(struct cuda_dnn *d, const kernel_call *c, err *e);

// Issues the work and returns true; or returns false, and the own kernel does it. x->dnn may be NULL.
bool cuda_dnn_attention(const cuda_context *x, const kernel_attention_args *p);

// The same for a gradient whose sums may be added in any order, of shapes as above. Two runs differ. It
// leaves `delta` as it is.
bool cuda_dnn_attention_grad(const cuda_context *x, const kernel_attention_grad_args *g);

#ifdef __cplusplus
}
#endif

#endif
