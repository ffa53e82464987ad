// cases_elementwise.c -- cases of K_ADD, K_CONVERT, K_COPY_ROWS and K_FILL.
#include "case.h"

typedef struct shape {
    int64_t rows, cols;
    dtype type, other;
    int variant;
} shape;

static const int64_t COUNTS[] = {0, 1, 7, 8, 33, 255, 1024, 4099, 70001};
enum { SIZES = sizeof COUNTS / sizeof *COUNTS, MOST_SEGMENTS = 64 };

// `variant`: 1 with b, 2 with an F32 residual.
static kernel_call describe_add(space *s, const void *args)
{
    const shape *h = args;
    const bool fp32 = h->variant & 2;
    const dtype residual = kernel_residual_type(h->type, fp32);
    void *y = space_random(s, h->cols, residual, 1, "y");
    return (kernel_call){
        .kind = K_ADD,
        .u.add = {.count = h->cols,
                  .a = y,
                  .y = y,
                  .alpha = 0.5f,
                  .beta = -2,
                  .b = h->variant & 1 ? space_random(s, h->cols, h->type, 1, NULL) : NULL,
                  .type = h->type,
                  .residual_fp32 = fp32}};
}

// `variant`: 1 accumulates.
static kernel_call describe_convert(space *s, const void *args)
{
    const shape *h = args;
    return (kernel_call){.kind = K_CONVERT,
                         .u.convert = {.count = h->cols,
                                       .src = space_random(s, h->cols, h->type, 3, NULL),
                                       .dst = space_random(s, h->cols, h->other, 1, "dst"),
                                       .src_type = h->type,
                                       .dst_type = h->other,
                                       .accumulate = h->variant}};
}

// `rows` segments of up to `cols` elements, the last of the table first in the arrays, with gaps between them.
static kernel_call describe_segments(space *s, const void *args)
{
    const shape *h = args;
    kernel_segment table[MOST_SEGMENTS] = {0};
    int64_t count = 0, src = 1, dst = 2;
    for (int64_t i = h->rows - 1; i >= 0; i--) {
        const int64_t some = i % 3 == 2 ? 0 : h->cols - i * 5 % (h->cols / 2 + 1);
        table[i] = (kernel_segment){.count = some, .src = src, .dst = dst};
        count += some, src += some + i % 2, dst += some + 16 * (i % 2);
    }
    return (kernel_call){
        .kind = K_CONVERT,
        .u.convert = {.count = count,
                      .src = space_random(s, src, h->type, 3, NULL),
                      .dst = space_random(s, dst, h->other, 1, "dst"),
                      .src_type = h->type,
                      .dst_type = h->other,
                      .accumulate = h->variant,
                      .segment = space_bytes(s, table, sizeof *table * (size_t)h->rows, NULL),
                      .segments = h->rows}};
}

static kernel_call describe_fill(space *s, const void *args)
{
    const shape *h = args;
    return (kernel_call){
        .kind = K_FILL, .u.fill = {.dst = space_array_of(s, h->cols, U8, "dst"), .bytes = h->cols}};
}

// Positions 1, 2, 5 and 6 of sequences of 8 tokens.
static const kernel_tokens TWO_CHUNKS = {
    .seq = 4, .full_seq = 8, .chunk = 2, .start = {1, 5}, .first_row = 3};

static kernel_call describe_copy_rows(space *s, const void *args)
{
    const shape *h = args;
    const int64_t logical = 2 * h->rows + 16, stride = h->cols + 3;
    const kernel_tokens all = kernel_tokens_from(h->rows > 0 ? h->rows : 1, 0);
    return (kernel_call){
        .kind = K_COPY_ROWS,
        .u.copy_rows = {.rows = h->rows,
                        .cols = h->cols,
                        .src_stride = stride,
                        .dst_stride = stride + 1,
                        .src_rows = h->variant ? all : TWO_CHUNKS,
                        .dst_rows = h->variant ? TWO_CHUNKS : all,
                        .type = h->type,
                        .src = space_random(s, logical * stride, h->type, 1, NULL),
                        .dst = space_random(s, logical * (stride + 1), h->type, 1, "dst")}};
}

static void check_counts(case_run *r, int64_t count)
{
    for (dtype type = F32; type <= F16; type++) {
        shape h = {.cols = count, .type = type};
        for (h.variant = 0; h.variant < 4; h.variant++)
            case_check(r, describe_add, &h, "add %lld %s variant %d", (long long)count,
                       dtype_name(type), h.variant);
        h.variant = 0;
        for (h.other = F32; h.other <= F16; h.other++)
            case_check(r, describe_convert, &h, "convert %lld from %s to %s", (long long)count,
                       dtype_name(type), dtype_name(h.other));
    }
    shape h = {.cols = count, .type = F32, .other = F32, .variant = 1};
    case_check(r, describe_convert, &h, "convert %lld, accumulated", (long long)count);
    case_check(r, describe_fill, &h, "fill %lld bytes", (long long)count);
}

static void check_rows(case_run *r, int64_t rows, int64_t cols)
{
    for (dtype type = F32; type <= F16; type++) {
        shape h = {.rows = rows, .cols = cols, .type = type};
        for (h.variant = 0; h.variant < 2; h.variant++)
            case_check(r, describe_copy_rows, &h, "copy_rows [%lld, %lld] %s variant %d",
                       (long long)rows, (long long)cols, dtype_name(type), h.variant);
    }
}

static void check_segments(case_run *r, int64_t segments, int64_t most)
{
    shape h = {.rows = segments, .cols = most};
    for (h.type = F32; h.type <= F16; h.type++)
        for (h.other = F32; h.other <= F16; h.other++)
            case_check(r, describe_segments, &h, "convert %lld segments up to %lld from %s to %s",
                       (long long)segments, (long long)most, dtype_name(h.type),
                       dtype_name(h.other));
    h.type = h.other = F32, h.variant = 1;
    case_check(r, describe_segments, &h, "convert %lld segments up to %lld, accumulated",
               (long long)segments, (long long)most);
}

void cases_run(case_run *r)
{
    check_segments(r, 1, 1);
    check_segments(r, 5, 9000);
    check_segments(r, MOST_SEGMENTS, 40);
    for (int i = 0; i < SIZES; i++) check_counts(r, COUNTS[i]);
    for (int i = 0; i < 4; i++) check_counts(r, case_pick(r, 1, 5000));
    check_rows(r, 0, 8);
    check_rows(r, 5, 1);
    check_rows(r, 17, 96);
    check_rows(r, 3, 1000);
}
