// cases_embedding.c -- cases of K_EMBEDDING and K_EMBEDDING_GRAD: vocabulary shards, tokens of a
// context-parallel rank, frequent ids with more rows than one piece or one group of sums, and tables that
// are left out.
#include "case.h"

typedef enum ids_kind { IDS_ANY, IDS_ONE_FREQUENT, IDS_ONE, IDS_RUNS, IDS_KINDS } ids_kind;

typedef struct shape {
    int64_t rows, cols, vocab, first, full_vocab;
    ids_kind ids;
    dtype type;
    bool residual_fp32, no_tokens, no_positions, accumulate, two_chunks, documents;
} shape;

static const char *const IDS_WORDS[IDS_KINDS] = {"any", "one frequent", "one", "runs"};

// Positions 1, 2, 5 and 6 of sequences of 8 tokens.
static const kernel_tokens TWO_CHUNKS = {
    .seq = 4, .full_seq = 8, .chunk = 2, .start = {1, 5}, .first_row = 3};
enum { SEQ = 8 };

static int32_t *ids_of(space *s, const shape *h)
{
    int32_t *ids = space_ids(s, h->rows, (int32_t)h->full_vocab);
    for (int64_t r = 0; r < h->rows; r++) {
        if (h->ids == IDS_ONE_FREQUENT && r % 9 != 0) ids[r] = (int32_t)(h->full_vocab / 2);
        if (h->ids == IDS_ONE) ids[r] = (int32_t)(h->full_vocab / 2);
        if (h->ids == IDS_RUNS) ids[r] = (int32_t)(r / 33 % h->full_vocab);
    }
    return ids;
}

static kernel_tokens tokens_of(space *s, const shape *h)
{
    kernel_tokens t = h->two_chunks ? TWO_CHUNKS : kernel_tokens_from(SEQ, 0);
    if (h->documents) t.documents = space_documents(s, &t, h->rows, 3);
    return t;
}

static kernel_call describe(space *s, const void *args)
{
    const shape *h = args;
    const dtype residual = kernel_residual_type(h->type, h->residual_fp32);
    return (kernel_call){
        .kind = K_EMBEDDING,
        .u.embedding = {
            .rows = h->rows,
            .cols = h->cols,
            .row_tokens = tokens_of(s, h),
            .first = h->first,
            .vocab = h->vocab == h->full_vocab ? 0 : h->vocab,
            .ids = ids_of(s, h),
            .tokens = space_random(s, h->vocab * h->cols, h->type, 1, NULL),
            .positions = h->no_positions ? NULL : space_random(s, SEQ * h->cols, h->type, 1, NULL),
            .y = space_array_of(s, h->rows * h->cols, residual, "y"),
            .scale = 1.5f,
            .type = h->type,
            .residual_fp32 = h->residual_fp32}};
}

static kernel_call describe_grad(space *s, const void *args)
{
    const shape *h = args;
    const dtype residual = kernel_residual_type(h->type, h->residual_fp32);
    kernel_embedding_grad_args a = {.rows = h->rows,
                                    .cols = h->cols,
                                    .first = h->first,
                                    .vocab = h->vocab,
                                    .max_seq = SEQ + 1,
                                    .row_tokens = tokens_of(s, h),
                                    .ids = ids_of(s, h),
                                    .dy = space_random(s, h->rows * h->cols, residual, 1, NULL),
                                    .scale = 1.5f,
                                    .type = h->type,
                                    .accumulate_tokens = h->accumulate,
                                    .accumulate_positions = h->accumulate,
                                    .residual_fp32 = h->residual_fp32};
    if (!h->no_tokens) a.d_tokens = space_random(s, h->vocab * h->cols, F32, 1, "d_tokens");
    if (!h->no_positions)
        a.d_positions = space_random(s, a.max_seq * h->cols, F32, 1, "d_positions");
    return (kernel_call){.kind = K_EMBEDDING_GRAD, .u.embedding_grad = a};
}

static void check(case_run *r, const shape *h)
{
    char text[200];
    snprintf(text, sizeof text, "[%lld, %lld] vocab %lld of %lld from %lld, ids %s, %s%s%s%s%s%s%s",
             (long long)h->rows, (long long)h->cols, (long long)h->vocab, (long long)h->full_vocab,
             (long long)h->first, IDS_WORDS[h->ids], dtype_name(h->type),
             h->residual_fp32 ? " residual fp32" : "", h->no_tokens ? " no tokens" : "",
             h->no_positions ? " no positions" : "", h->accumulate ? " accumulate" : "",
             h->two_chunks ? " two chunks" : "", h->documents ? " documents" : "");
    if (!h->no_tokens) case_check(r, describe, h, "embedding %s", text);
    case_check(r, describe_grad, h, "embedding_grad %s", text);
}

// All types and flags on one shape.
static void check_types(case_run *r, shape h)
{
    for (h.type = F32; h.type <= F16; h.type++) {
        for (int k = 0; k < 8; k++) {
            h.residual_fp32 = k & 1, h.accumulate = k & 2, h.no_positions = k & 4;
            h.two_chunks = k == 3;
            check(r, &h);
            h.documents = k < 4;
            if (h.documents) check(r, &h);
            h.documents = false;
        }
    }
    h.type = BF16, h.no_positions = h.two_chunks = false, h.no_tokens = true;
    check(r, &h);
}

void cases_run(case_run *r)
{
    check_types(r, (shape){.rows = 37, .cols = 24, .vocab = 11, .full_vocab = 11});
    check_types(r, (shape){.rows = 20, .cols = 7, .vocab = 5, .first = 3, .full_vocab = 13});
    check(r, &(shape){.rows = 0, .cols = 8, .vocab = 5, .full_vocab = 5, .type = BF16});
    check(r, &(shape){.rows = 1, .cols = 1, .vocab = 1, .full_vocab = 1, .type = F16});
    // Several blocks of columns, and several digits of ids.
    check(r, &(shape){.rows = 9, .cols = 1304, .vocab = 700, .full_vocab = 700, .type = BF16});
    // Several pieces, groups and tiles.
    for (ids_kind k = 0; k < IDS_KINDS; k++) {
        shape h = {.rows = 2500, .cols = 8, .vocab = 600, .full_vocab = 600, .ids = k};
        check(r, &h);
        h.cols = 3, h.type = BF16, h.residual_fp32 = true, h.accumulate = true;
        check(r, &h);
        h.vocab = 200, h.first = 250;
        check(r, &h);
    }
    for (int i = 0; i < 8; i++) {
        shape h = {.rows = case_pick(r, 1, 400),
                   .cols = case_pick(r, 1, 40),
                   .full_vocab = case_pick(r, 2, 300),
                   .ids = (ids_kind)case_pick(r, 0, IDS_KINDS - 1),
                   .type = (dtype)case_pick(r, F32, F16),
                   .residual_fp32 = case_pick(r, 0, 1),
                   .accumulate = case_pick(r, 0, 1),
                   .two_chunks = case_pick(r, 0, 1),
                   .documents = case_pick(r, 0, 1)};
        h.first = case_pick(r, 0, h.full_vocab - 1);
        h.vocab = case_pick(r, 1, h.full_vocab - h.first);
        check(r, &h);
    }
}
