// vec_math.h -- exponential, hyperbolic tangent and the normal distribution on vectors of floats.
// Some files vec_*.c include it. Errors are relative to the exact value.
// tests/unit/device/test_vec_math_*.c measure them over the full range. A NaN gives a NaN.
#ifndef TRIREME_DEVICE_CPU_VEC_MATH_H
#define TRIREME_DEVICE_CPU_VEC_MATH_H

#include "device/cpu/vec.h"

// x 2^n for an integral n from -252 to 254.
VEC_INLINE vf v_scale(vf x, vf n)
{
#if VEC_BYTES == 64
    return _mm512_scalef_ps(x, n);
#else
    // Two factors, so that results below the normal range are right too.
    vi power = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(power, 1);
    vi rest = _mm256_sub_epi32(power, half), bias = v_set_int(127);
    vf a = v_as_float(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    vf b = v_as_float(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
    return x * a * b;
#endif
}

// e^r for |r| <= ln(2)/2, by a minimax polynomial with an error of 3e-9.
VEC_INLINE vf v_exp_core(vf r)
{
    vf p = v_set(0x1.6a23dp-10f);
    p = p * r + v_set(0x1.123a2p-7f);
    p = p * r + v_set(0x1.5558f2p-5f);
    p = p * r + v_set(0x1.555492p-3f);
    p = p * r + v_set(0x1.fffffcp-2f);
    p = p * r + v_set(1);
    return p * r + v_set(1);
}

// e^x with an error of 1 ulp. 0 below -104, Inf above 88.8.
VEC_INLINE vf v_exp(vf x)
{
    x = v_min(v_set(89), v_max(v_set(-105), x));
    vf n = v_round(x * v_set(0x1.715476p0f));
    vf r = x - n * v_set(0x1.62e4p-1f);
    r = r - n * v_set(0x1.7f7d1cp-20f);
    return v_scale(v_exp_core(r), n);
}

// e^x for x <= 0, for softmax. As v_exp, but 0 below -87, so there are no denormal numbers.
VEC_INLINE vf v_exp_negative(vf x)
{
    vmask underflows = v_less(x, v_set(-87));
    vf n = v_round(x * v_set(0x1.715476p0f));
    vf r = x - n * v_set(0x1.62e4p-1f);
    r = r - n * v_set(0x1.7f7d1cp-20f);
#if VEC_BYTES == 64
    return v_pick(underflows, v_zero(), _mm512_scalef_ps(v_exp_core(r), n));
#else
    vi power = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    vf e = v_as_float(_mm256_add_epi32(v_as_int(v_exp_core(r)), power));
    return _mm256_andnot_ps(underflows, e);
#endif
}

// The logistic function 1 / (1 + exp(-x)). *left is 1 minus it, without cancellation.
VEC_INLINE vf v_logistic(vf x, vf *left)
{
    vf e = v_exp(v_min(v_set(87), -x));
    vf s = v_set(1) / (v_set(1) + e);
    *left = e * s;
    return s;
}

// tanh with an error of 3e-7.
VEC_INLINE vf v_tanh(vf x)
{
    vf sign = v_as_float(v_as_int(x) & v_set_int(INT32_MIN));
    vf size = v_as_float(v_as_int(x) & v_set_int(INT32_MAX));
    vf s = x * x, p = v_set(-0.00589515754f);
    p = p * s + v_set(0.0207959713f);
    p = p * s + v_set(-0.0537838302f);
    p = p * s + v_set(0.133319241f);
    p = p * s + v_set(-0.33333298f);
    vf small = x + x * s * p;
    vf large = v_set(1) - v_set(2) / (v_exp(size + size) + v_set(1));
    large = v_as_float(v_as_int(large) | v_as_int(sign));
    return v_pick(v_less(size, v_set(0.6f)), small, large);
}

// The normal distribution: returns P(X < x), and sets *density to the density at x. The error is
// 8e-7 for x > -3, and x^2 ulp below. 0.5 erfc(u / sqrt 2) exp(u^2 / 2) is t q(t) with t = 1 / (1 +
// 0.3 u) and a minimax polynomial q.
VEC_INLINE vf v_normal(vf x, vf *density)
{
    vf size = v_as_float(v_as_int(x) & v_set_int(INT32_MAX));
    vf t = v_set(1) / (v_set(1) + v_set(0.3f) * size);
    vf e = v_exp(v_set(-0.5f) * x * x);
    vf q = v_set(-0.0205943178f);
    q = q * t + v_set(0.11227171f);
    q = q * t + v_set(-0.227813482f);
    q = q * t + v_set(0.191228971f);
    q = q * t + v_set(-0.0789409476f);
    q = q * t + v_set(0.0958855291f);
    q = q * t + v_set(0.0784881698f);
    q = q * t + v_set(0.110213192f);
    q = q * t + v_set(0.119574637f);
    q = q * t + v_set(0.119686536f);
    vf tail = e * t * q;
    *density = e * v_set(0.3989422804f);
    return v_pick(v_less(x, v_zero()), tail, v_set(1) - tail);
}

#endif
