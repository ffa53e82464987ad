// cluster_private.h -- what the files of cluster.h share: a GPU of the table, a described cluster, and the constants of
// its costs.
#ifndef TRIREME_PLANNER_CLUSTER_PRIVATE_H
#define TRIREME_PLANNER_CLUSTER_PRIVATE_H

#include "base/text.h"
#include "planner/cluster.h"
#include "planner/flows.h"

// A GPU, by its data sheet. Rates are dense: without the vendor's factor for sparse matrices.
typedef struct planner_gpu {
    const char *name, *title;
    // TFLOP/s of products: fp32 by its cores, the others by its tensor units; 0: it has none.
    double bf16_tflops, fp16_tflops, fp8_tflops, tf32_tflops, fp32_tflops;
    double memory_bytes; // that a program can see
    double memory_gbytes_per_s;
    double nvlink;            // generation; 0: its GPUs have another link, or none
    double link_gbytes_per_s; // to GPUs of its host, in one direction; 0: over PCIe
    double pcie_gbytes_per_s; // in one direction
    double watts;             // that it may take
    double sms;               // units that compute a tile of a product each
    double product;           // share of the bf16 rate that large products reach
} planner_gpu;

// NULL where there is no such name.
const planner_gpu *planner_gpu_find(const char *name);
// Fills `names` with the names of all, and returns how many there are.
enum { PLANNER_GPUS = 32 };
int planner_gpu_names(const char *names[PLANNER_GPUS]);

// A described cluster, as its file gives it. `gpu` describes a rank.
typedef struct planner_cluster {
    char *name;
    text sources;
    const char *gpu_name; // of the table; NULL: ranks are processes on cores
    planner_gpu gpu;
    double limit_watts; // of a GPU; 0: those of the data sheet
    double nodes, ranks_per_node, sockets, host_bytes;
    double nics, nic_gbits, rails, switch_nodes, oversubscription;
    double link_latency_us, network_latency_us;
    double read_gbytes_per_s, write_gbytes_per_s, checkpoint_gbytes_per_s; // of a node
    double price_per_hour;                                                 // of a rank
    double node_watts;                                                     // beside its GPUs
    double mtbf_hours;                                                     // of a rank
    double restart_s;
    double expected_error_percent;
    cluster_constants constants;
    cluster_freedoms freedoms;
    planner_links links; // of the figures above
} planner_cluster;

// Reads the file into *out, which starts with defaults. The caller clears it, also after a failure.
status cluster_read(const char *path, planner_cluster *out, err *e);
void cluster_clear(planner_cluster *c);

// The functions of planner_costs; `given` is a planner_cluster.
planner_claim cluster_kernel(const void *given, const kernel_cost *k);
planner_claim cluster_call(const void *given, const planner_group *g, const comm_call *c,
                           double bytes);
planner_claim cluster_transfer(const void *given, planner_transfer what, double bytes);
// TFLOP/s of products of this type, by the data sheet.
double cluster_tflops(const planner_gpu *g, dtype type);

#endif
