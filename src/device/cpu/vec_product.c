// vec_product.c -- matrix products in fp32 from F32, BF16 or F16 operands. Called by cpu_matmul.
//
// C is cut into blocks; for each, A and B pass by in slices of DEPTH, packed (and widened from
// 16 bits) into scratch memory: B as panels as wide as a register block, A as strips of rows. An
// element's sum runs over k in one order, so results depend neither on threads nor on where a block
// begins.
#include "device/cpu/cpu_products.h"
#include "device/cpu/cpu_team.h"
#include "device/cpu/vec_tile.h"

enum {
    PANEL = VEC_BYTES == 64 ? 64 : 16, // columns of a register block of vec_tile.c
    DEPTH = 384,
    STRIP = 96,      // rows of A that are packed at a time
    ROWS = 6,        // of a register block
    BLOCK = 768,     // rows and columns of a block of C
    MIN_COLS = 192,  // worth a thread of their own
    WORTH = 1 << 18, // multiply-adds that are worth waking a thread
};

// A block of C, and the scratch memory of the thread that works on it.
typedef struct block {
    const kernel_matmul_args *p;
    int64_t row, rows, col, cols;
    float *a;    // one strip of A: [rows, DEPTH], or [depth, STRIP] when A is stored transposed
    float *b;    // one slice of B: panels of [depth, PANEL]
    float *edge; // [STRIP, PANEL]: C's last panel, where its width is no multiple of a vector
    float *c;    // [rows, BLOCK]: the fp32 home of a block of a 16-bit C
} block;

static bool is_narrow(const block *k)
{
    return k->p->c_type != F32;
}

static void *block_of_c(const block *k)
{
    return vec_at(k->p->c, k->row * k->p->ldc + k->col, k->p->c_type);
}

// Where the sums live, and the distance between its rows.
static float *home(const block *k, int64_t *stride)
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

// Sets the home to what the product is added to. False when that is nothing: it is untouched.
static bool begin(const block *k)
{
    const kernel_matmul_args *p = k->p;
    int64_t stride;
    float *row = home(k, &stride);
    if (is_narrow(k) && p->accumulate)
        VEC(tile_pack)(row, stride, block_of_c(k), p->ldc, k->rows, k->cols, 1, p->c_type);
    for (int64_t r = 0; p->bias && r < k->rows; r++, row += stride) {
#define CALL(type) add_bias(row, p->bias, k->col, k->cols, p->accumulate, type)
        V_BY_TYPE(p->type, CALL);
#undef CALL
    }
    return p->accumulate || p->bias;
}

// Row by row, all panels at a time: memory is read as it lies.
VEC_INLINE void pack_rows(const block *k, int64_t l, int64_t depth, dtype type)
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

static void pack_b(const block *k, int64_t l, int64_t depth)
{
    const kernel_matmul_args *p = k->p;
    for (int64_t j = 0; j < k->cols; j += PANEL) {
        int64_t cols = min64(PANEL, k->cols - j), col = k->col + j;
        float *to = k->b + j * DEPTH;
        if (p->trans_b) {
            const void *from = vec_at(p->b, col * p->ldb + l, p->type);
            VEC(tile_pack_turned)(to, PANEL, from, p->ldb, cols, depth, p->type);
        }
    }
#define CALL(type) pack_rows(k, l, depth, type)
    if (!p->trans_b) V_BY_TYPE(p->type, CALL);
#undef CALL
}

static void pack_a(const block *k, int64_t i, int64_t rows, int64_t l, int64_t depth)
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

// Multiplies the packed strip, rows i … i+rows-1 of the block, by every packed panel.
static void multiply_strip(const block *k, int64_t i, int64_t rows, int64_t depth, bool add)
{
    bool by_column = k->p->trans_a;
    int64_t stride;
    float *c = home(k, &stride) + i * stride;
    tile_product t = {.m = rows,
                      .k = depth,
                      .a = k->a,
                      .lda = by_column ? STRIP : DEPTH,
                      .ldb = PANEL,
                      .order = by_column ? TILE_BY_COLUMN : TILE_BY_ROW,
                      .add = add};
    for (int64_t j = 0; j < k->cols; j += PANEL) {
        int64_t cols = min64(PANEL, k->cols - j);
        bool ragged = cols % VL != 0 && !is_narrow(k);
        t.b = k->b + j * DEPTH;
        t.n = round_up(cols, VL);
        t.c = ragged ? k->edge : c + j;
        t.ldc = ragged ? PANEL : stride;
        if (ragged && add) VEC(tile_pack)(k->edge, PANEL, c + j, stride, rows, cols, 1, F32);
        VEC(tile_multiply)(&t);
        if (ragged) VEC(tile_unpack)(c + j, stride, k->edge, PANEL, rows, cols, 1, F32);
    }
}

static void multiply_block(const block *k)
{
    const kernel_matmul_args *p = k->p;
    bool add = begin(k);
    for (int64_t l = 0; l < p->k; l += DEPTH, add = true) {
        int64_t depth = min64(DEPTH, p->k - l);
        pack_b(k, l, depth);
        for (int64_t i = 0; i < k->rows; i += STRIP) {
            int64_t rows = min64(STRIP, k->rows - i);
            pack_a(k, i, rows, l, depth);
            multiply_strip(k, i, rows, depth, add);
        }
    }
    if (is_narrow(k))
        VEC(tile_unpack)(block_of_c(k), p->ldc, k->c, BLOCK, k->rows, k->cols, 1, p->c_type);
}

// Share `part` of `parts` of n, at multiples of `grain`.
static int64_t share_begin(int64_t n, int64_t part, int64_t parts, int64_t grain)
{
    return min64(n, (n + grain - 1) / grain * part / parts * grain);
}

// How C is cut into blocks: evenly, at whole register blocks.
typedef struct grid {
    const cpu_context *x;
    const kernel_matmul_args *p;
    int64_t down, across;
} grid;

static void multiply_item(const void *arg, int64_t item, int thread)
{
    const grid *g = arg;
    const kernel_matmul_args *p = g->p;
    int64_t i = item % g->down, j = item / g->down; // neighbours have columns of B in common
    int64_t row = share_begin(p->m, i, g->down, ROWS), col = share_begin(p->n, j, g->across, PANEL);
    int64_t last_row = share_begin(p->m, i + 1, g->down, ROWS);
    int64_t last_col = share_begin(p->n, j + 1, g->across, PANEL);
    if (last_row <= row || last_col <= col) return; // more threads than register blocks
    float *a = cpu_scratch(g->x, thread), *b = a + STRIP * DEPTH, *edge = b + BLOCK * DEPTH;
    _Static_assert(4 * (STRIP * DEPTH + BLOCK * DEPTH + STRIP * PANEL + BLOCK * BLOCK) <=
                       CPU_SCRATCH_BYTES,
                   "the scratch memory of a thread holds a block");
    multiply_block(
        &(block){p, row, last_row - row, col, last_col - col, a, b, edge, edge + STRIP * PANEL});
}

// The least multiple of `parts` that cuts n into parts of at most BLOCK.
static int64_t parts_of(int64_t n, int64_t grain, int64_t parts)
{
    int64_t least = ((n + grain - 1) / grain + BLOCK / grain - 1) / (BLOCK / grain);
    return round_up(least, parts);
}

void VEC(product)(const cpu_context *x, const kernel_matmul_args *p)
{
    const double work = (double)p->m * (double)p->n * (double)p->k;
    int64_t team = work < (double)x->threads * WORTH ? (int64_t)(work / WORTH) : x->threads;
    if (team < 1) team = 1;
    int64_t across = min64(team, (p->n + MIN_COLS - 1) / MIN_COLS), down = team / across;
    grid g = {x, p, parts_of(p->m, ROWS, down), parts_of(p->n, PANEL, across)};
    cpu_team_run(x->team, g.down * g.across, multiply_item, &g);
}
