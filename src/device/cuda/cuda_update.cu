// cuda_update.cu -- the end of a step: what follows from the reduced sums (one thread), and one optimizer
// step on the parts of many tensors in one launch. The update's time is that of reading and writing memory:
// adamw reads four arrays and writes four. The formulas are written as single roundings, so an element has
// the same bits however its array is aligned or divided. The table cuda_kernels.c names the host sides.
#include "device/cuda/gpu_pieces.h"

// ---- Clip

static __global__ void clip_kernel(kernel_step *step, double max_norm)
{
    if (threadIdx.x != 0) return;
    const double factor = step->loss_scale;
    // Without a valid position the gradient is zero, and so is the norm.
    const double count = step->sums[SUM_COUNT] > 0 ? step->sums[SUM_COUNT] : 1;
    kernel_step_result r;
    r.loss = step->sums[SUM_LOSS] / count;
    r.count = step->sums[SUM_COUNT];
    r.norm = sqrt(step->sums[SUM_SQUARES]) / count / factor;
    r.samples = step->sums[SUM_SAMPLES];
    r.scale = 1 / count / factor;
    r.finite = isfinite(r.loss) && isfinite(r.norm);
    r.stop = step->sums[SUM_STOP] > 0;
    r.applies = r.finite && r.samples > 0;
    const double ratio = max_norm / (r.norm + 1e-6);
    if (max_norm > 0 && ratio < 1) r.scale *= ratio;
    step->result = r;
}

extern "C" void cuda_clip(const cuda_context *x, const void *args)
{
    const kernel_clip_args *p = (const kernel_clip_args *)args;
    gpu_launch(x, "clip", clip_kernel, dim3(1), dim3(GPU_WARP), 0, p->step, p->max_norm);
}

// ---- Update

constexpr int UPDATE_SHIFT = 13; // elements of a block, as a power of two
constexpr int UPDATE_THREADS = 256;
constexpr int UPDATE_WIDTH = 4; // elements that a thread accesses at once
constexpr int UPDATE_AHEAD = 2; // such accesses to each array in flight

// No array receives rounded weights.
struct update_no_low {
};
template <typename LOW> constexpr bool UPDATE_HAS_LOW = true;
template <> constexpr bool UPDATE_HAS_LOW<update_no_low> = false;

// The scalars of the formulas. `decay` is weight_decay of the segment, times lr where the weights decay
// apart from the gradient.
struct update_factors {
    float grad_scale, decay, lr, step, beta1, rest1, beta2, rest2, root, eps;
    float average_rest;
    bool first;
};

static __device__ inline update_factors update_read_factors(const kernel_update_args &p,
                                                            bool decays)
{
    const kernel_step_group s = *p.group;
    const bool adam = p.rule == UPDATE_ADAMW || p.rule == UPDATE_ADAM;
    const bool decoupled = p.rule == UPDATE_ADAMW || p.rule == UPDATE_LION;
    const float weight_decay = decays ? p.weight_decay : 0;
    update_factors t;
    t.grad_scale = p.step ? (float)p.step->result.scale : 1;
    t.decay = decoupled ? gpu_mul(s.lr, weight_decay) : weight_decay;
    t.lr = s.lr;
    t.step = adam ? s.lr / s.c1 : 0;
    t.beta1 = s.beta1;
    t.rest1 = 1 - s.beta1;
    t.beta2 = p.beta2;
    t.rest2 = 1 - p.beta2;
    t.root = adam ? 1 / sqrtf(s.c2) : 0;
    t.eps = p.eps;
    t.first = s.first;
    t.average_rest = s.average_rest;
    return t;
}

// One element. m is the momentum of sgd also where no array keeps it.
template <kernel_update_rule RULE, bool HAS_M>
static __device__ inline void update_element(const update_factors &t, float &w, float g, float &m,
                                             float &v)
{
    g = gpu_mul(g, t.grad_scale);
    if (RULE == UPDATE_SGD) {
        g = fmaf(t.decay, w, g);
        m = HAS_M && !t.first ? fmaf(t.beta1, m, g) : g;
        w = fmaf(-t.lr, m, w);
        return;
    }
    if (RULE == UPDATE_ADAM)
        g = fmaf(t.decay, w, g);
    else
        w = fmaf(-t.decay, w, w);
    const float mixed = fmaf(t.beta1, m, gpu_mul(t.rest1, g));
    if (RULE == UPDATE_LION) {
        w = gpu_add(w, mixed > 0 ? -t.lr : mixed < 0 ? t.lr : 0);
        m = fmaf(t.beta2, m, gpu_mul(t.rest2, g));
        return;
    }
    m = mixed;
    v = fmaf(t.beta2, v, gpu_mul(gpu_mul(t.rest2, g), g));
    w = gpu_add(w, -(gpu_mul(t.step, m) / fmaf(sqrtf(v), t.root, t.eps)));
}

// The arrays of a piece, from its first element on.
template <typename LOW> struct update_arrays {
    float *w, *m, *v, *average;
    const float *g;
    LOW *low;
};

template <int N>
static __device__ inline void update_average(const update_factors &t, float *average,
                                             const gpu_floats<N> &w)
{
    gpu_floats<N> x = gpu_load_floats<N>(average);
    for (int j = 0; j < N; j++)
        x.v[j] = fmaf(t.average_rest, w.v[j], gpu_mul(1 - t.average_rest, x.v[j]));
    gpu_store_floats(average, x);
}

// Elements first … last-1, N at once, where last - first is a multiple of N.
template <kernel_update_rule RULE, bool HAS_M, typename LOW, int N>
static __device__ inline void update_range(const update_factors &t, const update_arrays<LOW> &a,
                                           int first, int last)
{
    constexpr bool HAS_V = RULE == UPDATE_ADAMW || RULE == UPDATE_ADAM;
    constexpr int AHEAD = N > 1 ? UPDATE_AHEAD : 2 * UPDATE_AHEAD;
    constexpr int STRIDE = UPDATE_THREADS * N;
    for (int i = first + (int)threadIdx.x * N; i < last; i += AHEAD * STRIDE) {
        gpu_floats<N> w[AHEAD], g[AHEAD], m[AHEAD], v[AHEAD];
        GPU_UNROLL
        for (int k = 0; k < AHEAD; k++) {
            const int e = i + k * STRIDE;
            if (e >= last) break;
            g[k] = gpu_load_floats<N>(a.g + e);
            w[k] = gpu_load_floats<N>(a.w + e);
            m[k] = HAS_M ? gpu_load_floats<N>(a.m + e) : gpu_zero_floats<N>();
            v[k] = HAS_V ? gpu_load_floats<N>(a.v + e) : gpu_zero_floats<N>();
        }
        GPU_UNROLL
        for (int k = 0; k < AHEAD; k++) {
            const int e = i + k * STRIDE;
            if (e >= last) break;
            for (int j = 0; j < N; j++)
                update_element<RULE, HAS_M>(t, w[k].v[j], g[k].v[j], m[k].v[j], v[k].v[j]);
            gpu_store_floats(a.w + e, w[k]);
            if (HAS_M) gpu_store_floats(a.m + e, m[k]);
            if (HAS_V) gpu_store_floats(a.v + e, v[k]);
            if constexpr (UPDATE_HAS_LOW<LOW>) gpu_store_floats(a.low + e, w[k]);
            if (a.average) update_average<N>(t, a.average + e, w[k]);
        }
    }
}

// The step has no update: the weights stay, and low is written from them.
template <typename LOW, int N>
static __device__ inline void store_low(const update_arrays<LOW> &a, int first, int last)
{
    if constexpr (UPDATE_HAS_LOW<LOW>)
        for (int i = first + (int)threadIdx.x * N; i < last; i += UPDATE_THREADS * N)
            gpu_store_floats(a.low + i, gpu_load_floats<N>(a.w + i));
}

// Returns the addresses of segment s, from its element `first` on, in the arrays of p.
template <typename LOW>
static __device__ inline update_arrays<LOW>
update_find_arrays(const kernel_update_args &p, const kernel_segment &s, int64_t first)
{
    const int64_t state = s.state + first, dst = s.dst + first;
    update_arrays<LOW> a;
    a.w = p.w + (p.segment && !p.low ? dst : state);
    a.m = p.m ? p.m + state : nullptr;
    a.v = p.v ? p.v + state : nullptr;
    a.average = p.average ? p.average + state : nullptr;
    a.g = p.g + s.src + first;
    a.low = nullptr;
    if constexpr (UPDATE_HAS_LOW<LOW>) a.low = (LOW *)p.low + dst;
    return a;
}

template <typename LOW> static __device__ inline bool update_is_aligned(const update_arrays<LOW> &a)
{
    constexpr uintptr_t low_bytes = UPDATE_WIDTH * sizeof(LOW);
    return (((uintptr_t)a.w | (uintptr_t)a.m | (uintptr_t)a.v | (uintptr_t)a.g |
             (uintptr_t)a.average) &
            15) == 0 &&
           ((uintptr_t)a.low & (low_bytes - 1)) == 0;
}

template <kernel_update_rule RULE, bool HAS_M, typename LOW>
static __global__ __launch_bounds__(UPDATE_THREADS, 3) void update_kernel(kernel_update_args p)
{
    kernel_segment s = {p.count, 0, 0, 0, true};
    gpu_piece piece;
    if (p.segment) {
        piece = gpu_find_piece(p.segment, p.segments, blockIdx.x,
                               [](int64_t) { return (int)UPDATE_SHIFT; });
        s = p.segment[piece.segment];
    } else {
        piece = gpu_piece_of(0, p.count, blockIdx.x, UPDATE_SHIFT);
    }
    if (piece.count == 0) return;
    const update_arrays<LOW> a = update_find_arrays<LOW>(p, s, piece.first);
    const int whole = update_is_aligned(a) ? piece.count / UPDATE_WIDTH * UPDATE_WIDTH : 0;
    if (p.step && !p.step->result.applies) {
        store_low<LOW, UPDATE_WIDTH>(a, 0, whole);
        store_low<LOW, 1>(a, whole, piece.count);
        return;
    }
    const update_factors t = update_read_factors(p, s.decays);
    update_range<RULE, HAS_M, LOW, UPDATE_WIDTH>(t, a, 0, whole);
    update_range<RULE, HAS_M, LOW, 1>(t, a, whole, piece.count);
}

template <kernel_update_rule RULE, bool HAS_M>
static void update_launch(const cuda_context *x, const kernel_update_args *p)
{
    const int64_t blocks = p->segment ? gpu_most_pieces(p->count, p->segments, UPDATE_SHIFT)
                                      : gpu_piece_count(p->count, UPDATE_SHIFT);
    const auto launch = [&](auto low) {
        gpu_launch(x, "update", update_kernel<RULE, HAS_M, decltype(low)>, dim3((unsigned)blocks),
                   dim3(UPDATE_THREADS), 0, *p);
    };
    if (p->low)
        gpu_with_type(p->low_type, launch);
    else
        launch(update_no_low());
}

extern "C" void cuda_update(const cuda_context *x, const void *args)
{
    const kernel_update_args *p = (const kernel_update_args *)args;
    if (p->count <= 0) return;
    if (p->rule == UPDATE_ADAMW) update_launch<UPDATE_ADAMW, true>(x, p);
    if (p->rule == UPDATE_ADAM) update_launch<UPDATE_ADAM, true>(x, p);
    if (p->rule == UPDATE_LION) update_launch<UPDATE_LION, true>(x, p);
    if (p->rule == UPDATE_SGD && p->m) update_launch<UPDATE_SGD, true>(x, p);
    if (p->rule == UPDATE_SGD && !p->m) update_launch<UPDATE_SGD, false>(x, p);
}
