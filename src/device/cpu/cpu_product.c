// cpu_product.c -- products of any types in plain C, for CPUs below AVX2. Called by cpu_matmul.
//
// c is divided into fixed pieces, and a thread computes a piece alone. It packs blocks of a and b as F32
// into its scratch memory, so that the innermost loop reads both one after the other, and adds their
// products to an F32 piece. The piece becomes a part of c at the end. So every element is one sum in
// the order of k, whatever the number of threads.
#include "base/size.h"
#include "device/cpu/cpu_products.h"
#include "device/cpu/cpu_team.h"
#include "device/cpu/ref/ref.h"

#include <string.h>

enum {
    PIECE = 256, // rows and columns of c
    DEPTH = 256, // of k that is packed at once
    TILE_M = 4,  // rows and columns of a tile, whose sums stay in registers of 16 bytes
    TILE_N = 8,
    TILES_N = PIECE / TILE_N,
};

// Four floats that the compiler keeps in one register of any CPU with vectors of 16 bytes.
typedef float vec4 __attribute__((vector_size(16)));

// The scratch memory of a thread.
typedef struct product_scratch {
    float a[PIECE / TILE_M][DEPTH][TILE_M];
    float b[TILES_N][DEPTH][TILE_N];
    float c[PIECE][PIECE];
} product_scratch;

_Static_assert(sizeof(product_scratch) <= CPU_SCRATCH_BYTES, "the blocks of a piece fit");

// packed [along / tile][depth][tile] = the elements (i, l) of x, which has row i at i * to_row and l at
// l * to_l. The places of elements that x lacks are zeros.
static void pack(float *packed, int tile, const void *x, dtype type, int64_t first, int64_t along,
                 int64_t to_row, int64_t l0, int64_t depth, int64_t to_l)
{
    for (int64_t i = 0; i < size_ceil_div(along, tile) * tile; i++) {
        float *to = packed + i / tile * DEPTH * tile + i % tile;
        for (int64_t l = 0; l < depth; l++)
            to[l * tile] =
                i < along ? ref_load(x, (first + i) * to_row + (l0 + l) * to_l, type) : 0;
    }
}

// c [TILE_M, TILE_N] += a [depth, TILE_M]^T · b [depth, TILE_N]
static void multiply_tile(float (*c)[PIECE], const float (*a)[TILE_M], const float (*b)[TILE_N],
                          int64_t depth)
{
    vec4 sum[TILE_M][2];
    for (int i = 0; i < TILE_M; i++) memcpy(sum[i], c[i], sizeof sum[i]);
    for (int64_t l = 0; l < depth; l++) {
        vec4 row[2];
        memcpy(row, b[l], sizeof row);
        for (int i = 0; i < TILE_M; i++) {
            sum[i][0] += a[l][i] * row[0];
            sum[i][1] += a[l][i] * row[1];
        }
    }
    for (int i = 0; i < TILE_M; i++) memcpy(c[i], sum[i], sizeof sum[i]);
}

static void multiply_packed(product_scratch *s, int64_t rows, int64_t cols, int64_t depth)
{
    for (int64_t j = 0; j < size_ceil_div(cols, TILE_N); j++)
        for (int64_t i = 0; i < size_ceil_div(rows, TILE_M); i++)
            multiply_tile((float(*)[PIECE])(&s->c[i * TILE_M][j * TILE_N]),
                          (const float(*)[TILE_M])s->a[i], (const float(*)[TILE_N])s->b[j], depth);
}

// The part of the sums at (row, col) = the piece (+ bias) (+ c)
static void store_piece(const product_scratch *s, const kernel_matmul_args *p, int64_t row,
                        int64_t rows, int64_t col, int64_t cols)
{
    void *c = kernel_matmul_sums(p);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++) {
            const int64_t at = (row + i) * p->ldc + col + j;
            float sum = s->c[i][j];
            if (p->bias) sum += ref_load(p->bias, col + j, p->type);
            if (p->accumulate) sum += ref_load(c, at, p->c_type);
            ref_store(c, at, p->c_type, sum);
        }
    }
}

// A product, and the context of its scratch memory.
typedef struct product_work {
    const cpu_context *x;
    const kernel_matmul_args *p;
    int64_t down; // pieces from the top of c to its bottom
} product_work;

static void multiply_piece(const void *arg, int64_t item, int thread)
{
    const product_work *w = arg;
    const kernel_matmul_args *p = w->p;
    product_scratch *s = cpu_scratch(w->x, thread);
    const int64_t row = item % w->down * PIECE, col = item / w->down * PIECE;
    const int64_t rows = size_min(PIECE, p->m - row), cols = size_min(PIECE, p->n - col);
    memset(s->c, 0, sizeof s->c);
    for (int64_t l = 0; l < p->k; l += DEPTH) {
        const int64_t depth = size_min(DEPTH, p->k - l);
        pack(s->a[0][0], TILE_M, p->a, p->type, row, rows, p->trans_a ? 1 : p->lda, l, depth,
             p->trans_a ? p->lda : 1);
        pack(s->b[0][0], TILE_N, p->b, p->type, col, cols, p->trans_b ? p->ldb : 1, l, depth,
             p->trans_b ? 1 : p->ldb);
        multiply_packed(s, rows, cols, depth);
    }
    store_piece(s, p, row, rows, col, cols);
    cpu_epilogue(w->x, p, row, rows, col, cols);
}

void cpu_product(const cpu_context *x, const kernel_matmul_args *p)
{
    const product_work w = {x, p, size_ceil_div(p->m, PIECE)};
    cpu_team_run(x->team, w.down * size_ceil_div(p->n, PIECE), multiply_piece, &w);
}
