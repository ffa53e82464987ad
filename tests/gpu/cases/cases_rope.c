// cases_rope.c -- cases of K_ROPE: full and partial rotation, rows with gaps, some tokens of each sequence,
// and the rotation back.
#include "case.h"

enum { POSITIONS = 40 };

typedef struct shape {
    int64_t rows, heads, head_dim, rot, gap;
    dtype type;
    bool some, inverse, interleaved, documents;
} shape;

static const kernel_tokens SOME = {
    .seq = 6, .full_seq = 20, .chunk = 3, .start = {2, 15}, .first_row = 1};

static kernel_call describe(space *s, const void *args)
{
    const shape *h = args;
    const int64_t stride = h->heads * h->head_dim + h->gap;
    kernel_tokens tokens = h->some ? SOME : kernel_tokens_from(POSITIONS, 0);
    if (h->documents) tokens.documents = space_documents(s, &tokens, h->rows, 5);
    return (kernel_call){.kind = K_ROPE,
                         .u.rope = {.rows = h->rows,
                                    .row_tokens = tokens,
                                    .heads = h->heads,
                                    .head_dim = h->head_dim,
                                    .rot = h->rot,
                                    .stride = stride,
                                    .x = space_random(s, h->rows * stride, h->type, 1, "x"),
                                    .table = space_random(s, POSITIONS * h->rot, F32, 0.6f, NULL),
                                    .interleaved = h->interleaved,
                                    .inverse = h->inverse,
                                    .type = h->type}};
}

static void check(case_run *r, int64_t rows, int64_t heads, int64_t head_dim, int64_t rot,
                  int64_t gap)
{
    for (dtype type = F32; type <= F16; type++)
        for (int i = 0; i < 16; i++) {
            const shape h = {rows, heads, head_dim, rot, gap, type, i & 1, i & 2, i & 4, i & 8};
            case_check(r, describe, &h, "rope [%lld, %lld, %lld] rot %lld, gap %lld, %s variant %d",
                       (long long)rows, (long long)heads, (long long)head_dim, (long long)rot,
                       (long long)gap, dtype_name(type), i);
        }
}

void cases_run(case_run *r)
{
    check(r, 0, 2, 8, 8, 0);
    check(r, 1, 1, 2, 2, 0);
    check(r, 50, 12, 64, 64, 128);
    check(r, 7, 5, 128, 128, 8);
    check(r, 9, 3, 80, 32, 16);
    check(r, 30, 4, 6, 4, 5);
    check(r, 3, 9, 64, 0, 0);
    for (int i = 0; i < 3; i++) {
        const int64_t half = case_pick(r, 1, 20);
        check(r, case_pick(r, 1, 60), case_pick(r, 1, 9), 2 * half + case_pick(r, 0, 9), 2 * half,
              case_pick(r, 0, 9));
    }
}
