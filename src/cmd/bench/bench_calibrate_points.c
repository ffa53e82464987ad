// bench_calibrate_points.c -- the calls that `trireme bench calibrate` measures. Their sizes are spread over those that
// training has; they are not those of one model. It does not measure.
#include "base/alloc.h"
#include "cmd/bench/bench_calibrate.h"

#include <string.h>

// ---- Products

typedef struct product_sizes {
    int64_t rows, out, in; // tokens, and the widths of a linear layer
} product_sizes;

// Small and large ones of each side, alone and together; the last ones are those of a vocabulary, a chunk of whose logits
// is computed at a time.
static const product_sizes PRODUCTS[] = {
    {64, 64, 64},       {64, 1024, 256},  {64, 256, 4096},   {128, 512, 512},   {256, 128, 1024},
    {256, 2048, 640},   {512, 320, 320},  {512, 1280, 320},  {512, 640, 2560},  {1024, 64, 512},
    {1024, 512, 64},    {1024, 900, 900}, {1024, 512, 2048}, {1024, 3500, 900}, {2048, 256, 256},
    {2048, 1536, 1536}, {4096, 640, 160}, {128, 4000, 448},  {512, 8192, 512},  {128, 40000, 640},
};
// With an activation among the sums.
static const product_sizes ACTIVATED[] = {
    {64, 256, 64}, {256, 2048, 512}, {512, 1280, 320}, {1024, 3500, 900}, {2048, 1024, 256},
};

// `aux` receives the sums, or holds those of the forward.
static void set_activation(bench_arena *m, kernel_epilogue epilogue, kernel_matmul_args *p)
{
    p->epilogue = epilogue;
    p->act = ACT_GELU_TANH;
    p->aux = bench_array(m, p->m * p->n, p->c_type);
}

static void describe_activated(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    bench_forward(m, q, c);
    set_activation(m, EPILOGUE_ACTIVATION, &c->call.u.matmul);
}

static void describe_activated_grad(bench_arena *m, const bench_sizes *q, bench_call *c)
{
    bench_dgrad(m, q, c);
    set_activation(m, EPILOGUE_ACTIVATION_GRAD, &c->call.u.matmul);
}

// ---- Attention

typedef struct attention_sizes {
    int64_t batch, seq, heads, head_dim;
} attention_sizes;

static const attention_sizes ATTENTIONS[] = {
    {4, 64, 4, 32},    {8, 64, 8, 64},   {2, 64, 4, 128},  {1, 256, 4, 32},
    {2, 256, 8, 64},   {1, 256, 8, 128}, {1, 1024, 4, 32}, {1, 1024, 8, 64},
    {1, 1024, 2, 128}, {4, 128, 6, 64},  {1, 512, 12, 64},
};

// ---- Everything else

// Models of which each other kernel is measured.
static const bench_model MODELS[] = {
    {"small", 64, 192, 3, 1, 64, 576, 1000, false},
    {"medium", 256, 448, 7, 7, 64, 1600, 6000, true},
    {"wide", 512, 1000, 10, 5, 100, 3000, 24000, false},
    {"large", 1024, 896, 14, 7, 64, 2560, 40000, true},
};
static const int64_t MODEL_TOKENS[] = {64, 512, 512, 2048};
enum { MODELS_COUNT = sizeof MODELS / sizeof *MODELS };

// Those with tables of their own above; and random numbers, which no step draws, are of the first model alone.
static bool is_left_out(kernel_kind kind, int k)
{
    return kind == K_MATMUL || kind == K_ATTENTION || kind == K_ATTENTION_GRAD ||
           (kind == K_INIT && k > 0);
}

typedef struct point_list {
    bench_calibrate_point *point; // NULL: they are counted
    int count;
} point_list;

static void add(point_list *l, kernel_kind kind, bench_describe describe, const bench_model *m,
                int64_t tokens)
{
    if (l->point) l->point[l->count] = (bench_calibrate_point){kind, describe, *m, tokens};
    l->count++;
}

static void add_rows(point_list *l)
{
    for (int i = 0; i < BENCH_ROW_COUNT; i++)
        for (int k = 0; k < MODELS_COUNT; k++) {
            const bench_kernel_row *r = &BENCH_ROWS[i];
            bench_model m = MODELS[k];
            if (is_left_out(r->kind, k)) continue;
            add(l, r->kind, r->describe, &m, MODEL_TOKENS[k]);
            // Layer norms and RMS norms are of two forms.
            if (r->kind != K_NORM && r->kind != K_NORM_GRAD) continue;
            m.is_llama = !m.is_llama;
            add(l, r->kind, r->describe, &m, MODEL_TOKENS[k]);
        }
}

static void add_attentions(point_list *l)
{
    for (int i = 0; i < BENCH_ROW_COUNT; i++) {
        const bench_kernel_row *r = &BENCH_ROWS[i];
        if (r->kind != K_ATTENTION_GRAD && r->describe != bench_attention) continue;
        for (size_t k = 0; k < sizeof ATTENTIONS / sizeof *ATTENTIONS; k++) {
            const attention_sizes *a = &ATTENTIONS[k];
            const bench_model m = {
                .seq = a->seq, .heads = a->heads, .kv_heads = a->heads, .head_dim = a->head_dim};
            add(l, r->kind, r->describe, &m, a->batch * a->seq);
        }
    }
}

static void add_products(point_list *l, const product_sizes *sizes, size_t count,
                         bench_describe describe)
{
    for (size_t i = 0; i < count; i++) {
        const bench_model m = {.cols = sizes[i].in, .inner = sizes[i].out};
        add(l, K_MATMUL, describe, &m, sizes[i].rows);
    }
}

// The products come last: what time the others leave is theirs.
static void add_all(point_list *l)
{
    const size_t products = sizeof PRODUCTS / sizeof *PRODUCTS,
                 activated = sizeof ACTIVATED / sizeof *ACTIVATED;
    add_rows(l);
    add_attentions(l);
    add_products(l, ACTIVATED, activated, describe_activated);
    add_products(l, ACTIVATED, activated, describe_activated_grad);
    add_products(l, PRODUCTS, products, bench_forward);
    add_products(l, PRODUCTS, products, bench_dgrad);
    add_products(l, PRODUCTS, products, bench_wgrad);
}

status bench_calibrate_points(bench_calibrate_point **out, int *count, err *e)
{
    status result = OK;
    point_list l = {.point = NULL};
    add_all(&l);
    TRY(alloc_array(&l.point, (size_t)l.count, sizeof *l.point, "the points", e));
    l.count = 0;
    add_all(&l);
    *out = l.point;
    *count = l.count;
done:
    return result;
}
