// vec_few.c -- matrix products with a few rows of a, as in decoding. The time is that of reading b
// once, so b is used in place, without packing. Called by cpu_matmul.
//
// With trans_b it takes dot products of the rows of b with those of a. Otherwise it adds the rows
// of b, DEPTH at a time, to rows of sums. In both, the sum of an element has one order, given by k
// alone.
#include "device/cpu/cpu_products.h"
#include "device/cpu/cpu_team.h"
#include "device/cpu/vec.h"

enum {
    ROWS = VEC_FEW_ROWS,
    DEPTH = 16,  // rows of b that are added at a time
    SUMS = 4096, // sums of one strip of columns over all rows of a; they fit in the nearest cache
    GRAIN = 64,  // the columns of an item are a multiple of this
    WORTH = 1 << 16,  // an item has at least so many elements of b
    CACHED = 1 << 18, // elements of b that the caches of a core hold
    PIECES = 4,       // items for each thread
};

// A product with a converted to fp32, and the number of items that its columns are divided into.
typedef struct vec_few {
    const cpu_context *x;
    const kernel_matmul_args *p;
    float *a;       // [m, stride], zeros from k on
    int64_t stride; // k rounded up to VL
    int64_t items;
    bool exceeds_cache; // b is larger than the caches of a core
} vec_few;

// X(rows of a, columns of b in a dot product, vectors of columns otherwise). The numbers give as
// many sums as there are registers.
#if VEC_BYTES == 64
#define BY_ROWS(X)                                                                                 \
    X(1, 8, 8) X(2, 8, 8) X(3, 6, 8) X(4, 6, 6) X(5, 4, 4) X(6, 4, 4) X(7, 3, 3) X(8, 3, 3)
#else
#define BY_ROWS(X)                                                                                 \
    X(1, 8, 6) X(2, 6, 4) X(3, 4, 3) X(4, 3, 2) X(5, 2, 2) X(6, 2, 2) X(7, 1, 1) X(8, 1, 1)
#endif

// y [rows, cols] = a · columns col … col+cols-1 of b, for trans_b. y has `width` floats from row to
// row.
VEC_INLINE void dots(const vec_few *f, int rows, int cols, int64_t col, float *y, int64_t width,
                     dtype type)
{
    const kernel_matmul_args *p = f->p;
    const float *a = f->a;
    vf sum[ROWS][8];
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 8
        for (int j = 0; j < cols; j++) sum[i][j] = v_zero();
    }
#define STEP(l, n)                                                                                 \
    do {                                                                                           \
        vf right[8];                                                                               \
        _Pragma("GCC unroll 8") for (int j = 0; j < cols; j++) right[j] =                          \
            v_load_n(p->b, (col + j) * p->ldb + l, n, type);                                       \
        _Pragma("GCC unroll 8") for (int i = 0; i < rows; i++)                                     \
        {                                                                                          \
            vf left = v_load(a, i * f->stride + l, F32);                                           \
            _Pragma("GCC unroll 8") for (int j = 0; j < cols; j++) sum[i][j] += left * right[j];   \
        }                                                                                          \
    } while (0)
    V_EACH(l, 0, p->k, STEP);
#undef STEP
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 8
        for (int j = 0; j < cols; j++) y[i * width + j] = v_sum(sum[i][j]);
    }
}

// y [rows, n] += columns l … l+depth-1 of a · rows l … l+depth-1 of b, for n columns of b from col
// on: full vectors, or less than one vector. It prefetches what the next call for these columns
// reads, because rows are too short for the processor to prefetch by itself.
VEC_INLINE void add_depth(const vec_few *f, int rows, int vectors, int64_t l, int64_t depth,
                          int64_t col, int64_t n, float *y, int64_t width, dtype type)
{
    const kernel_matmul_args *p = f->p;
    vf sum[ROWS][8];
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 8
        for (int j = 0; j < vectors; j++) sum[i][j] = v_load(y, i * width + j * VL, F32);
    }
    for (int64_t d = l; d < l + depth; d++) {
        vf right[8];
#pragma GCC unroll 8
        for (int j = 0; j < vectors; j++) {
            right[j] = v_load_n(p->b, d * p->ldb + col + j * VL, n, type);
            if (f->exceeds_cache)
                __builtin_prefetch(vec_at(p->b, (d + DEPTH) * p->ldb + col + j * VL, type));
        }
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            vf left = v_set(f->a[i * f->stride + d]);
#pragma GCC unroll 8
            for (int j = 0; j < vectors; j++) sum[i][j] += left * right[j];
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 8
        for (int j = 0; j < vectors; j++) v_store(y, i * width + j * VL, F32, sum[i][j]);
    }
}

VEC_INLINE void add_rows(const vec_few *f, int rows, int vectors, int64_t l, int64_t depth,
                         int64_t col, int64_t cols, float *y, int64_t width, dtype type)
{
    int64_t c = 0;
    for (; c + vectors * VL <= cols; c += vectors * VL)
        add_depth(f, rows, vectors, l, depth, col + c, VL, y + c, width, type);
    for (; c + VL <= cols; c += VL)
        add_depth(f, rows, 1, l, depth, col + c, VL, y + c, width, type);
    if (c < cols) add_depth(f, rows, 1, l, depth, col + c, cols - c, y + c, width, type);
}

typedef void (*vec_few_strip)(const vec_few *f, int64_t col, int64_t cols, float *y, int64_t width);

VEC_INLINE void strip(const vec_few *f, int rows, int dot_cols, int vectors, int64_t col,
                      int64_t cols, float *y, int64_t width, dtype type)
{
    if (f->p->trans_b) {
        int64_t j = 0;
        for (; j + dot_cols <= cols; j += dot_cols)
            dots(f, rows, dot_cols, col + j, y + j, width, type);
        for (; j < cols; j++) dots(f, rows, 1, col + j, y + j, width, type);
        return;
    }
    memset(y, 0, sizeof(float) * (size_t)(rows * width));
    for (int64_t l = 0; l < f->p->k; l += DEPTH)
        add_rows(f, rows, vectors, l, size_min(DEPTH, f->p->k - l), col, cols, y, width, type);
}

#define STRIP(rows, dot_cols, vectors)                                                             \
    static void strip_##rows(const vec_few *f, int64_t col, int64_t cols, float *y, int64_t width) \
    {                                                                                              \
        if (f->p->type == F32) strip(f, rows, dot_cols, vectors, col, cols, y, width, F32);        \
        if (f->p->type == BF16) strip(f, rows, dot_cols, vectors, col, cols, y, width, BF16);      \
        if (f->p->type == F16) strip(f, rows, dot_cols, vectors, col, cols, y, width, F16);        \
    }
BY_ROWS(STRIP)
#undef STRIP

static const vec_few_strip strips[ROWS] = {strip_1, strip_2, strip_3, strip_4,
                                           strip_5, strip_6, strip_7, strip_8};

VEC_INLINE void finish_row(const kernel_matmul_args *p, int64_t row, int64_t col, int64_t cols,
                           const float *y, dtype type, dtype c_type)
{
    void *to = vec_at(kernel_matmul_sums(p), row * p->ldc + col, c_type);
#define FINISH(c, n)                                                                               \
    do {                                                                                           \
        vf sum = v_load(y, c, F32);                                                                \
        if (p->bias) sum += v_load_n(p->bias, col + c, n, type);                                   \
        if (p->accumulate) sum += v_load_n(to, c, n, c_type);                                      \
        v_store_n(to, c, n, c_type, sum);                                                          \
    } while (0)
    V_EACH(c, 0, cols, FINISH);
#undef FINISH
}

static void finish(const kernel_matmul_args *p, int64_t col, int64_t cols, const float *y,
                   int64_t width)
{
    const bool narrow = p->c_type != F32;
    for (int64_t i = 0; i < p->m; i++, y += width) {
        if (p->type == F32) finish_row(p, i, col, cols, y, F32, F32);
        if (p->type == BF16 && narrow) finish_row(p, i, col, cols, y, BF16, BF16);
        if (p->type == BF16 && !narrow) finish_row(p, i, col, cols, y, BF16, F32);
        if (p->type == F16 && narrow) finish_row(p, i, col, cols, y, F16, F16);
        if (p->type == F16 && !narrow) finish_row(p, i, col, cols, y, F16, F32);
    }
}

static void multiply_item(const void *arg, int64_t item, int thread)
{
    const vec_few *f = arg;
    const kernel_matmul_args *p = f->p;
    const int64_t grains = size_ceil_div(p->n, GRAIN), width = SUMS / p->m / GRAIN * GRAIN;
    const int64_t first = grains * item / f->items * GRAIN;
    const int64_t last = size_min(grains * (item + 1) / f->items * GRAIN, p->n);
    float *y = cpu_scratch(f->x, thread);
    for (int64_t col = first; col < last; col += width) {
        int64_t cols = size_min(width, last - col);
        strips[p->m - 1](f, col, cols, y, width);
        finish(p, col, cols, y, width);
        cpu_epilogue(f->x, p, 0, p->m, col, cols);
    }
}

static void pack_a(const vec_few *f)
{
    const kernel_matmul_args *p = f->p;
    for (int64_t i = 0; i < p->m; i++) {
        float *row = f->a + i * f->stride;
        for (int64_t l = 0; l < f->stride; l++) row[l] = 0;
        if (p->trans_a) {
            for (int64_t l = 0; l < p->k; l++)
                row[l] = v_load_n(p->a, l * p->lda + i, 1, p->type)[0];
        } else {
            dtype_convert(row, F32, vec_at(p->a, i * p->lda, p->type), p->type, (size_t)p->k);
        }
    }
}

bool VEC(product_few)(const cpu_context *x, const kernel_matmul_args *p)
{
    vec_few f = {x, p, (float *)x->shared, size_ceil_div(p->k, VL) * VL, 1, p->n * p->k > CACHED};
    if (p->m > ROWS || f.stride > (int64_t)(CPU_SHARED_BYTES / sizeof(float)) / p->m) return false;
    int64_t grains = size_ceil_div(p->n, GRAIN), worth = 1 + p->n * p->k / WORTH;
    f.items = size_min(size_min(grains, worth), PIECES * x->threads);
    pack_a(&f);
    cpu_team_run(x->team, f.items, multiply_item, &f);
    return true;
}
