// target.h -- the word for functions that also run on a GPU. Headers of base/ and device/ whose functions
// kernels call use it: the same text is then C, C++ and CUDA C++. It includes nothing.
#ifndef TRIREME_BASE_TARGET_H
#define TRIREME_BASE_TARGET_H

// Stands before `static inline`. nvcc compiles such a function for the host and for the device.
#ifdef __CUDACC__
#define ON_DEVICE __host__ __device__
#else
#define ON_DEVICE
#endif

#endif
