// cuda_embedding.cu -- token and position embeddings, and the gradient of positions. The gradient of tokens
// is in cuda_embedding_grad.cu, which launches the rest of the gradient here. Ids are not checked, because
// the loader has checked them. The table cuda_kernels.c names the host sides.
#include "device/cuda/embedding/cuda_embedding.h"

constexpr int EMBED_WARPS = 8; // of a block; each has one row
constexpr int EMBED_AHEAD = 4; // accesses of a lane to each array in flight

// A warp computes EMBED_AHEAD * 32 * N columns of a row.
template <typename T, typename Y, int N>
static __global__
__launch_bounds__(EMBED_WARPS *GPU_WARP) void embedding_kernel(kernel_embedding_args p)
{
    constexpr int STRIDE = GPU_WARP * N;
    const int64_t r = (int64_t)blockIdx.x * EMBED_WARPS + threadIdx.x / GPU_WARP;
    if (r >= p.rows) return;
    const int64_t id = p.ids[r] - p.first;
    const bool is_local = p.vocab == 0 || (id >= 0 && id < p.vocab);
    const int64_t first = (int64_t)blockIdx.y * EMBED_AHEAD * STRIDE + threadIdx.x % GPU_WARP * N;
    const T *token = (const T *)p.tokens + (is_local ? id * p.cols : 0);
    const T *position =
        p.positions ? (const T *)p.positions + kernel_document_position(&p.row_tokens, r) * p.cols
                    : nullptr;
    Y *y = (Y *)p.y + r * p.cols;
    gpu_floats<N> a[EMBED_AHEAD], b[EMBED_AHEAD];
    GPU_UNROLL
    for (int k = 0; k < EMBED_AHEAD; k++) {
        const int64_t c = first + k * STRIDE;
        a[k] = is_local && c < p.cols ? gpu_load_floats<N>(token + c) : gpu_zero_floats<N>();
        b[k] = position && c < p.cols ? gpu_load_floats<N>(position + c) : gpu_zero_floats<N>();
    }
    GPU_UNROLL
    for (int k = 0; k < EMBED_AHEAD; k++) {
        for (int j = 0; j < N; j++) a[k].v[j] = fmaf(p.scale, a[k].v[j], b[k].v[j]);
        if (first + k * STRIDE < p.cols) gpu_store_floats(y + first + k * STRIDE, a[k]);
    }
}

template <typename T, typename Y, int N>
static void embedding_launch(const cuda_context *x, const kernel_embedding_args *p)
{
    const dim3 grid((unsigned)gpu_ceil_div(p->rows, EMBED_WARPS),
                    (unsigned)gpu_ceil_div(p->cols, EMBED_AHEAD * GPU_WARP * N));
    gpu_launch(x, "embedding", embedding_kernel<T, Y, N>, grid, dim3(EMBED_WARPS * GPU_WARP), 0,
               *p);
}

// As wide as 16 bytes of the wider type.
template <typename T, typename Y>
static void embedding_choose(const cuda_context *x, const kernel_embedding_args *p)
{
    constexpr int N = 16 / (sizeof(Y) > sizeof(T) ? sizeof(Y) : sizeof(T));
    if (gpu_is_aligned<N>((const T *)p->tokens, p->cols) &&
        gpu_is_aligned<N>((const T *)p->positions, p->cols) &&
        gpu_is_aligned<N>((const Y *)p->y, p->cols))
        embedding_launch<T, Y, N>(x, p);
    else
        embedding_launch<T, Y, 1>(x, p);
}

extern "C" void cuda_embedding(const cuda_context *x, const void *args)
{
    const kernel_embedding_args *p = (const kernel_embedding_args *)args;
    gpu_with_type(p->type, [&](auto zero) {
        typedef decltype(zero) T;
        if (p->residual_fp32)
            embedding_choose<T, float>(x, p);
        else
            embedding_choose<T, T>(x, p);
    });
}

// ---- Gradient of positions

constexpr int POSITION_THREADS = 128;
constexpr int POSITION_AHEAD = 4; // rows whose loads are in flight

// A thread has N columns of one token of the sequences. It adds the rows of this token, sequence by
// sequence.
template <typename T, int N>
static __global__
__launch_bounds__(POSITION_THREADS) void positions_kernel(kernel_embedding_grad_args p)
{
    const kernel_tokens *t = &p.row_tokens;
    const int64_t c = ((int64_t)blockIdx.y * POSITION_THREADS + threadIdx.x) * N;
    const int64_t ahead = (int64_t)blockIdx.x - t->first_row % t->seq;
    const int64_t first = ahead < 0 ? ahead + t->seq : ahead;
    if (c >= p.cols || first >= p.rows) return;
    float *to = p.d_positions + kernel_token_position(t, blockIdx.x) * p.cols + c;
    gpu_floats<N> sum = p.accumulate_positions ? gpu_load_floats<N>(to) : gpu_zero_floats<N>();
    for (int64_t r = first; r < p.rows; r += POSITION_AHEAD * t->seq) {
        gpu_floats<N> row[POSITION_AHEAD];
        GPU_UNROLL
        for (int a = 0; a < POSITION_AHEAD; a++) {
            const int64_t source = r + a * t->seq;
            row[a] = source < p.rows ? gpu_load_floats<N>((const T *)p.dy + source * p.cols + c)
                                     : gpu_zero_floats<N>();
        }
        for (int a = 0; a < POSITION_AHEAD; a++)
            for (int j = 0; j < N; j++) sum.v[j] += row[a].v[j];
    }
    gpu_store_floats(to, sum);
}

// The same where positions count from the start of a document. The block looks at POSITION_THREADS rows at
// once, and its threads then add those of its position in their order.
template <typename T, int N>
static __global__
__launch_bounds__(POSITION_THREADS) void document_positions_kernel(kernel_embedding_grad_args p)
{
    unsigned *found = gpu_shared<unsigned>(); // [POSITION_THREADS / GPU_WARP]
    const int64_t c = ((int64_t)blockIdx.y * POSITION_THREADS + threadIdx.x) * N;
    float *to = p.d_positions + (int64_t)blockIdx.x * p.cols + c;
    gpu_floats<N> sum =
        p.accumulate_positions && c < p.cols ? gpu_load_floats<N>(to) : gpu_zero_floats<N>();
    for (int64_t first = 0; first < p.rows; first += POSITION_THREADS) {
        const int64_t r = first + threadIdx.x;
        const bool adds =
            r < p.rows && kernel_document_position(&p.row_tokens, r) == (int64_t)blockIdx.x;
        const unsigned of_warp = __ballot_sync(GPU_ALL_LANES, adds);
        if (threadIdx.x % GPU_WARP == 0) found[threadIdx.x / GPU_WARP] = of_warp;
        __syncthreads();
        for (int w = 0; w < POSITION_THREADS / GPU_WARP && c < p.cols; w++) {
            int64_t source = first + w * GPU_WARP;
            for (unsigned bits = found[w]; bits; bits >>= 1, source++) {
                if (!(bits & 1)) continue;
                const gpu_floats<N> row = gpu_load_floats<N>((const T *)p.dy + source * p.cols + c);
                for (int j = 0; j < N; j++) sum.v[j] += row.v[j];
            }
        }
        __syncthreads(); // `found` has been read
    }
    if (c < p.cols) gpu_store_floats(to, sum);
}

template <typename T, int N>
static void document_positions_launch(const cuda_context *x, const kernel_embedding_grad_args *p)
{
    const int64_t seq = p->row_tokens.full_seq, positions = p->max_seq < seq ? p->max_seq : seq;
    const dim3 grid((unsigned)positions, (unsigned)gpu_ceil_div(p->cols, POSITION_THREADS * N));
    if (p->rows <= 0) return;
    gpu_launch(x, "embedding_grad", document_positions_kernel<T, N>, grid, dim3(POSITION_THREADS),
               sizeof(unsigned) * (POSITION_THREADS / GPU_WARP), *p);
}

template <typename T, int N>
static void positions_launch(const cuda_context *x, const kernel_embedding_grad_args *p)
{
    const dim3 grid((unsigned)p->row_tokens.seq,
                    (unsigned)gpu_ceil_div(p->cols, POSITION_THREADS * N));
    if (p->rows <= 0) return;
    if (p->row_tokens.documents) {
        document_positions_launch<T, N>(x, p);
        return;
    }
    gpu_launch(x, "embedding_grad", positions_kernel<T, N>, grid, dim3(POSITION_THREADS), 0, *p);
}

void cuda_embedding_grad_positions(const cuda_context *x, const kernel_embedding_grad_args *p)
{
    const kernel_fill_args zero = {p->d_positions, p->max_seq * p->cols * (int64_t)sizeof(float)};
    if (!p->accumulate_positions) cuda_fill(x, &zero);
    gpu_with_type(kernel_residual_type(p->type, p->residual_fp32), [&](auto element) {
        typedef decltype(element) T;
        if (gpu_is_aligned<4>((const T *)p->dy, p->cols) &&
            gpu_is_aligned<4>(p->d_positions, p->cols))
            positions_launch<T, 4>(x, p);
        else
            positions_launch<T, 1>(x, p);
    });
}
