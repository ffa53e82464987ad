// The vector functions of the AVX-512 level against libm. Only what runs them is compiled for it.
#define VEC_BYTES 64
#define CPU_LEVEL avx512
#include "device/cpu/cpu.h"
#include <immintrin.h>
#include <string.h>

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma")
#include "device/cpu/vec_math.h"

#include "vec_math_cases.h"
#pragma GCC pop_options

#include "vec_math_checks.h"
