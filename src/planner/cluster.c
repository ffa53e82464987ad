// cluster.c -- see cluster.h: the record of a machine from a cluster file, and the constants of its costs.
#include "planner/cluster_private.h"

#include "base/alloc.h"
#include "comm/registry.h"

#include <stdio.h>
#include <stdlib.h>

// From data sheets and papers, or "fitted": by `trireme bench plan --fit torchtitan`, and rounded. The other sources of
// published runs judge them (examples/clusters/rows).
const cluster_constants CLUSTER_CONSTANTS = {
    .product = 1,
    // cuBLAS on H100 at k 1024 loses a tenth of its rate at k 8192.
    .product_depth = 100,
    // Fitted. H100 reaches 70.9 % of its fp8 rate where bf16 reaches 80.3 % (stas00/ml-engineering, compute/accelerator).
    .product_fp8 = 0.89,
    // FlashAttention-3 (arXiv 2407.08608) on H100, causal, heads of 128: forward 600 to 640 TFLOP/s, backward 424, 501,
    // 542, 559 and 561 at 1, 2, 4, 8 and 16 thousand tokens. FlashAttention-2 on A100: about the same shares.
    .attention = 0.62,
    .attention_grad = 0.57,
    .attention_tokens = 350,
    // Fitted. Large copies reach 0.85 to 0.93.
    .memory = 0.78,
    .traffic = 1,
    .launch_us = 2,
    // Fitted. all_gather of NCCL on 8 x H100: 360 of 450 GB/s where nothing else runs; on 400 Gbit/s: 44 to 48 of 50 GB/s.
    .link = 0.7,
    .network = 0.92,
    // Fitted. NCCL takes 16 to 24 of an H100's 132 SMs for a ring over NVLink.
    .call_compute = 0.15,
    // User buffers of Transformer Engine send each part as soon as its product has it: a guess.
    .overlapped = 0.7,
    // Fitted. About 150 of an H100's 700 W do not depend on the clock.
    .power = 0.8,
};

enum { DRIVER_BYTES = 512 << 20, OWN_BYTES = 768 << 20 };

static void fill_defaults(planner_cluster *c, const cluster_constants *constants,
                          const cluster_freedoms *freedoms)
{
    *c = (planner_cluster){.constants = *constants,
                           .freedoms = *freedoms,
                           .gpu = {.product = 0.8}, // of cores; the table has that of a GPU
                           .ranks_per_node = 8,
                           .sockets = 2,
                           .nics = 1,
                           .rails = 1,
                           .nic_gbits = 100,
                           .oversubscription = 1,
                           .link_latency_us = 4,
                           .network_latency_us = 12,
                           .read_gbytes_per_s = 5,
                           .write_gbytes_per_s = 3,
                           .restart_s = 600};
}

static void fill_links(planner_cluster *c)
{
    const planner_gpu *g = &c->gpu;
    const double link = g->link_gbytes_per_s > 0 ? g->link_gbytes_per_s : g->pcie_gbytes_per_s;
    planner_links *l = &c->links;
    l->level[COMM_SHARED_MEMORY].latency_s = c->link_latency_us * 1e-6;
    l->level[COMM_HOST_LINK] =
        (planner_link){c->link_latency_us * 1e-6, link * 1e9 * c->constants.link};
    l->level[COMM_NETWORK] =
        (planner_link){c->network_latency_us * 1e-6, c->nic_gbits * 1e9 / 8 * c->constants.network};
    l->memory_bytes_per_s = g->memory_gbytes_per_s * 1e9 * c->constants.memory;
    l->ranks_per_host = (int)c->ranks_per_node;
    l->nics = (int)c->nics;
    l->switch_hosts = (int)c->switch_nodes;
    l->oversubscription = c->oversubscription;
    l->compute_share = c->constants.call_compute;
}

static void fill_device(const planner_cluster *c, device_description *d)
{
    const bool is_gpu = c->gpu_name != NULL;
    *d = (device_description){.name = is_gpu ? "cuda" : "cpu",
                              .kind =
                                  is_gpu ? (c->gpu.fp8_tflops > 0 ? "sm_90" : "sm_80") : "avx512",
                              .count = is_gpu ? (int)c->ranks_per_node : 1,
                              .free_bytes = is_gpu ? (uint64_t)c->gpu.memory_bytes - DRIVER_BYTES
                                                   : (uint64_t)c->gpu.memory_bytes,
                              .own_bytes = is_gpu ? OWN_BYTES : 0,
                              .is_host_memory = !is_gpu,
                              .has_tf32 = is_gpu && c->gpu.tf32_tflops > 0,
                              .utilization = -1};
    if (is_gpu) snprintf(d->title, sizeof d->title, "%s", c->gpu.title);
}

static void describe(const planner_cluster *c, text *out)
{
    const planner_gpu *g = &c->gpu;
    const double watts = c->limit_watts > 0 ? c->limit_watts : g->watts;
    text_addf(out, "rates: a model of the data sheets, not measured\n");
    if (c->gpu_name)
        text_addf(out,
                  "node: %.0f x %s at %.0f W, %.0f sockets, %.0f x %.0f Gbit/s on %.0f rails\n",
                  c->ranks_per_node, g->title, watts, c->sockets, c->nics, c->nic_gbits, c->rails);
    else
        text_addf(out, "node: %.0f ranks, %.0f sockets, %.0f x %.0f Gbit/s\n", c->ranks_per_node,
                  c->sockets, c->nics, c->nic_gbits);
    if (c->oversubscription > 1)
        text_addf(out, "network: 1:%g beyond %.0f nodes\n", c->oversubscription, c->switch_nodes);
    text_addf(out,
              "efficiency: products %.2f of bf16, memory %.2f, links %.2f, network %.2f, attention "
              "%.2f and %.2f\n",
              g->product * c->constants.product, c->constants.memory, c->constants.link,
              c->constants.network, c->constants.attention, c->constants.attention_grad);
    if (c->sources.chars) text_add(out, c->sources.chars);
}

static void close_cluster(planner_machine *m)
{
    cluster_clear(m->own);
    free(m->own);
}

static void fill_costs(const planner_cluster *c, planner_machine *m)
{
    comm_flows_row row;
    const bool is_gpu = c->gpu_name != NULL;
    m->communicator = is_gpu ? "nccl" : "hier";
    m->costs = (planner_costs){.given = c,
                               .kernel = cluster_kernel,
                               .call = cluster_call,
                               .transfer = cluster_transfer,
                               .streams_apart = is_gpu,
                               .factor = 1};
    if (comm_flows_row_of(m->communicator, &row)) {
        m->costs.sends_wait = row.can->sends_wait;
        if (!is_gpu) m->costs.streams_apart = row.can->own_thread;
    }
}

static void fill_machine(const planner_cluster *c, planner_machine *m)
{
    const planner_gpu *g = &c->gpu;
    const double watts = c->limit_watts > 0 ? c->limit_watts : g->watts;
    fill_costs(c, m);
    fill_device(c, &m->device);
    m->ranks_per_host = (int)c->ranks_per_node;
    m->hosts = (int)c->nodes;
    for (int t = 0; t < DTYPES; t++)
        if (t == F32 || t == BF16 || t == F16)
            m->peak_flops[t] = cluster_tflops(g, (dtype)t) * 1e12;
    m->host_bytes = (uint64_t)c->host_bytes;
    m->watts = watts > 0 ? watts + c->node_watts / c->ranks_per_node : 0;
    m->price_per_hour = c->price_per_hour;
    m->failures_per_hour = c->mtbf_hours > 0 ? 1 / c->mtbf_hours : 0;
    m->checkpoint_bytes_per_s = c->checkpoint_gbytes_per_s * 1e9 / c->ranks_per_node;
    m->restart_s = c->restart_s;
    m->expected_error_percent = c->expected_error_percent;
    describe(c, &m->assumptions);
}

status cluster_open_with(const char *path, const cluster_constants *constants,
                         const cluster_freedoms *freedoms, planner_machine *out, err *e)
{
    status result = OK;
    planner_cluster *c = NULL;
    *out = (planner_machine){.name = NULL};
    TRY(alloc_zeroed(&c, 1, sizeof *c, "the description of a cluster", e));
    out->own = c;
    out->close = close_cluster;
    fill_defaults(c, constants, freedoms);
    TRY(cluster_read(path, c, e));
    fill_links(c);
    fill_machine(c, out);
    TRY(text_copy(c->name, &out->name, e));
    TRY(text_check(&out->assumptions, e));
done:
    if (result != OK) planner_machine_close(out);
    return result;
}

status cluster_open(const char *path, planner_machine *out, err *e)
{
    const cluster_freedoms none = {.any_order = false};
    return cluster_open_with(path, &CLUSTER_CONSTANTS, &none, out, e);
}
