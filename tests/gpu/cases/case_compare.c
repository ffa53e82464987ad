// case_compare.c -- the tolerances of kernels against the reference in double, and the comparison.
#include "case.h"

// The error of an F32 output, relative to the absolute value of the element plus the root mean square of
// its array. The order of sums, and the approximations of a GPU, are within it.
static const double TOLERANCE_F32[KERNELS] = {
    [K_MATMUL] = 4e-6, // the units for products of an H200 add 1,100 terms with an error of 2.1e-6
    [K_BIAS_GRAD] = 2e-6,
    [K_EMBEDDING] = 2e-7,
    [K_EMBEDDING_GRAD] = 2e-6,
    [K_NORM] = 2e-6,
    [K_NORM_GRAD] = 5e-6,
    [K_QK_NORM] = 2e-6,
    [K_QK_NORM_SUMS] = 2e-6,
    [K_QK_NORM_GRAD] = 5e-6,
    [K_VALUE_NORM] = 2e-6,
    [K_VALUE_NORM_GRAD] = 5e-6,
    [K_ROPE] = 5e-7,
    [K_ATTENTION] = 5e-6,
    [K_ATTENTION_GRAD] = 1e-5,
    [K_CAUSAL_CONV] = 2e-6,
    [K_CAUSAL_CONV_GRAD] = 5e-6,
    [K_DELTA_GATES] = 2e-6,
    [K_DELTA_GATES_GRAD] = 5e-6,
    [K_DELTA_RULE] = 1e-5,
    [K_DELTA_RULE_GRAD] = 3e-5,
    [K_GATE] = 2e-6,
    [K_GATE_GRAD] = 5e-6,
    [K_ACTIVATION] = 1e-6,
    [K_ACTIVATION_GRAD] = 2e-6,
    [K_GLU] = 1e-6,
    [K_GLU_GRAD] = 2e-6,
    [K_XIELU] = 1e-6,
    [K_XIELU_GRAD] = 1e-5,
    [K_ADD] = 2e-7,
    [K_DROPOUT] = 2e-7,
    [K_INIT] = 0,
    [K_CROSS_ENTROPY] = 2e-6,
    [K_CROSS_ENTROPY_STATS] = 2e-6,
    [K_PREFERENCE] = 2e-6,
    [K_SQUARE_ERROR] = 2e-7,
    [K_UPDATE] = 1e-6,
    [K_CONVERT] = 2e-7,
    [K_UNPACK_NF4] = 0,
    [K_COPY_ROWS] = 0,
    [K_FILL] = 0,
    [K_ORTHOGONALIZE] = 1e-6,
};

// 16-bit outputs may differ by the rounding of the last bit, times this factor where a kernel rounds
// numbers on its way: attention multiplies rounded probabilities and rounded gradients of scores.
static const double ROUNDINGS[KERNELS] = {
    [K_ATTENTION] = 2,
    [K_ATTENTION_GRAD] = 4,
};

static double tolerance_of(kernel_kind k, dtype type)
{
    const double factor = ROUNDINGS[k] > 0 ? ROUNDINGS[k] : 1;
    return type == F32    ? TOLERANCE_F32[k]
           : type == BF16 ? factor * 0x1p-7
           : type == F16  ? factor * 0x1p-10
                          : 2e-7; // sums that kernels give in F64
}

static double element(const space_array *a, int64_t i)
{
    double value;
    dtype_convert(&value, F64, a->data + dtype_bytes(a->type) * (size_t)i, a->type, 1);
    return value;
}

// The root mean square of the elements that are finite.
static double typical_of(const space_array *a)
{
    double square = 0, count = 0;
    for (int64_t i = 0; i < a->count; i++) {
        const double x = element(a, i);
        if (!isfinite(x)) continue;
        square += x * x;
        count++;
    }
    return count > 0 ? sqrt(square / count) : 0;
}

bool case_compare(kernel_kind k, const space_array *want, const space_array *have, double *worst,
                  char *text, size_t bytes)
{
    const bool numbers = want->type <= F64;
    const double typical = numbers ? typical_of(want) : 0, tolerance = tolerance_of(k, want->type);
    *worst = 0;
    if (!numbers) {
        for (size_t i = 0; i < want->bytes; i++)
            if (want->data[i] != have->data[i])
                return snprintf(text, bytes, "byte %zu of %s is 0x%02x, reference 0x%02x", i,
                                want->name, have->data[i], want->data[i]) < 0;
        return true;
    }
    for (int64_t i = 0; i < want->count; i++) {
        const double w = element(want, i), h = element(have, i);
        const double error = fabs(w - h) / (fabs(w) + typical);
        if (w == h || (isnan(w) && isnan(h))) continue;
        if (tolerance > 0 && error <= tolerance) {
            *worst = fmax(*worst, error / tolerance);
            continue;
        }
        return snprintf(text, bytes,
                        "%s[%lld of %lld] is %.9g, reference %.9g (off by %.2g, allowed %.2g)",
                        want->name, (long long)i, (long long)want->count, h, w, error,
                        tolerance) < 0;
    }
    return true;
}
