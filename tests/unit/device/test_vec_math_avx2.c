// The vector functions of the AVX2 level against libm. Only what runs them is compiled for AVX2.
#define VEC_BYTES 32
#define CPU_LEVEL avx2
#include "device/cpu/cpu.h"
#include <immintrin.h>
#include <string.h>

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#include "device/cpu/vec_math.h"

#include "vec_math_cases.h"
#pragma GCC pop_options

#include "vec_math_checks.h"
