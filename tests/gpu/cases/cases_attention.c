// cases_attention.c -- cases of K_ATTENTION and K_ATTENTION_GRAD.
#include "case.h"

typedef struct shape {
    int64_t batch, tq, tk, heads, kv_heads, head_dim;
    bool causal;
    float dropout;
    int64_t gap;     // elements between rows; 0: rows are aligned as their array is
    int ranks, rank; // of context parallelism: the queries are two of 2 * ranks chunks of the keys
    dtype type;
} shape;

// What a case describes.
typedef struct attention {
    shape shape;
    kernel_attention_form form;
    bool sinks, accumulates; // accumulates: the gradients of sinks
    int64_t documents;       // about so many tokens each; 0: a sequence is one
} attention;

static const char *text_of(const attention *a)
{
    static char text[200];
    const shape *h = &a->shape;
    snprintf(text, sizeof text,
             "B=%d Tq=%d Tk=%d H=%d KV=%d D=%d %s dropout %g gap %d rank %d of %d %s, window %d, "
             "cap %g, sinks %d, documents %d",
             (int)h->batch, (int)h->tq, (int)h->tk, (int)h->heads, (int)h->kv_heads,
             (int)h->head_dim, h->causal ? "causal" : "full", (double)h->dropout, (int)h->gap,
             h->rank, h->ranks, dtype_name(h->type), (int)a->form.window, (double)a->form.softcap,
             a->sinks, (int)a->documents);
    return text;
}

static kernel_tokens queries_of(const shape *h)
{
    if (h->ranks == 0) return kernel_tokens_from(h->tq, h->tk > h->tq ? h->tk - h->tq : 0);
    const int64_t chunk = h->tq / 2;
    return (kernel_tokens){.seq = h->tq,
                           .full_seq = h->tk,
                           .chunk = chunk,
                           .start = {h->rank * chunk, (2 * h->ranks - 1 - h->rank) * chunk}};
}

// q, k and v lie in one array, as in a model. The words of a row's dropout begin within a counter if the
// number of keys is no multiple of 4.
static kernel_attention_args describe_inputs(space *s, const attention *a)
{
    const shape *h = &a->shape;
    const int64_t d = h->head_dim, row = (h->heads + 2 * h->kv_heads) * d + h->gap;
    const int64_t tokens = h->batch * (h->tk > h->tq ? h->tk : h->tq);
    unsigned char *qkv = space_random(s, tokens * row, h->type, 1, NULL);
    const size_t size = dtype_bytes(h->type);
    kernel_tokens queries = queries_of(h);
    if (a->documents)
        queries.documents = space_documents(s, &queries, h->batch * h->tq, a->documents);
    return (kernel_attention_args){
        .batch = h->batch,
        .queries = queries,
        .tk = h->tk,
        .heads = h->heads,
        .kv_heads = h->kv_heads,
        .head_dim = d,
        .q_stride = row,
        .k_stride = row,
        .v_stride = row,
        .o_stride = h->heads * d + h->gap,
        .k_batch = h->tk * row,
        .v_batch = h->tk * row,
        .q = qkv,
        .k = qkv + size * (size_t)(h->heads * d),
        .v = qkv + size * (size_t)((h->heads + h->kv_heads) * d),
        .sinks = a->sinks ? space_random(s, h->heads, h->type, 1, NULL) : NULL,
        .scale = 1.5f / sqrtf((float)d),
        .form = a->form,
        .dropout.p = h->dropout,
        .dropout.draw = {.seed = 3, .node = 2, .row0 = 5},
        .dropout.stride = (uint64_t)h->tk,
        .dropout.head0 = 1,
        .dropout.all_heads = h->heads + 2,
        .causal = h->causal,
        .type = h->type,
    };
}

static kernel_call describe_forward(space *s, const void *args)
{
    kernel_call call = {.kind = K_ATTENTION, .u.attention = describe_inputs(s, args)};
    kernel_attention_args *p = &call.u.attention;
    p->o = space_random(s, p->batch * p->queries.seq * p->o_stride, p->type, 1, "o");
    p->lse = space_random(s, p->batch * p->heads * p->queries.seq, F32, 1, "lse");
    return call;
}

static kernel_call describe_backward(space *s, const void *args)
{
    const attention *a = args;
    kernel_call call = {.kind = K_ATTENTION, .u.attention = describe_inputs(s, a)};
    kernel_attention_args p = call.u.attention;
    p.o = space_random(s, p.batch * p.queries.seq * p.o_stride, p.type, 1, NULL);
    p.lse = space_random(s, p.batch * p.heads * p.queries.seq, F32, 1, NULL);
    call.u.attention = p;
    case_reference(&call);
    const int64_t tokens = p.tk > p.queries.seq ? p.tk : p.queries.seq;
    unsigned char *grads = space_random(s, p.batch * tokens * p.q_stride, p.type, 1, "dqkv");
    return (kernel_call){
        .kind = K_ATTENTION_GRAD,
        .u.attention_grad = {
            .fwd = p,
            .d_o = space_random(s, p.batch * p.queries.seq * p.o_stride, p.type, 1, NULL),
            .dq = grads,
            .dk = grads + ((const unsigned char *)p.k - (const unsigned char *)p.q),
            .dv = grads + ((const unsigned char *)p.v - (const unsigned char *)p.q),
            .delta = space_random(s, p.batch * p.heads * p.queries.seq, F32, 1, "delta"),
            .d_sinks = a->sinks ? space_random(s, p.heads, F32, 1, "d_sinks") : NULL,
            .accumulate_d_sinks = a->accumulates}};
}

static void check_attention(case_run *r, attention a)
{
    case_check(r, describe_forward, &a, "attention %s", text_of(&a));
    case_check(r, describe_backward, &a, "attention_grad %s", text_of(&a));
}

static void check_forward(case_run *r, shape h)
{
    const attention a = {.shape = h};
    case_check(r, describe_forward, &a, "attention %s", text_of(&a));
}

static void check(case_run *r, shape h)
{
    check_attention(r, (attention){.shape = h});
}

static const dtype HALVES[] = {BF16, F16};

// Each width of the tiles, widths that they pad, widths that they do not take, and lengths around the sizes
// of the tiles.
static void check_widths(case_run *r)
{
    static const int64_t WIDTHS[] = {32, 40, 64, 80, 96, 128, 160, 7};
    for (int i = 0; i < 8; i++) {
        const dtype half = HALVES[i % 2];
        check(r, (shape){1, 65, 65, 1, 1, WIDTHS[i], true, 0, 0, 0, 0, half});
        check(r, (shape){1, 33, 33, 1, 1, WIDTHS[i], true, 0, 0, 0, 0, F32});
    }
    check(r, (shape){1, 200, 200, 1, 1, 64, true, 0, 0, 0, 0, BF16});
    check(r, (shape){1, 150, 150, 1, 1, 128, true, 0, 0, 0, 0, F16});
    check(r, (shape){1, 130, 130, 1, 1, 20, true, 0, 0, 0, 0, F32});
}

static void check_lengths(case_run *r)
{
    static const int64_t LENGTHS[] = {1, 2, 5, 7, 64};
    for (int i = 0; i < 5; i++) {
        const dtype half = HALVES[i % 2];
        check(r, (shape){2, LENGTHS[i], LENGTHS[i], 2, 2, 32, true, 0, 0, 0, 0, half});
        check(r, (shape){1, LENGTHS[i], LENGTHS[i], 2, 1, 24, false, 0, 8, 0, 0, half});
    }
    // Fewer queries than keys, and more queries than keys.
    check(r, (shape){1, 40, 100, 1, 1, 32, true, 0, 0, 0, 0, BF16});
    check(r, (shape){1, 70, 33, 1, 1, 32, false, 0, 0, 0, 0, F16});
    check(r, (shape){1, 33, 80, 1, 1, 16, true, 0, 0, 0, 0, F32});
    // Several heads on one head of keys, in several sequences.
    check(r, (shape){2, 40, 40, 4, 1, 64, true, 0, 0, 0, 0, BF16});
    check(r, (shape){1, 34, 34, 8, 2, 96, true, 0, 16, 0, 0, F16});
    check(r, (shape){2, 20, 20, 4, 1, 16, true, 0, 1, 0, 0, F32});
    // Rows that are not aligned.
    check(r, (shape){1, 40, 40, 2, 1, 64, true, 0, 3, 0, 0, BF16});
}

static void check_dropout(case_run *r)
{
    check(r, (shape){2, 72, 72, 2, 1, 64, true, 0.3f, 0, 0, 0, BF16});
    check(r, (shape){1, 33, 33, 2, 2, 128, true, 0.3f, 0, 0, 0, F16});
    check(r, (shape){1, 70, 70, 1, 1, 32, false, 0.1f, 0, 0, 0, BF16});
    check(r, (shape){1, 40, 68, 1, 1, 96, true, 0.5f, 0, 0, 0, F16});
    check(r, (shape){2, 33, 33, 2, 1, 16, true, 0.3f, 0, 0, 0, F32});
    check(r, (shape){1, 4, 300, 2, 1, 32, true, 0.3f, 0, 0, 0, BF16});
}

// Each rank of a context-parallel group has an early and a late chunk of the queries, and all keys.
static void check_context_parallel(case_run *r)
{
    for (int rank = 0; rank < 2; rank++) {
        check(r, (shape){1, 80, 160, 1, 1, 64, true, 0, 0, 2, rank, BF16});
        check(r, (shape){2, 20, 40, 2, 1, 128, true, 0.2f, 0, 2, rank, F16});
        check(r, (shape){1, 20, 40, 2, 1, 24, true, 0.2f, 0, 2, rank, F32});
    }
}

static void check_decode(case_run *r)
{
    static const int64_t KEYS[] = {1, 2, 31, 255, 256, 257, 600, 1000};
    for (int i = 0; i < 8; i++) {
        const dtype half = HALVES[i % 2];
        check_forward(r, (shape){1, 1, KEYS[i], 4, 1, 64, true, 0, 0, 0, 0, half});
        check_forward(r, (shape){1, 1, KEYS[i], 1, 1, 128, true, 0, 0, 0, 0, F32});
    }
    check_forward(r, (shape){2, 3, 520, 2, 2, 80, true, 0, 0, 0, 0, BF16});
    check_forward(r, (shape){1, 4, 300, 2, 1, 7, true, 0, 0, 0, 0, F16});
    check_forward(r, (shape){1, 2, 300, 1, 1, 160, false, 0, 1, 0, 0, F16});
    check_forward(r, (shape){1, 1, 40, 1, 1, 1040, true, 0, 0, 0, 0, F16});
}

// Windows that begin and end within tiles and at their edges, in every kernel: each width of the tiles, plain, decoding.
static void check_forms(case_run *r)
{
    static const attention ALL[] = {
        {{1, 200, 200, 1, 1, 64, true, 0, 0, 0, 0, BF16}, {1, 0}, false, false, 0},
        {{1, 200, 200, 2, 1, 32, true, 0, 0, 0, 0, F16}, {40, 0}, true, false, 0},
        {{1, 200, 200, 1, 1, 96, true, 0, 0, 0, 0, BF16}, {64, 2}, false, false, 0},
        {{1, 150, 150, 1, 1, 128, true, 0, 0, 0, 0, F16}, {33, 1.5f}, true, true, 0},
        {{2, 300, 300, 1, 1, 40, true, 0, 0, 0, 0, BF16}, {130, 0}, true, false, 0},
        {{1, 70, 70, 4, 2, 64, false, 0, 0, 0, 0, F16}, {0, 1}, true, true, 0},
        {{1, 65, 65, 2, 1, 64, true, 0, 0, 0, 0, BF16}, {0, 3}, false, false, 0},
        {{1, 65, 65, 2, 1, 128, true, 0, 0, 0, 0, F16}, {0, 0}, true, false, 0},
        {{1, 65, 65, 2, 1, 32, true, 0, 0, 0, 0, BF16}, {1000, 0}, false, false, 0},
        {{1, 40, 100, 1, 1, 32, true, 0, 0, 0, 0, BF16}, {17, 2}, true, false, 0},
        {{1, 130, 130, 2, 1, 20, true, 0, 0, 0, 0, F32}, {50, 0}, false, false, 0},
        {{2, 70, 70, 2, 1, 24, true, 0, 0, 0, 0, F32}, {5, 2}, true, true, 0},
        {{1, 33, 33, 1, 1, 160, true, 0, 1, 0, 0, BF16}, {9, 2}, true, false, 0},
        {{1, 72, 72, 2, 1, 64, true, 0.3f, 0, 0, 0, BF16}, {20, 2}, true, false, 0},
        {{1, 33, 33, 2, 1, 16, true, 0.3f, 0, 0, 0, F32}, {20, 2}, true, false, 0},
        {{1, 1, 600, 2, 1, 64, true, 0, 0, 0, 0, BF16}, {300, 2}, true, false, 0},
        {{2, 3, 520, 2, 2, 80, true, 0, 0, 0, 0, F16}, {7, 0}, true, false, 0},
        {{1, 4, 40, 2, 1, 32, true, 0.3f, 0, 0, 0, F32}, {11, 2}, true, false, 0},
    };
    for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++) check_attention(r, ALL[i]);
    for (int rank = 0; rank < 2; rank++) {
        check_attention(
            r, (attention){
                   {1, 80, 160, 1, 1, 64, true, 0, 0, 2, rank, BF16}, {30, 0}, true, false, 0});
        check_attention(
            r,
            (attention){{1, 20, 40, 2, 1, 24, true, 0, 0, 2, rank, F32}, {15, 2}, true, false, 0});
    }
}

// Packed documents in every kernel: each width of the tiles, plain, decoding, and context-parallel ranks, whose early
// and late chunks may have one document.
static void check_documents(case_run *r)
{
    static const attention ALL[] = {
        {{1, 300, 300, 1, 1, 64, true, 0, 0, 0, 0, BF16}, {0, 0}, false, false, 30},
        {{2, 200, 200, 2, 1, 32, true, 0, 0, 0, 0, F16}, {0, 0}, false, false, 150},
        {{1, 200, 200, 1, 1, 96, true, 0, 0, 0, 0, BF16}, {40, 2}, true, false, 60},
        {{1, 260, 260, 2, 1, 128, true, 0, 0, 0, 0, F16}, {0, 0}, true, true, 4},
        {{1, 70, 70, 2, 1, 64, true, 0, 0, 0, 0, BF16}, {0, 0}, false, false, 1},
        {{2, 70, 140, 1, 1, 32, true, 0, 0, 0, 0, BF16}, {0, 0}, false, false, 20},
        {{2, 130, 130, 2, 1, 20, true, 0, 0, 0, 0, F32}, {0, 0}, false, false, 20},
        {{1, 72, 72, 2, 1, 64, true, 0.3f, 0, 0, 0, BF16}, {0, 0}, true, false, 10},
        {{1, 33, 33, 1, 1, 160, true, 0, 1, 0, 0, BF16}, {9, 0}, false, false, 5},
        {{2, 3, 520, 2, 2, 80, true, 0, 0, 0, 0, F16}, {0, 0}, false, false, 100},
        {{1, 4, 40, 2, 1, 32, true, 0.3f, 0, 0, 0, F32}, {11, 2}, true, false, 3},
    };
    for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++) check_attention(r, ALL[i]);
    for (int rank = 0; rank < 2; rank++) {
        check_attention(
            r, (attention){{2, 80, 160, 1, 1, 64, true, 0, 0, 2, rank, BF16}, {0, 0}, 0, 0, 50});
        check_attention(
            r, (attention){{1, 20, 40, 2, 1, 24, true, 0, 0, 2, rank, F32}, {7, 0}, 0, 0, 9});
    }
}

// ---- One sequence of a batch

typedef struct sequence {
    attention batch; // first: describe_forward and describe_backward take it
    int64_t index;
} sequence;

static void take_sequence(kernel_attention_args *p, int64_t index)
{
    const int64_t tq = p->queries.seq, size = (int64_t)dtype_bytes(p->type);
    p->batch = 1;
    p->q = (const unsigned char *)p->q + size * index * tq * p->q_stride;
    p->k = (const unsigned char *)p->k + size * index * p->k_batch;
    p->v = (const unsigned char *)p->v + size * index * p->v_batch;
    p->o = (unsigned char *)p->o + size * index * tq * p->o_stride;
    p->lse += index * p->heads * tq;
    p->dropout.draw.row0 += (uint64_t)(index * p->queries.full_seq);
}

static kernel_call describe_forward_alone(space *s, const void *args)
{
    kernel_call call = describe_forward(s, args);
    take_sequence(&call.u.attention, ((const sequence *)args)->index);
    return call;
}

static kernel_call describe_backward_alone(space *s, const void *args)
{
    const int64_t index = ((const sequence *)args)->index;
    kernel_call call = describe_backward(s, args);
    kernel_attention_grad_args *p = &call.u.attention_grad;
    const int64_t tq = p->fwd.queries.seq, size = (int64_t)dtype_bytes(p->fwd.type);
    take_sequence(&p->fwd, index);
    p->d_o = (const unsigned char *)p->d_o + size * index * tq * p->fwd.o_stride;
    p->dq = (unsigned char *)p->dq + size * index * tq * p->fwd.q_stride;
    p->dk = (unsigned char *)p->dk + size * index * p->fwd.k_batch;
    p->dv = (unsigned char *)p->dv + size * index * p->fwd.v_batch;
    p->delta += index * p->fwd.heads * tq;
    return call;
}

// The bits of a sequence are its own, in every kernel: tiles, plain, and decoding.
static void check_alone(case_run *r)
{
    static const shape ALL[] = {
        {3, 70, 70, 2, 1, 64, true, 0.3f, 0, 0, 0, BF16},
        {3, 40, 40, 2, 2, 128, false, 0, 0, 0, 0, F16},
        {3, 35, 35, 2, 1, 24, true, 0.2f, 0, 0, 0, F32},
        {3, 1, 520, 2, 1, 64, true, 0, 0, 0, 0, BF16},
        {3, 2, 300, 2, 1, 32, true, 0, 0, 0, 0, F32},
    };
    for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++)
        for (int index = 0; index < 3; index++) {
            const sequence h = {{.shape = ALL[i]}, index};
            case_check_sequence(r, describe_forward, describe_forward_alone, &h, 3, index,
                                text_of(&h.batch));
            if (ALL[i].tq == ALL[i].tk)
                case_check_sequence(r, describe_backward, describe_backward_alone, &h, 3, index,
                                    text_of(&h.batch));
        }
}

void cases_run(case_run *r)
{
    check_alone(r);
    check_widths(r);
    check_lengths(r);
    check_dropout(r);
    check_context_parallel(r);
    check_decode(r);
    check_forms(r);
    check_documents(r);
    for (int i = 0; i < 6; i++) {
        const int64_t tk = case_pick(r, 1, 90), kv = case_pick(r, 1, 2);
        check(r, (shape){case_pick(r, 1, 2), case_pick(r, 1, tk), tk, kv * case_pick(r, 1, 2), kv,
                         8 * case_pick(r, 1, 16), case_pick(r, 0, 1), 0, 8 * case_pick(r, 0, 1), 0,
                         0, (dtype)case_pick(r, F32, F16)});
    }
}
