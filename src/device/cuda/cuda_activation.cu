// cuda_activation.cu -- activations and gated activations of the cuda device, with their gradients.
// cuda_kernels.c calls the host sides. Each function of x is computed in fp32 from one exponential and one
// reciprocal, without a difference of nearly equal numbers.
#include "device/cuda/gpu_each.h"
#include "device/cuda/gpu_math.h"

constexpr float LOG2_E = 1.44269504089f;
constexpr float ROOT_TWO_OVER_PI = 0.79788456080f;
constexpr float GELU_CUBIC = 0.044715f;

// f(x) and f'(x). What the caller does not use is not computed.
struct act_value {
    float y, slope;
};

// The logistic function of x, and 1 minus it.
static __device__ inline float act_logistic(float x, float *left)
{
    const float e = gpu_exp2(fminf(gpu_mul(x, -LOG2_E), 126.0f));
    const float s = gpu_reciprocal(gpu_add(1.0f, e));
    *left = gpu_mul(e, s);
    // fminf returns the number where x is NaN.
    return x == x ? s : x;
}

// P(X < x) and the density at x of the normal distribution. The polynomial is that of vec_math.h:
// 0.5 erfc(u / sqrt 2) exp(u^2 / 2) is t q(t) with t = 1 / (1 + 0.3 u).
static __device__ inline float act_normal(float x, float *density)
{
    const float t = gpu_reciprocal(fmaf(0.3f, fabsf(x), 1.0f));
    const float e = gpu_exp2(gpu_mul(gpu_mul(x, x), -0.5f * LOG2_E));
    float q = -0.0205943178f;
    q = fmaf(q, t, 0.11227171f);
    q = fmaf(q, t, -0.227813482f);
    q = fmaf(q, t, 0.191228971f);
    q = fmaf(q, t, -0.0789409476f);
    q = fmaf(q, t, 0.0958855291f);
    q = fmaf(q, t, 0.0784881698f);
    q = fmaf(q, t, 0.110213192f);
    q = fmaf(q, t, 0.119574637f);
    q = fmaf(q, t, 0.119686536f);
    const float tail = gpu_mul(gpu_mul(e, t), q);
    *density = gpu_mul(e, 0.3989422804f);
    return x < 0 ? tail : gpu_add(1.0f, -tail);
}

static __device__ inline act_value act_gelu(float x)
{
    float density;
    const float below = act_normal(x, &density);
    return {gpu_mul(x, below), fmaf(x, density, below)};
}

// With u = sqrt(2/pi) (x + cubic x^3), (1 + tanh u) / 2 is the logistic function of 2u.
static __device__ inline act_value act_gelu_tanh(float x)
{
    const float square = gpu_mul(x, x);
    const float u2 = gpu_mul(gpu_mul(2 * ROOT_TWO_OVER_PI, x), fmaf(GELU_CUBIC, square, 1.0f));
    float left;
    const float s = act_logistic(u2, &left);
    const float inner = fmaf(6 * GELU_CUBIC * ROOT_TWO_OVER_PI, square, 2 * ROOT_TWO_OVER_PI);
    return {gpu_mul(x, s), fmaf(gpu_mul(gpu_mul(x, inner), s), left, s)};
}

static __device__ inline act_value act_silu(float x)
{
    float left;
    const float s = act_logistic(x, &left);
    return {gpu_mul(x, s), fmaf(gpu_mul(x, s), left, s)};
}

static __device__ inline act_value act_relu(float x)
{
    return x > 0 ? act_value{x, 1.0f} : act_value{x * 0.0f, x * 0.0f}; // keeps NaN
}

static __device__ inline act_value act_relu2(float x)
{
    return x > 0 ? act_value{gpu_mul(x, x), gpu_add(x, x)} : act_value{x * 0.0f, x * 0.0f};
}

static __device__ inline act_value act_tanh(float x)
{
    const float t = gpu_tanh(x);
    return {t, fmaf(-t, t, 1.0f)};
}

template <kernel_activation ACT> static __device__ inline act_value act_of(float x)
{
    if (ACT == ACT_GELU) return act_gelu(x);
    if (ACT == ACT_GELU_TANH) return act_gelu_tanh(x);
    if (ACT == ACT_RELU) return act_relu(x);
    if (ACT == ACT_RELU2) return act_relu2(x);
    if (ACT == ACT_SILU) return act_silu(x);
    return act_tanh(x);
}

template <kernel_activation ACT> struct act_name {
    static constexpr kernel_activation act = ACT;
};

// Calls f(T(), act_name<act>()) with the C++ type T of `type`.
template <typename F> static void with_activation(dtype type, kernel_activation act, F f)
{
    gpu_with_type(type, [&](auto zero) {
        if (act == ACT_GELU)
            f(zero, act_name<ACT_GELU>());
        else if (act == ACT_GELU_TANH)
            f(zero, act_name<ACT_GELU_TANH>());
        else if (act == ACT_RELU)
            f(zero, act_name<ACT_RELU>());
        else if (act == ACT_RELU2)
            f(zero, act_name<ACT_RELU2>());
        else if (act == ACT_SILU)
            f(zero, act_name<ACT_SILU>());
        else
            f(zero, act_name<ACT_TANH>());
    });
}

// ---- K_ACTIVATION, K_ACTIVATION_GRAD

template <typename T, kernel_activation ACT, bool GRAD> struct activation_op {
    enum { PACK = 16 / (int)sizeof(T), PACKS = sizeof(T) == 2 ? 2 : EACH_PACKS };
    struct loaded {
        gpu_pack<T> x, dy;
    };
    const T *x, *dy;
    T *y;

    __device__ loaded load(int64_t i) const
    {
        loaded l;
        l.x = gpu_load_pack(x + i);
        if (GRAD) l.dy = gpu_load_pack(dy + i);
        return l;
    }
    static __device__ T apply(T x, T dy)
    {
        const act_value v = act_of<ACT>(gpu_to_float(x));
        return gpu_from_float<T>(GRAD ? gpu_mul(v.slope, gpu_to_float(dy)) : v.y);
    }
    __device__ void store(int64_t i, const loaded &l) const
    {
        gpu_pack<T> out;
        GPU_UNROLL
        for (int k = 0; k < PACK; k++) out.v[k] = apply(l.x.v[k], GRAD ? l.dy.v[k] : T());
        gpu_store_pack(y + i, out);
    }
    __device__ void one(int64_t i) const
    {
        y[i] = apply(x[i], GRAD ? dy[i] : T());
    }
};

template <bool GRAD>
static void activation_launch(const cuda_context *x, const kernel_activation_args *p)
{
    const bool aligned =
        gpu_is_aligned16(p->x) && gpu_is_aligned16(p->y) && (!GRAD || gpu_is_aligned16(p->dy));
    with_activation(p->type, p->act, [&](auto zero, auto named) {
        using T = decltype(zero);
        const activation_op<T, decltype(named)::act, GRAD> op = {(const T *)p->x, (const T *)p->dy,
                                                                 (T *)p->y};
        each_launch(x, GRAD ? "activation_grad" : "activation", op, p->count, aligned);
    });
}

extern "C" void cuda_activation(const cuda_context *x, const void *args)
{
    activation_launch<false>(x, (const kernel_activation_args *)args);
}

extern "C" void cuda_activation_grad(const cuda_context *x, const void *args)
{
    activation_launch<true>(x, (const kernel_activation_args *)args);
}

// ---- K_GLU, K_GLU_GRAD: element i of y [rows, F], or of dy, stands beside its gate and its up in x.

template <typename T, kernel_activation ACT, bool GRAD> struct glu_op {
    enum { PACK = 16 / (int)sizeof(T), PACKS = GRAD ? 2 : EACH_PACKS };
    struct loaded {
        gpu_pack<T> gate, up, dy;
    };
    const T *x, *dy;
    T *y;
    int64_t cols;

    // The gate of element i.
    __device__ int64_t gate_of(int64_t i) const
    {
        return i + gpu_quotient(i, cols) * cols;
    }
    __device__ loaded load(int64_t i) const
    {
        const int64_t gate = gate_of(i);
        loaded l;
        l.gate = gpu_load_pack(x + gate);
        l.up = gpu_load_pack(x + gate + cols);
        if (GRAD) l.dy = gpu_load_pack(dy + i);
        return l;
    }
    // y, or the gradients of gate and up.
    static __device__ void apply(T gate, T up, T dy, T *first, T *second)
    {
        const act_value v = act_of<ACT>(gpu_to_float(gate));
        if (GRAD) {
            const float d = gpu_to_float(dy);
            *first = gpu_from_float<T>(gpu_mul(gpu_mul(d, gpu_to_float(up)), v.slope));
            *second = gpu_from_float<T>(gpu_mul(d, v.y));
        } else {
            *first = gpu_from_float<T>(gpu_mul(v.y, gpu_to_float(up)));
        }
    }
    __device__ void store(int64_t i, const loaded &l) const
    {
        gpu_pack<T> first, second;
        GPU_UNROLL
        for (int k = 0; k < PACK; k++)
            apply(l.gate.v[k], l.up.v[k], GRAD ? l.dy.v[k] : T(), &first.v[k], &second.v[k]);
        const int64_t to = GRAD ? gate_of(i) : i;
        gpu_store_pack(y + to, first);
        if (GRAD) gpu_store_pack(y + to + cols, second);
    }
    __device__ void one(int64_t i) const
    {
        const int64_t gate = gate_of(i), to = GRAD ? gate : i;
        T second;
        apply(x[gate], x[gate + cols], GRAD ? dy[i] : T(), &y[to], GRAD ? &y[to + cols] : &second);
    }
};

template <bool GRAD> static void glu_launch(const cuda_context *x, const kernel_glu_args *p)
{
    const bool aligned = p->cols % 8 == 0 && gpu_is_aligned16(p->x) && gpu_is_aligned16(p->y) &&
                         (!GRAD || gpu_is_aligned16(p->dy));
    with_activation(p->type, p->act, [&](auto zero, auto named) {
        using T = decltype(zero);
        const glu_op<T, decltype(named)::act, GRAD> op = {(const T *)p->x, (const T *)p->dy,
                                                          (T *)p->y, p->cols};
        each_launch(x, GRAD ? "glu_grad" : "glu", op, p->rows * p->cols, aligned);
    });
}

extern "C" void cuda_glu(const cuda_context *x, const void *args)
{
    glu_launch<false>(x, (const kernel_glu_args *)args);
}

extern "C" void cuda_glu_grad(const cuda_context *x, const void *args)
{
    glu_launch<true>(x, (const kernel_glu_args *)args);
}
