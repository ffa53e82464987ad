// cuda_conv.cu -- the causal convolution of the cuda device and its gradients. cuda_kernels.c calls the host sides.
//
// A thread has one element of y, or of dx: it reads what its taps read, which lies in a cache. For the gradients of
// the taps a block has CONV_COLS columns and takes the rows in CONV_PARTS parts; it adds the parts in their order.
#include "base/size.h"
#include "device/cuda/gpu.h"

constexpr int CONV_THREADS = 256;
constexpr int CONV_COLS = 32, CONV_PARTS = 8; // of a block that adds taps

// Element c of part `part` of the token at a position of sequence b.
template <typename T>
static __device__ inline float conv_x(const kernel_causal_conv_args &p, int64_t b, int64_t position,
                                      int part, int64_t c)
{
    return gpu_to_float(
        ((const T *)p.x)[b * p.x_batch + position * p.x_stride + part * p.cols + c]);
}

template <typename T>
static __device__ inline float conv_z(const kernel_causal_conv_args &p, int64_t b, int64_t position,
                                      int64_t c)
{
    const float x = conv_x<T>(p, b, position, p.gated ? 2 : 0, c);
    return p.gated ? gpu_mul(x, conv_x<T>(p, b, position, 0, c)) : x;
}

template <typename T>
static __device__ inline float conv_u(const kernel_causal_conv_args &p, int64_t b, int64_t t,
                                      int64_t c)
{
    const int64_t position = kernel_token_position(&p.rows, t);
    float u = p.bias ? gpu_to_float(((const T *)p.bias)[c]) : 0;
    for (int64_t i = kernel_conv_first_tap(&p, b * p.rows.seq + t, position); i < p.width; i++)
        u = fmaf(gpu_to_float(((const T *)p.w)[c * p.width + i]),
                 conv_z<T>(p, b, position - (p.width - 1) + i, c), u);
    return u;
}

static __device__ inline float conv_sigmoid(float u)
{
    return 1.0f / gpu_add(1.0f, expf(-u));
}

template <typename T>
static __global__ void __launch_bounds__(CONV_THREADS)
    conv_kernel(kernel_causal_conv_args p, int64_t count)
{
    const int64_t i = (int64_t)blockIdx.x * CONV_THREADS + threadIdx.x;
    if (i >= count) return;
    const int64_t r = i / p.cols, c = i - r * p.cols, b = r / p.rows.seq, t = r - b * p.rows.seq;
    float y = conv_u<T>(p, b, t, c);
    if (p.silu) y = gpu_mul(y, conv_sigmoid(y));
    if (p.gated) y = gpu_mul(y, conv_x<T>(p, b, kernel_token_position(&p.rows, t), 1, c));
    ((T *)p.y)[i] = gpu_from_float<T>(y);
}

template <typename T>
static __device__ inline float conv_dy(const kernel_causal_conv_grad_args &p, int64_t b, int64_t t,
                                       int64_t c)
{
    return gpu_to_float(((const T *)p.dy)[(b * p.fwd.rows.seq + t) * p.fwd.cols + c]);
}

// The gradient of the sum u of token t of sequence b.
template <typename T>
static __device__ inline float conv_du(const kernel_causal_conv_grad_args &p, int64_t b, int64_t t,
                                       int64_t c)
{
    const kernel_causal_conv_args &f = p.fwd;
    const float dy = conv_dy<T>(p, b, t, c);
    if (f.gated) return gpu_mul(dy, conv_x<T>(f, b, kernel_token_position(&f.rows, t), 1, c));
    if (!f.silu) return dy;
    const float u = conv_u<T>(f, b, t, c), s = conv_sigmoid(u);
    return gpu_mul(dy, fmaf(gpu_mul(u, s), gpu_add(1.0f, -s), s));
}

// The gradient of z at a position: of each later row whose window and document hold it.
template <typename T>
static __device__ inline float conv_dz(const kernel_causal_conv_grad_args &p, int64_t b,
                                       int64_t position, int64_t c)
{
    const kernel_causal_conv_args &f = p.fwd;
    float dz = 0;
    for (int64_t i = 0; i < f.width; i++) {
        const int64_t later = position + f.width - 1 - i, t = kernel_token_at(&f.rows, later);
        if (t < 0 || i < kernel_conv_first_tap(&f, b * f.rows.seq + t, later)) continue;
        dz = fmaf(gpu_to_float(((const T *)f.w)[c * f.width + i]), conv_du<T>(p, b, t, c), dz);
    }
    return dz;
}

template <typename T>
static __global__ void __launch_bounds__(CONV_THREADS)
    conv_dx_kernel(kernel_causal_conv_grad_args p, int64_t count)
{
    const kernel_causal_conv_args &f = p.fwd;
    const int64_t i = (int64_t)blockIdx.x * CONV_THREADS + threadIdx.x;
    if (i >= count) return;
    const int64_t row = i / f.cols, c = i - row * f.cols, b = row / f.rows.full_seq,
                  position = row - b * f.rows.full_seq, t = kernel_token_at(&f.rows, position);
    const float dz = conv_dz<T>(p, b, position, c);
    T *const to = (T *)p.dx + b * f.x_batch + position * f.x_stride + c;
    if (!f.gated) {
        *to = gpu_from_float<T>(dz);
        return;
    }
    const float d_after = t < 0 ? 0 : gpu_mul(conv_dy<T>(p, b, t, c), conv_u<T>(f, b, t, c));
    to[0] = gpu_from_float<T>(gpu_mul(dz, conv_x<T>(f, b, position, 2, c)));
    to[f.cols] = gpu_from_float<T>(d_after);
    to[2 * f.cols] = gpu_from_float<T>(gpu_mul(dz, conv_x<T>(f, b, position, 0, c)));
}

// The summands of the taps, and after them of the bias, that a thread has.
struct conv_sums {
    float tap[KERNEL_CONV_WIDTH + 1];
};

template <typename T>
static __device__ inline void conv_add_row(const kernel_causal_conv_grad_args &p, int64_t r,
                                           int64_t c, conv_sums *sums)
{
    const kernel_causal_conv_args &f = p.fwd;
    const int64_t b = r / f.rows.seq, t = r - b * f.rows.seq,
                  position = kernel_token_position(&f.rows, t),
                  first = kernel_conv_first_tap(&f, r, position);
    const float du = conv_du<T>(p, b, t, c);
    GPU_UNROLL
    for (int i = 0; i < KERNEL_CONV_WIDTH; i++)
        if (i >= first && i < f.width)
            sums->tap[i] = fmaf(du, conv_z<T>(f, b, position - (f.width - 1) + i, c), sums->tap[i]);
    sums->tap[KERNEL_CONV_WIDTH] = gpu_add(sums->tap[KERNEL_CONV_WIDTH], du);
}

static __device__ inline void conv_store(float *to, float sum, bool accumulate)
{
    *to = accumulate ? gpu_add(*to, sum) : sum;
}

template <typename T>
static __global__ void __launch_bounds__(CONV_COLS *CONV_PARTS)
    conv_taps_kernel(kernel_causal_conv_grad_args p)
{
    const kernel_causal_conv_args &f = p.fwd;
    conv_sums *shared = gpu_shared<conv_sums>(), sums;
    const int part = (int)threadIdx.x / CONV_COLS, lane = (int)threadIdx.x % CONV_COLS;
    const int64_t c = (int64_t)blockIdx.x * CONV_COLS + lane;
    GPU_UNROLL
    for (int i = 0; i <= KERNEL_CONV_WIDTH; i++) sums.tap[i] = 0;
    for (int64_t r = part; r < f.batch * f.rows.seq && c < f.cols; r += CONV_PARTS)
        conv_add_row<T>(p, r, c, &sums);
    shared[threadIdx.x] = sums;
    __syncthreads();
    if (part != 0 || c >= f.cols) return;
    GPU_UNROLL
    for (int i = 0; i <= KERNEL_CONV_WIDTH; i++) {
        float sum = 0;
        for (int k = 0; k < CONV_PARTS; k++)
            sum = gpu_add(sum, shared[k * CONV_COLS + lane].tap[i]);
        if (i < f.width && p.dw) conv_store(p.dw + c * f.width + i, sum, p.accumulate_dw);
        if (i == KERNEL_CONV_WIDTH && p.dbias) conv_store(p.dbias + c, sum, p.accumulate_dbias);
    }
}

static dim3 conv_blocks(int64_t count)
{
    return dim3((unsigned)((count + CONV_THREADS - 1) / CONV_THREADS));
}

extern "C" void cuda_causal_conv(const cuda_context *x, const void *args)
{
    const kernel_causal_conv_args *p = (const kernel_causal_conv_args *)args;
    const int64_t count = p->batch * p->rows.seq * p->cols;
    if (count == 0) return;
    gpu_with_type(p->type, [&](auto zero) {
        using T = decltype(zero);
        gpu_launch(x, "causal_conv", conv_kernel<T>, conv_blocks(count), dim3(CONV_THREADS), 0, *p,
                   count);
    });
}

extern "C" void cuda_causal_conv_grad(const cuda_context *x, const void *args)
{
    const kernel_causal_conv_grad_args *p = (const kernel_causal_conv_grad_args *)args;
    const int64_t count = p->fwd.batch * p->fwd.rows.full_seq * p->fwd.cols;
    gpu_with_type(p->fwd.type, [&](auto zero) {
        using T = decltype(zero);
        if ((p->dw || p->dbias) && p->fwd.cols > 0)
            gpu_launch(x, "causal_conv_grad", conv_taps_kernel<T>,
                       dim3((unsigned)size_ceil_div(p->fwd.cols, CONV_COLS)),
                       dim3(CONV_COLS * CONV_PARTS), sizeof(conv_sums) * CONV_COLS * CONV_PARTS,
                       *p);
        if (p->dx && count > 0)
            gpu_launch(x, "causal_conv_grad", conv_dx_kernel<T>, conv_blocks(count),
                       dim3(CONV_THREADS), 0, *p, count);
    });
}
