// cluster_costs.c -- how long kernels, calls and transfers take on a described cluster: rooflines by the data sheet, with
// shares that software reaches. See cluster_private.h. Called through planner_costs.
#include "planner/cluster_private.h"

#include <math.h>

// ---- Products

// A tile of a product is computed by one SM, and all SMs take one each in a wave. Small tiles read more for their work.
typedef struct product_tile {
    double m, n;
    double speed;
} product_tile;

static const product_tile TILES[] = {
    {128, 256, 1}, {256, 128, 1}, {128, 128, 0.93}, {64, 128, 0.75}, {64, 64, 0.55}};

// The share of the SMs' work that counts: tiles reach over the edges, and the last wave is not full. Where k is long, it
// may be split among SMs, whose sums are added.
static double tile_share(const planner_gpu *g, double m, double n, double k)
{
    enum { SPLITS_MOST = 8, SPLIT_LEAST = 1024 };
    double best = 0;
    for (size_t i = 0; i < sizeof TILES / sizeof *TILES; i++)
        for (int splits = 1; splits == 1 || (splits <= SPLITS_MOST && k / splits >= SPLIT_LEAST);
             splits *= 2) {
            const product_tile *t = &TILES[i];
            const double tiles = ceil(m / t->m) * ceil(n / t->n) * splits,
                         room = ceil(tiles / g->sms) * g->sms * t->m * t->n / splits;
            best = fmax(best, t->speed * m * n / room * (splits > 1 ? 0.95 : 1));
        }
    return best;
}

double cluster_tflops(const planner_gpu *g, dtype type)
{
    return type == BF16 ? g->bf16_tflops : type == F16 ? g->fp16_tflops : g->fp32_tflops;
}

// By how much a limit of power slows products; memory does not slow.
static double power_share(const planner_cluster *c)
{
    if (c->limit_watts <= 0 || c->gpu.watts <= 0 || c->limit_watts >= c->gpu.watts) return 1;
    return pow(c->limit_watts / c->gpu.watts, c->constants.power);
}

static bool takes_fp8(const planner_cluster *c, const kernel_cost *k)
{
    const double vocab = (double)c->freedoms.vocab;
    if (!c->freedoms.fp8 || k->type == F32 || c->gpu.fp8_tflops <= 0) return false;
    for (int i = 0; i < KERNEL_COST_SIZES; i++)
        if (vocab > 0 && k->size[i] == vocab) return false;
    return true;
}

static double memory_bytes_per_s(const planner_cluster *c)
{
    return c->gpu.memory_gbytes_per_s * 1e9 * c->constants.memory;
}

// Both factors are read and written in one byte an element. What made them has found their scale.
static double fp8_bytes(const kernel_cost *k)
{
    enum { EACH = 3 };
    return EACH * (k->size[0] * k->size[2] + k->size[1] * k->size[2]);
}

static double product_seconds(const planner_cluster *c, const kernel_cost *k)
{
    const planner_gpu *g = &c->gpu;
    const cluster_constants *x = &c->constants;
    const bool fp8 = takes_fp8(c, k);
    const double depth = k->size[2] / (k->size[2] + x->product_depth);
    double rate = (fp8 ? g->fp8_tflops * x->product_fp8 : cluster_tflops(g, k->type)) * 1e12 *
                  g->product * x->product * power_share(c) * depth;
    if (g->sms > 0) rate *= tile_share(g, k->size[0], k->size[1], k->size[2]);
    return k->flops / rate + (fp8 ? fp8_bytes(k) / memory_bytes_per_s(c) : 0);
}

// ---- Attention

// Narrow heads leave the tensor units waiting for exponentials: heads of 64 reach 0.85 of the rate of 128 (FlashAttention-3,
// backward on H100: 474 of 561 TFLOP/s).
static double head_share(double head_dim)
{
    const double half = 29;
    return fmin(1.05, head_dim / (head_dim + half) * (128 + half) / 128);
}

static double attention_seconds(const planner_cluster *c, const kernel_cost *k, double share)
{
    const double tokens = k->size[1] / (k->size[1] + c->constants.attention_tokens);
    return k->flops / (cluster_tflops(&c->gpu, k->type) * 1e12 * share * tokens *
                       head_share(k->size[2]) * power_share(c));
}

// ---- All kernels

// Kernels that neither multiply matrices by tensor units nor pass over arrays once, such as recurrences, run on the cores.
static double other_seconds(const planner_cluster *c, const kernel_cost *k)
{
    const double share = 0.3;
    return k->flops / (c->gpu.fp32_tflops * 1e12 * share);
}

planner_claim cluster_kernel(const void *given, const kernel_cost *k)
{
    const planner_cluster *c = given;
    const cluster_constants *x = &c->constants;
    const bool multiplies = k->kind == K_MATMUL, attends = k->kind == K_ATTENTION,
               attends_back = k->kind == K_ATTENTION_GRAD;
    double compute = 0, bytes = k->bytes;
    if (multiplies)
        compute = product_seconds(c, k);
    else if (attends || attends_back)
        compute = attention_seconds(c, k, attends ? x->attention : x->attention_grad);
    else if (k->flops > 0)
        compute = other_seconds(c, k);
    if (compute <= 0) bytes *= x->traffic;
    const double memory = bytes / memory_bytes_per_s(c), work = fmax(compute, memory);
    planner_claim claim = {.seconds = work + x->launch_us * 1e-6};
    // A kernel that waits for memory does not need all SMs.
    claim.share[RESOURCE_COMPUTE] = compute >= memory ? 1 : 0.8;
    claim.share[RESOURCE_MEMORY] = claim.seconds > 0 ? memory / claim.seconds : 0;
    return claim;
}

planner_claim cluster_call(const void *given, const planner_group *g, const comm_call *c,
                           double bytes)
{
    const planner_cluster *x = given;
    const comm_described_call call = planner_described_call(g, c, bytes, x->freedoms.any_order);
    comm_flows flows = {.count = 0};
    if (g->ranks > 1) comm_flows_of(x->gpu_name ? "nccl" : "hier", &call, &flows);
    planner_claim claim = planner_flows_claim(&flows, g, &x->links);
    if (g->ranks == x->freedoms.overlapped_ranks && g->hosts == 1 &&
        !comm_call_row_of(c->kind)->is_message)
        claim.seconds *= 1 - x->constants.overlapped;
    return claim;
}

planner_claim cluster_transfer(const void *given, planner_transfer what, double bytes)
{
    const planner_cluster *c = given;
    const bool files = what == TRANSFER_READ || what == TRANSFER_WRITE;
    const double node = what == TRANSFER_READ ? c->read_gbytes_per_s : c->write_gbytes_per_s,
                 rate = files ? node / c->ranks_per_node : c->gpu.pcie_gbytes_per_s;
    planner_claim claim = {.seconds = rate > 0 ? bytes / (rate * 1e9) : 0};
    claim.share[files ? RESOURCE_STORAGE : RESOURCE_COPY] = claim.seconds > 0;
    return claim;
}
