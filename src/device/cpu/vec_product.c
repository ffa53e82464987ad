// vec_product.c -- vector form of matrix products, in fp32, from F32, BF16 or F16 operands. Called
// by cpu_matmul.
//
// c is divided into blocks. For each block, a and b are packed slice by slice, DEPTH of k at a
// time, and converted to fp32 in scratch memory: b as panels as wide as a register block, a as
// strips of rows. The sum of an element runs over k in one order, so results depend neither on
// threads nor on where a block begins.
#include "device/cpu/cpu_products.h"
#include "device/cpu/cpu_team.h"
#include "device/cpu/vec_tile.h"

enum {
    PANEL = VEC_BYTES == 64 ? 64 : 16, // columns of a register block of vec_tile.c
    DEPTH = 384,                       // of k in a slice
    STRIP = 96,                        // rows of a that are packed at a time
    ROWS = 6,                          // of a register block
    BLOCK = 768,                       // rows and columns of a block of c
    MIN_COLS = 192,                    // a thread gets at least so many columns
    WORTH = 1 << 18,                   // multiply-adds for which it pays to wake a thread
};

// A block of c, and the scratch memory of the thread that computes it.
typedef struct vec_block {
    const cpu_context *x;
    const kernel_matmul_args *p;
    int64_t row, rows, col, cols;
    float *a;    // one strip of a: [rows, DEPTH], or [depth, STRIP] with trans_a
    float *b;    // one slice of b: panels of [depth, PANEL]
    float *edge; // [STRIP, PANEL]: the last panel of c when its width is no multiple of VL
    float *c;    // [rows, BLOCK]: the fp32 sums when c is of a 16-bit type
} vec_block;

static bool is_narrow(const vec_block *k)
{
    return k->p->c_type != F32;
}

static void *block_of_c(const vec_block *k)
{
    return vec_at(kernel_matmul_sums(k->p), k->row * k->p->ldc + k->col, k->p->c_type);
}

// The fp32 sums of the block, and the number of floats from row to row: c itself, or scratch
// memory.
static float *sums_of(const vec_block *k, int64_t *stride)
{
    *stride = is_narrow(k) ? BLOCK : k->p->ldc;
    return is_narrow(k) ? k->c : block_of_c(k);
}

VEC_INLINE void add_bias(float *row, const void *bias, int64_t col, int64_t cols, bool add,
                         dtype type)
{
#define ADD_BIAS(c, n)                                                                             \
    v_store_n(row, c, n, F32,                                                                      \
              v_load_n(bias, col + c, n, type) + (add ? v_load_n(row, c, n, F32) : v_zero()))
    V_EACH(c, 0, cols, ADD_BIAS);
#undef ADD_BIAS
}

// Sets the sums to bias (+ c). Returns false, and writes nothing, when there is neither bias nor c
// to add.
static bool begin(const vec_block *k)
{
    const kernel_matmul_args *p = k->p;
    int64_t stride;
    float *row = sums_of(k, &stride);
    if (is_narrow(k) && p->accumulate)
        VEC(tile_pack)(row, stride, block_of_c(k), p->ldc, k->rows, k->cols, 1, p->c_type);
    for (int64_t r = 0; p->bias && r < k->rows; r++, row += stride) {
#define CALL(type) add_bias(row, p->bias, k->col, k->cols, p->accumulate, type)
        V_BY_TYPE(p->type, CALL);
#undef CALL
    }
    return p->accumulate || p->bias;
}

// Packs row by row, over all panels at a time, so memory is read in its order.
VEC_INLINE void pack_rows(const vec_block *k, int64_t l, int64_t depth, dtype type)
{
    for (int64_t d = 0; d < depth; d++) {
        const void *row = vec_at(k->p->b, (l + d) * k->p->ldb + k->col, type);
        float *to = k->b + d * PANEL;
        int64_t j = 0;
        for (; j + PANEL <= k->cols; j += PANEL) {
#pragma GCC unroll 4
            for (int64_t c = 0; c < PANEL; c += VL)
                v_store(to + j * DEPTH, c, F32, v_load(row, j + c, type));
        }
#define PACK(c, n) v_store(to + j * DEPTH, c - j, F32, v_load_n(row, c, n, type))
        V_EACH(c, j, k->cols, PACK);
#undef PACK
    }
}

static void pack_b(const vec_block *k, int64_t l, int64_t depth)
{
    const kernel_matmul_args *p = k->p;
    for (int64_t j = 0; j < k->cols; j += PANEL) {
        int64_t cols = size_min(PANEL, k->cols - j), col = k->col + j;
        float *to = k->b + j * DEPTH;
        if (p->trans_b) {
            const void *from = vec_at(p->b, col * p->ldb + l, p->type);
            VEC(tile_pack_transposed)(to, PANEL, from, p->ldb, cols, depth, p->type);
        }
    }
#define CALL(type) pack_rows(k, l, depth, type)
    if (!p->trans_b) V_BY_TYPE(p->type, CALL);
#undef CALL
}

static void pack_a(const vec_block *k, int64_t i, int64_t rows, int64_t l, int64_t depth)
{
    const kernel_matmul_args *p = k->p;
    int64_t row = k->row + i;
    if (p->trans_a) {
        const void *from = vec_at(p->a, l * p->lda + row, p->type);
        VEC(tile_pack)(k->a, STRIP, from, p->lda, depth, rows, 1, p->type);
    } else {
        const void *from = vec_at(p->a, row * p->lda + l, p->type);
        VEC(tile_pack)(k->a, DEPTH, from, p->lda, rows, depth, 1, p->type);
    }
}

// Multiplies the packed strip, rows i … i+rows-1 of the block, by every packed panel of b.
static void multiply_strip(const vec_block *k, int64_t i, int64_t rows, int64_t depth, bool add)
{
    bool by_column = k->p->trans_a;
    int64_t stride;
    float *c = sums_of(k, &stride) + i * stride;
    vec_tile_product t = {.m = rows,
                          .k = depth,
                          .a = k->a,
                          .lda = by_column ? STRIP : DEPTH,
                          .ldb = PANEL,
                          .order = by_column ? TILE_BY_COLUMN : TILE_BY_ROW,
                          .add = add};
    for (int64_t j = 0; j < k->cols; j += PANEL) {
        int64_t cols = size_min(PANEL, k->cols - j);
        bool ragged = cols % VL != 0 && !is_narrow(k);
        t.b = k->b + j * DEPTH;
        t.n = size_ceil_div(cols, VL) * VL;
        t.c = ragged ? k->edge : c + j;
        t.ldc = ragged ? PANEL : stride;
        if (ragged && add) VEC(tile_pack)(k->edge, PANEL, c + j, stride, rows, cols, 1, F32);
        VEC(tile_multiply)(&t);
        if (ragged) VEC(tile_unpack)(c + j, stride, k->edge, PANEL, rows, cols, 1, F32);
    }
}

// Writes rows i … i+rows-1 of the block from their complete sums.
static void finish_strip(const vec_block *k, int64_t i, int64_t rows)
{
    const kernel_matmul_args *p = k->p;
    if (is_narrow(k)) VEC(tile_unpack)
    (vec_at(block_of_c(k), i * p->ldc, p->c_type), p->ldc, k->c + i * BLOCK, BLOCK, rows, k->cols,
     1, p->c_type);
    cpu_epilogue(k->x, p, k->row + i, rows, k->col, k->cols);
}

static void multiply_block(const vec_block *k)
{
    const kernel_matmul_args *p = k->p;
    bool add = begin(k);
    for (int64_t l = 0; l < p->k; l += DEPTH, add = true) {
        int64_t depth = size_min(DEPTH, p->k - l);
        pack_b(k, l, depth);
        for (int64_t i = 0; i < k->rows; i += STRIP) {
            int64_t rows = size_min(STRIP, k->rows - i);
            pack_a(k, i, rows, l, depth);
            multiply_strip(k, i, rows, depth, add);
            if (l + depth == p->k) finish_strip(k, i, rows);
        }
    }
}

// Returns the start of piece `piece` of `pieces` equal pieces of n, at a multiple of `grain`.
static int64_t piece_begin(int64_t n, int64_t piece, int64_t pieces, int64_t grain)
{
    return size_min(n, size_ceil_div(n, grain) * piece / pieces * grain);
}

// The blocks of c: of equal size up to full register blocks.
typedef struct vec_grid {
    const cpu_context *x;
    const kernel_matmul_args *p;
    int64_t down, across; // number of blocks
} vec_grid;

static void multiply_item(const void *arg, int64_t item, int thread)
{
    const vec_grid *g = arg;
    const kernel_matmul_args *p = g->p;
    int64_t i = item % g->down, j = item / g->down; // consecutive items share columns of b
    int64_t row = piece_begin(p->m, i, g->down, ROWS), col = piece_begin(p->n, j, g->across, PANEL);
    int64_t last_row = piece_begin(p->m, i + 1, g->down, ROWS);
    int64_t last_col = piece_begin(p->n, j + 1, g->across, PANEL);
    if (last_row <= row || last_col <= col) return; // more threads than register blocks
    float *a = cpu_scratch(g->x, thread), *b = a + STRIP * DEPTH, *edge = b + BLOCK * DEPTH;
    _Static_assert(4 * (STRIP * DEPTH + BLOCK * DEPTH + STRIP * PANEL + BLOCK * BLOCK) <=
                       CPU_SCRATCH_BYTES,
                   "the scratch memory of a thread holds a block");
    multiply_block(&(vec_block){g->x, p, row, last_row - row, col, last_col - col, a, b, edge,
                                edge + STRIP * PANEL});
}

// The least multiple of `times` that divides n into pieces of at most BLOCK.
static int64_t blocks_of(int64_t n, int64_t grain, int64_t times)
{
    return size_ceil_div(size_ceil_div(size_ceil_div(n, grain), BLOCK / grain), times) * times;
}

void VEC(product)(const cpu_context *x, const kernel_matmul_args *p)
{
    const double work = (double)p->m * (double)p->n * (double)p->k;
    int64_t team = work < (double)x->threads * WORTH ? (int64_t)(work / WORTH) : x->threads;
    if (team < 1) team = 1;
    int64_t across = size_min(team, size_ceil_div(p->n, MIN_COLS)), down = team / across;
    vec_grid g = {x, p, blocks_of(p->m, ROWS, down), blocks_of(p->n, PANEL, across)};
    cpu_team_run(x->team, g.down * g.across, multiply_item, &g);
}
