// lib_cudnn.h -- shared by the files of cuDNN's stand-in: descriptors (lib_cudnn.c), and the graph of
// attention that they describe (lib_attention.c).
#ifndef TRIREME_STAND_IN_LIB_CUDNN_H
#define TRIREME_STAND_IN_LIB_CUDNN_H

#include <cudnn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CUDNN_ATTRIBUTES = 10, CUDNN_VALUES = 32, CUDNN_DIMS = 4 };

// An attribute that was set: its values, up to CUDNN_VALUES of 8 bytes.
typedef struct cudnn_attribute {
    int name, type;
    int64_t count;
    unsigned char values[CUDNN_VALUES * 8];
} cudnn_attribute;

typedef struct cudnn_descriptor {
    int type; // cudnnBackendDescriptorType_t
    bool finalized;
    int attributes;
    cudnn_attribute attribute[CUDNN_ATTRIBUTES];
    int engine;                     // of an engine, its configuration and its plan
    struct cudnn_descriptor *graph; // the graph of these
} cudnn_descriptor;

// The attribute of that name; NULL where it was not set.
const cudnn_attribute *cudnn_find(const cudnn_descriptor *d, int name);
// Its first value. It must have been set.
int64_t cudnn_number(const cudnn_descriptor *d, int name);
cudnn_descriptor *cudnn_link(const cudnn_descriptor *d, int name);

// Does the library have an engine for the graph? If not, *why says what it cannot compute.
bool lib_attention_supports(const cudnn_descriptor *graph, const char **why);

// Is it a graph of gradients, which no engine computes in a fixed order?
bool lib_attention_is_gradient(const cudnn_descriptor *graph);

// The addresses of a call, by the numbers of their tensors.
typedef struct lib_attention_pack {
    int64_t uid[CUDNN_VALUES];
    void *address[CUDNN_VALUES];
    int count;
} lib_attention_pack;

// Checks addresses, and issues the graph's work to the stream. The work holds copies of the descriptors.
cudnnStatus_t lib_attention_issue(const cudnn_descriptor *graph, const lib_attention_pack *pack,
                                  void *workspace, size_t workspace_bytes, cudaStream_t stream);

#endif
