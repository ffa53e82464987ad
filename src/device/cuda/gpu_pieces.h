// gpu_pieces.h -- how one launch works on segments of very different sizes (kernel_segment.h): each segment
// is divided into pieces that depend on its own count only, and each block takes one piece. The host knows
// the count of all segments together, and so how many pieces there can be; a block finds its own piece in
// the table. Sums of pieces are added in their order. It knows no kernel.
#ifndef TRIREME_DEVICE_CUDA_GPU_PIECES_H
#define TRIREME_DEVICE_CUDA_GPU_PIECES_H

#include "device/cuda/gpu_vector.h"

// The shift where pieces have sums: at most GPU_SUM_PIECES for a segment, so that few threads add them.
static __host__ __device__ inline int gpu_sum_shift(int64_t count)
{
    int shift = GPU_SUM_SHIFT;
    while (((count - 1) >> shift) >= GPU_SUM_PIECES) shift++;
    return shift;
}

// A run of elements of segment number `segment`. count 0: there is no such piece.
struct gpu_piece {
    int64_t segment, first;
    int count;
    int64_t number; // of the piece within its segment
};

static __device__ inline gpu_piece gpu_piece_of(int64_t segment, int64_t count, int64_t number,
                                                int shift)
{
    const int64_t size = (int64_t)1 << shift, first = number << shift;
    const int64_t left = count - first;
    return {segment, first, (int)(left < 0 ? 0 : left < size ? left : size), number};
}

// Piece `number` of all segments in the order of the table. SHIFT(count) is the shift of a segment. Every
// lane of a warp calls it, and each gets the piece.
template <typename SHIFT>
static __device__ inline gpu_piece gpu_find_piece(const kernel_segment *segment, int64_t segments,
                                                  int64_t number, SHIFT shift)
{
    constexpr int EACH = 4; // segments of a lane at a time, so that their loads overlap
    const int lane = (int)threadIdx.x % GPU_WARP;
    for (int64_t base = 0; base < segments; base += GPU_WARP * EACH) {
        int64_t pieces[EACH], sum = 0;
        for (int e = 0; e < EACH; e++) {
            const int64_t s = base + lane * EACH + e;
            const int64_t count = s < segments ? segment[s].count : 0;
            sum += pieces[e] = gpu_piece_count(count, shift(count));
        }
        int64_t upto = sum;
        for (int offset = 1; offset < GPU_WARP; offset *= 2) {
            const int64_t before =
                __shfl_sync(GPU_ALL_LANES, upto, (lane - offset) & (GPU_WARP - 1));
            if (lane >= offset) upto += before;
        }
        const int64_t all = __shfl_sync(GPU_ALL_LANES, upto, GPU_WARP - 1);
        if (number >= all) {
            number -= all;
            continue;
        }
        int64_t index = 0, inside = 0, before = upto - sum;
        for (int e = 0; e < EACH; e++) {
            if (number >= before && number < before + pieces[e])
                index = base + lane * EACH + e, inside = number - before;
            before += pieces[e];
        }
        // One lane has found it, and the others add zeros.
        index = gpu_warp_sum(index), inside = gpu_warp_sum(inside);
        const int64_t count = segment[index].count;
        return gpu_piece_of(index, count, inside, shift(count));
    }
    return {0, 0, 0, 0};
}

// The sum of x[0] … x[count-1] over the lanes of a warp, on every lane: lane l adds l, l + 32, … in order.
static __device__ inline double gpu_warp_sum_of(const double *x, int64_t count)
{
    constexpr int AHEAD = 8;
    double sum = 0;
    for (int64_t i = threadIdx.x % GPU_WARP; i < count; i += GPU_WARP * AHEAD) {
        double next[AHEAD];
        for (int a = 0; a < AHEAD; a++)
            next[a] = i + a * GPU_WARP < count ? x[i + a * GPU_WARP] : 0;
        for (int a = 0; a < AHEAD; a++) sum += next[a];
    }
    return gpu_warp_sum(sum);
}

#endif
