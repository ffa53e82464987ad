// cluster_gpus.c -- the table of GPUs of cluster files: what the vendors' data sheets say, dense. See cluster_private.h.
// Links count one direction. The memory is what a program sees, in MiB as nvidia-smi prints it, without what the driver
// keeps. `product` is the share of the bf16 rate that large products reach: NVIDIA's parts that
// stas00/ml-engineering measured (compute/accelerator, "Maximum Achievable Matmul FLOPS", read 2026-11-28: A100 SXM
// 86.9 %, A100 PCIe 81.1 %, H100 SXM 80.3 %, B200 77.6 %, B300 78.6 %, GB200 72.9 %, MI300X 51.4 %, MI325X 60.4 %), less
// 8 %, because those are the best shape of many and runs of a second; of others a guess from their power.
#include "planner/cluster_private.h"

#include <string.h>

#define MIB(n) ((double)(n)*1048576)

// clang-format off
static const planner_gpu GPUS[] = {
    // name, title, bf16, fp16, fp8, tf32, fp32 TFLOP/s, memory, its GB/s, NVLink, GB/s, PCIe GB/s, W, SMs, product
    // nvidia.com "NVIDIA A100 Tensor Core GPU" data sheet
    {"a100-40-sxm", "NVIDIA A100 SXM4 40GB", 312, 312, 0, 156, 19.5, MIB(40536), 1555, 3, 300, 32, 400, 108, 0.8},
    // the same data sheet
    {"a100-80-sxm", "NVIDIA A100 SXM4 80GB", 312, 312, 0, 156, 19.5, MIB(81251), 2039, 3, 300, 32, 400, 108, 0.8},
    // the same data sheet; an NVLink bridge joins two, which is left out
    {"a100-40-pcie", "NVIDIA A100 PCIe 40GB", 312, 312, 0, 156, 19.5, MIB(40536), 1555, 0, 0, 32, 250, 108, 0.72},
    // the same data sheet
    {"a100-80-pcie", "NVIDIA A100 PCIe 80GB", 312, 312, 0, 156, 19.5, MIB(81251), 1935, 0, 0, 32, 300, 108, 0.74},
    // nvidia.com "NVIDIA H100 Tensor Core GPU" data sheet, half of its figures, which are with sparsity
    {"h100-sxm", "NVIDIA H100 SXM5 80GB", 989.5, 989.5, 1979, 494.7, 67, MIB(81079), 3352, 4, 450, 64, 700, 132, 0.74},
    // "NVIDIA H100 PCIe GPU" product brief PB-11133; 350 W hold its clock far below that of the rates
    {"h100-pcie", "NVIDIA H100 PCIe 80GB", 756, 756, 1513, 378, 51, MIB(81079), 2039, 0, 0, 64, 350, 114, 0.58},
    // "NVIDIA H100 NVL GPU" product brief PB-11773; the link joins two
    {"h100-nvl", "NVIDIA H100 NVL 94GB", 835, 835, 1671, 417, 60, MIB(95320), 3938, 4, 300, 64, 400, 132, 0.6},
    // nvidia.com "NVIDIA H200 Tensor Core GPU" data sheet
    {"h200", "NVIDIA H200 SXM 141GB", 989.5, 989.5, 1979, 494.7, 67, MIB(143167), 4800, 4, 450, 64, 700, 132, 0.74},
    // as H100 SXM, with a link of 400 GB/s in both directions (DeepSeek-V3, arXiv 2412.19437)
    {"h800", "NVIDIA H800 SXM5 80GB", 989.5, 989.5, 1979, 494.7, 67, MIB(81079), 3352, 4, 200, 64, 700, 132, 0.74},
    // figures of resellers: NVIDIA publishes none
    {"h20", "NVIDIA H20 SXM 96GB", 148, 148, 296, 74, 44, MIB(97280), 4000, 4, 450, 64, 400, 78, 0.9},
    // nvidia.com "NVIDIA DGX B200" data sheet, an eighth of it
    {"b200", "NVIDIA B200 SXM 180GB", 2250, 2250, 4500, 1125, 80, MIB(182642), 8000, 5, 900, 64, 1000, 148, 0.72},
    // nvidia.com "NVIDIA DGX B300" data sheet, an eighth of it
    {"b300", "NVIDIA B300 SXM 288GB", 2250, 2250, 4500, 1125, 80, MIB(275040), 8000, 5, 900, 128, 1100, 148, 0.73},
    // nvidia.com "GB200 NVL72", a 72nd of it; to its host by NVLink-C2C
    {"gb200", "NVIDIA GB200, one GPU, 186GB", 2500, 2500, 5000, 1250, 80, MIB(189471), 8000, 5, 900, 450, 1200, 148, 0.7},
    // nvidia.com "GB300 NVL72", a 72nd of it
    {"gb300", "NVIDIA GB300, one GPU, 288GB", 2500, 2500, 5000, 1250, 80, MIB(284208), 8000, 5, 900, 450, 1400, 148, 0.76},
    // nvidia.com "NVIDIA L40S" data sheet
    {"l40s", "NVIDIA L40S 48GB", 362, 362, 733, 183, 91.6, MIB(45589), 864, 0, 0, 32, 350, 142, 0.62},
    // nvidia.com "NVIDIA L4" data sheet, half of its figures; 72 W hold its clock down
    {"l4", "NVIDIA L4 24GB", 121, 121, 242, 60, 30.3, MIB(22731), 300, 0, 0, 32, 72, 58, 0.5},
    // GA102 white paper: sums in fp32, which halve the rate of GeForce
    {"rtx-3090", "NVIDIA GeForce RTX 3090 24GB", 71, 71, 0, 35.6, 35.6, MIB(24154), 936, 0, 0, 32, 350, 82, 0.9},
    // Ada white paper: sums in fp32
    {"rtx-4090", "NVIDIA GeForce RTX 4090 24GB", 165.2, 165.2, 330.3, 82.6, 82.6, MIB(24081), 1008, 0, 0, 32, 450, 128, 0.92},
    // RTX Blackwell white paper: sums in fp32
    {"rtx-5090", "NVIDIA GeForce RTX 5090 32GB", 209.5, 209.5, 419, 104.8, 104.8, MIB(32120), 1792, 0, 0, 64, 575, 170, 0.92},
    // nvidia.com "RTX 6000 Ada Generation" data sheet
    {"rtx-6000-ada", "NVIDIA RTX 6000 Ada 48GB", 364, 364, 728, 182, 91.1, MIB(48640), 960, 0, 0, 32, 300, 142, 0.6},
    // amd.com MI300X data sheet; Infinity Fabric, 7 links of 64 GB/s
    {"mi300x", "AMD Instinct MI300X 192GB", 1307, 1307, 2615, 654, 163.4, MIB(196288), 5300, 0, 448, 64, 750, 304, 0.48},
    // amd.com MI325X data sheet
    {"mi325x", "AMD Instinct MI325X 256GB", 1307, 1307, 2615, 654, 163.4, MIB(261824), 6000, 0, 448, 64, 1000, 304, 0.56},
};
// clang-format on
enum { GPU_COUNT = sizeof GPUS / sizeof *GPUS };
_Static_assert((int)GPU_COUNT <= (int)PLANNER_GPUS, "planner_gpu_names has room");

const planner_gpu *planner_gpu_find(const char *name)
{
    for (int i = 0; i < GPU_COUNT; i++)
        if (strcmp(GPUS[i].name, name) == 0) return &GPUS[i];
    return NULL;
}

int planner_gpu_names(const char *names[PLANNER_GPUS])
{
    for (int i = 0; i < GPU_COUNT; i++) names[i] = GPUS[i].name;
    return GPU_COUNT;
}
