// cpu_bf16.c -- bf16 products by the CPU's bf16 instructions, AMX or AVX512_BF16. Called by
// cpu_matmul where these beat fp32 instructions.
//
// Both multiply pairs: two elements that are adjacent in k form one 32-bit word. c is divided into
// blocks. For each block, a and b are packed slice by slice, DEPTH of k at a time, as tiles of 16 x
// 16 pairs: a by row, b by column, with zeros where the matrix ends. A block of c has its fp32 sums
// in scratch memory. The sum of an element runs over k in one order, so results depend neither on
// threads nor on where a block begins.
#include "base/size.h"
#include "device/cpu/cpu_products.h"
#include "device/cpu/cpu_team.h"

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")

#include <immintrin.h>
#include <string.h>

enum {
    SIDE = 16,                       // rows of a tile, and pairs in a row
    TILE_PAIRS = SIDE * SIDE,        // in a tile
    STEP = 2 * SIDE,                 // of k in a tile
    PANEL = 2 * SIDE,                // rows of a, or columns of b, that are multiplied together
    DEPTH = 24 * STEP,               // of k in a slice
    PANEL_PAIRS = PANEL * DEPTH / 2, // in a panel
    GROUP = 8,                       // panels of a that are packed together
    ROWS = 16 * PANEL,               // of a block of c
    COLS = 24 * PANEL,               // of a block of c
    MIN_COLS = 4 * PANEL,            // a thread gets at least so many columns
    WORTH = 1 << 20,                 // multiply-adds for which it pays to wake a thread
};

typedef uint32_t cpu_bf16_pair;

// A block of c, and the scratch memory of the thread that computes it.
typedef struct cpu_bf16_block {
    const cpu_context *x;
    const kernel_matmul_args *p;
    int64_t row, rows, col, cols;
    cpu_bf16_pair *a, *b; // GROUP panels of a; all panels of b
    float *c;             // [rows, COLS] fp32 sums, rows rounded up to a panel
    bool tiles;           // use AMX
} cpu_bf16_block;

// 32 rows of a as two tiles for each STEP of k: packed, or in place. Distances are bytes.
typedef struct cpu_bf16_panel {
    const unsigned char *ptr;
    int64_t row, low, step; // to the next row, to row 16, and to the next two tiles
} cpu_bf16_panel;

// A mask of the first n of 32 lanes of 16 bits.
static inline __mmask32 first_lanes(int64_t n)
{
    return n >= 32 ? ~(__mmask32)0 : n <= 0 ? 0 : ((__mmask32)1 << n) - 1;
}

// Transposes 16 rows of 16 pairs by four rounds of perfect shuffles.
static inline __attribute__((always_inline)) void transpose(__m512i square[SIDE])
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

// Packs one tile of a matrix whose rows run along k: `rows` <= 16 rows, `depth` <= 32 of k.
static inline __attribute__((always_inline)) void pack_along(cpu_bf16_pair *to,
                                                             const uint16_t *from, int64_t stride,
                                                             int64_t rows, int64_t depth,
                                                             bool transposed)
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
    if (transposed) transpose(square);
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++) _mm512_storeu_si512(to + i * SIDE, square[i]);
}

// Interleaves the elements of two rows into pairs.
static inline __m512i interleave(__m256i even, __m256i odd)
{
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order,
                                    _mm512_inserti64x4(_mm512_castsi256_si512(even), odd, 1));
}

// Packs one tile of a matrix whose columns run along k: two rows are interleaved into one of pairs.
static inline __attribute__((always_inline)) void pack_across(cpu_bf16_pair *to,
                                                              const uint16_t *from, int64_t stride,
                                                              int64_t cols, int64_t depth,
                                                              bool transposed)
{
    __m512i square[SIDE];
    const __mmask16 lanes = (__mmask16)first_lanes(cols);
    if (cols >= SIDE && depth >= STEP) {
#pragma GCC unroll 16
        for (int i = 0; i < SIDE; i++) {
            __m256i even = _mm256_loadu_si256((const __m256i_u *)(from + 2 * i * stride));
            __m256i odd = _mm256_loadu_si256((const __m256i_u *)(from + (2 * i + 1) * stride));
            square[i] = interleave(even, odd);
        }
    } else {
        for (int i = 0; i < SIDE; i++) {
            const bool low = 2 * i < depth, high = 2 * i + 1 < depth;
            __m256i even =
                _mm256_maskz_loadu_epi16(low ? lanes : 0, from + (low ? 2 * i : 0) * stride);
            __m256i odd =
                _mm256_maskz_loadu_epi16(high ? lanes : 0, from + (high ? 2 * i + 1 : 0) * stride);
            square[i] = interleave(even, odd);
        }
    }
    if (transposed) transpose(square);
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++) _mm512_storeu_si512(to + i * SIDE, square[i]);
}

// Packs `count` rows of a, or columns of b, from `first` on, and `depth` of k from l on, as panels.
// `along` says that the rows of the matrix in memory run along k. `transposed` says that the tiles
// are transposed. The order of the loops reads memory in its order.
static inline __attribute__((always_inline)) void pack(cpu_bf16_pair *to, const uint16_t *from,
                                                       int64_t stride, int64_t first, int64_t count,
                                                       int64_t l, int64_t depth, bool along,
                                                       bool transposed)
{
    const int64_t tiles = size_ceil_div(count, PANEL) * 2, steps = size_ceil_div(depth, STEP);
    for (int64_t n = 0; n < tiles * steps; n++) {
        const int64_t i = along ? n / steps : n % tiles, d = along ? n % steps : n / tiles;
        const int64_t left = count - i * SIDE, row = left > 0 ? first + i * SIDE : first;
        cpu_bf16_pair *tile = to + i / 2 * PANEL_PAIRS + (2 * d + i % 2) * TILE_PAIRS;
        if (along)
            pack_along(tile, from + row * stride + l + d * STEP, stride, left, depth - d * STEP,
                       transposed);
        else
            pack_across(tile, from + (l + d * STEP) * stride + row, stride, left, depth - d * STEP,
                        transposed);
    }
}

static void pack_a(const kernel_matmul_args *p, int64_t row, int64_t count, int64_t l,
                   int64_t depth, cpu_bf16_pair *to)
{
    if (p->trans_a)
        pack(to, p->a, p->lda, row, count, l, depth, false, true);
    else
        pack(to, p->a, p->lda, row, count, l, depth, true, false);
}

static void pack_b(const kernel_matmul_args *p, int64_t col, int64_t count, int64_t l,
                   int64_t depth, cpu_bf16_pair *to)
{
    if (p->trans_b)
        pack(to, p->b, p->ldb, col, count, l, depth, true, true);
    else
        pack(to, p->b, p->ldb, col, count, l, depth, false, false);
}

// c [32, 32] = a panel of a · a panel of b (+ c when `add`), over `steps` tiles, by AMX. The
// barriers tell the compiler that tile instructions read and write memory.
static __attribute__((noinline)) void multiply_tiles(cpu_bf16_panel a, const cpu_bf16_pair *b,
                                                     float *c, int64_t steps, bool add)
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
    for (int64_t k = 0; k < steps; k++, a.ptr += a.step, b += 2 * TILE_PAIRS) {
        _tile_loadd(4, a.ptr, a.row);
        _tile_loadd(6, b, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b + TILE_PAIRS, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a.ptr + a.low, a.row);
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
static void multiply_pairs(cpu_bf16_panel a, const cpu_bf16_pair *b, float *c, int64_t steps,
                           bool add)
{
    enum { AT_ONCE = 8 };
    for (int64_t i = 0; i < PANEL; i += AT_ONCE) {
        const unsigned char *left = a.ptr + i / SIDE * a.low + i % SIDE * a.row;
        const cpu_bf16_pair *right = b;
        float *to = c + i * COLS;
        __m512 sum[AT_ONCE][2];
#pragma GCC unroll 8
        for (int r = 0; r < AT_ONCE; r++) {
            sum[r][0] = add ? _mm512_loadu_ps(to + r * COLS) : _mm512_setzero_ps();
            sum[r][1] = add ? _mm512_loadu_ps(to + r * COLS + SIDE) : _mm512_setzero_ps();
        }
        for (int64_t k = 0; k < steps; k++, left += a.step, right += 2 * TILE_PAIRS) {
            for (int w = 0; w < SIDE; w++) {
                __m512bh b0 = (__m512bh)_mm512_loadu_si512(right + w * SIDE);
                __m512bh b1 = (__m512bh)_mm512_loadu_si512(right + TILE_PAIRS + w * SIDE);
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

// c = epilogue of sums [rows, COLS] (+ bias) (+ c), for `rows` rows from row i0 of the block on.
static void finish(const cpu_bf16_block *k, int64_t i0, int64_t rows, const float *sums)
{
    const kernel_matmul_args *p = k->p;
    const uint16_t *bias = p->bias;
    void *c = kernel_matmul_sums(p);
    const bool narrow = p->c_type != F32;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t first = (k->row + i0 + i) * p->ldc + k->col;
        float *full = (float *)c + first;
        uint16_t *low = (uint16_t *)c + first;
        for (int64_t j = 0; j < k->cols; j += SIDE) {
            const __mmask16 lanes = (__mmask16)first_lanes(size_min(k->cols - j, SIDE));
            __m512 sum = _mm512_loadu_ps(sums + i * COLS + j);
            if (bias) sum = _mm512_add_ps(sum, widened(lanes, bias + k->col + j));
            if (p->accumulate)
                sum = _mm512_add_ps(sum, narrow ? widened(lanes, low + j)
                                                : _mm512_maskz_loadu_ps(lanes, full + j));
            if (narrow)
                _mm256_mask_storeu_epi16(low + j, lanes, (__m256i)_mm512_cvtneps_pbh(sum));
            else
                _mm512_mask_storeu_ps(full + j, lanes, sum);
        }
    }
    cpu_epilogue(k->x, p, k->row + i0, rows, k->col, k->cols);
}

// The panel of a that begins i rows after row `row`, from l of k on: packed, or in place.
static cpu_bf16_panel panel_of(const cpu_bf16_block *k, bool packed, int64_t row, int64_t i,
                               int64_t l)
{
    if (packed)
        return (cpu_bf16_panel){(unsigned char *)(k->a + i / PANEL * PANEL_PAIRS), 4 * SIDE,
                                4 * TILE_PAIRS, 8 * TILE_PAIRS};
    const kernel_matmul_args *p = k->p;
    const uint16_t *ptr = (const uint16_t *)p->a + (row + i) * p->lda + l;
    return (cpu_bf16_panel){(const unsigned char *)ptr, 2 * p->lda, 2 * p->lda * SIDE, 2 * STEP};
}

// Multiplies a group of panels, from row i0 of the block on, by all panels of b. After the last
// slice the sums go into c.
static void multiply_group(const cpu_bf16_block *k, int64_t i0, int64_t l, int64_t depth)
{
    const kernel_matmul_args *p = k->p;
    const int64_t count = size_min(GROUP * PANEL, k->rows - i0);
    const bool packed = p->trans_a || depth % STEP != 0 || count % PANEL != 0;
    if (packed) pack_a(p, k->row + i0, count, l, depth, k->a);
    for (int64_t i = 0; i < count; i += PANEL) {
        // When one slice holds all of k, all panels use the same sums, which stay in the cache.
        float *sums = k->c + (p->k > DEPTH ? (i0 + i) * COLS : 0);
        const cpu_bf16_panel a = panel_of(k, packed, k->row + i0, i, l);
        for (int64_t j = 0; j < k->cols; j += PANEL)
            (k->tiles ? multiply_tiles : multiply_pairs)(
                a, k->b + j / PANEL * PANEL_PAIRS, sums + j, size_ceil_div(depth, STEP), l > 0);
        if (l + depth == p->k) finish(k, i0 + i, size_min(PANEL, count - i), sums);
    }
}

static void multiply_block(const cpu_bf16_block *k)
{
    for (int64_t l = 0; l < k->p->k; l += DEPTH) {
        const int64_t depth = size_min(DEPTH, k->p->k - l);
        pack_b(k->p, k->col, k->cols, l, depth, k->b);
        for (int64_t i = 0; i < k->rows; i += GROUP * PANEL) multiply_group(k, i, l, depth);
    }
}

// The blocks of c: of equal size up to full panels.
typedef struct cpu_bf16_grid {
    const cpu_context *x;
    const kernel_matmul_args *p;
    int64_t down, across; // number of blocks
} cpu_bf16_grid;

// Returns the start of piece `piece` of `pieces` equal pieces of n, at a multiple of PANEL.
static int64_t piece_begin(int64_t n, int64_t piece, int64_t pieces)
{
    return size_min(n, size_ceil_div(n, PANEL) * piece / pieces * PANEL);
}

// Configures all tile registers at their full size.
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
    _Static_assert(4 * (PANEL_PAIRS * (GROUP + COLS / PANEL) + ROWS * COLS) <= CPU_SCRATCH_BYTES,
                   "the scratch memory of a thread holds a block");
    const cpu_bf16_grid *g = arg;
    cpu_bf16_block k = {.x = g->x, .p = g->p, .tiles = g->x->level == CPU_AMX};
    int64_t i = item % g->down, j = item / g->down; // consecutive items share columns of b
    k.row = piece_begin(k.p->m, i, g->down), k.col = piece_begin(k.p->n, j, g->across);
    k.rows = piece_begin(k.p->m, i + 1, g->down) - k.row;
    k.cols = piece_begin(k.p->n, j + 1, g->across) - k.col;
    if (k.rows <= 0 || k.cols <= 0) return; // more threads than panels
    k.a = cpu_scratch(g->x, thread);
    k.b = k.a + GROUP * PANEL_PAIRS;
    k.c = (float *)(k.b + COLS / PANEL * PANEL_PAIRS);
    if (k.tiles) configure_tiles();
    multiply_block(&k);
    if (k.tiles) _tile_release();
}

// The least multiple of `times` that divides n into pieces of at most `most`.
static int64_t blocks_of(int64_t n, int64_t most, int64_t times)
{
    return size_ceil_div(size_ceil_div(size_ceil_div(n, PANEL), most / PANEL), times) * times;
}

void cpu_product_bf16(const cpu_context *x, const kernel_matmul_args *p)
{
    const double work = (double)p->m * (double)p->n * (double)p->k;
    int64_t team = work < (double)x->threads * WORTH ? (int64_t)(work / WORTH) : x->threads;
    if (team < 1) team = 1;
    int64_t across = size_min(team, size_ceil_div(p->n, MIN_COLS)), down = team / across;
    cpu_bf16_grid g = {x, p, blocks_of(p->m, ROWS, down), blocks_of(p->n, COLS, across)};
    cpu_team_run(x->team, g.down * g.across, multiply_item, &g);
}
