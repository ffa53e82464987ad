// vec_tile.c -- products of small fp32 matrices by register blocks, and packing. Called by the
// attention kernels and by vec_product.c. A register block is up to TILE_ROWS x TILE_VECTORS
// vectors of sums. For each step of k it loads TILE_VECTORS vectors of a row of b, and multiplies
// them by one broadcast element per row of a.
#include "device/cpu/vec_tile.h"

enum {
    TILE_ROWS = 6,
    TILE_VECTORS = VEC_BYTES == 64 ? 4 : 2, // 24 or 12 sums, within 32 or 16 registers
};

typedef void (*vec_tile_block)(int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                               float *c, int64_t ldc, bool add);

VEC_INLINE void block(int rows, int vectors, vec_tile_order order, int64_t k, const float *a,
                      int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc, bool add)
{
    vf sum[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++)
            sum[i][j] = add ? v_load(c + i * ldc, j * VL, F32) : v_zero();
    }
    for (; k > 0; k--) {
        vf right[TILE_VECTORS];
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) right[j] = v_load(b, j * VL, F32);
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            vf left = v_set(order == TILE_BY_ROW ? a[i * lda] : a[i]);
#pragma GCC unroll 4
            for (int j = 0; j < vectors; j++) sum[i][j] += left * right[j];
        }
        a += order == TILE_BY_ROW ? 1 : lda;
        b += ldb;
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) v_store(c + i * ldc, j * VL, F32, sum[i][j]);
    }
}

#define BLOCK(name, rows, vectors, order)                                                          \
    static void name(int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,          \
                     float *c, int64_t ldc, bool add)                                              \
    {                                                                                              \
        block(rows, vectors, order, k, a, lda, b, ldb, c, ldc, add);                               \
    }
#define BLOCKS(vectors)                                                                            \
    BLOCK(rows_1_##vectors, 1, vectors, TILE_BY_ROW)                                               \
    BLOCK(rows_2_##vectors, 2, vectors, TILE_BY_ROW)                                               \
    BLOCK(rows_3_##vectors, 3, vectors, TILE_BY_ROW)                                               \
    BLOCK(rows_4_##vectors, 4, vectors, TILE_BY_ROW)                                               \
    BLOCK(rows_5_##vectors, 5, vectors, TILE_BY_ROW)                                               \
    BLOCK(rows_6_##vectors, 6, vectors, TILE_BY_ROW)                                               \
    BLOCK(columns_1_##vectors, 1, vectors, TILE_BY_COLUMN)                                         \
    BLOCK(columns_2_##vectors, 2, vectors, TILE_BY_COLUMN)                                         \
    BLOCK(columns_3_##vectors, 3, vectors, TILE_BY_COLUMN)                                         \
    BLOCK(columns_4_##vectors, 4, vectors, TILE_BY_COLUMN)                                         \
    BLOCK(columns_5_##vectors, 5, vectors, TILE_BY_COLUMN)                                         \
    BLOCK(columns_6_##vectors, 6, vectors, TILE_BY_COLUMN)
#define BLOCK_ROW(order, vectors)                                                                  \
    {                                                                                              \
        order##_1_##vectors, order##_2_##vectors, order##_3_##vectors, order##_4_##vectors,        \
            order##_5_##vectors, order##_6_##vectors                                               \
    }

BLOCKS(1)
BLOCKS(2)
#if VEC_BYTES == 64
BLOCKS(3)
BLOCKS(4)
#endif

// [order][vectors - 1][rows - 1]
static const vec_tile_block blocks[2][TILE_VECTORS][TILE_ROWS] = {
#if VEC_BYTES == 64
    {BLOCK_ROW(rows, 1), BLOCK_ROW(rows, 2), BLOCK_ROW(rows, 3), BLOCK_ROW(rows, 4)},
    {BLOCK_ROW(columns, 1), BLOCK_ROW(columns, 2), BLOCK_ROW(columns, 3), BLOCK_ROW(columns, 4)},
#else
    {BLOCK_ROW(rows, 1), BLOCK_ROW(rows, 2)},
    {BLOCK_ROW(columns, 1), BLOCK_ROW(columns, 2)},
#endif
};

void VEC(tile_multiply)(const vec_tile_product *p)
{
    int64_t vectors = p->n / VL, step = p->order == TILE_BY_ROW ? p->lda : 1;
    for (int64_t first = 0; first < vectors;) {
        // Pieces of equal size: five vectors are taken as 3 + 2, not as 4 + 1.
        int64_t left = vectors - first, pieces = size_ceil_div(left, TILE_VECTORS);
        int64_t take = size_ceil_div(left, pieces);
        for (int64_t i = 0; i < p->m; i += TILE_ROWS) {
            int64_t rows = size_min(p->m - i, TILE_ROWS);
            blocks[p->order][take - 1][rows - 1](p->k, p->a + i * step, p->lda, p->b + first * VL,
                                                 p->ldb, p->c + i * p->ldc + first * VL, p->ldc,
                                                 p->add);
        }
        first += take;
    }
}

VEC_INLINE void pack(float *dst, int64_t width, const void *src, int64_t stride, int64_t rows,
                     int64_t cols, float scale, dtype type)
{
    for (int64_t r = 0; r < rows; r++, dst += width) {
        const void *row = vec_at(src, r * stride, type);
#define PACK(c, n) v_store(dst, c, F32, v_load_n(row, c, n, type) * v_set(scale))
        V_EACH(c, 0, cols, PACK);
#undef PACK
    }
}

void VEC(tile_pack)(float *dst, int64_t width, const void *src, int64_t stride, int64_t rows,
                    int64_t cols, float scale, dtype type)
{
#define CALL(type) pack(dst, width, src, stride, rows, cols, scale, type)
    V_BY_TYPE(type, CALL);
#undef CALL
}

// Interleaves the lanes of a and b: those of the lower lanes of both, and those of the upper lanes.
VEC_INLINE void zip(vf a, vf b, vf *low, vf *high)
{
#if VEC_BYTES == 64
    const vi first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const vi second =
        _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    *low = _mm512_permutex2var_ps(a, first, b);
    *high = _mm512_permutex2var_ps(a, second, b);
#else
    vf even = _mm256_unpacklo_ps(a, b), odd = _mm256_unpackhi_ps(a, b);
    *low = _mm256_permute2f128_ps(even, odd, 0x20);
    *high = _mm256_permute2f128_ps(even, odd, 0x31);
#endif
}

// Transposes a VL x VL square by log2(VL) rounds of perfect shuffles.
VEC_INLINE void transpose(vf square[VL])
{
#pragma GCC unroll 4
    for (int round = 1; round < VL; round *= 2) {
        vf next[VL];
#pragma GCC unroll 8
        for (int i = 0; i < VL / 2; i++)
            zip(square[i], square[i + VL / 2], &next[2 * i], &next[2 * i + 1]);
#pragma GCC unroll 16
        for (int i = 0; i < VL; i++) square[i] = next[i];
    }
}

VEC_INLINE void pack_transposed(float *dst, int64_t width, const void *src, int64_t stride,
                                int64_t rows, int64_t cols, dtype type)
{
    for (int64_t r = 0; r < width; r += VL) {
        int64_t have = size_min(rows - r, VL);
        for (int64_t c = 0; c < cols; c += VL) {
            int64_t lanes = size_min(cols - c, VL);
            vf square[VL];
            if (have == VL && lanes == VL) {
#pragma GCC unroll 16
                for (int i = 0; i < VL; i++) square[i] = v_load(src, (r + i) * stride + c, type);
            } else {
                for (int i = 0; i < VL; i++)
                    square[i] =
                        i < have ? v_load_n(src, (r + i) * stride + c, lanes, type) : v_zero();
            }
            transpose(square);
            for (int64_t i = 0; i < lanes; i++) v_store(dst + (c + i) * width, r, F32, square[i]);
        }
    }
}

void VEC(tile_pack_transposed)(float *dst, int64_t width, const void *src, int64_t stride,
                               int64_t rows, int64_t cols, dtype type)
{
#define CALL(type) pack_transposed(dst, width, src, stride, rows, cols, type)
    V_BY_TYPE(type, CALL);
#undef CALL
}

VEC_INLINE void unpack(void *dst, int64_t stride, const float *src, int64_t width, int64_t rows,
                       int64_t cols, float scale, dtype type)
{
    for (int64_t r = 0; r < rows; r++, src += width) {
        void *row = vec_at(dst, r * stride, type);
#define UNPACK(c, n) v_store_n(row, c, n, type, v_load(src, c, F32) * v_set(scale))
        V_EACH(c, 0, cols, UNPACK);
#undef UNPACK
    }
}

void VEC(tile_unpack)(void *dst, int64_t stride, const float *src, int64_t width, int64_t rows,
                      int64_t cols, float scale, dtype type)
{
#define CALL(type) unpack(dst, stride, src, width, rows, cols, scale, type)
    V_BY_TYPE(type, CALL);
#undef CALL
}
