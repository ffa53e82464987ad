// cases_fused_attention.c -- cases of K_ATTENTION and K_ATTENTION_GRAD that the device prepares, so that a library's fused kernels
// may compute it. cases_attention.c has the shapes of our own kernels.
#include "case.h"

typedef struct shape {
    int64_t batch, tq, tk, heads, kv_heads, head_dim;
    dtype type;
    bool causal;
} shape;

// q, k and v lie in one array, as a fused projection leaves them; with other lengths k and v are apart.
static kernel_call describe(space *s, const void *args)
{
    const shape *h = args;
    const bool fused = h->tq == h->tk;
    const int64_t q_cols = h->heads * h->head_dim, kv_cols = h->kv_heads * h->head_dim;
    const int64_t row = fused ? q_cols + 2 * kv_cols : q_cols, kv_row = fused ? row : 2 * kv_cols;
    const int64_t size = (int64_t)dtype_bytes(h->type);
    const char *q = space_random(s, h->batch * h->tq * row, h->type, 1, NULL);
    const char *kv = fused ? q + q_cols * size
                           : (char *)space_random(s, h->batch * h->tk * kv_row, h->type, 1, NULL);
    return (kernel_call){
        .kind = K_ATTENTION,
        .u.attention = {.batch = h->batch,
                        .tk = h->tk,
                        .heads = h->heads,
                        .kv_heads = h->kv_heads,
                        .head_dim = h->head_dim,
                        .queries = kernel_tokens_from(h->tq, 0),
                        .q_stride = row,
                        .k_stride = kv_row,
                        .v_stride = kv_row,
                        .o_stride = q_cols,
                        .k_batch = h->tk * kv_row,
                        .v_batch = h->tk * kv_row,
                        .q = q,
                        .k = kv,
                        .v = kv + kv_cols * size,
                        .o = space_array_of(s, h->batch * h->tq * q_cols, h->type, "o"),
                        .lse = space_array_of(s, h->batch * h->heads * h->tq, F32, "lse"),
                        .scale = 1 / sqrtf((float)h->head_dim),
                        .causal = h->causal,
                        .type = h->type}};
}

// The gradient, whose sums may be added in any order, of outputs that the reference computed: lse has the
// same meaning for every kernel.
static kernel_call describe_gradient(space *s, const void *args)
{
    const shape *h = args;
    const bool fused = h->tq == h->tk;
    kernel_call call = describe(s, args);
    const kernel_attention_args p = call.u.attention;
    const int64_t q_rows = h->batch * h->tq, outputs = q_rows * p.o_stride;
    const size_t size = dtype_bytes(h->type);
    for (int i = 0; i < s->used; i++) s->array[i].name = NULL; // inputs from now on
    case_reference(&call);
    char *dq = space_random(s, q_rows * p.q_stride, h->type, 1, "dq");
    char *dk = fused ? dq + (size_t)(h->heads * h->head_dim) * size
                     : (char *)space_random(s, h->batch * p.k_batch, h->type, 1, "dk and dv");
    return (kernel_call){.kind = K_ATTENTION_GRAD,
                         .u.attention_grad = {.fwd = p,
                                              .d_o = space_random(s, outputs, h->type, 1, NULL),
                                              .dq = dq,
                                              .dk = dk,
                                              .dv = dk + (size_t)(h->kv_heads * h->head_dim) * size,
                                              .delta = space_random(s, h->batch * h->heads * h->tq,
                                                                    F32, 1, SPACE_SCRATCH),
                                              .any_order = true}};
}

static void check(case_run *r, const shape *h, case_describe what, const char *name)
{
    case_check(r, what, h, "prepared %s B=%lld Tq=%lld Tk=%lld H=%lld KV=%lld D=%lld %s%s", name,
               (long long)h->batch, (long long)h->tq, (long long)h->tk, (long long)h->heads,
               (long long)h->kv_heads, (long long)h->head_dim, dtype_name(h->type),
               h->causal ? " causal" : "");
}

void cases_run(case_run *r)
{
    static const shape shapes[] = {
        {1, 64, 64, 2, 2, 32, BF16, true},    {2, 128, 128, 4, 4, 64, BF16, true},
        {1, 96, 96, 4, 2, 64, F16, true},     {2, 77, 77, 2, 2, 128, F16, true},
        {1, 200, 200, 3, 1, 40, BF16, false}, {1, 64, 200, 2, 1, 64, BF16, false},
        {1, 130, 130, 2, 1, 128, BF16, true},
    };
    case_prepare(r);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check(r, &shapes[i], describe, "attention");
        check(r, &shapes[i], describe_gradient, "attention_grad");
    }
}
