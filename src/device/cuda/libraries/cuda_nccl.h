// cuda_nccl.h -- the collectives of NCCL on the cuda device (device/collectives.h), and what the device's files call
// of it. NCCL is opened when a communicator asks for it: a program that uses one GPU never loads it.
#ifndef TRIREME_DEVICE_CUDA_CUDA_NCCL_H
#define TRIREME_DEVICE_CUDA_CUDA_NCCL_H

#include "device/collectives.h"

typedef struct cuda_nccl cuda_nccl;

extern const device_collectives CUDA_COLLECTIVES;

void cuda_nccl_close(cuda_nccl *n); // n may be NULL

#endif
