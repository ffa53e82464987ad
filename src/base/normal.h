// normal.h -- normal numbers from random words, by Box and Muller (1958). rng.c, the vector kernels of the
// cpu device and the kernels of GPUs use it: a number has the same bits wherever it is drawn.
//
// Logarithm, sine and cosine are the exact values rounded to float for each of the 2^24 words that there are
// (tests/unit/base/test_normal.c). They are computed in double by the series of each function. Every sum of
// a product is an fma, so that no compiler rounds one differently. Libraries are not asked: they differ in
// the last bit.
#ifndef TRIREME_BASE_NORMAL_H
#define TRIREME_BASE_NORMAL_H

#include "base/target.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

// The logarithm of (k + 1) / 2^24, for 0 <= k < 2^24.
ON_DEVICE static inline float normal_log(uint32_t k)
{
    // k + 1 = m 2^e with m in [sqrt 1/2, sqrt 2), and log m = 2 artanh((m - 1) / (m + 1)).
    const double x = (double)(int32_t)(k + 1), ln2 = 0x1.62e42fefa39efp-1,
                 ln2_rest = 0x1.abc9e3b39803fp-56;
    uint64_t bits, exponent;
    double m, e;
    memcpy(&bits, &x, sizeof bits);
    exponent = bits >> 52 | UINT64_C(0x4330000000000000); // 2^52 + 1023 + the exponent
    bits = (bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(0x3ff0000000000000);
    memcpy(&e, &exponent, sizeof e);
    memcpy(&m, &bits, sizeof m);
    e -= 0x1p52 + 1023 + 24;
    e = m > 0x1.6a09e667f3bcdp0 ? e + 1 : e;
    m = m > 0x1.6a09e667f3bcdp0 ? m * 0.5 : m;
    const double s = (m - 1) / (m + 1), z = s * s;
    double p = 1.0 / 23;
    p = fma(p, z, 1.0 / 21);
    p = fma(p, z, 1.0 / 19);
    p = fma(p, z, 1.0 / 17);
    p = fma(p, z, 1.0 / 15);
    p = fma(p, z, 1.0 / 13);
    p = fma(p, z, 1.0 / 11);
    p = fma(p, z, 1.0 / 9);
    p = fma(p, z, 1.0 / 7);
    p = fma(p, z, 1.0 / 5);
    p = fma(p, z, 1.0 / 3);
    const double log_m = fma(2 * s * z, p, 2 * s);
    return (float)fma(e, ln2, fma(e, ln2_rest, log_m));
}

// Sine and cosine of an angle from 0 to 2 pi.
ON_DEVICE static inline void normal_sincos(float angle, float *sine, float *cosine)
{
    // angle = r + n pi/2 with |r| <= pi/4
    const double half_pi = 0x1.921fb54442d18p0, half_pi_rest = 0x1.1a62633145c07p-54;
    const int32_t n = (int32_t)fma((double)angle, 0x1.45f306dc9c883p-1, 0.5);
    const double r = fma(-(double)n, half_pi_rest, fma(-(double)n, half_pi, (double)angle)),
                 z = r * r;
    double s = 1.0 / 355687428096000; // 17!
    s = fma(s, z, -1.0 / 1307674368000);
    s = fma(s, z, 1.0 / 6227020800);
    s = fma(s, z, -1.0 / 39916800);
    s = fma(s, z, 1.0 / 362880);
    s = fma(s, z, -1.0 / 5040);
    s = fma(s, z, 1.0 / 120);
    s = fma(s, z, -1.0 / 6);
    s = fma(r * z, s, r);
    double c = 1.0 / 20922789888000; // 16!
    c = fma(c, z, -1.0 / 87178291200);
    c = fma(c, z, 1.0 / 479001600);
    c = fma(c, z, -1.0 / 3628800);
    c = fma(c, z, 1.0 / 40320);
    c = fma(c, z, -1.0 / 720);
    c = fma(c, z, 1.0 / 24);
    c = fma(z * z, c, fma(-0.5, z, 1.0));
    const float a = (float)(n & 1 ? c : s), b = (float)(n & 1 ? s : c);
    *sine = n & 2 ? -a : a;
    *cosine = (n + 1) & 2 ? -b : b;
}

// The angle of a random word, of which the 24 high bits count.
ON_DEVICE static inline float normal_angle(uint32_t word)
{
    return 6.2831853f * ((float)(int32_t)(word >> 8) * 0x1p-24f);
}

// Two independent normal numbers from two random words.
ON_DEVICE static inline void normal_pair(uint32_t first, uint32_t second, float out[2])
{
    const float radius = sqrtf(-2 * normal_log(first >> 8));
    float sine, cosine;
    normal_sincos(normal_angle(second), &sine, &cosine);
    out[0] = radius * cosine;
    out[1] = radius * sine;
}

#endif
