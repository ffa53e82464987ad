// vec_tile.h -- tiles: small dense fp32 matrices in scratch memory that fit in the nearest caches.
//
// Fused attention and the matrix products are built from them. It multiplies tiles, and packs
// strided rows of any type into them. Rows of a tile are padded to a multiple of VL floats.
#ifndef TRIREME_DEVICE_CPU_VEC_TILE_H
#define TRIREME_DEVICE_CPU_VEC_TILE_H

#include "device/cpu/vec.h"

// The order in which the left matrix of a product is stored: [m, k] by row, or [k, m] by column.
typedef enum vec_tile_order { TILE_BY_ROW, TILE_BY_COLUMN } vec_tile_order;

// c [m, n] = a [m, k] · b [k, n] (+ c when `add`). n is a multiple of VL.
typedef struct vec_tile_product {
    int64_t m, n, k;
    const float *a, *b;
    float *c;
    int64_t lda, ldb, ldc; // floats between stored rows
    vec_tile_order order;
    bool add;
} vec_tile_product;

void VEC(tile_multiply)(const vec_tile_product *p);

// dst [rows, width] = scale * src [rows, cols]. Zeros fill the last vector of each row. src has
// `stride` elements from row to row. width is a multiple of VL.
void VEC(tile_pack)(float *dst, int64_t width, const void *src, int64_t stride, int64_t rows,
                    int64_t cols, float scale, dtype type);

// dst [cols, width] = src [rows, cols] transposed, with zeros in columns rows … width-1. src has
// `stride` elements from row to row. width is a multiple of VL.
void VEC(tile_pack_transposed)(float *dst, int64_t width, const void *src, int64_t stride,
                               int64_t rows, int64_t cols, dtype type);

// dst [rows, cols] = scale * src [rows, width]. dst has `stride` elements from row to row.
void VEC(tile_unpack)(void *dst, int64_t stride, const float *src, int64_t width, int64_t rows,
                      int64_t cols, float scale, dtype type);

#endif
