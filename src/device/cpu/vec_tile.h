// vec_tile.h -- small dense fp32 matrices in scratch memory ("tiles"), the building blocks of fused
// attention: products of tiles that stay in the nearest caches, and packing of strided rows of any
// type into them. Rows of a tile are padded to a multiple of VL floats.
#ifndef TRIREME_DEVICE_CPU_VEC_TILE_H
#define TRIREME_DEVICE_CPU_VEC_TILE_H

#include "device/cpu/vec.h"

// How the left matrix of a product is stored.
typedef enum tile_order { TILE_BY_ROW, TILE_BY_COLUMN } tile_order;

// C[m,n] = A[m,k] B[k,n] (+ C when `add`). n is a multiple of VL; A by column is stored [k,m].
typedef struct tile_product {
    int64_t m, n, k;
    const float *a, *b;
    float *c;
    int64_t lda, ldb, ldc; // floats between stored rows
    tile_order order;
    bool add;
} tile_product;

void VEC(tile_multiply)(const tile_product *p);

// dst[r, c] = scale * src[r * stride + c] for c < cols, 0 up to the row length `width`, a multiple
// of VL.
void VEC(tile_pack)(float *dst, int64_t width, const void *src, int64_t stride, int64_t rows,
                    int64_t cols, float scale, dtype type);

// dst[c, r] = src[r * stride + c]: rows become columns. dst rows are `width` long, a multiple of
// VL; columns from `rows` on are 0.
void VEC(tile_pack_turned)(float *dst, int64_t width, const void *src, int64_t stride, int64_t rows,
                           int64_t cols, dtype type);

// The way back: dst[r * stride + c] = scale * src[r, c] for c < cols.
void VEC(tile_unpack)(void *dst, int64_t stride, const float *src, int64_t width, int64_t rows,
                      int64_t cols, float scale, dtype type);

#endif
