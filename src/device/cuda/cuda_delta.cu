// cuda_delta.cu -- the gated delta rule of the cuda device, its gates, and their gradients: the recurrence, token by
// token. cuda_kernels.c calls the host sides.
//
// A column of a state depends on the same column of v alone. Forward a warp has DELTA_COLS columns of a head, and their
// state in shared memory. The gradient has a block for each sequence and key head. Its workspace holds the states before
// every DELTA_CHUNK tokens, those of one such chunk, the gradient of the state, and the gradients of q and k, which the
// value heads of a key head add in their order.
#include "base/size.h"
#include "device/cuda/gpu.h"

constexpr int DELTA_COLS = GPU_WARP, DELTA_THREADS = 256, DELTA_CHUNK = KERNEL_DELTA_CHUNK;
constexpr int DELTA_WARPS = DELTA_THREADS / GPU_WARP;

// ---- The gates

static __device__ inline float delta_sigmoid(float x)
{
    return 1.0f / gpu_add(1.0f, expf(-x));
}

static __device__ inline float delta_softplus(float x)
{
    return x > 0 ? gpu_add(x, log1pf(expf(-x))) : log1pf(expf(x));
}

template <typename T>
static __global__ void __launch_bounds__(DELTA_THREADS)
    delta_gates_kernel(kernel_delta_gates_args p, int64_t count)
{
    const int64_t i = (int64_t)blockIdx.x * DELTA_THREADS + threadIdx.x;
    if (i >= count) return;
    const int64_t r = i / p.heads, h = i - r * p.heads, at = r * 2 * p.heads + h;
    const float a = gpu_add(gpu_to_float(((const T *)p.x)[at + p.heads]),
                            gpu_to_float(((const T *)p.a_bias)[h]));
    p.gates[at] = delta_sigmoid(gpu_to_float(((const T *)p.x)[at]));
    p.gates[at + p.heads] =
        gpu_mul(-expf(gpu_to_float(((const T *)p.log_decay)[h])), delta_softplus(a));
}

// A block has a head.
template <typename T>
static __global__ void __launch_bounds__(DELTA_THREADS)
    delta_gates_grad_kernel(kernel_delta_gates_args p)
{
    const int64_t h = blockIdx.x;
    const float rate = expf(gpu_to_float(((const T *)p.log_decay)[h])),
                bias = gpu_to_float(((const T *)p.a_bias)[h]);
    float log_sum = 0, bias_sum = 0;
    for (int64_t r = threadIdx.x; r < p.rows; r += DELTA_THREADS) {
        const int64_t at = r * 2 * p.heads + h;
        const float beta = delta_sigmoid(gpu_to_float(((const T *)p.x)[at])),
                    a = gpu_add(gpu_to_float(((const T *)p.x)[at + p.heads]), bias),
                    dg = gpu_mul(-rate, p.d_gates[at + p.heads]),
                    da = gpu_mul(dg, delta_sigmoid(a));
        log_sum = fmaf(dg, delta_softplus(a), log_sum);
        bias_sum = gpu_add(bias_sum, da);
        if (!p.dx) continue;
        ((T *)p.dx)[at] =
            gpu_from_float<T>(gpu_mul(p.d_gates[at], gpu_mul(beta, gpu_add(1.0f, -beta))));
        ((T *)p.dx)[at + p.heads] = gpu_from_float<T>(da);
    }
    log_sum = gpu_block_sum<DELTA_WARPS>(log_sum, gpu_shared<float>());
    bias_sum = gpu_block_sum<DELTA_WARPS>(bias_sum, gpu_shared<float>());
    if (threadIdx.x != 0) return;
    if (p.d_log_decay)
        p.d_log_decay[h] = p.accumulate_d_log_decay ? gpu_add(p.d_log_decay[h], log_sum) : log_sum;
    if (p.d_a_bias)
        p.d_a_bias[h] = p.accumulate_d_a_bias ? gpu_add(p.d_a_bias[h], bias_sum) : bias_sum;
}

// ---- The rule

// Loads the Dk elements of a q or k from element `first` of x, times a factor that every lane gets. A warp calls it.
template <typename T>
static __device__ inline float delta_load_unit(const kernel_delta_rule_args &p, int64_t first,
                                               float scale, float *to)
{
    const int lane = (int)threadIdx.x % GPU_WARP;
    float square = 0;
    for (int i = lane; i < p.key_dim; i += GPU_WARP) {
        const float x = gpu_to_float(((const T *)p.x)[first + i]);
        square = fmaf(x, x, square);
        to[i] = x;
    }
    square = gpu_warp_sum(square);
    const float factor = p.normalize ? scale / sqrtf(gpu_add(square, p.eps)) : scale;
    for (int i = lane; i < p.key_dim; i += GPU_WARP) to[i] = gpu_mul(to[i], factor);
    return factor;
}

// What the decay of the state before a token is: 0 where the token begins a document.
static __device__ inline float delta_keep(const kernel_delta_rule_args &p, int64_t b, int64_t t,
                                          float g)
{
    return p.rows.documents && kernel_delta_document(&p, b, t) == t ? 0 : expf(g);
}

// The state of a warp's columns.
struct delta_forward {
    float k[KERNEL_DELTA_DIM], q[KERNEL_DELTA_DIM], s[KERNEL_DELTA_DIM][DELTA_COLS];
};

template <typename T>
static __global__ void __launch_bounds__(DELTA_COLS) delta_kernel(kernel_delta_rule_args p)
{
    delta_forward *m = gpu_shared<delta_forward>();
    const int64_t h = blockIdx.x, b = blockIdx.z;
    const int lane = (int)threadIdx.x;
    const int64_t col = (int64_t)blockIdx.y * DELTA_COLS + lane;
    const bool has = col < p.value_dim;
    float *const state = p.state ? p.state + (b * p.heads + h) * p.key_dim * p.value_dim : nullptr;
    for (int i = 0; i < p.key_dim; i++)
        m->s[i][lane] = state && has ? state[i * p.value_dim + col] : 0;
    for (int64_t t = 0; t < p.rows.full_seq; t++) {
        const int64_t row = b * p.rows.full_seq + t, x = row * kernel_delta_cols(&p);
        __syncwarp();
        delta_load_unit<T>(p, x + kernel_delta_k(&p, h), 1, m->k);
        delta_load_unit<T>(p, x + kernel_delta_q(&p, h), p.scale, m->q);
        __syncwarp();
        const float beta = p.gates[row * 2 * p.heads + h],
                    keep = delta_keep(p, b, t, p.gates[row * 2 * p.heads + p.heads + h]),
                    v = has ? gpu_to_float(((const T *)p.x)[x + kernel_delta_v(&p, h) + col]) : 0;
        float read = 0, o = 0;
        for (int i = 0; i < p.key_dim; i++) read = fmaf(m->s[i][lane], m->k[i], read);
        const float written = gpu_mul(beta, fmaf(-keep, read, v));
        for (int i = 0; i < p.key_dim; i++) {
            const float s = fmaf(m->k[i], written, gpu_mul(keep, m->s[i][lane]));
            m->s[i][lane] = s;
            o = fmaf(s, m->q[i], o);
        }
        const int64_t to = kernel_delta_row(&p, b, t);
        if (has && to >= 0)
            ((T *)p.o)[(to * p.heads + h) * p.value_dim + col] = gpu_from_float<T>(o);
    }
    for (int i = 0; i < p.key_dim && state && has; i++)
        state[i * p.value_dim + col] = m->s[i][lane];
}

// ---- Its gradient

// A token of a block in shared memory.
struct delta_token {
    float k[KERNEL_DELTA_DIM], q[KERNEL_DELTA_DIM], dk[KERNEL_DELTA_DIM], dq[KERNEL_DELTA_DIM];
    float written[KERNEL_DELTA_DIM], dv[KERNEL_DELTA_DIM], d_o[KERNEL_DELTA_DIM];
    float dg[KERNEL_DELTA_DIM]; // of the rows of the state
    float sums[DELTA_WARPS];
    float k_factor, q_factor;
};

// The workspace of a block.
struct delta_memory {
    float *saved, *states, *d; // [chunks], [DELTA_CHUNK + 1] and one state [Dk, Dv]
    float *dk, *dq;            // [full_seq, Dk]
};

static __device__ inline delta_memory delta_workspace(const kernel_delta_rule_args &p,
                                                      float *memory)
{
    const int64_t state = p.key_dim * p.value_dim;
    delta_memory w;
    w.saved = memory;
    w.states = w.saved + kernel_delta_chunks(&p) * state;
    w.d = w.states + (DELTA_CHUNK + 1) * state;
    w.dk = w.d + state;
    w.dq = w.dk + p.rows.full_seq * p.key_dim;
    return w;
}

// Loads token t: its k and q. A block calls it.
template <typename T>
static __device__ inline void delta_load(const kernel_delta_rule_args &p, int64_t b, int64_t h,
                                         int64_t t, delta_token *m)
{
    const int64_t x = (b * p.rows.full_seq + t) * kernel_delta_cols(&p);
    const int warp = (int)threadIdx.x / GPU_WARP, lane = (int)threadIdx.x % GPU_WARP;
    __syncthreads();
    if (warp == 0) {
        const float factor = delta_load_unit<T>(p, x + kernel_delta_k(&p, h), 1, m->k);
        if (lane == 0) m->k_factor = factor;
    }
    if (warp == 1) {
        const float factor = delta_load_unit<T>(p, x + kernel_delta_q(&p, h), p.scale, m->q);
        if (lane == 0) m->q_factor = factor;
    }
    __syncthreads();
}

// The state after token t, from that before it. A thread has the columns `col`, and no other reads them.
template <typename T>
static __device__ inline void delta_advance(const kernel_delta_rule_args &p, int64_t b, int64_t h,
                                            int64_t t, const float *before, float *after,
                                            delta_token *m)
{
    const int64_t row = b * p.rows.full_seq + t,
                  v = row * kernel_delta_cols(&p) + kernel_delta_v(&p, h);
    const float beta = p.gates[row * 2 * p.heads + h],
                keep = delta_keep(p, b, t, p.gates[row * 2 * p.heads + p.heads + h]);
    for (int64_t col = threadIdx.x; col < p.value_dim; col += DELTA_THREADS) {
        float read = 0;
        for (int i = 0; i < p.key_dim; i++)
            read = fmaf(before[i * p.value_dim + col], m->k[i], read);
        const float written =
            gpu_mul(beta, fmaf(-keep, read, gpu_to_float(((const T *)p.x)[v + col])));
        for (int i = 0; i < p.key_dim; i++) {
            const int64_t at = i * p.value_dim + col;
            after[at] = fmaf(m->k[i], written, gpu_mul(keep, before[at]));
        }
    }
}

// The columns of one token: adds o's gradient to that of the state, and finds those of what the token writes and of v.
template <typename T>
static __device__ inline void delta_back_columns(const kernel_delta_rule_grad_args &g, int64_t b,
                                                 int64_t h, int64_t t, const float *before,
                                                 float *d, float keep, delta_token *m)
{
    const kernel_delta_rule_args &p = g.fwd;
    const int64_t row = b * p.rows.full_seq + t, o = kernel_delta_row(&p, b, t),
                  v = row * kernel_delta_cols(&p) + kernel_delta_v(&p, h);
    const float beta = p.gates[row * 2 * p.heads + h];
    float d_beta = 0;
    for (int64_t col = threadIdx.x; col < p.value_dim; col += DELTA_THREADS) {
        const float d_o =
            o < 0 ? 0 : gpu_to_float(((const T *)g.d_o)[(o * p.heads + h) * p.value_dim + col]);
        float read = 0, d_written = 0;
        for (int i = 0; i < p.key_dim; i++) {
            const int64_t at = i * p.value_dim + col;
            d[at] = fmaf(m->q[i], d_o, d[at]);
            d_written = fmaf(d[at], m->k[i], d_written);
            read = fmaf(before[at], m->k[i], read);
        }
        const float left = fmaf(-keep, read, gpu_to_float(((const T *)p.x)[v + col]));
        d_beta = fmaf(left, d_written, d_beta);
        m->written[col] = gpu_mul(beta, left);
        m->dv[col] = gpu_mul(beta, d_written);
        m->d_o[col] = d_o;
        ((T *)g.dx)[v + col] = gpu_from_float<T>(m->dv[col]);
    }
    d_beta = gpu_block_sum<DELTA_WARPS>(d_beta, m->sums); // it waits for all threads, too
    if (threadIdx.x == 0) g.d_gates[row * 2 * p.heads + h] = d_beta;
    __syncthreads();
}

// The rows of one token: the gradients of q, k and g. A warp has a row of the state.
static __device__ inline void delta_back_rows(const kernel_delta_rule_args &p, const float *before,
                                              const float *after, const float *d, float keep,
                                              delta_token *m)
{
    const int lane = (int)threadIdx.x % GPU_WARP;
    for (int i = (int)threadIdx.x / GPU_WARP; i < p.key_dim; i += DELTA_WARPS) {
        float dq = 0, dk = 0, dg = 0;
        for (int64_t col = lane; col < p.value_dim; col += GPU_WARP) {
            const int64_t at = i * p.value_dim + col;
            const float kept = gpu_mul(keep, before[at]);
            dq = fmaf(after[at], m->d_o[col], dq);
            dk = fmaf(d[at], m->written[col], fmaf(-kept, m->dv[col], dk));
            dg = fmaf(fmaf(-m->k[i], m->dv[col], d[at]), kept, dg);
        }
        dq = gpu_warp_sum(dq), dk = gpu_warp_sum(dk), dg = gpu_warp_sum(dg);
        if (lane == 0) m->dq[i] = dq, m->dk[i] = dk, m->dg[i] = dg;
    }
    __syncthreads();
}

// The gradient of a state before a token, from that of the one after it, which has lost what the token wrote.
static __device__ inline void delta_back_state(const kernel_delta_rule_args &p, float *d,
                                               float keep, const delta_token *m)
{
    for (int64_t col = threadIdx.x; col < p.value_dim; col += DELTA_THREADS)
        for (int i = 0; i < p.key_dim; i++) {
            const int64_t at = i * p.value_dim + col;
            d[at] = gpu_mul(keep, fmaf(-m->k[i], m->dv[col], d[at]));
        }
}

// dx of a q or k from the sum `sum` of the gradients of y, which is factor * x. A warp calls it.
template <typename T>
static __device__ inline void delta_store_unit(const kernel_delta_rule_args &p, T *dx,
                                               const float *sum, const float *y, float factor,
                                               float scale)
{
    const int lane = (int)threadIdx.x % GPU_WARP;
    float along = 0;
    for (int i = lane; i < p.key_dim; i += GPU_WARP) along = fmaf(y[i], sum[i], along);
    along = p.normalize ? gpu_warp_sum(along) / gpu_mul(scale, scale) : 0;
    for (int i = lane; i < p.key_dim; i += GPU_WARP)
        dx[i] = gpu_from_float<T>(gpu_mul(factor, fmaf(-along, y[i], sum[i])));
}

// Adds the gradients of q and k of a token to those of earlier value heads, and writes the sum after the last one.
template <typename T>
static __device__ inline void delta_store(const kernel_delta_rule_grad_args &g, int64_t b,
                                          int64_t h, int64_t t, const delta_memory &w,
                                          delta_token *m)
{
    const kernel_delta_rule_args &p = g.fwd;
    const int64_t group = p.heads / p.key_heads, row = b * p.rows.full_seq + t;
    const int warp = (int)threadIdx.x / GPU_WARP, lane = (int)threadIdx.x % GPU_WARP;
    const bool is_key = warp == 0;
    if (warp > 1) return;
    float *sum = (is_key ? w.dk : w.dq) + t * p.key_dim;
    for (int i = lane; i < p.key_dim; i += GPU_WARP) {
        const float x = is_key ? m->dk[i] : m->dq[i];
        sum[i] = h % group == 0 ? x : gpu_add(sum[i], x);
    }
    if (is_key && lane == 0) {
        float dg = 0;
        for (int i = 0; i < p.key_dim; i++) dg = gpu_add(dg, m->dg[i]);
        g.d_gates[row * 2 * p.heads + p.heads + h] = dg;
    }
    __syncwarp();
    if (h % group != group - 1) return;
    T *const dx = (T *)g.dx + row * kernel_delta_cols(&p);
    if (is_key)
        delta_store_unit(p, dx + kernel_delta_k(&p, h), sum, m->k, m->k_factor, 1);
    else
        delta_store_unit(p, dx + kernel_delta_q(&p, h), sum, m->q, m->q_factor, p.scale);
}

// Goes back through the tokens t0 … t1-1, whose states it computes again.
template <typename T>
static __device__ inline void delta_back_chunk(const kernel_delta_rule_grad_args &g, int64_t b,
                                               int64_t h, int64_t t0, int64_t t1,
                                               const delta_memory &w, delta_token *m)
{
    const kernel_delta_rule_args &p = g.fwd;
    const int64_t state = p.key_dim * p.value_dim;
    const float *first = w.saved + t0 / DELTA_CHUNK * state;
    for (int64_t t = t0; t < t1; t++) {
        delta_load<T>(p, b, h, t, m);
        delta_advance<T>(p, b, h, t, t == t0 ? first : w.states + (t - t0) * state,
                         w.states + (t - t0 + 1) * state, m);
    }
    for (int64_t t = t1 - 1; t >= t0; t--) {
        const float *before = t == t0 ? first : w.states + (t - t0) * state,
                    *after = w.states + (t - t0 + 1) * state;
        const float keep =
            delta_keep(p, b, t, p.gates[(b * p.rows.full_seq + t) * 2 * p.heads + p.heads + h]);
        delta_load<T>(p, b, h, t, m);
        delta_back_columns<T>(g, b, h, t, before, w.d, keep, m);
        delta_back_rows(p, before, after, w.d, keep, m);
        delta_back_state(p, w.d, keep, m);
        delta_store<T>(g, b, h, t, w, m);
    }
}

template <typename T>
static __global__ void __launch_bounds__(DELTA_THREADS)
    delta_grad_kernel(kernel_delta_rule_grad_args g, float *workspace)
{
    const kernel_delta_rule_args &p = g.fwd;
    delta_token *m = gpu_shared<delta_token>();
    const int64_t b = blockIdx.y, group = p.heads / p.key_heads, state = p.key_dim * p.value_dim,
                  block = b * p.key_heads + blockIdx.x;
    const delta_memory w = delta_workspace(p, workspace + block * delta_block_floats(&p));
    for (int64_t h = blockIdx.x * group; h < (int64_t)(blockIdx.x + 1) * group; h++) {
        for (int64_t col = threadIdx.x; col < p.value_dim; col += DELTA_THREADS)
            for (int i = 0; i < p.key_dim; i++)
                w.saved[i * p.value_dim + col] = w.d[i * p.value_dim + col] = 0;
        float *s = w.saved;
        for (int64_t t = 0; t + 1 < p.rows.full_seq; t++) {
            const bool saves = (t + 1) % DELTA_CHUNK == 0;
            float *next = saves ? w.saved + (t + 1) / DELTA_CHUNK * state : w.states;
            delta_load<T>(p, b, h, t, m);
            delta_advance<T>(p, b, h, t, s, next, m);
            s = next;
        }
        for (int64_t chunk = kernel_delta_chunks(&p) - 1; chunk >= 0; chunk--) {
            const int64_t t0 = chunk * DELTA_CHUNK, t1 = t0 + DELTA_CHUNK;
            delta_back_chunk<T>(g, b, h, t0, t1 < p.rows.full_seq ? t1 : p.rows.full_seq, w, m);
        }
    }
}

extern "C" void cuda_delta_gates(const cuda_context *x, const void *args)
{
    const kernel_delta_gates_args *p = (const kernel_delta_gates_args *)args;
    const int64_t count = p->rows * p->heads;
    gpu_with_type(p->type, [&](auto zero) {
        using T = decltype(zero);
        gpu_launch(x, "delta_gates", delta_gates_kernel<T>,
                   dim3((unsigned)size_ceil_div(count, DELTA_THREADS)), dim3(DELTA_THREADS), 0, *p,
                   count);
    });
}

extern "C" void cuda_delta_gates_grad(const cuda_context *x, const void *args)
{
    const kernel_delta_gates_args *p = (const kernel_delta_gates_args *)args;
    gpu_with_type(p->type, [&](auto zero) {
        using T = decltype(zero);
        gpu_launch(x, "delta_gates_grad", delta_gates_grad_kernel<T>, dim3((unsigned)p->heads),
                   dim3(DELTA_THREADS), sizeof(float) * DELTA_WARPS, *p);
    });
}

extern "C" void cuda_delta_rule(const cuda_context *x, const void *args)
{
    const kernel_delta_rule_args *p = (const kernel_delta_rule_args *)args;
    const dim3 grid((unsigned)p->heads, (unsigned)size_ceil_div(p->value_dim, DELTA_COLS),
                    (unsigned)p->batch);
    gpu_with_type(p->type, [&](auto zero) {
        using T = decltype(zero);
        gpu_launch(x, "delta_rule", delta_kernel<T>, grid, dim3(DELTA_COLS), sizeof(delta_forward),
                   *p);
    });
}

extern "C" void cuda_delta_rule_grad(const cuda_context *x, const void *args)
{
    const kernel_delta_rule_grad_args *p = (const kernel_delta_rule_grad_args *)args;
    if (p->fwd.rows.full_seq == 0) return;
    gpu_with_type(p->fwd.type, [&](auto zero) {
        using T = decltype(zero);
        gpu_launch(x, "delta_rule_grad", delta_grad_kernel<T>,
                   dim3((unsigned)p->fwd.key_heads, (unsigned)p->fwd.batch), dim3(DELTA_THREADS),
                   sizeof(delta_token), *p, (float *)x->workspace);
    });
}
