// nodes.h -- the NUMA nodes of the machine: memory and cores of each. The checks of memory and of the processor use it.
#ifndef TRIREME_DOCTOR_MEMORY_NODES_H
#define TRIREME_DOCTOR_MEMORY_NODES_H

#include "doctor/check.h"

typedef struct memory_node {
    char name[32]; // "node0"
    uint64_t total,
        droppable; // bytes; droppable: free, or pages of files, which the kernel can drop
    int cores;     // 0: memory without cores, such as that of a GPU or behind CXL
} memory_node;

enum { MEMORY_NODES = 64 }; // more are not looked at

// Reads the nodes below /sys/devices/system/node that have cores.
status memory_nodes_read(const doctor_context *c, memory_node out[MEMORY_NODES], int *count,
                         err *e);

#endif
