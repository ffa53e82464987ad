// cases_reduce.c -- cases of K_BIAS_GRAD and K_SUM_SQUARES: padded rows, segments of all sizes, with gaps,
// in any order, and empty ones.
#include "case.h"

typedef struct shape {
    int64_t rows, cols, stride;
    dtype type;
    bool accumulate;
} shape;

static kernel_call describe_bias(space *s, const void *args)
{
    const shape *h = args;
    const int64_t stride = kernel_stride(h->stride, h->cols);
    const int64_t count = h->rows > 0 ? (h->rows - 1) * stride + h->cols : 0;
    return (kernel_call){.kind = K_BIAS_GRAD,
                         .u.bias_grad = {.rows = h->rows,
                                         .cols = h->cols,
                                         .dy = space_random(s, count, h->type, 1, NULL),
                                         .db = space_random(s, h->cols, F32, 1, "db"),
                                         .type = h->type,
                                         .accumulate = h->accumulate,
                                         .stride = h->stride}};
}

static void check_bias(case_run *r, int64_t rows, int64_t cols, int64_t stride)
{
    for (dtype type = F32; type <= F16; type++)
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            const shape h = {rows, cols, stride, type, accumulate};
            case_check(r, describe_bias, &h, "bias_grad [%lld, %lld] stride %lld %s%s",
                       (long long)rows, (long long)cols, (long long)stride, dtype_name(type),
                       accumulate ? " accumulate" : "");
        }
}

enum { MOST_SEGMENTS = 300 };

typedef struct squares_shape {
    int64_t count;          // without segments
    int64_t segments, most; // elements of the largest segment
    dtype type;
} squares_shape;

static kernel_call describe_squares(space *s, const void *args)
{
    const squares_shape *h = args;
    kernel_segment table[MOST_SEGMENTS] = {0};
    int64_t end = 3, count = 0;
    // Sizes are uneven, and the table goes through the array backwards.
    for (int64_t i = h->segments - 1; i >= 0; i--) {
        table[i] = (kernel_segment){
            .count = i % 7 == 0 ? h->most / (i + 1) : i % 5 * 11, .src = end, .decays = i % 2};
        end += table[i].count + i % 3;
        count += table[i].count;
    }
    if (h->segments == 0) end = count = h->count;
    kernel_sum_squares_args a = {.count = count,
                                 .x = space_random(s, end, h->type, 1, NULL),
                                 .sum = space_random(s, 1, F64, 1, "sum"),
                                 .type = h->type,
                                 .segments = h->segments};
    if (h->segments > 0)
        a.segment = space_bytes(s, table, sizeof *table * (size_t)h->segments, NULL);
    return (kernel_call){.kind = K_SUM_SQUARES, .u.sum_squares = a};
}

static void check_squares(case_run *r, int64_t count, int64_t segments, int64_t most)
{
    for (dtype type = F32; type <= F16; type++) {
        const squares_shape h = {count, segments, most, type};
        case_check(r, describe_squares, &h, "sum_squares %lld, %lld segments up to %lld, %s",
                   (long long)count, (long long)segments, (long long)most, dtype_name(type));
    }
}

void cases_run(case_run *r)
{
    check_bias(r, 0, 5, 0);
    check_bias(r, 1, 1, 0);
    check_bias(r, 70, 24, 0);
    check_bias(r, 130, 35, 40);
    check_bias(r, 9, 600, 608);
    check_bias(r, 9000, 3, 0); // parts of more than the least rows
    for (int i = 0; i < 4; i++) check_bias(r, case_pick(r, 1, 300), case_pick(r, 1, 300), 0);
    check_squares(r, 0, 0, 0);
    check_squares(r, 1, 0, 0);
    check_squares(r, 1000, 0, 0);
    check_squares(r, 40001, 0, 0);
    check_squares(r, 0, 1, 50000);
    check_squares(r, 0, 9, 3000);
    check_squares(r, 0, MOST_SEGMENTS, 20000);
    for (int i = 0; i < 4; i++)
        check_squares(r, 0, case_pick(r, 1, MOST_SEGMENTS), case_pick(r, 1, 5000));
}
