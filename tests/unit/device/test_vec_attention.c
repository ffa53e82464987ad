// Fused attention equals the reference, forward and backward, for every shape, type and level. It
// has the same bits for every number of threads.
#include "vec_check.h"

typedef struct attention_shape {
    int64_t batch, tq, tk, heads, kv_heads, head_dim;
    bool causal;
    float dropout;
    dtype type;
    int ranks, rank; // of context parallelism: the queries are two of 2 * ranks chunks of the keys
} attention_shape;

typedef struct attention_case {
    attention_shape shape;
    kernel_attention_form form;
    bool sinks, accumulates; // accumulates: the gradients of sinks
    uint32_t documents;      // about so many tokens each; 0: a sequence is one
} attention_case;

static const char *case_text(const attention_case *c)
{
    const attention_shape *s = &c->shape;
    static char text[200];
    snprintf(text, sizeof text,
             "B=%ld Tq=%ld Tk=%ld H=%ld KV=%ld D=%ld %s dropout %g rank %d of %d window %ld cap %g "
             "%s documents %u %s",
             (long)s->batch, (long)s->tq, (long)s->tk, (long)s->heads, (long)s->kv_heads,
             (long)s->head_dim, s->causal ? "causal" : "full", s->dropout, s->rank, s->ranks,
             (long)c->form.window, c->form.softcap, c->sinks ? "sinks" : "", c->documents,
             dtype_name(s->type));
    return text;
}

static kernel_tokens queries_of(const attention_shape *h)
{
    if (h->ranks == 0) return kernel_tokens_from(h->tq, h->tk - h->tq);
    const int64_t chunk = h->tq / 2;
    return (kernel_tokens){.seq = h->tq,
                           .full_seq = h->tk,
                           .chunk = chunk,
                           .start = {h->rank * chunk, (2 * h->ranks - 1 - h->rank) * chunk}};
}

// q, k and v lie in one array, as in a model. o has a gap between rows.
static kernel_attention_args describe_inputs(space *s, const attention_case *c)
{
    const attention_shape *h = &c->shape;
    int64_t d = h->head_dim, row = (h->heads + 2 * h->kv_heads) * d + 3;
    int64_t tokens = h->batch * (h->tk > h->tq ? h->tk : h->tq);
    unsigned char *qkv = space_random(s, tokens * row, h->type, 1, NULL);
    size_t size = dtype_bytes(h->type);
    kernel_tokens queries = queries_of(h);
    if (c->documents)
        queries.documents = space_documents(s, &queries, h->batch * h->tq, c->documents);
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
        .o_stride = h->heads * d + 1,
        .k_batch = h->tk * row,
        .v_batch = h->tk * row,
        .q = qkv,
        .k = qkv + size * (size_t)(h->heads * d),
        .v = qkv + size * (size_t)((h->heads + h->kv_heads) * d),
        .sinks = c->sinks ? space_random(s, h->heads, h->type, 1, NULL) : NULL,
        .scale = 1 / sqrtf((float)d),
        .form = c->form,
        .dropout.p = h->dropout,
        .dropout.draw = {.seed = 3, .row0 = 5},
        .dropout.stride = (uint64_t)h->tk + 1,
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
    const attention_case *c = args;
    kernel_call call = {.kind = K_ATTENTION_GRAD};
    kernel_attention_grad_args *g = &call.u.attention_grad;
    kernel_attention_args *p = &g->fwd;
    *p = describe_inputs(s, c);
    p->o = space_random(s, p->batch * p->queries.seq * p->o_stride, p->type, 1, NULL);
    p->lse = space_random(s, p->batch * p->heads * p->queries.seq, F32, 1, NULL);
    cpu_kernels fast;
    cpu_kernels_fill(&fast, vec_one.level);
    fast.run[K_ATTENTION](&vec_one, p);
    g->d_o = space_random(s, p->batch * p->queries.seq * p->o_stride, p->type, 1, NULL);
    unsigned char *grads = space_random(s, p->batch * p->tk * p->q_stride, p->type, 1, "dqkv");
    g->dq = grads;
    g->dk = grads + ((const unsigned char *)p->k - (const unsigned char *)p->q);
    g->dv = grads + ((const unsigned char *)p->v - (const unsigned char *)p->q);
    g->delta = space_random(s, p->batch * p->heads * p->queries.seq, F32, 1, "delta");
    if (c->sinks) g->d_sinks = space_random(s, p->heads, F32, 1, "d_sinks");
    g->accumulate_d_sinks = c->accumulates;
    return call;
}

static void check_case(attention_case c, describe_fn describe)
{
    for (dtype type = F32; type <= F16; type++) {
        c.shape.type = type;
        check_kernel(describe, &c, case_text(&c));
    }
}

static void check_all_types(attention_shape shape, describe_fn describe)
{
    check_case((attention_case){.shape = shape}, describe);
}

static const attention_shape shapes[] = {
    {2, 1, 1, 2, 2, 8, true, 0, F32, 0, 0},      {1, 5, 5, 4, 2, 16, true, 0, F32, 0, 0},
    {2, 17, 17, 2, 1, 24, false, 0, F32, 0, 0},  {1, 64, 64, 2, 2, 64, true, 0, F32, 0, 0},
    {1, 100, 100, 4, 1, 40, true, 0, F32, 0, 0}, {1, 65, 65, 1, 1, 80, false, 0, F32, 0, 0},
    {1, 257, 257, 1, 1, 32, true, 0, F32, 0, 0}, {1, 70, 70, 2, 1, 128, true, 0, F32, 0, 0},
    {1, 33, 33, 2, 2, 7, true, 0, F32, 0, 0},    {1, 130, 130, 2, 1, 20, false, 0, F32, 0, 0},
};

static void forward_equals_the_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_all_types(shapes[i], describe_forward);
}

static void forward_with_earlier_keys_equals_the_reference(void **state)
{
    (void)state;
    const attention_shape cases[] = {
        {2, 1, 300, 4, 2, 64, true, 0, F32, 0, 0},  {1, 3, 257, 4, 1, 40, true, 0, F32, 0, 0},
        {1, 1, 5, 2, 2, 8, false, 0, F32, 0, 0},    {1, 12, 200, 2, 1, 16, true, 0, F32, 0, 0},
        {1, 70, 140, 2, 2, 24, true, 0, F32, 0, 0}, {1, 2, 70, 2, 1, 7, true, 0.25f, F32, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_all_types(cases[i], describe_forward);
}

static void backward_equals_the_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_all_types(shapes[i], describe_backward);
}

static void dropout_keeps_what_the_reference_keeps(void **state)
{
    (void)state;
    const attention_shape cases[] = {
        {2, 70, 70, 2, 1, 16, true, 0.1f, F32, 0, 0},
        {1, 33, 33, 2, 2, 8, false, 0.5f, F32, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_all_types(cases[i], describe_forward);
        check_all_types(cases[i], describe_backward);
    }
}

// So many heads share one head of keys that the sums of dq do not fit, and two sweeps are made.
static void backward_in_two_sweeps_equals_the_reference(void **state)
{
    (void)state;
    const attention_case c = {.shape = {1, 66, 66, 1030, 1, 12, true, 0, BF16, 0, 0}};
    check_kernel(describe_backward, &c, case_text(&c));
}

// The queries of a rank of context parallelism: the earlier chunk sees few keys, the later one many.
static void queries_in_two_chunks_equal_the_reference(void **state)
{
    (void)state;
    const attention_shape cases[] = {
        {2, 2, 4, 2, 1, 8, true, 0, F32, 2, 0},        {2, 8, 16, 2, 1, 8, true, 0, F32, 2, 0},
        {2, 8, 16, 2, 1, 8, true, 0.2f, F32, 2, 1},    {1, 100, 200, 4, 2, 24, true, 0, F32, 2, 0},
        {1, 100, 200, 4, 2, 24, true, 0, F32, 2, 1},   {1, 128, 512, 1, 1, 64, true, 0, F32, 4, 3},
        {2, 70, 280, 2, 1, 16, true, 0.2f, F32, 4, 2}, {1, 600, 1200, 1, 1, 16, true, 0, F32, 2, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_all_types(cases[i], describe_forward);
        check_all_types(cases[i], describe_backward);
    }
    const attention_case sweeps = {.shape = {1, 66, 132, 1030, 1, 12, true, 0, BF16, 2, 1}};
    check_kernel(describe_backward, &sweeps, case_text(&sweeps));
}

static void backward_with_earlier_keys_equals_the_reference(void **state)
{
    (void)state;
    const attention_shape cases[] = {{1, 12, 200, 2, 1, 16, true, 0, F32, 0, 0},
                                     {2, 70, 140, 2, 2, 24, true, 0, F32, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_all_types(cases[i], describe_backward);
}

// ---- Window, cap and sinks

static void check_both(attention_case c)
{
    check_case(c, describe_forward);
    check_case(c, describe_backward);
}

// Windows around the sizes of tiles and strips, for queries in one and in two chunks.
static void windows_equal_the_reference(void **state)
{
    (void)state;
    static const int64_t windows[] = {1, 2, 12, 64, 65, 130, 1000};
    static const attention_shape sizes[] = {
        {1, 300, 300, 1, 1, 16, true, 0, F32, 0, 0}, {2, 70, 140, 2, 1, 24, true, 0, F32, 0, 0},
        {1, 2, 600, 2, 1, 16, true, 0, F32, 0, 0},   {1, 100, 200, 2, 1, 8, true, 0, F32, 2, 0},
        {1, 100, 200, 2, 1, 8, true, 0, F32, 2, 1},
    };
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            check_both((attention_case){.shape = sizes[k], .form.window = windows[i]});
}

static void a_window_in_two_sweeps_equals_the_reference(void **state)
{
    (void)state;
    const attention_case c = {.shape = {1, 66, 66, 1030, 1, 12, true, 0, BF16, 0, 0},
                              .form.window = 20};
    check_kernel(describe_backward, &c, case_text(&c));
}

static void caps_and_sinks_equal_the_reference(void **state)
{
    (void)state;
    const attention_case cases[] = {
        {{2, 70, 70, 4, 2, 24, true, 0, F32, 0, 0}, {0, 2}, false, false, 0},
        {{1, 65, 65, 1, 1, 80, false, 0, F32, 0, 0}, {0, 0.5f}, true, false, 0},
        {{2, 100, 100, 6, 2, 16, true, 0, F32, 0, 0}, {0, 0}, true, true, 0},
        {{1, 130, 130, 2, 1, 20, true, 0.2f, F32, 0, 0}, {33, 3}, true, false, 0},
        {{1, 3, 257, 4, 1, 40, true, 0, F32, 0, 0}, {0, 2}, true, false, 0},
        {{2, 1, 300, 4, 2, 64, true, 0.25f, F32, 0, 0}, {17, 4}, true, false, 0},
        {{1, 128, 512, 1, 1, 64, true, 0, F32, 4, 3}, {50, 4}, true, true, 0},
        {{2, 70, 280, 2, 1, 16, true, 0.2f, F32, 4, 2}, {90, 0}, true, false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_both(cases[i]);
}

static int64_t pick(uint64_t i, int64_t least, int64_t most)
{
    const uint32_t word = rng_word(rng_key_make(41, RNG_MOCK, 0, 0), i);
    return least + (int64_t)(word % (uint32_t)(most - least + 1));
}

static void random_forms_equal_the_reference(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 12 * 16; i += 16) {
        const int64_t tk = pick(i, 1, 260), kv = pick(i + 1, 1, 2);
        check_both((attention_case){.shape = {.batch = pick(i + 2, 1, 2),
                                              .tq = pick(i + 3, 1, tk),
                                              .tk = tk,
                                              .heads = kv * pick(i + 4, 1, 2),
                                              .kv_heads = kv,
                                              .head_dim = pick(i + 5, 1, 40),
                                              .causal = true,
                                              .dropout = pick(i + 6, 0, 3) == 0 ? 0.2f : 0},
                                    .form.window = pick(i + 7, 0, 100),
                                    .form.softcap = pick(i + 8, 0, 1) ? 2.5f : 0,
                                    .sinks = pick(i + 9, 0, 1),
                                    .accumulates = pick(i + 10, 0, 1)});
    }
}

// ---- Packed documents

// Documents of one token, of a strip, of a tile and of several tiles, in every kernel.
static void documents_equal_the_reference(void **state)
{
    (void)state;
    static const uint32_t means[] = {1, 4, 30, 150};
    static const attention_case cases[] = {
        {{2, 300, 300, 2, 1, 16, true, 0, F32, 0, 0}, {0, 0}, false, false, 0},
        {{1, 150, 150, 2, 1, 24, true, 0.2f, F32, 0, 0}, {0, 0}, true, true, 0},
        {{2, 140, 140, 1, 1, 20, true, 0, F32, 0, 0}, {17, 2}, false, false, 0},
        {{1, 70, 140, 2, 2, 8, true, 0, F32, 0, 0}, {0, 0}, false, false, 0},
        {{2, 3, 290, 4, 2, 16, true, 0.2f, F32, 0, 0}, {40, 0}, true, false, 0},
        {{2, 100, 200, 2, 1, 8, true, 0, F32, 2, 0}, {0, 0}, false, false, 0},
        {{2, 100, 200, 2, 1, 8, true, 0, F32, 2, 1}, {0, 0}, false, false, 0},
        {{1, 128, 512, 1, 1, 16, true, 0.2f, F32, 4, 2}, {50, 4}, true, true, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t k = 0; k < sizeof means / sizeof *means; k++) {
            attention_case c = cases[i];
            c.documents = means[k];
            check_both(c);
        }
    const attention_case sweeps = {.shape = {1, 66, 66, 1030, 1, 12, true, 0, BF16, 0, 0},
                                   .documents = 12};
    check_kernel(describe_backward, &sweeps, case_text(&sweeps));
}

// The call for the rows from row `first` on, a document of `count` tokens, as a sequence of its own.
static kernel_attention_args take_document(const kernel_attention_args *p, int64_t first,
                                           int64_t count)
{
    const size_t size = dtype_bytes(p->type);
    kernel_attention_args d = *p;
    d.batch = 1, d.tk = count, d.queries = kernel_tokens_from(count, 0);
    d.q = (const char *)p->q + size * (size_t)(first * p->q_stride);
    d.k = (const char *)p->k + size * (size_t)(first * p->k_stride);
    d.v = (const char *)p->v + size * (size_t)(first * p->v_stride);
    d.o = malloc(size * (size_t)(count * p->o_stride));
    d.lse = malloc(sizeof(float) * (size_t)(count * p->heads));
    return d;
}

// Compares `count` rows of `cols` elements of two arrays with the same strides.
static void same_rows(const char *what, const void *a, const void *b, int64_t count, int64_t cols,
                      int64_t stride, dtype type)
{
    const size_t size = dtype_bytes(type);
    for (int64_t r = 0; r < count; r++)
        if (memcmp((const char *)a + size * (size_t)(r * stride),
                   (const char *)b + size * (size_t)(r * stride), size * (size_t)cols) != 0)
            fail_msg("%s of row %ld of a document of %ld rows differs", what, (long)r, (long)count);
}

static void check_document(const cpu_kernels *fast, const kernel_attention_grad_args *g,
                           int64_t first, int64_t count)
{
    const kernel_attention_args *p = &g->fwd;
    const size_t size = dtype_bytes(p->type), o = size * (size_t)(first * p->o_stride),
                 row = size * (size_t)(first * p->q_stride);
    const int64_t d = p->head_dim;
    kernel_attention_grad_args alone = {.fwd = take_document(p, first, count)};
    char *dqkv = malloc(size * (size_t)(count * p->q_stride));
    alone.d_o = (const char *)g->d_o + o;
    alone.dq = dqkv;
    alone.dk = dqkv + ((const char *)g->dk - (const char *)g->dq);
    alone.dv = dqkv + ((const char *)g->dv - (const char *)g->dq);
    alone.delta = malloc(sizeof(float) * (size_t)(count * p->heads));
    fast->run[K_ATTENTION](&vec_one, &alone.fwd);
    fast->run[K_ATTENTION_GRAD](&vec_one, &alone);
    same_rows("o", (const char *)p->o + o, alone.fwd.o, count, p->heads * d, p->o_stride, p->type);
    same_rows("dqkv", (const char *)g->dq + row, dqkv, count, (p->heads + 2 * p->kv_heads) * d,
              p->q_stride, p->type);
    for (int64_t h = 0; h < p->heads; h++)
        same_rows("lse", p->lse + h * p->queries.seq + first, alone.fwd.lse + h * count, 1, count,
                  0, F32);
    free(alone.fwd.o), free(alone.fwd.lse), free(alone.delta), free(dqkv);
}

// A document has the bits of a sequence that holds it alone. The kernel of up to 4 queries has bits of its
// own, so shorter documents are left out.
static void the_bits_of_a_document_are_its_own(void **state)
{
    (void)state;
    static const attention_case cases[] = {
        {{1, 700, 700, 2, 1, 16, true, 0, F32, 0, 0}, {0, 0}, false, false, 90},
        {{1, 600, 600, 2, 2, 24, true, 0, BF16, 0, 0}, {70, 3}, true, false, 200},
        {{1, 300, 300, 4, 2, 20, true, 0, F16, 0, 0}, {0, 0}, true, false, 12},
        {{1, 900, 900, 1, 1, 8, true, 0, F32, 0, 0}, {0, 0}, false, false, 500},
    };
    cpu_kernels fast;
    cpu_kernels_fill(&fast, vec_one.level);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        space s = {.used = 0};
        const kernel_call call = describe_backward(&s, &cases[i]);
        const kernel_attention_grad_args *g = &call.u.attention_grad;
        const int32_t *start = g->fwd.queries.documents;
        int documents = 0;
        fast.run[K_ATTENTION_GRAD](&vec_one, g);
        for (int64_t t = 0, end; t < g->fwd.queries.seq; t = end) {
            for (end = t + 1; end < g->fwd.queries.seq && start[end] == start[t];) end++;
            if (end - t > 4) check_document(&fast, g, t, end - t), documents++;
        }
        assert_true(documents > 1);
        space_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_equals_the_reference),
        cmocka_unit_test(forward_with_earlier_keys_equals_the_reference),
        cmocka_unit_test(backward_equals_the_reference),
        cmocka_unit_test(dropout_keeps_what_the_reference_keeps),
        cmocka_unit_test(backward_in_two_sweeps_equals_the_reference),
        cmocka_unit_test(queries_in_two_chunks_equal_the_reference),
        cmocka_unit_test(backward_with_earlier_keys_equals_the_reference),
        cmocka_unit_test(windows_equal_the_reference),
        cmocka_unit_test(a_window_in_two_sweeps_equals_the_reference),
        cmocka_unit_test(caps_and_sinks_equal_the_reference),
        cmocka_unit_test(random_forms_equal_the_reference),
        cmocka_unit_test(documents_equal_the_reference),
        cmocka_unit_test(the_bits_of_a_document_are_its_own),
    };
    return cmocka_run_group_tests(tests, vec_open, vec_close);
}
