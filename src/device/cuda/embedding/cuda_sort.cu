// cuda_sort.cu -- a stable sort of the rows of a batch by their ids, for the gradient of token embeddings.
// It is a radix sort from the lowest digit. Each pass has two launches. The first counts the digits in each
// tile of rows. The second gives each row its place: the rows with a lower digit come first, then those of
// the same digit in earlier tiles, in earlier warps and in earlier lanes. Only integers are counted, so the
// order does not depend on which block runs first.
#include "device/cuda/embedding/cuda_embedding.h"

constexpr int SORT_WARPS = SORT_THREADS / GPU_WARP;

// One pass: from `key` and `row` to `out_key` and `out_row`. In the first pass `key` is NULL, and the ids are
// read.
struct sort_pass {
    cuda_sort_call call;
    const int32_t *key, *row;
    int32_t *out_key, *out_row;
    int32_t *counts; // [tiles, SORT_DIGITS]
    int shift;
};

static __device__ inline int32_t sort_key(const sort_pass &p, int64_t i)
{
    if (p.key) return p.key[i];
    const int64_t id = p.call.ids[i] - p.call.first;
    return (int32_t)(id >= 0 && id < p.call.vocab ? id : p.call.vocab);
}

static __device__ inline int sort_digit(const sort_pass &p, int32_t key)
{
    return (key >> p.shift) & (SORT_DIGITS - 1);
}

// Row number `round` of this thread in the block's tile. A warp has consecutive rows.
static __device__ inline int64_t sort_index(int round)
{
    const int warp = (int)threadIdx.x / GPU_WARP, lane = (int)threadIdx.x % GPU_WARP;
    return (int64_t)blockIdx.x * SORT_TILE + (warp * SORT_ROUNDS + round) * GPU_WARP + lane;
}

struct sort_count_shared {
    int32_t count[SORT_DIGITS];
};

static __global__ __launch_bounds__(SORT_THREADS) void sort_count_kernel(sort_pass p)
{
    sort_count_shared *shared = gpu_shared<sort_count_shared>();
    shared->count[threadIdx.x] = 0;
    __syncthreads();
    for (int k = 0; k < SORT_ROUNDS; k++) {
        const int64_t i = sort_index(k);
        if (i < p.call.rows) atomicAdd(&shared->count[sort_digit(p, sort_key(p, i))], 1);
    }
    __syncthreads();
    p.counts[(int64_t)blockIdx.x * SORT_DIGITS + threadIdx.x] = shared->count[threadIdx.x];
}

struct sort_shared {
    int32_t count[SORT_WARPS][SORT_DIGITS]; // of each warp, later its first place
    int32_t warp_total[SORT_WARPS];
};

static __device__ inline int count_bits(uint32_t x)
{
    x -= (x >> 1) & 0x55555555u;
    x = (x & 0x33333333u) + ((x >> 2) & 0x33333333u);
    return (int)((((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u) >> 24);
}

// The sum of x over the threads before this one.
static __device__ inline int32_t sum_before(int32_t x, int32_t *warp_total)
{
    const int warp = (int)threadIdx.x / GPU_WARP, lane = (int)threadIdx.x % GPU_WARP;
    int32_t upto = x;
    for (int offset = 1; offset < GPU_WARP; offset *= 2) {
        const int32_t before = __shfl_sync(GPU_ALL_LANES, upto, (lane - offset) & (GPU_WARP - 1));
        if (lane >= offset) upto += before;
    }
    if (lane == GPU_WARP - 1) warp_total[warp] = upto;
    __syncthreads();
    int32_t sum = upto - x;
    for (int w = 0; w < warp; w++) sum += warp_total[w];
    return sum;
}

// The place of the first row of this block's tile whose digit is the thread's number.
static __device__ inline int32_t first_position(const sort_pass &p, sort_shared *shared)
{
    int32_t total = 0, earlier = 0;
#pragma unroll 8
    for (unsigned tile = 0; tile < gridDim.x; tile++) {
        const int32_t count = p.counts[(int64_t)tile * SORT_DIGITS + threadIdx.x];
        total += count;
        if (tile < blockIdx.x) earlier += count;
    }
    return sum_before(total, shared->warp_total) + earlier;
}

// The lanes whose row is valid and has the same digit as this lane's.
static __device__ inline uint32_t lanes_of_digit(int digit, bool valid)
{
    uint32_t lanes = __ballot_sync(GPU_ALL_LANES, valid);
    for (int b = 0; b < SORT_BITS; b++) {
        const uint32_t set = __ballot_sync(GPU_ALL_LANES, (digit >> b) & 1);
        lanes &= (digit >> b) & 1 ? set : ~set;
    }
    return lanes;
}

static __global__ __launch_bounds__(SORT_THREADS) void sort_place_kernel(sort_pass p)
{
    sort_shared *shared = gpu_shared<sort_shared>();
    const int warp = (int)threadIdx.x / GPU_WARP, lane = (int)threadIdx.x % GPU_WARP;
    int32_t key[SORT_ROUNDS], rank[SORT_ROUNDS]; // among the rows of the warp with this digit
    for (int w = 0; w < SORT_WARPS; w++) shared->count[w][threadIdx.x] = 0;
    __syncthreads();
    GPU_UNROLL
    for (int k = 0; k < SORT_ROUNDS; k++) {
        const bool valid = sort_index(k) < p.call.rows;
        key[k] = valid ? sort_key(p, sort_index(k)) : 0;
        const int digit = sort_digit(p, key[k]);
        const uint32_t lanes = lanes_of_digit(digit, valid), lower = lanes & ((1u << lane) - 1);
        const int32_t before = shared->count[warp][digit];
        rank[k] = before + count_bits(lower);
        __syncwarp();
        if (valid && lower == 0) shared->count[warp][digit] = before + count_bits(lanes);
        __syncwarp();
    }
    int32_t position = first_position(p, shared); // after its barrier the warps have counted
    for (int w = 0; w < SORT_WARPS; w++) {
        const int32_t count = shared->count[w][threadIdx.x];
        shared->count[w][threadIdx.x] = position;
        position += count;
    }
    __syncthreads();
    GPU_UNROLL
    for (int k = 0; k < SORT_ROUNDS; k++) {
        const int64_t i = sort_index(k);
        if (i >= p.call.rows) continue;
        const int32_t to = shared->count[warp][sort_digit(p, key[k])] + rank[k];
        p.out_key[to] = key[k];
        p.out_row[to] = p.row ? p.row[i] : (int32_t)i;
    }
}

cuda_sorted cuda_sort_rows(const cuda_context *x, const cuda_sort_call &c, void *workspace)
{
    int32_t *memory = (int32_t *)workspace, *to = memory, *other = memory + 2 * c.rows;
    sort_pass p = {c, nullptr, nullptr, nullptr, nullptr, memory + 4 * c.rows, 0};
    const dim3 grid((unsigned)sort_tiles(c.rows)), block(SORT_THREADS);
    do {
        p.out_key = to, p.out_row = to + c.rows;
        gpu_launch(x, "embedding_grad", sort_count_kernel, grid, block, sizeof(sort_count_shared),
                   p);
        gpu_launch(x, "embedding_grad", sort_place_kernel, grid, block, sizeof(sort_shared), p);
        p.key = p.out_key, p.row = p.out_row;
        to = other, other = p.out_key;
        p.shift += SORT_BITS;
    } while (c.vocab >> p.shift > 0);
    return {p.key, p.row};
}
