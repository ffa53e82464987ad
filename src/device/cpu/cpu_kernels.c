// cpu_kernels.c -- fills the kernel table of a CPU level: first the reference, then the overrides.
// Called when a device is opened.
#include "device/cpu/cpu.h"

void cpu_kernels_fill(cpu_kernels *k, cpu_level level)
{
    ref_kernels_fill(k);
    if (level >= CPU_AVX2) vec_kernels_fill_avx2(k);
    if (level >= CPU_AVX512) vec_kernels_fill_avx512(k);
    k->run[K_MATMUL] = cpu_matmul;
}
