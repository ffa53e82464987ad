// cases_init.c -- cases of K_INIT, whose numbers have the reference's bits, of K_DROPOUT, whose words follow
// logical elements, and of K_DIGEST.
#include "case.h"

typedef struct shape {
    int64_t rows, cols;
    dtype type;
    bool fp32, normal;
    int variant;
} shape;

static kernel_call describe_init(space *s, const void *args)
{
    const shape *h = args;
    return (kernel_call){.kind = K_INIT,
                         .u.init = {.count = h->cols,
                                    .y = space_array_of(s, h->cols, F32, "y"),
                                    .key = rng_key_make(5, RNG_INIT, 3, 0),
                                    .index0 = (uint64_t)(((int64_t)1 << 33) + h->variant),
                                    .std = 0.02f,
                                    .constant = 1,
                                    .normal = h->normal,
                                    .uniform = !h->normal && h->variant % 2 == 1}};
}

// Positions 1, 2, 5 and 6 of sequences of 8 tokens.
static const kernel_tokens TWO_CHUNKS = {
    .seq = 4, .full_seq = 8, .chunk = 2, .start = {1, 5}, .first_row = 3};

// `variant`: 1 with a residual, 2 for some of the tokens, 4 in place, 8 for some of the columns.
static kernel_call describe_dropout(space *s, const void *args)
{
    const shape *h = args;
    const bool adds = h->variant & 1;
    const dtype residual = kernel_residual_type(h->type, h->fp32);
    const int64_t count = h->rows * h->cols;
    const kernel_step step = {.step = 7, .first_row = 1000, .loss_scale = 1};
    kernel_dropout_args a = {.rows = h->rows,
                             .cols = h->cols,
                             .row_tokens = h->variant & 2
                                               ? TWO_CHUNKS
                                               : kernel_tokens_from(h->rows > 0 ? h->rows : 1, 2),
                             .x = space_random(s, count, adds ? h->type : residual, 1, NULL),
                             .p = 0.3f,
                             .draw = {.seed = 11, .node = 4, .row0 = 16},
                             .type = h->type,
                             .residual_fp32 = h->fp32};
    if (h->variant & 8) a.first_col = 2 * h->cols, a.full_cols = 5 * h->cols;
    if (h->rows % 2) a.draw.step = space_bytes(s, &step, sizeof step, NULL);
    if (adds) a.residual = space_random(s, count, residual, 1, h->variant & 4 ? "y" : NULL);
    a.y = adds && h->variant & 4 ? (void *)(uintptr_t)a.residual
                                 : space_array_of(s, count, adds ? residual : h->type, "y");
    return (kernel_call){.kind = K_DROPOUT, .u.dropout = a};
}

static kernel_call describe_digest(space *s, const void *args)
{
    const shape *h = args;
    const uint64_t before = 12345;
    return (kernel_call){.kind = K_DIGEST,
                         .u.digest = {.bytes = 2 * h->cols,
                                      .x = space_random(s, h->cols, BF16, 1, NULL),
                                      .index0 = (uint64_t)h->variant,
                                      .digest = space_bytes(s, &before, sizeof before, "digest")}};
}

static void check_init(case_run *r, int64_t count)
{
    for (int variant = 0; variant < 6; variant++) {
        shape h = {.cols = count, .normal = variant < 4, .variant = variant};
        case_check(r, describe_init, &h, "init %lld from %d", (long long)count, variant);
    }
}

static void check_dropout(case_run *r, int64_t rows, int64_t cols)
{
    for (dtype type = F32; type <= F16; type++)
        for (int i = 0; i < 32; i++) {
            shape h = {rows, cols, type, i & 8, false, (i & 7) | (i & 16 ? 8 : 0)};
            case_check(r, describe_dropout, &h, "dropout [%lld, %lld] %s variant %d",
                       (long long)rows, (long long)cols, dtype_name(type), i);
        }
}

static void check_digest(case_run *r, int64_t halves)
{
    const shape h = {.cols = halves, .variant = (int)(halves % 100)};
    case_check(r, describe_digest, &h, "digest of %lld bytes", (long long)(2 * halves));
}

void cases_run(case_run *r)
{
    static const int64_t counts[] = {0, 1, 2, 5, 31, 1024, 4099, 40000};
    for (int i = 0; i < 8; i++) check_init(r, counts[i]), check_digest(r, counts[i]);
    check_dropout(r, 0, 8);
    check_dropout(r, 1, 1);
    check_dropout(r, 4, 64);
    check_dropout(r, 7, 30);
    check_dropout(r, 33, 5);
    check_dropout(r, 16, 1024);
    for (int i = 0; i < 3; i++) check_dropout(r, case_pick(r, 1, 30), case_pick(r, 1, 300));
}
