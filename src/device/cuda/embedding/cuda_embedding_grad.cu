// cuda_embedding_grad.cu -- the gradient of token embeddings. The rows are sorted by id. Then each warp sums
// a piece: up to 32 rows of one id, in row order. An id with more rows has several pieces, whose sums are
// added in their order, 32 at a time and then all of these. Pieces count from the first row of their id, so
// an id's sum depends on its own rows only, and is added to d_tokens once. The table cuda_kernels.c names
// the host side.
#include "device/cuda/embedding/cuda_embedding.h"

constexpr int PIECE = EMBEDDING_PIECE; // rows of a piece, and pieces of a group
constexpr int GROUP = PIECE * PIECE;   // rows of a group
constexpr int SUM_WARPS = 8;
constexpr int SUM_AHEAD = 4; // rows whose loads are in flight
constexpr int SUM_WIDE = 2;  // accesses of a lane to a row

// A call with its sorted rows. Sums of pieces and of groups lie in slots of `cols` floats.
struct sum_call {
    kernel_embedding_grad_args p;
    cuda_sorted sorted;
    float *slots;
};

// Returns whether position i of the sorted rows has the key k.
static __device__ inline bool has_key(const sum_call &c, int64_t i, int32_t k)
{
    return i >= 0 && i < c.p.rows && c.sorted.key[i] == k;
}

// Returns where the sum of the piece, or group, that starts at position i is kept, if its id has several. In 32
// positions at most two such pieces start: one that is its id's first, and one that is not.
static __device__ inline float *slot_of(const sum_call &c, int64_t i, bool first)
{
    return c.slots + (i / PIECE * 2 + (first ? 0 : 1)) * c.p.cols;
}

// The first position of key k, given a position i that has it.
static __device__ inline int64_t first_position(const sum_call &c, int64_t i, int32_t k)
{
    int64_t low = 0, high = i;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (c.sorted.key[middle] < k)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Returns whether a run of `length` rows, counted from the first row of its id, starts at position i of key k.
static __device__ inline bool starts_run(const sum_call &c, int64_t i, int32_t k, int length)
{
    if (!has_key(c, i - 1, k)) return true;
    return has_key(c, i - length, k) && (i - first_position(c, i - length, k)) % length == 0;
}

// A lane's columns of a row: SUM_WIDE times N of them, GPU_WARP * N apart, from `first` on.
template <int N> struct sum_values {
    gpu_floats<N> v[SUM_WIDE];
};

template <int N> static __device__ inline int64_t first_column()
{
    return (int64_t)blockIdx.y * SUM_WIDE * GPU_WARP * N + threadIdx.x % GPU_WARP * N;
}

template <int N> static __device__ inline sum_values<N> zero_values()
{
    sum_values<N> out;
    for (int w = 0; w < SUM_WIDE; w++) out.v[w] = gpu_zero_floats<N>();
    return out;
}

template <int N, typename T>
static __device__ inline sum_values<N> load_values(const T *row, int64_t cols)
{
    sum_values<N> out;
    GPU_UNROLL
    for (int w = 0; w < SUM_WIDE; w++) {
        const int64_t column = first_column<N>() + w * GPU_WARP * N;
        out.v[w] = column < cols ? gpu_load_floats<N>(row + column) : gpu_zero_floats<N>();
    }
    return out;
}

template <int N>
static __device__ inline void store_values(float *row, int64_t cols, const sum_values<N> &x)
{
    GPU_UNROLL
    for (int w = 0; w < SUM_WIDE; w++) {
        const int64_t column = first_column<N>() + w * GPU_WARP * N;
        if (column < cols) gpu_store_floats(row + column, x.v[w]);
    }
}

// sum += scale * x
template <int N>
static __device__ inline void add_values(sum_values<N> &sum, const sum_values<N> &x, float scale)
{
    for (int w = 0; w < SUM_WIDE; w++)
        for (int j = 0; j < N; j++) sum.v[w].v[j] = fmaf(scale, x.v[w].v[j], sum.v[w].v[j]);
}

// Adds the sum of an id to its row of d_tokens, which is zero at first without accumulate.
template <int N>
static __device__ inline void add_to_token(const sum_call &c, int32_t key, const sum_values<N> &sum)
{
    float *to = c.p.d_tokens + key * c.p.cols;
    sum_values<N> all = sum;
    if (c.p.accumulate_tokens) add_values(all, load_values<N>(to, c.p.cols), 1);
    store_values(to, c.p.cols, all);
}

// The sum of scale * row(i) for i < count, in order, where row(i) is the address of a row.
template <int N, typename ROW>
static __device__ inline void add_rows(sum_values<N> &sum, const sum_call &c, int count,
                                       float scale, ROW row)
{
    for (int i = 0; i < count; i += SUM_AHEAD) {
        sum_values<N> next[SUM_AHEAD];
        GPU_UNROLL
        for (int a = 0; a < SUM_AHEAD; a++)
            next[a] = i + a < count ? load_values<N>(row(i + a), c.p.cols) : zero_values<N>();
        GPU_UNROLL
        for (int a = 0; a < SUM_AHEAD; a++) add_values(sum, next[a], scale);
    }
}

// A warp for each position of the sorted rows: it sums the piece that starts there, if one does.
template <typename T, int N>
static __global__ __launch_bounds__(SUM_WARPS *GPU_WARP) void sum_pieces_kernel(sum_call c)
{
    const int64_t i = (int64_t)blockIdx.x * SUM_WARPS + threadIdx.x / GPU_WARP;
    const int lane = (int)threadIdx.x % GPU_WARP;
    if (i >= c.p.rows) return;
    const int32_t key = c.sorted.key[i];
    if (key >= c.p.vocab || !starts_run(c, i, key, PIECE)) return;
    const bool mine = has_key(c, i + lane, key), first = !has_key(c, i - 1, key);
    const int32_t my_row = mine ? c.sorted.row[i + lane] : 0;
    const int count = gpu_warp_sum(mine ? 1 : 0);
    sum_values<N> sum = zero_values<N>();
    add_rows(sum, c, count, c.p.scale, [&](int r) {
        const int32_t row = __shfl_sync(GPU_ALL_LANES, my_row, r);
        return (const T *)c.p.dy + row * c.p.cols;
    });
    if (first && !has_key(c, i + PIECE, key))
        add_to_token(c, key, sum);
    else
        store_values(slot_of(c, i, first), c.p.cols, sum);
}

// The group that starts at position i of key k: adds its pieces. The group of an id that has one only is
// its sum.
template <int N> static __device__ inline void sum_group(const sum_call &c, int64_t i, int32_t key)
{
    const int64_t piece = i + threadIdx.x % GPU_WARP * PIECE;
    const int count = gpu_warp_sum(has_key(c, piece, key) ? 1 : 0);
    const bool first = !has_key(c, i - 1, key);
    sum_values<N> sum = zero_values<N>();
    add_rows(sum, c, count, 1, [&](int k) { return slot_of(c, i + k * PIECE, first && k == 0); });
    if (first && !has_key(c, i + GROUP, key))
        add_to_token(c, key, sum);
    else
        store_values(slot_of(c, i, first), c.p.cols, sum);
}

// The id whose rows start at position i and have several groups: adds these.
template <int N> static __device__ inline void sum_id(const sum_call &c, int64_t i, int32_t key)
{
    sum_values<N> sum = zero_values<N>();
    for (int64_t next = i; has_key(c, next, key); next += (int64_t)GPU_WARP * GROUP) {
        const int64_t group = next + (int64_t)(threadIdx.x % GPU_WARP) * GROUP;
        const int count = gpu_warp_sum(has_key(c, group, key) ? 1 : 0);
        add_rows(sum, c, count, 1,
                 [&](int k) { return slot_of(c, next + k * GROUP, next + k * GROUP == i); });
    }
    add_to_token(c, key, sum);
}

// A warp for each 32 positions. It adds pieces where LENGTH is PIECE and a group starts there, or groups
// where it is GROUP and an id starts there. An id with no more than LENGTH rows is done.
template <int N, int LENGTH>
static __global__ __launch_bounds__(SUM_WARPS *GPU_WARP) void sum_sums_kernel(sum_call c)
{
    const int64_t window = (int64_t)blockIdx.x * SUM_WARPS + threadIdx.x / GPU_WARP;
    const int64_t i = window * PIECE + threadIdx.x % GPU_WARP;
    if (window * PIECE >= c.p.rows) return;
    const int32_t key = i < c.p.rows ? c.sorted.key[i] : (int32_t)c.p.vocab;
    const bool first = !has_key(c, i - 1, key);
    bool starts = key < c.p.vocab && (!first || has_key(c, i + LENGTH, key));
    if (LENGTH == PIECE)
        starts = starts && starts_run(c, i, key, GROUP);
    else
        starts = starts && first;
    uint32_t lanes = __ballot_sync(GPU_ALL_LANES, starts);
    for (int lane = 0; lanes != 0; lane++, lanes >>= 1) {
        const int32_t its_key = __shfl_sync(GPU_ALL_LANES, key, lane);
        if ((lanes & 1) == 0) continue;
        if (LENGTH == PIECE)
            sum_group<N>(c, window * PIECE + lane, its_key);
        else
            sum_id<N>(c, window * PIECE + lane, its_key);
    }
}

template <typename T, int N> static void sum_launch(const cuda_context *x, const sum_call &c)
{
    const unsigned columns = (unsigned)gpu_ceil_div(c.p.cols, SUM_WIDE * GPU_WARP * N);
    const dim3 block(SUM_WARPS * GPU_WARP);
    const dim3 rows((unsigned)gpu_ceil_div(c.p.rows, SUM_WARPS), columns),
        windows((unsigned)gpu_ceil_div(c.p.rows, SUM_WARPS * PIECE), columns);
    gpu_launch(x, "embedding_grad", sum_pieces_kernel<T, N>, rows, block, 0, c);
    if (c.p.rows > PIECE)
        gpu_launch(x, "embedding_grad", sum_sums_kernel<N, PIECE>, windows, block, 0, c);
    if (c.p.rows > GROUP)
        gpu_launch(x, "embedding_grad", sum_sums_kernel<N, GROUP>, windows, block, 0, c);
}

static void grad_of_tokens(const cuda_context *x, const kernel_embedding_grad_args *p)
{
    const kernel_fill_args zero = {p->d_tokens, p->vocab * p->cols * (int64_t)sizeof(float)};
    if (!p->accumulate_tokens) cuda_fill(x, &zero);
    if (p->rows <= 0 || p->vocab <= 0 || p->cols <= 0) return;
    const cuda_sort_call sort = {p->ids, p->rows, p->first, p->vocab};
    const sum_call c = {*p, cuda_sort_rows(x, sort, x->workspace),
                        (float *)((char *)x->workspace + sort_bytes(p->rows))};
    gpu_with_type(kernel_residual_type(p->type, p->residual_fp32), [&](auto element) {
        typedef decltype(element) T;
        if (gpu_is_aligned<4>((const T *)p->dy, p->cols) && gpu_is_aligned<4>(p->d_tokens, p->cols))
            sum_launch<T, 4>(x, c);
        else
            sum_launch<T, 1>(x, c);
    });
}

extern "C" void cuda_embedding_grad(const cuda_context *x, const void *args)
{
    const kernel_embedding_grad_args *p = (const kernel_embedding_grad_args *)args;
    if (p->d_tokens) grad_of_tokens(x, p);
    if (p->d_positions) cuda_embedding_grad_positions(x, p);
}
