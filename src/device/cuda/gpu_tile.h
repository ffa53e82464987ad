// gpu_tile.h -- tiles of 16-bit matrices in shared memory, as tensor cores read them. A tile has ROWS rows
// of D elements. Its chunks of 8 elements (16 bytes) are permuted within each row, so that eight rows of
// one column of chunks lie in different banks. The attention kernels use it. It knows nothing of attention.
//
// A warp multiplies fragments (gpu_cuda.h says who holds what). `lane` is the number of a thread in its warp.
#ifndef TRIREME_DEVICE_CUDA_GPU_TILE_H
#define TRIREME_DEVICE_CUDA_GPU_TILE_H

#include "device/cuda/gpu.h"

constexpr int TILE_CHUNK = 8; // elements of 16 bytes

// Offset in elements of chunk `chunk` of row `row`.
template <int D> static __device__ inline int tile_offset(int row, int chunk)
{
    static_assert(D % 32 == 0, "rows are whole numbers of 64 bytes");
    const int turn = D % 64 == 0 ? row & 7 : (row >> 1) & 3;
    return row * D + (chunk ^ turn) * TILE_CHUNK;
}

// A matrix in device memory. Its rows are aligned to 16 bytes, and stride and cols are multiples of 8.
struct tile_source {
    const uint16_t *from; // row 0
    int64_t stride;       // elements from one row to the next
    int cols;
};

static __device__ inline tile_source tile_from(const void *p, int64_t offset, int64_t stride,
                                               int64_t cols)
{
    return {static_cast<const uint16_t *>(p) + offset, stride, (int)cols};
}

// Starts copies of rows row0 … row0+ROWS-1 of the matrix by all THREADS threads of the block. Rows from
// `rows` on, and columns from its `cols` on, become zero. `any` is an address in device memory that is
// readable.
template <int ROWS, int D, int THREADS>
static __device__ inline void tile_copy(uint16_t *tile, const tile_source &s, int row0, int rows,
                                        const void *any)
{
    // A step copies STEP rows. It is a multiple of 8, so that a thread's chunk moves by whole rows.
    constexpr int CHUNKS = D / TILE_CHUNK, STEP = THREADS / CHUNKS / 8 * 8;
    static_assert(ROWS % STEP == 0, "every step copies as many rows");
    const int thread = gpu_opaque((int)threadIdx.x), row = thread / CHUNKS, chunk = thread % CHUNKS;
    if (STEP * CHUNKS < THREADS && row >= STEP) return;
    const int left = chunk * TILE_CHUNK < s.cols ? rows - row0 - row : 0;
    const uint16_t *from = s.from + (row0 + row) * s.stride + chunk * TILE_CHUNK;
    uint16_t *to = tile + tile_offset<D>(row, chunk);
    GPU_UNROLL
    for (int i = 0; i < ROWS; i += STEP) {
        gpu_copy16(to + i * D, i < left ? from : any, i < left);
        from += STEP * s.stride;
    }
}

// The fragment a of rows row0 … row0+15 and columns 16 k … 16 k + 15.
template <int D>
static __device__ inline void tile_a(uint32_t a[4], const uint16_t *tile, int row0, int k, int lane)
{
    gpu_ldmatrix(a, tile + tile_offset<D>(row0 + (lane & 15), 2 * k + (lane >> 4)));
}

// Two fragments b, of columns n0 … n0+7 (b[0], b[1]) and the next 8 (b[2], b[3]), of a matrix whose
// transpose is the tile: column n of the matrix is row n of the tile. Its rows are 16 k … 16 k + 15.
template <int D>
static __device__ inline void tile_b(uint32_t b[4], const uint16_t *tile, int n0, int k, int lane)
{
    const int row = n0 + ((lane >> 4) << 3) + (lane & 7);
    gpu_ldmatrix(b, tile + tile_offset<D>(row, 2 * k + ((lane >> 3) & 1)));
}

// Two fragments b, of columns 16 n … 16 n + 7 and the next 8, of rows row0 … row0+15 of the tile.
template <int D>
static __device__ inline void tile_b_rows(uint32_t b[4], const uint16_t *tile, int row0, int n,
                                          int lane)
{
    gpu_ldmatrix_transposed(b, tile + tile_offset<D>(row0 + (lane & 15), 2 * n + (lane >> 4)));
}

// The element type that chooses the instruction is the first argument.
static __device__ inline void tile_mma(gpu_bf16, float d[4], const uint32_t a[4],
                                       const uint32_t b[2])
{
    gpu_mma_bf16(d, a, b);
}
static __device__ inline void tile_mma(gpu_f16, float d[4], const uint32_t a[4],
                                       const uint32_t b[2])
{
    gpu_mma_f16(d, a, b);
}
static __device__ inline uint32_t tile_pair(gpu_bf16, float low, float high)
{
    return gpu_pair_bf16(low, high);
}
static __device__ inline uint32_t tile_pair(gpu_f16, float low, float high)
{
    return gpu_pair_f16(low, high);
}

// The sums d of two neighbouring products [16, 8], rounded: the fragment a of their 16 columns.
template <typename T>
static __device__ inline void tile_round(uint32_t a[4], const float left[4], const float right[4])
{
    a[0] = tile_pair(T(), left[0], left[1]);
    a[1] = tile_pair(T(), left[2], left[3]);
    a[2] = tile_pair(T(), right[0], right[1]);
    a[3] = tile_pair(T(), right[2], right[3]);
}

// Writes sums d [D/8][4] of rows row0 … row0+15, times `low` for rows row0 … row0+7 and times `high` for
// the others, to the tile. No other warp reads these rows.
template <typename T, int D>
static __device__ inline void tile_put(uint16_t *tile, int row0, const float (*d)[4], float low,
                                       float high, int lane)
{
    const int row = row0 + lane / 4, col = 2 * (lane % 4);
    GPU_UNROLL
    for (int n = 0; n < D / 8; n++) {
        *reinterpret_cast<uint32_t *>(tile + tile_offset<D>(row, n) + col) =
            tile_pair(T(), d[n][0] * low, d[n][1] * low);
        *reinterpret_cast<uint32_t *>(tile + tile_offset<D>(row + 8, n) + col) =
            tile_pair(T(), d[n][2] * high, d[n][3] * high);
    }
}

// Writes rows row0 … row0+ROWS-1 of the tile to device memory, row i to `to` + i * stride, where
// i < rows, and the first `cols` columns of each. One warp does it.
template <int ROWS, int D>
static __device__ inline void tile_store(uint16_t *to, int64_t stride, const uint16_t *tile,
                                         int row0, int rows, int cols, int lane)
{
    constexpr int CHUNKS = D / TILE_CHUNK;
    for (int i = lane; i < ROWS * CHUNKS; i += GPU_WARP) {
        const int row = row0 + i / CHUNKS, chunk = i % CHUNKS;
        if (row < rows && chunk * TILE_CHUNK < cols)
            *reinterpret_cast<uint4 *>(to + row * stride + chunk * TILE_CHUNK) =
                *reinterpret_cast<const uint4 *>(tile + tile_offset<D>(row, chunk));
    }
}

#endif
