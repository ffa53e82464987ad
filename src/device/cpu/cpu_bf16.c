// cpu_bf16.c -- bf16 products by the CPU's own bf16 instructions, AMX or AVX512_BF16. Called by
// cpu_matmul, where those beat fp32's.
//
// Both multiply pairs: two neighbours in k are one 32-bit word. C is cut into blocks; for each, A
// and B pass by in slices of DEPTH, packed as tiles of 16 x 16 words: A by row, B by column, zeros
// where the matrix ends. A block of C has an fp32 home in scratch memory. An element's sum runs
// over k in one order, so results depend neither on threads nor on where a block begins.
#include "device/cpu/cpu_products.h"
#include "device/cpu/cpu_team.h"

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")

#include <immintrin.h>
#include <string.h>

enum {
    SIDE = 16,                // rows of a tile, and words of its rows
    TILE_WORDS = SIDE * SIDE, //
    STEP = 2 * SIDE,          // of k in one tile
    PANEL = 2 * SIDE,         // rows of A or columns of B that are multiplied together
    DEPTH = 24 * STEP,        // of a slice
    PANEL_WORDS = PANEL * DEPTH / 2,
    GROUP = 8,         // panels of A that are packed together
    ROWS = 16 * PANEL, // of a block of C
    COLS = 24 * PANEL,
    MIN_COLS = 4 * PANEL, // worth a thread of their own
    WORTH = 1 << 20,      // multiply-adds that are worth waking a thread
};

typedef uint32_t words;

// A block of C and the scratch memory of the thread that works on it.
typedef struct block {
    const kernel_matmul_args *p;
    int64_t row, rows, col, cols;
    words *a, *b; // GROUP panels of A, all panels of B
    float *c;     // [rows, COLS], rows rounded up to a panel
    bool tiles;   // AMX
} block;

// 32 rows of A as pairs of tiles: packed, or where they lie. Distances are bytes.
typedef struct panel {
    const unsigned char *at;
    int64_t row, low, step; // to the next row, to row 16, and to the next pair of tiles
} panel;

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t parts(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

// The first n lanes of 32 of 16 bits.
static inline __mmask32 first_lanes(int64_t n)
{
    return n >= 32 ? ~(__mmask32)0 : n <= 0 ? 0 : ((__mmask32)1 << n) - 1;
}

// 16 rows of 16 words become columns, by four rounds of perfect shuffles.
static inline __attribute__((always_inline)) void turn(__m512i square[SIDE])
{
    const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i second =
        _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#pragma GCC unroll 4
    for (int round = 1; round < SIDE; round *= 2) {
        __m512i next[SIDE];
#pragma GCC unroll 8
        for (int i = 0; i < SIDE / 2; i++) {
            next[2 * i] = _mm512_permutex2var_epi32(square[i], first, square[i + SIDE / 2]);
            next[2 * i + 1] = _mm512_permutex2var_epi32(square[i], second, square[i + SIDE / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < SIDE; i++) square[i] = next[i];
    }
}

// One tile of a matrix whose k lies in rows: `rows` <= 16 of them, `depth` <= 32 of k. Turned, its
// rows become columns.
static inline __attribute__((always_inline)) void pack_along(words *to, const uint16_t *from,
                                                             int64_t stride, int64_t rows,
                                                             int64_t depth, bool turned)
{
    __m512i square[SIDE];
    const __mmask32 lanes = first_lanes(depth);
    if (rows >= SIDE && depth >= STEP) {
#pragma GCC unroll 16
        for (int i = 0; i < SIDE; i++) square[i] = _mm512_loadu_si512(from + i * stride);
    } else {
        for (int i = 0; i < SIDE; i++)
            square[i] =
                _mm512_maskz_loadu_epi16(i < rows ? lanes : 0, from + (i < rows ? i : 0) * stride);
    }
    if (turned) turn(square);
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++) _mm512_storeu_si512(to + i * SIDE, square[i]);
}

static inline __m512i woven(__m256i even, __m256i odd)
{
    const __m512i weave =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(weave,
                                    _mm512_inserti64x4(_mm512_castsi256_si512(even), odd, 1));
}

// One tile of a matrix whose k lies in columns: two rows are woven into one of pairs. Turned, the
// pairs of a column become a row.
static inline __attribute__((always_inline)) void pack_across(words *to, const uint16_t *from,
                                                              int64_t stride, int64_t cols,
                                                              int64_t depth, bool turned)
{
    __m512i square[SIDE];
    const __mmask16 lanes = (__mmask16)first_lanes(cols);
    if (cols >= SIDE && depth >= STEP) {
#pragma GCC unroll 16
        for (int i = 0; i < SIDE; i++) {
            __m256i even = _mm256_loadu_si256((const __m256i_u *)(from + 2 * i * stride));
            __m256i odd = _mm256_loadu_si256((const __m256i_u *)(from + (2 * i + 1) * stride));
            square[i] = woven(even, odd);
        }
    } else {
        for (int i = 0; i < SIDE; i++) {
            const bool low = 2 * i < depth, high = 2 * i + 1 < depth;
            __m256i even =
                _mm256_maskz_loadu_epi16(low ? lanes : 0, from + (low ? 2 * i : 0) * stride);
            __m256i odd =
                _mm256_maskz_loadu_epi16(high ? lanes : 0, from + (high ? 2 * i + 1 : 0) * stride);
            square[i] = woven(even, odd);
        }
    }
    if (turned) turn(square);
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++) _mm512_storeu_si512(to + i * SIDE, square[i]);
}

// Packs `count` rows of A or columns of B from `first` on, `depth` of k from l on, as panels: of a
// matrix whose k lies `along` its rows or across them. Turned, k becomes what it was not. The order
// of the loops reads memory as it lies.
static inline __attribute__((always_inline)) void pack(words *to, const uint16_t *from,
                                                       int64_t stride, int64_t first, int64_t count,
                                                       int64_t l, int64_t depth, bool along,
                                                       bool turned)
{
    const int64_t tiles = parts(count, PANEL) * 2, steps = parts(depth, STEP);
    for (int64_t n = 0; n < tiles * steps; n++) {
        const int64_t i = along ? n / steps : n % tiles, d = along ? n % steps : n / tiles;
        const int64_t have = count - i * SIDE, at = have > 0 ? first + i * SIDE : first;
        words *tile = to + i / 2 * PANEL_WORDS + (2 * d + i % 2) * TILE_WORDS;
        if (along)
            pack_along(tile, from + at * stride + l + d * STEP, stride, have, depth - d * STEP,
                       turned);
        else
            pack_across(tile, from + (l + d * STEP) * stride + at, stride, have, depth - d * STEP,
                        turned);
    }
}

static void pack_a(const kernel_matmul_args *p, int64_t row, int64_t count, int64_t l,
                   int64_t depth, words *to)
{
    if (p->trans_a)
        pack(to, p->a, p->lda, row, count, l, depth, false, true);
    else
        pack(to, p->a, p->lda, row, count, l, depth, true, false);
}

static void pack_b(const kernel_matmul_args *p, int64_t col, int64_t count, int64_t l,
                   int64_t depth, words *to)
{
    if (p->trans_b)
        pack(to, p->b, p->ldb, col, count, l, depth, true, true);
    else
        pack(to, p->b, p->ldb, col, count, l, depth, false, false);
}

// c [32, 32] = or += the product of two panels of `steps` tiles, by AMX. The barriers tell the
// compiler that tile instructions read and write memory.
static __attribute__((noinline)) void multiply_tiles(panel a, const words *b, float *c,
                                                     int64_t steps, bool add)
{
    const int64_t row = COLS * sizeof(float);
    float *low = c + SIDE * COLS;
    __asm__ volatile("" ::: "memory");
    if (add) {
        _tile_loadd(0, c, row);
        _tile_loadd(1, c + SIDE, row);
        _tile_loadd(2, low, row);
        _tile_loadd(3, low + SIDE, row);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t k = 0; k < steps; k++, a.at += a.step, b += 2 * TILE_WORDS) {
        _tile_loadd(4, a.at, a.row);
        _tile_loadd(6, b, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b + TILE_WORDS, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a.at + a.low, a.row);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, row);
    _tile_stored(1, c + SIDE, row);
    _tile_stored(2, low, row);
    _tile_stored(3, low + SIDE, row);
    __asm__ volatile("" ::: "memory");
}

// The same by AVX512_BF16, eight rows at a time.
static void multiply_pairs(panel a, const words *b, float *c, int64_t steps, bool add)
{
    enum { AT_ONCE = 8 };
    for (int64_t i = 0; i < PANEL; i += AT_ONCE) {
        const unsigned char *left = a.at + i / SIDE * a.low + i % SIDE * a.row;
        const words *right = b;
        float *to = c + i * COLS;
        __m512 sum[AT_ONCE][2];
#pragma GCC unroll 8
        for (int r = 0; r < AT_ONCE; r++) {
            sum[r][0] = add ? _mm512_loadu_ps(to + r * COLS) : _mm512_setzero_ps();
            sum[r][1] = add ? _mm512_loadu_ps(to + r * COLS + SIDE) : _mm512_setzero_ps();
        }
        for (int64_t k = 0; k < steps; k++, left += a.step, right += 2 * TILE_WORDS) {
            for (int w = 0; w < SIDE; w++) {
                __m512bh b0 = (__m512bh)_mm512_loadu_si512(right + w * SIDE);
                __m512bh b1 = (__m512bh)_mm512_loadu_si512(right + TILE_WORDS + w * SIDE);
#pragma GCC unroll 8
                for (int r = 0; r < AT_ONCE; r++) {
                    int pair;
                    memcpy(&pair, left + r * a.row + w * (int64_t)sizeof pair, sizeof pair);
                    __m512bh one = (__m512bh)_mm512_set1_epi32(pair);
                    sum[r][0] = _mm512_dpbf16_ps(sum[r][0], one, b0);
                    sum[r][1] = _mm512_dpbf16_ps(sum[r][1], one, b1);
                }
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < AT_ONCE; r++) {
            _mm512_storeu_ps(to + r * COLS, sum[r][0]);
            _mm512_storeu_ps(to + r * COLS + SIDE, sum[r][1]);
        }
    }
}

static inline __m512 widened(__mmask16 lanes, const uint16_t *from)
{
    __m512i bits = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
}

// The sums of `rows` rows from row i of the block, the bias and what C was, into C.
static void finish(const block *k, int64_t i0, int64_t rows, const float *sums)
{
    const kernel_matmul_args *p = k->p;
    const uint16_t *bias = p->bias;
    const bool narrow = p->c_type != F32;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t at = (k->row + i0 + i) * p->ldc + k->col;
        float *wide = (float *)p->c + at;
        uint16_t *low = (uint16_t *)p->c + at;
        for (int64_t j = 0; j < k->cols; j += SIDE) {
            const __mmask16 lanes = (__mmask16)first_lanes(least(k->cols - j, SIDE));
            __m512 sum = _mm512_loadu_ps(sums + i * COLS + j);
            if (bias) sum = _mm512_add_ps(sum, widened(lanes, bias + k->col + j));
            if (p->accumulate)
                sum = _mm512_add_ps(sum, narrow ? widened(lanes, low + j)
                                                : _mm512_maskz_loadu_ps(lanes, wide + j));
            if (narrow)
                _mm256_mask_storeu_epi16(low + j, lanes, (__m256i)_mm512_cvtneps_pbh(sum));
            else
                _mm512_mask_storeu_ps(wide + j, lanes, sum);
        }
    }
}

// Panel i of the group of `count` rows from `row` on, which is packed unless it can be used where
// it lies.
static panel panel_of(const block *k, bool packed, int64_t row, int64_t i, int64_t l)
{
    if (packed)
        return (panel){(unsigned char *)(k->a + i / PANEL * PANEL_WORDS), 4 * SIDE, 4 * TILE_WORDS,
                       8 * TILE_WORDS};
    const kernel_matmul_args *p = k->p;
    const uint16_t *at = (const uint16_t *)p->a + (row + i) * p->lda + l;
    return (panel){(const unsigned char *)at, 2 * p->lda, 2 * p->lda * SIDE, 2 * STEP};
}

// Rows i0 … of the block, a group of panels, with all panels of B; what is complete goes into C.
static void multiply_group(const block *k, int64_t i0, int64_t l, int64_t depth)
{
    const kernel_matmul_args *p = k->p;
    const int64_t count = least(GROUP * PANEL, k->rows - i0);
    const bool packed = p->trans_a || depth % STEP != 0 || count % PANEL != 0;
    if (packed) pack_a(p, k->row + i0, count, l, depth, k->a);
    for (int64_t i = 0; i < count; i += PANEL) {
        // Where one slice is all of k, all panels have one home, which stays in the cache.
        float *home = k->c + (p->k > DEPTH ? (i0 + i) * COLS : 0);
        const panel a = panel_of(k, packed, k->row + i0, i, l);
        for (int64_t j = 0; j < k->cols; j += PANEL)
            (k->tiles ? multiply_tiles : multiply_pairs)(a, k->b + j / PANEL * PANEL_WORDS,
                                                         home + j, parts(depth, STEP), l > 0);
        if (l + depth == p->k) finish(k, i0 + i, least(PANEL, count - i), home);
    }
}

static void multiply_block(const block *k)
{
    for (int64_t l = 0; l < k->p->k; l += DEPTH) {
        const int64_t depth = least(DEPTH, k->p->k - l);
        pack_b(k->p, k->col, k->cols, l, depth, k->b);
        for (int64_t i = 0; i < k->rows; i += GROUP * PANEL) multiply_group(k, i, l, depth);
    }
}

// How C is cut into blocks: evenly, at whole panels.
typedef struct grid {
    const cpu_context *x;
    const kernel_matmul_args *p;
    int64_t down, across;
} grid;

static int64_t part_begin(int64_t n, int64_t part, int64_t of)
{
    return least(n, parts(n, PANEL) * part / of * PANEL);
}

// All tile registers at their full size.
static void configure_tiles(void)
{
    struct {
        uint8_t palette, start, unused[14];
        uint16_t bytes[16]; // of a row
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) config.bytes[i] = 64, config.rows[i] = SIDE;
    __asm__ volatile("" ::"r"(&config) : "memory");
    _tile_loadconfig(&config);
}

static void multiply_item(const void *arg, int64_t item, int thread)
{
    _Static_assert(4 * (PANEL_WORDS * (GROUP + COLS / PANEL) + ROWS * COLS) <= CPU_SCRATCH_BYTES,
                   "the scratch memory of a thread holds a block");
    const grid *g = arg;
    block k = {.p = g->p, .tiles = g->x->level == CPU_AMX};
    int64_t i = item % g->down, j = item / g->down; // neighbours have columns of B in common
    k.row = part_begin(k.p->m, i, g->down), k.col = part_begin(k.p->n, j, g->across);
    k.rows = part_begin(k.p->m, i + 1, g->down) - k.row;
    k.cols = part_begin(k.p->n, j + 1, g->across) - k.col;
    if (k.rows <= 0 || k.cols <= 0) return; // more threads than panels
    k.a = cpu_scratch(g->x, thread);
    k.b = k.a + GROUP * PANEL_WORDS;
    k.c = (float *)(k.b + COLS / PANEL * PANEL_WORDS);
    if (k.tiles) configure_tiles();
    multiply_block(&k);
    if (k.tiles) _tile_release();
}

// The least multiple of `times` that cuts n into parts of at most `most`.
static int64_t cuts(int64_t n, int64_t most, int64_t times)
{
    return parts(parts(parts(n, PANEL), most / PANEL), times) * times;
}

void cpu_product_bf16(const cpu_context *x, const kernel_matmul_args *p)
{
    const double work = (double)p->m * (double)p->n * (double)p->k;
    int64_t team = work < (double)x->threads * WORTH ? (int64_t)(work / WORTH) : x->threads;
    if (team < 1) team = 1;
    int64_t across = least(team, parts(p->n, MIN_COLS)), down = team / across;
    grid g = {x, p, cuts(p->m, ROWS, down), cuts(p->n, COLS, across)};
    cpu_team_run(x->team, g.down * g.across, multiply_item, &g);
}
