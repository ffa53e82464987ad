// cluster.h -- a machine that a cluster file describes, in YAML: nodes, GPUs, links, disks, prices. What the file leaves
// out comes from a table of GPUs and from constants that are fitted to published runs.
#ifndef TRIREME_PLANNER_CLUSTER_H
#define TRIREME_PLANNER_CLUSTER_H

#include "planner/machine.h"

// What data sheets do not say: the share of a rate that software reaches. CLUSTER_CONSTANTS says from where each is.
typedef struct cluster_constants {
    double product;          // factor of planner_gpu.product
    double product_depth;    // k at which a product reaches half of its rate
    double product_fp8;      // of `product`, for fp8
    double attention;        // share of the bf16 rate: forward, heads of 128, long sequences
    double attention_grad;   // the same, backward
    double attention_tokens; // at which attention reaches half of that
    double memory;           // share of the memory's bandwidth
    double traffic;          // bytes of kernels without products, as a factor of those of ours
    double launch_us;        // of each kernel, beside its work
    double link, network;    // shares of the links' bandwidth
    double call_compute;     // of a GPU, that a collective takes while it runs
    double
        overlapped; // share of the time of overlapped collectives that costs nothing (cluster_freedoms)
    double power; // exponent: products run at (limit / watts of the data sheet) to this power
} cluster_constants;

extern const cluster_constants CLUSTER_CONSTANTS;

// What the software of the job may do; zeros: as Trireme trains by default.
typedef struct cluster_freedoms {
    bool any_order; // the library adds gradients in its own order (train.deterministic false)
    bool fp8;       // linear layers multiply in fp8
    int64_t vocab;  // with fp8: products with so many rows or columns stay as they are
    // Collectives of groups of so many ranks of one host run beside the products that need them (user buffers of
    // Transformer Engine, async TP of PyTorch), which Trireme does not do; 0: none
    int overlapped_ranks;
} cluster_freedoms;

// E_USAGE names file, line and key, and what is valid. The caller closes *out with planner_machine_close.
status cluster_open(const char *path, planner_machine *out, err *e);
// The same with other constants, which the file's section `efficiency` overrides.
status cluster_open_with(const char *path, const cluster_constants *constants,
                         const cluster_freedoms *freedoms, planner_machine *out, err *e);

#endif
