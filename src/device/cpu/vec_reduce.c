// vec_reduce.c -- vector form of sums over many elements: the gradient of a bias, squared error,
// sum of squares, and digest. Floating-point sums are taken over fixed blocks of elements in double
// and then added in order, or along columns, so they do not depend on the number of threads.
#include "device/cpu/ref/ref.h"
#include "device/cpu/vec.h"

enum {
    BLOCK_ELEMENTS = 1 << 16,
    BLOCKS = CPU_SHARED_BYTES / sizeof(double), // at most: each has one double in shared memory
    COLUMN_STEP = 128,                          // the team shares columns in full cache lines
    BIAS_ROWS = 8,                              // rows added at a time
    DIGEST_GRAIN = 1 << 16,                     // words for which it pays to wake a thread
};

// Columns first … last-1. BIAS_ROWS rows at a time are added in registers.
VEC_INLINE void bias_columns(const kernel_bias_grad_args *p, int64_t first, int64_t last,
                             dtype type)
{
    if (!p->accumulate) memset(p->db + first, 0, sizeof(float) * (size_t)(last - first));
    const int64_t stride = kernel_stride(p->stride, p->cols);
    int64_t r = 0;
    for (; r + BIAS_ROWS <= p->rows; r += BIAS_ROWS) {
#define ROWS(c, n)                                                                                 \
    do {                                                                                           \
        vf sum[2] = {v_zero(), v_zero()};                                                          \
        for (int i = 0; i < BIAS_ROWS; i++)                                                        \
            sum[i % 2] += v_load_n(p->dy, (r + i) * stride + c, n, type);                          \
        v_store_n(p->db, c, n, F32, v_load_n(p->db, c, n, F32) + (sum[0] + sum[1]));               \
    } while (0)
        V_EACH(c, first, last, ROWS);
#undef ROWS
    }
    for (; r < p->rows; r++) {
#define ROW(c, n)                                                                                  \
    v_store_n(p->db, c, n, F32,                                                                    \
              v_load_n(p->db, c, n, F32) + v_load_n(p->dy, r * stride + c, n, type))
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
    int64_t grain = size_ceil_div(vec_grain(p->rows), COLUMN_STEP) * COLUMN_STEP;
    VEC(share)(x, p, p->cols, grain, bias_part);
}

// The elements of a block, which depend on the count only.
static int64_t block_elements(int64_t count)
{
    return size_max(size_ceil_div(size_ceil_div(count, BLOCKS), VL) * VL, BLOCK_ELEMENTS);
}

// Runs `part` over the blocks of `count` elements, and adds the sums that it left in shared memory.
static double sum_blocks(const cpu_context *x, const void *args, int64_t count, vec_part part)
{
    int64_t blocks = size_ceil_div(count, block_elements(count));
    double sum = 0;
    VEC(share)(x, args, blocks, 1, part);
    for (int64_t i = 0; i < blocks; i++) sum += ((const double *)x->shared)[i];
    return sum;
}

// sum[0] += v^2 of the low lanes, sum[1] += v^2 of the high lanes, in double.
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
    for (; i < last; i += VL) add_square(even, v_load_n(p, i, size_min(last - i, VL), type));
    return v_sum_double((even[0] + even[1]) + (odd[0] + odd[1]));
}

// The blocks of a segment, which depend on its own count only.
static int64_t segment_blocks(const kernel_segment *s)
{
    return size_ceil_div(s->count, block_elements(s->count));
}

// Takes blocks first … last-1 of the segments.
static void squares_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                         int thread)
{
    (void)thread;
    const kernel_sum_squares_args *p = args;
    double *sums = (double *)x->shared;
    int64_t before = 0;
    for (const kernel_segment *s = p->segment; before < last && s < p->segment + p->segments; s++) {
        const int64_t size = block_elements(s->count), blocks = segment_blocks(s);
        const void *array = vec_at(p->x, s->src, p->type);
        for (int64_t b = size_max(first - before, 0); b < size_min(last - before, blocks); b++) {
            int64_t to = size_min((b + 1) * size, s->count);
#define CALL(type) sums[before + b] = range_squares(array, b * size, to, type)
            V_BY_TYPE(p->type, CALL);
#undef CALL
        }
        before += blocks;
    }
}

// Sums the blocks of as many segments as shared memory has room for, and adds each segment's sum.
// Returns how many those are.
static int64_t add_segments(const cpu_context *x, const kernel_sum_squares_args *p)
{
    kernel_sum_squares_args some = *p;
    int64_t blocks = 0;
    const double *sums = (const double *)x->shared;
    for (some.segments = 0; some.segments < p->segments; some.segments++) {
        const int64_t more = segment_blocks(&p->segment[some.segments]);
        if (blocks + more > BLOCKS) break;
        blocks += more;
    }
    VEC(share)
    (x, &some, blocks, p->count <= BLOCK_ELEMENTS ? size_max(blocks, 1) : 1, squares_part);
    for (int64_t s = 0; s < some.segments; s++) {
        double sum = 0;
        for (int64_t b = segment_blocks(&p->segment[s]); b > 0; b--) sum += *sums++;
        *p->sum += sum;
    }
    return some.segments;
}

void VEC(sum_squares)(const cpu_context *x, const void *args)
{
    kernel_sum_squares_args p = *(const kernel_sum_squares_args *)args;
    const kernel_segment whole = {.count = p.count};
    if (!p.segment) p.segment = &whole, p.segments = 1;
    while (p.segments > 0) {
        const int64_t done = add_segments(x, &p);
        p.segment += done, p.segments -= done;
    }
}

// A squared error: the elements that hold a sample, and the factor of the gradient.
typedef struct vec_error {
    const kernel_square_error_args *p;
    int64_t count;
    float factor;
} vec_error;

VEC_INLINE double range_error(const vec_error *w, int64_t first, int64_t last, dtype type)
{
    const kernel_square_error_args *p = w->p;
    vd sum[2] = {};
    vf factor = v_set(w->factor);
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
    const vec_error *w = args;
    int64_t size = block_elements(w->count);
    double *sums = (double *)x->shared;
    for (int64_t b = first; b < last; b++) {
        int64_t to = size_min((b + 1) * size, w->count);
#define CALL(type) sums[b] = range_error(w, b * size, to, type)
        V_BY_TYPE(w->p->type, CALL);
#undef CALL
    }
}

void VEC(square_error)(const cpu_context *x, const void *args)
{
    const kernel_square_error_args *p = args;
    const vec_error w = {.p = p,
                         .count = ref_filled_rows(p) * p->cols,
                         .factor = 2 * (float)kernel_step_read(p->step).loss_scale};
    const int64_t padding = p->rows * p->cols - w.count;
    double sum = sum_blocks(x, &w, w.count, error_part);
    if (p->dx) memset(vec_at(p->dx, w.count, p->type), 0, (size_t)padding * dtype_bytes(p->type));
    if (p->loss_sum) *p->loss_sum += sum;
    if (p->total) *p->total += (double)w.count;
}

VEC_INLINE vq mix64(vq z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// The digest of `n` <= VL / 2 words from word `first` on. Bytes beyond the last one count as 0.
VEC_INLINE vq digest_words(const kernel_digest_args *p, int64_t first, int64_t n)
{
    enum { LANES = VL / 2 };
    uint32_t copy[LANES] = {0};
    V_HALF words;
    if (n == LANES && 4 * (first + n) <= p->bytes) {
        memcpy(&words, (const unsigned char *)p->x + 4 * first, sizeof words);
    } else {
        memcpy(copy, (const unsigned char *)p->x + 4 * first,
               (size_t)size_min(4 * n, p->bytes - 4 * first));
        memcpy(&words, copy, sizeof words);
    }
    vq number = (vq){}, use;
    for (int l = 0; l < LANES; l++) {
        number[l] = (uint64_t)l;
        use[l] = l < n ? ~(uint64_t)0 : 0;
    }
    vq index = (number + (p->index0 + (uint64_t)first)) << 32;
    return mix64((vq)V_OP(cvtepu32_epi64)(words) | index) & use;
}

static void digest_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                        int thread)
{
    enum { LANES = VL / 2 };
    const kernel_digest_args *p = args;
    vq sum[2] = {};
    int64_t i = first;
    for (; i + 2 * LANES <= last && 4 * (i + 2 * LANES) <= p->bytes; i += 2 * LANES) {
        sum[0] += digest_words(p, i, LANES);
        sum[1] += digest_words(p, i + LANES, LANES);
    }
    for (; i < last; i += LANES) sum[0] += digest_words(p, i, size_min(last - i, LANES));
    uint64_t total = 0;
    for (int l = 0; l < LANES; l++) total += sum[0][l] + sum[1][l];
    ((uint64_t *)x->shared)[thread] += total;
}

void VEC(digest)(const cpu_context *x, const void *args)
{
    const kernel_digest_args *p = args;
    uint64_t *sums = (uint64_t *)x->shared;
    memset(sums, 0, sizeof *sums * (size_t)x->threads);
    VEC(share)(x, p, size_ceil_div(p->bytes, 4), DIGEST_GRAIN, digest_part);
    for (int i = 0; i < x->threads; i++) *p->digest += sums[i];
}
