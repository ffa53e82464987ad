// vec_reduce.c -- sums over many elements: the gradient of a bias, squared error, sum of squares,
// digest. Floating-point sums are taken over fixed blocks of elements in double and then added in
// order, or down the columns, so that they do not depend on the number of threads.
#include "device/cpu/vec.h"

enum {
    BLOCK_ELEMENTS = 1 << 16,
    BLOCKS = CPU_SHARED_BYTES / sizeof(double), // at most: one double each in shared memory
    COLUMN_STEP = 128,                          // the team shares columns in whole cache lines
    BIAS_ROWS = 8,                              // rows added at a time
    DIGEST_GRAIN = 1 << 16,                     // words worth a thread
};

// Columns first … last-1: rows come in groups that are added up in registers.
VEC_INLINE void bias_columns(const kernel_bias_grad_args *p, int64_t first, int64_t last,
                             dtype type)
{
    if (!p->accumulate) memset(p->db + first, 0, sizeof(float) * (size_t)(last - first));
    int64_t r = 0;
    for (; r + BIAS_ROWS <= p->rows; r += BIAS_ROWS) {
#define ROWS(c, n)                                                                                 \
    do {                                                                                           \
        vf sum[2] = {v_zero(), v_zero()};                                                          \
        for (int i = 0; i < BIAS_ROWS; i++)                                                        \
            sum[i % 2] += v_load_n(p->dy, (r + i) * p->cols + c, n, type);                         \
        v_store_n(p->db, c, n, F32, v_load_n(p->db, c, n, F32) + (sum[0] + sum[1]));               \
    } while (0)
        V_EACH(c, first, last, ROWS);
#undef ROWS
    }
    for (; r < p->rows; r++) {
#define ROW(c, n)                                                                                  \
    v_store_n(p->db, c, n, F32,                                                                    \
              v_load_n(p->db, c, n, F32) + v_load_n(p->dy, r * p->cols + c, n, type))
        V_EACH(c, first, last, ROW);
#undef ROW
    }
}

static void bias_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                      int thread)
{
    (void)x, (void)thread;
    const kernel_bias_grad_args *p = args;
#define CALL(type) bias_columns(p, first, last, type)
    V_BY_TYPE(p->type, CALL);
#undef CALL
}

void VEC(bias_grad)(const cpu_context *x, const void *args)
{
    const kernel_bias_grad_args *p = args;
    VEC(share)(x, p, p->cols, round_up(vec_grain(p->rows), COLUMN_STEP), bias_part);
}

// Elements of a block: the count alone decides.
static int64_t block_elements(int64_t count)
{
    int64_t least = round_up((count + BLOCKS - 1) / BLOCKS, VL);
    return least > BLOCK_ELEMENTS ? least : BLOCK_ELEMENTS;
}

// Runs `part` over the blocks of `count` elements and adds up what it left in shared memory.
static double sum_blocks(const cpu_context *x, const void *args, int64_t count, vec_part part)
{
    int64_t blocks = (count + block_elements(count) - 1) / block_elements(count);
    double sum = 0;
    VEC(share)(x, args, blocks, 1, part);
    for (int64_t i = 0; i < blocks; i++) sum += ((const double *)x->shared)[i];
    return sum;
}

// sum[0], sum[1] += v^2 in double.
VEC_INLINE void add_square(vd sum[2], vf v)
{
    vd low = v_low_double(v), high = v_high_double(v);
    sum[0] += low * low;
    sum[1] += high * high;
}

VEC_INLINE double range_squares(const void *p, int64_t first, int64_t last, dtype type)
{
    vd even[2] = {}, odd[2] = {};
    int64_t i = first;
    for (; i + 2 * VL <= last; i += 2 * VL) {
        add_square(even, v_load(p, i, type));
        add_square(odd, v_load(p, i + VL, type));
    }
    for (; i < last; i += VL) add_square(even, v_load_n(p, i, min64(last - i, VL), type));
    return v_sum_double((even[0] + even[1]) + (odd[0] + odd[1]));
}

static void squares_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                         int thread)
{
    (void)thread;
    const kernel_sum_squares_args *p = args;
    int64_t size = block_elements(p->count);
    double *sums = (double *)x->shared;
    for (int64_t b = first; b < last; b++) {
        int64_t to = min64((b + 1) * size, p->count);
#define CALL(type) sums[b] = range_squares(p->x, b * size, to, type)
        V_BY_TYPE(p->type, CALL);
#undef CALL
    }
}

void VEC(sum_squares)(const cpu_context *x, const void *args)
{
    const kernel_sum_squares_args *p = args;
    *p->sum += sum_blocks(x, p, p->count, squares_part);
}

VEC_INLINE double range_error(const kernel_square_error_args *p, int64_t first, int64_t last,
                              dtype type)
{
    vd sum[2] = {};
    vf factor = v_set(2 * kernel_grad_factor(p->grad_scale));
#define ERROR(i, n)                                                                                \
    do {                                                                                           \
        vf d = v_load_n(p->x, i, n, type) - v_load_n(p->target, i, n, F32);                        \
        add_square(sum, d);                                                                        \
        if (p->dx) v_store_n(p->dx, i, n, type, factor *d);                                        \
    } while (0)
    V_EACH(i, first, last, ERROR);
#undef ERROR
    return v_sum_double(sum[0] + sum[1]);
}

static void error_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                       int thread)
{
    (void)thread;
    const kernel_square_error_args *p = args;
    int64_t size = block_elements(p->count);
    double *sums = (double *)x->shared;
    for (int64_t b = first; b < last; b++) {
        int64_t to = min64((b + 1) * size, p->count);
#define CALL(type) sums[b] = range_error(p, b * size, to, type)
        V_BY_TYPE(p->type, CALL);
#undef CALL
    }
}

void VEC(square_error)(const cpu_context *x, const void *args)
{
    const kernel_square_error_args *p = args;
    double sum = sum_blocks(x, p, p->count, error_part);
    if (p->loss_sum) *p->loss_sum += sum;
    if (p->total) *p->total += (double)p->count;
}

VEC_INLINE vq mix64(vq z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// The sum of `n` <= VL / 2 words from word `at` on; what lies beyond the last byte counts as 0.
VEC_INLINE vq digest_words(const kernel_digest_args *p, int64_t at, int64_t n)
{
    enum { LANES = VL / 2 };
    uint32_t part[LANES] = {0};
    V_HALF words;
    if (n == LANES && 4 * (at + n) <= p->bytes) {
        memcpy(&words, (const unsigned char *)p->x + 4 * at, sizeof words);
    } else {
        memcpy(part, (const unsigned char *)p->x + 4 * at, (size_t)min64(4 * n, p->bytes - 4 * at));
        memcpy(&words, part, sizeof words);
    }
    vq lane = (vq){}, use;
    for (int l = 0; l < LANES; l++) {
        lane[l] = (uint64_t)l;
        use[l] = l < n ? ~(uint64_t)0 : 0;
    }
    vq index = (lane + (p->index0 + (uint64_t)at)) << 32;
    return mix64((vq)V_OP(cvtepu32_epi64)(words) | index) & use;
}

static void digest_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                        int thread)
{
    enum { LANES = VL / 2 };
    const kernel_digest_args *p = args;
    vq sum[2] = {};
    int64_t at = first;
    for (; at + 2 * LANES <= last && 4 * (at + 2 * LANES) <= p->bytes; at += 2 * LANES) {
        sum[0] += digest_words(p, at, LANES);
        sum[1] += digest_words(p, at + LANES, LANES);
    }
    for (; at < last; at += LANES) sum[0] += digest_words(p, at, min64(last - at, LANES));
    uint64_t total = 0;
    for (int l = 0; l < LANES; l++) total += sum[0][l] + sum[1][l];
    ((uint64_t *)x->shared)[thread] += total;
}

void VEC(digest)(const cpu_context *x, const void *args)
{
    const kernel_digest_args *p = args;
    uint64_t *sums = (uint64_t *)x->shared;
    memset(sums, 0, sizeof *sums * (size_t)x->threads);
    VEC(share)(x, p, (p->bytes + 3) / 4, DIGEST_GRAIN, digest_part);
    for (int i = 0; i < x->threads; i++) *p->digest += sums[i];
}
