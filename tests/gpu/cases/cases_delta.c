// cases_delta.c -- cases of K_DELTA_GATES, K_DELTA_RULE and their gradients: one and several chunks of tokens, value heads that
// share a key head, states, documents, and the rows of a rank.
#include "case.h"

typedef struct shape {
    int64_t batch, full_seq, heads, key_heads, key_dim, value_dim;
    dtype type;
    bool normalize, ranks, documents, state;
} shape;

// Gates as they are in a model: beta between 0 and 1, g below 0.
static float *random_gates(space *s, int64_t rows, int64_t heads)
{
    float *gates = space_random(s, rows * 2 * heads, F32, 1, NULL);
    for (int64_t i = 0; i < rows * 2 * heads; i++) {
        const float u = gates[i] / 3.4641016f + 0.5f;
        gates[i] = i % (2 * heads) < heads ? u : -0.02f - 1.5f * u * u;
    }
    return gates;
}

static kernel_delta_rule_args fill(space *s, const shape *h, const char *o)
{
    kernel_tokens rows = kernel_tokens_from(h->full_seq, 0);
    const int64_t part = h->full_seq / 4, count = h->batch * h->full_seq;
    if (h->ranks)
        rows = (kernel_tokens){
            .seq = 2 * part, .full_seq = h->full_seq, .chunk = part, .start = {part, 2 * part}};
    kernel_delta_rule_args p = {.batch = h->batch,
                                .heads = h->heads,
                                .key_heads = h->key_heads,
                                .key_dim = h->key_dim,
                                .value_dim = h->value_dim,
                                .rows = rows,
                                .scale = h->normalize ? 0.3f : 0.01f,
                                .eps = 1e-6f,
                                .normalize = h->normalize,
                                .type = h->type};
    // Keys that are not normalized are short, as a state would grow without bounds.
    p.x = space_random(s, count * kernel_delta_cols(&p), h->type, h->normalize ? 1 : 0.2f, NULL);
    p.gates = random_gates(s, count, h->heads);
    if (h->documents) {
        int32_t *start = space_ids(s, count, 20);
        for (int64_t r = 0; r < count; r++) {
            const int32_t t = (int32_t)(r % h->full_seq);
            start[r] = t == 0 || start[r] == 0 ? t : start[r - 1];
        }
        p.rows.documents = start;
    }
    if (o) p.o = space_array_of(s, h->batch * rows.seq * h->heads * h->value_dim, h->type, o);
    if (o && h->state)
        p.state = space_random(s, h->batch * h->heads * h->key_dim * h->value_dim, F32, 1, "state");
    return p;
}

static kernel_call describe_rule(space *s, const void *args)
{
    return (kernel_call){.kind = K_DELTA_RULE, .u.delta_rule = fill(s, args, "o")};
}

static kernel_call describe_grad(space *s, const void *args)
{
    const shape *h = args;
    kernel_call c = {.kind = K_DELTA_RULE_GRAD};
    kernel_delta_rule_grad_args *p = &c.u.delta_rule_grad;
    const int64_t count = h->batch * h->full_seq;
    p->fwd = fill(s, h, NULL);
    p->d_o =
        space_random(s, h->batch * p->fwd.rows.seq * h->heads * h->value_dim, h->type, 1, NULL);
    p->dx = space_array_of(s, count * kernel_delta_cols(&p->fwd), h->type, "dx");
    p->d_gates = space_array_of(s, count * 2 * h->heads, F32, "d_gates");
    return c;
}

static kernel_delta_gates_args fill_gates(space *s, const shape *h)
{
    const int64_t rows = h->batch * h->full_seq;
    return (kernel_delta_gates_args){.rows = rows,
                                     .heads = h->heads,
                                     .x = space_random(s, rows * 2 * h->heads, h->type, 2, NULL),
                                     .log_decay = space_random(s, h->heads, h->type, 1, NULL),
                                     .a_bias = space_random(s, h->heads, h->type, 1, NULL),
                                     .type = h->type};
}

static kernel_call describe_gates(space *s, const void *args)
{
    const shape *h = args;
    kernel_call c = {.kind = K_DELTA_GATES, .u.delta_gates = fill_gates(s, h)};
    c.u.delta_gates.gates = space_array_of(s, h->batch * h->full_seq * 2 * h->heads, F32, "gates");
    return c;
}

static kernel_call describe_gates_grad(space *s, const void *args)
{
    const shape *h = args;
    kernel_call c = {.kind = K_DELTA_GATES_GRAD, .u.delta_gates = fill_gates(s, h)};
    kernel_delta_gates_args *p = &c.u.delta_gates;
    const int64_t count = h->batch * h->full_seq * 2 * h->heads;
    p->d_gates = space_random(s, count, F32, 1, NULL);
    p->dx = space_array_of(s, count, h->type, "dx");
    p->d_log_decay = space_random(s, h->heads, F32, 1, "d_log_decay");
    p->d_a_bias = space_random(s, h->heads, F32, 1, "d_a_bias");
    p->accumulate_d_log_decay = h->normalize, p->accumulate_d_a_bias = !h->normalize;
    return c;
}

static void check(case_run *r, const shape *h)
{
    char text[96];
    snprintf(text, sizeof text, "[%lld x %lld, %lld of %lld, %lld, %lld] %s", (long long)h->batch,
             (long long)h->full_seq, (long long)h->heads, (long long)h->key_heads,
             (long long)h->key_dim, (long long)h->value_dim, dtype_name(h->type));
    case_check(r, describe_rule, h, "delta_rule %s", text);
    case_check(r, describe_grad, h, "delta_rule_grad %s", text);
    case_check(r, describe_gates, h, "delta_gates %s", text);
    case_check(r, describe_gates_grad, h, "delta_gates_grad %s", text);
}

void cases_run(case_run *r)
{
    // Several value heads of a key head in fp32 only: the reference adds their gradients in the type of x.
    static const shape shapes[] = {
        {1, 1, 1, 1, 1, 1, F32, true, false, false, true},
        {1, 5, 4, 2, 16, 24, F32, true, false, false, true},
        {2, 9, 2, 1, 3, 7, F32, false, false, false, false},
        {1, 70, 2, 2, 12, 40, F32, true, false, true, false},
        {2, 24, 3, 1, 8, 20, F32, true, true, false, false},
        {1, 66, 1, 1, 33, 16, BF16, true, false, false, true},
        {2, 20, 2, 2, 64, 64, F16, true, false, true, false},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) check(r, &shapes[i]);
}
