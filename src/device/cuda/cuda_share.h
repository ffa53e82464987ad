// cuda_share.h -- what the files of the cuda device call of cuda_share.c: the GPU's side of sharing.h.
#ifndef TRIREME_DEVICE_CUDA_CUDA_SHARE_H
#define TRIREME_DEVICE_CUDA_CUDA_SHARE_H

#include "device/cuda/cuda_own.h"
#include "device/sharing.h"

typedef struct cuda_share cuda_share;

extern const device_sharing CUDA_SHARING;

// Finds the driver's functions. E_INTERNAL where the driver lacks them.
status cuda_share_open(const cuda_device *d, cuda_share **out, err *e);
void cuda_share_close(cuda_share *s); // s may be NULL
// The memory at p was exported, so it stays until free_exported. False: the caller frees it.
bool cuda_share_keeps(cuda_share *s, void *p);

#endif
