// cuda_norm_grad.cu -- the gradients of layer norm and RMS norm on the cuda device. cuda_kernels.c calls the
// host sides.
//
// A block takes consecutive rows, several at a time where they are narrow. A thread keeps its columns: it
// computes them of dx, and adds them up for dgain and dbias. It copies the packs of its next rows to places
// of its own in shared memory, so that these bytes are under way while it computes. The sums of each block go to the workspace, and
// a second kernel adds them in the order of the blocks. How rows are divided depends on the shape only.
#include "base/size.h"
#include "device/cuda/norm/gpu_norm.h"

constexpr int GRAD_BLOCK = GRAD_WARPS * GPU_WARP; // threads
constexpr int GRAD_STAGED = 96 << 10;             // most bytes of shared memory for the next rows
constexpr int GRAD_SUM_COLS = 32, GRAD_SUM_PARTS = 32; // of a block of the second kernel

// The division of a call among blocks.
struct grad_shape {
    int warps, groups;  // of a row; rows that a block has at a time
    int blocks, tiles;  // over the rows, and over the columns of a wide row
    int64_t block_rows; // of a block, a multiple of groups
    int stages;         // rows that are copied ahead
    int stage_packs;    // 16-byte packs of one of these
};

// Of shared memory. Behind the struct lie the packs of the next rows, and in their place, at the end of the
// block, the sums of its columns.
struct grad_shared {
    float2 warp[2][GRAD_WARPS];
    uint4 pack[];
};

static grad_shape grad_divide(const kernel_norm_grad_args *p)
{
    grad_shape s = {};
    s.warps = norm_warps(p->cols, GRAD_WARP_COLS, GRAD_WARPS);
    s.groups = GRAD_WARPS / s.warps;
    s.tiles = (int)((p->cols + GRAD_COLS - 1) / GRAD_COLS);
    s.block_rows = (p->rows + GRAD_MOST_BLOCKS - 1) / GRAD_MOST_BLOCKS;
    s.block_rows = (s.block_rows + s.groups - 1) / s.groups * s.groups;
    s.blocks = s.block_rows ? (int)((p->rows + s.block_rows - 1) / s.block_rows) : 0;
    const int residual = (int)dtype_bytes(kernel_residual_type(p->type, p->residual_fp32));
    const int bytes = (int)dtype_bytes(p->type) + (p->dx || p->dgain ? residual : 0) +
                      (p->accumulate_dx ? residual : 0); // of a column
    s.stage_packs = bytes * GRAD_PACKS * NORM_PACK / 16 * GRAD_BLOCK;
    s.stages = 2 * s.stage_packs <= GRAD_STAGED / 16 ? 2 : 1;
    return s;
}

static size_t grad_shared_bytes(const grad_shape &s)
{
    const size_t ahead = 16 * (size_t)(s.stages * s.stage_packs);
    const size_t columns = sizeof(float) * GRAD_BLOCK * GRAD_PACKS * NORM_PACK;
    return sizeof(grad_shared) + (ahead > columns ? ahead : columns);
}

// The columns of a thread: column(k) … column(k)+7 of its tile, for k < GRAD_PACKS.
struct grad_columns {
    int threads, thread; // of a row
    int cols;            // of the tile
    int64_t first_col;   // of the tile

    __device__ int column(int k) const
    {
        return (k * threads + thread) * NORM_PACK;
    }
};

// A thread's share of a row.
template <typename T, typename R> struct grad_row {
    norm_pack<T> dy[GRAD_PACKS];
    norm_pack<R> x[GRAD_PACKS];
    norm_pack<R> old[GRAD_PACKS]; // dx before the call, where it was copied ahead
};
struct grad_stats {
    float mean, rstd;
};

static __device__ inline grad_stats grad_read_stats(const kernel_norm_grad_args &p, int64_t r,
                                                    bool valid)
{
    const bool reads_x = valid && (p.dx || p.dgain);
    return {reads_x && !p.is_rms ? p.mean[r] : 0, reads_x ? p.rstd[r] : 0};
}

// Row r, or zeros.
template <typename T, typename R, bool ALIGNED>
static __device__ inline grad_row<T, R>
grad_read(const kernel_norm_grad_args &p, const grad_columns &columns, int64_t r, bool valid)
{
    grad_row<T, R> row;
    const int64_t first = r * p.cols + columns.first_col;
    const int of_dy = valid ? columns.cols : 0, of_x = p.dx || p.dgain ? of_dy : 0;
    GPU_UNROLL
    for (int k = 0; k < GRAD_PACKS; k++) {
        row.dy[k] = norm_load<ALIGNED>((const T *)p.dy + first, columns.column(k), of_dy);
        row.x[k] = norm_load<ALIGNED>((const R *)p.x + first, columns.column(k), of_x);
    }
    return row;
}

// The 16-byte pieces of a pack of E, of which piece i is at [i * GRAD_BLOCK].
template <typename E> constexpr int grad_pieces = (int)sizeof(norm_pack<E>) / 16;

template <typename E>
static __device__ inline void grad_copy_pack(uint4 *&to, const E *from, bool valid)
{
    GPU_UNROLL
    for (int i = 0; i < grad_pieces<E>; i++, to += GRAD_BLOCK)
        gpu_copy16(to, reinterpret_cast<const uint4 *>(from) + i, valid);
}

template <typename E> static __device__ inline norm_pack<E> grad_take_pack(const uint4 *&from)
{
    norm_pack<E> out;
    GPU_UNROLL
    for (int i = 0; i < grad_pieces<E>; i++, from += GRAD_BLOCK)
        reinterpret_cast<uint4 *>(&out)[i] = *from;
    return out;
}

// Starts the copy of row r, or of zeros, to the thread's places from `to` on.
template <typename T, typename R>
static __device__ inline void grad_copy(const kernel_norm_grad_args &p, const grad_columns &columns,
                                        int64_t r, bool valid, uint4 *to)
{
    GPU_UNROLL
    for (int k = 0; k < GRAD_PACKS; k++) {
        const bool inside = valid && columns.column(k) < columns.cols;
        // If there is nothing to copy, the address is that of the first element, which exists.
        const int64_t from = inside ? r * p.cols + columns.first_col + columns.column(k) : 0;
        grad_copy_pack(to, (const T *)p.dy + from, inside);
        if (p.dx || p.dgain) grad_copy_pack(to, (const R *)p.x + from, inside);
        if (p.accumulate_dx) grad_copy_pack(to, (const R *)p.dx + from, inside);
    }
    gpu_copy_commit();
}

// The row that was copied to these places.
template <typename T, typename R>
static __device__ inline grad_row<T, R> grad_take(const kernel_norm_grad_args &p, const uint4 *from)
{
    grad_row<T, R> row;
    GPU_UNROLL
    for (int k = 0; k < GRAD_PACKS; k++) {
        row.dy[k] = grad_take_pack<T>(from);
        row.x[k] = row.old[k] = norm_load<true>((const R *)NULL, 0, 0); // zeros
        if (p.dx || p.dgain) row.x[k] = grad_take_pack<R>(from);
        if (p.accumulate_dx) row.old[k] = grad_take_pack<R>(from);
    }
    return row;
}

template <typename T, typename R>
static __device__ inline float grad_hat(const grad_row<T, R> &row, grad_stats s, int k, int j)
{
    return gpu_mul(gpu_add(gpu_to_float(row.x[k].v[j]), -s.mean), s.rstd);
}

// mean(g) and mean(g * x_hat) of a row from the summands of a thread. `turn` is 0 and 1 in turn.
static __device__ inline float2 grad_row_means(const kernel_norm_grad_args &p, float2 of_thread,
                                               int warps, int turn)
{
    float2 sum = {gpu_warp_sum(of_thread.x), gpu_warp_sum(of_thread.y)};
    if (warps > 1) {
        // One barrier a row: the next row has the other array.
        float2 *shared = gpu_shared<grad_shared>()->warp[turn];
        const int warp = (int)threadIdx.x / GPU_WARP, first = warp / warps * warps;
        if (threadIdx.x % GPU_WARP == 0) shared[warp] = sum;
        __syncthreads();
        sum = shared[first];
        for (int w = first + 1; w < first + warps; w++)
            sum = {gpu_add(sum.x, shared[w].x), gpu_add(sum.y, shared[w].y)};
    }
    return {p.is_rms ? 0 : sum.x / (float)p.cols, sum.y / (float)p.cols};
}

// The sums of a thread's columns over its rows.
struct grad_sums {
    float gain[GRAD_PACKS][NORM_PACK], bias[GRAD_PACKS][NORM_PACK];
};

// Adds the sums of the block's rows that ran side by side, in order, and writes them to `to`, which is the
// block's row of `place.cols` columns.
static __device__ inline void grad_write_sums(const float (&sum)[GRAD_PACKS][NORM_PACK],
                                              const grad_columns &columns, int groups, float *to)
{
    float *shared = reinterpret_cast<float *>(gpu_shared<grad_shared>()->pack);
    const int width = columns.threads * GRAD_PACKS * NORM_PACK,
              group = (int)threadIdx.x / columns.threads;
    __syncthreads();
    GPU_UNROLL
    for (int k = 0; k < GRAD_PACKS; k++) GPU_UNROLL
    for (int j = 0; j < NORM_PACK; j++) shared[group * width + columns.column(k) + j] = sum[k][j];
    __syncthreads();
    for (int c = (int)threadIdx.x; c < columns.cols; c += GRAD_BLOCK) {
        float total = shared[c];
        for (int g = 1; g < groups; g++) total = gpu_add(total, shared[g * width + c]);
        to[c] = total;
    }
}

// The columns of dx of a thread.
template <typename T, typename R, bool ALIGNED>
static __device__ inline void grad_write_dx(const kernel_norm_grad_args &p,
                                            const grad_columns &columns, int64_t r,
                                            const grad_row<T, R> &row, grad_stats stats,
                                            const norm_pack<T> (&gain)[GRAD_PACKS], float2 means)
{
    R *dx = (R *)p.dx + r * p.cols + columns.first_col;
    GPU_UNROLL
    for (int k = 0; k < GRAD_PACKS; k++) {
        norm_pack<R> out;
        // Read only now, so that it takes no registers before.
        const norm_pack<R> old =
            ALIGNED ? row.old[k]
                    : norm_load<false>(dx, columns.column(k), p.accumulate_dx ? columns.cols : 0);
        GPU_UNROLL
        for (int j = 0; j < NORM_PACK; j++) {
            const float g =
                gpu_mul(gpu_to_float(row.dy[k].v[j]),
                        norm_factor(gpu_to_float(gain[k].v[j]), p.unit_offset || !p.gain));
            const float hat = grad_hat(row, stats, k, j);
            float v = gpu_mul(stats.rstd, fmaf(-hat, means.y, gpu_add(g, -means.x)));
            if (p.accumulate_dx) v = gpu_add(v, gpu_to_float(old.v[j]));
            out.v[j] = gpu_from_float<R>(v);
        }
        norm_store<ALIGNED>(dx, columns.column(k), columns.cols, out);
    }
}

// Adds a row to the sums. Returns the thread's summands of mean(g) and mean(g * x_hat).
template <typename T, typename R>
static __device__ inline float2 grad_add_row(const kernel_norm_grad_args &p,
                                             const grad_row<T, R> &row, grad_stats stats,
                                             const norm_pack<T> (&gain)[GRAD_PACKS], grad_sums &sum)
{
    float2 of_thread = {0, 0};
    GPU_UNROLL
    for (int k = 0; k < GRAD_PACKS; k++) {
        GPU_UNROLL
        for (int j = 0; j < NORM_PACK; j++) {
            const float dy = gpu_to_float(row.dy[k].v[j]), hat = grad_hat(row, stats, k, j);
            const float g =
                gpu_mul(dy, norm_factor(gpu_to_float(gain[k].v[j]), p.unit_offset || !p.gain));
            of_thread = {gpu_add(of_thread.x, g), fmaf(g, hat, of_thread.y)};
            sum.gain[k][j] = fmaf(dy, hat, sum.gain[k][j]);
            sum.bias[k][j] = gpu_add(sum.bias[k][j], dy);
        }
    }
    return of_thread;
}

// With OWN_MEANS the block computes the means that dx needs. If not, they are given where dx is wanted.
// ALIGNED: the next `stages` rows, 1 or 2, are copied ahead.
template <typename T, typename R, bool ALIGNED, bool OWN_MEANS>
static __global__ void __launch_bounds__(GRAD_BLOCK, 1)
    grad_kernel(kernel_norm_grad_args p, grad_shape s, float *sums, const float2 *means)
{
    const int threads = s.warps * GPU_WARP;
    const int64_t first_col = (int64_t)blockIdx.y * GRAD_COLS, cols_left = p.cols - first_col;
    const grad_columns columns = {threads, (int)threadIdx.x % threads,
                                  cols_left < GRAD_COLS ? (int)cols_left : GRAD_COLS, first_col};
    const int64_t first = (int64_t)blockIdx.x * s.block_rows, last = first + s.block_rows;
    const int64_t end = last < p.rows ? last : p.rows;
    int64_t r = first + (int)threadIdx.x / threads;
    uint4 *const packs = gpu_shared<grad_shared>()->pack + threadIdx.x;
    grad_sums sum = {};
    norm_pack<T> gain[GRAD_PACKS];
    GPU_UNROLL
    for (int k = 0; k < GRAD_PACKS; k++)
        gain[k] = norm_load<ALIGNED>((const T *)p.gain + first_col, columns.column(k),
                                     p.dx && p.gain ? columns.cols : 0);
    if (ALIGNED)
        for (int i = 0; i < s.stages; i++)
            grad_copy<T, R>(p, columns, r + i * s.groups, r + i * s.groups < end,
                            packs + i * s.stage_packs);
    grad_stats next = grad_read_stats(p, r, r < end);
    for (int turn = 0; r < last; r += s.groups, turn ^= 1) {
        const grad_stats stats = next;
        grad_row<T, R> row;
        next = grad_read_stats(p, r + s.groups, r + s.groups < end);
        uint4 *const stage = packs + (s.stages == 2 ? turn : 0) * s.stage_packs;
        if (ALIGNED) {
            if (s.stages == 2)
                gpu_copy_wait<1>();
            else
                gpu_copy_wait<0>();
            row = grad_take<T, R>(p, stage);
        } else {
            row = grad_read<T, R, false>(p, columns, r, r < end);
        }
        const float2 of_thread = grad_add_row(p, row, stats, gain, sum);
        const int64_t ahead = r + s.stages * s.groups;
        if (ALIGNED) grad_copy<T, R>(p, columns, ahead, ahead < end, stage);
        float2 of_row = {0, 0};
        if (OWN_MEANS)
            of_row = grad_row_means(p, of_thread, s.warps, turn);
        else if (means && r < end)
            of_row = means[r];
        if (p.dx && r < end) grad_write_dx<T, R, ALIGNED>(p, columns, r, row, stats, gain, of_row);
    }
    gpu_copy_wait<0>();
    if (p.dgain)
        grad_write_sums(sum.gain, columns, s.groups, sums + blockIdx.x * p.cols + first_col);
    if (p.dbias)
        grad_write_sums(sum.bias, columns, s.groups,
                        sums + (s.blocks + blockIdx.x) * p.cols + first_col);
}

// The means of rows that do not lie in registers; a block has a row.
template <typename T, typename R>
static __global__ void __launch_bounds__(GRAD_BLOCK)
    grad_means_kernel(kernel_norm_grad_args p, float2 *means)
{
    const int64_t r = blockIdx.x;
    const float mean = p.is_rms ? 0 : p.mean[r], rstd = p.rstd[r];
    float2 of_thread = {0, 0};
    for (int64_t c = threadIdx.x; c < p.cols; c += GRAD_BLOCK) {
        const float dy = gpu_to_float(((const T *)p.dy)[r * p.cols + c]);
        const float x = gpu_to_float(((const R *)p.x)[r * p.cols + c]);
        const float gain = p.gain ? gpu_to_float(((const T *)p.gain)[c]) : 0;
        const float g = gpu_mul(dy, norm_factor(gain, p.unit_offset || !p.gain));
        of_thread = {gpu_add(of_thread.x, g),
                     fmaf(g, gpu_mul(gpu_add(x, -mean), rstd), of_thread.y)};
    }
    const float2 of_row = grad_row_means(p, of_thread, GRAD_WARPS, 0);
    if (threadIdx.x == 0) means[r] = of_row;
}

// Adds the sums of `blocks` blocks to dgain (blockIdx.y 0) or dbias (1). Thread (part, c) adds consecutive
// blocks for a column, and then the parts are added in order.
static __global__ void __launch_bounds__(GRAD_SUM_COLS *GRAD_SUM_PARTS)
    grad_sum_kernel(kernel_norm_grad_args p, const float *sums, int blocks)
{
    float *shared = gpu_shared<float>();
    float *to = blockIdx.y == 0 ? p.dgain : p.dbias;
    if (!to) return;
    const int lane = (int)threadIdx.x % GRAD_SUM_COLS, part = (int)threadIdx.x / GRAD_SUM_COLS;
    const int64_t c = (int64_t)blockIdx.x * GRAD_SUM_COLS + lane;
    const int each = (blocks + GRAD_SUM_PARTS - 1) / GRAD_SUM_PARTS, first = part * each;
    const int end = first + each < blocks ? first + each : blocks;
    float sum = 0;
    for (int b = first; c < p.cols && b < end; b++)
        sum = gpu_add(sum, sums[((int64_t)blockIdx.y * blocks + b) * p.cols + c]);
    shared[threadIdx.x] = sum;
    __syncthreads();
    if (part > 0 || c >= p.cols) return;
    for (int i = 1; i < GRAD_SUM_PARTS; i++) sum = gpu_add(sum, shared[i * GRAD_SUM_COLS + lane]);
    const bool accumulate = blockIdx.y == 0 ? p.accumulate_dgain : p.accumulate_dbias;
    to[c] = accumulate ? gpu_add(to[c], sum) : sum;
}

template <typename T, typename R>
static void grad_launch(const cuda_context *x, const kernel_norm_grad_args *p)
{
    const grad_shape s = grad_divide(p);
    float *sums = (float *)x->workspace;
    float2 *means = NULL;
    const bool own_means = p->dx && s.tiles == 1;
    if (p->dx && !own_means) {
        means = (float2 *)((char *)x->workspace + grad_sums_bytes(p));
        gpu_launch(x, "norm_grad", grad_means_kernel<T, R>, dim3((unsigned)p->rows),
                   dim3(GRAD_BLOCK), sizeof(grad_shared), *p, means);
    }
    const bool aligned = norm_is_aligned(p->dy, p->cols) && norm_is_aligned(p->x, p->cols) &&
                         norm_is_aligned(p->dx, p->cols) && gpu_is_aligned16(p->gain);
    norm_with_flag(aligned, [&](auto is_aligned) {
        norm_with_flag(own_means, [&](auto has_own) {
            gpu_launch(x, "norm_grad",
                       grad_kernel<T, R, decltype(is_aligned)::value, decltype(has_own)::value>,
                       dim3((unsigned)s.blocks, (unsigned)s.tiles), dim3(GRAD_BLOCK),
                       grad_shared_bytes(s), *p, s, sums, means);
        });
    });
    if (!p->dgain && !p->dbias) return;
    const int64_t columns = (p->cols + GRAD_SUM_COLS - 1) / GRAD_SUM_COLS;
    gpu_launch(x, "norm_grad", grad_sum_kernel, dim3((unsigned)columns, 2),
               dim3(GRAD_SUM_COLS * GRAD_SUM_PARTS), sizeof(float) * GRAD_SUM_COLS * GRAD_SUM_PARTS,
               *p, sums, s.blocks);
}

extern "C" void cuda_norm_grad(const cuda_context *x, const void *args)
{
    const kernel_norm_grad_args *p = (const kernel_norm_grad_args *)args;
    if (p->cols <= 0) return;
    gpu_with_residual(p->type, p->residual_fp32, [&](auto type, auto residual) {
        grad_launch<decltype(type), decltype(residual)>(x, p);
    });
}
