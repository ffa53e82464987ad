// test_threads.c -- no result of a kernel depends on the number of threads. Every kernel runs on
// random shapes in every type, on teams of several sizes, and must leave the same bits.
#include "device/cpu/cpu_products.h"
#include "unit/device/harness.h"

enum { TEAMS = 5, ARENA = 24 << 20, CASES = 40 };

static const int team_sizes[TEAMS] = {1, 2, 3, 4, 7};

// One case: memory with random numbers, and up to two calls on it.
typedef struct trial {
    unsigned char *memory;
    size_t used;
    uint64_t seed;
    kernel_call calls[2];
    int count;
} trial;

typedef void (*draw)(trial *t, dtype type);

static uint32_t word(trial *t)
{
    uint32_t words[4];
    rng_philox(rng_key_make(7, RNG_MOCK, 0, 0), t->seed++, words);
    return words[0];
}

static int64_t between(trial *t, int64_t low, int64_t high)
{
    return low + (int64_t)(word(t) % (uint64_t)(high - low + 1));
}

// A random size. Small sizes are more frequent than large ones, so that edges occur.
static int64_t size_up_to(trial *t, int64_t most)
{
    return between(t, 1, between(t, 0, 2) ? between(t, 1, most) : 9);
}

static bool coin(trial *t)
{
    return word(t) & 1;
}

static void *bytes_of(trial *t, size_t bytes)
{
    void *at = t->memory + t->used;
    t->used += (bytes + 63) / 64 * 64;
    assert_true(t->used <= ARENA);
    return at;
}

// `count` random numbers of a type.
static void *numbers(trial *t, int64_t count, dtype type)
{
    uint64_t state = t->seed++ * 0x9E3779B97F4A7C15u + 1;
    void *at = bytes_of(t, (size_t)count * dtype_bytes(type));
    for (int64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        float x = (float)(int32_t)(state >> 32) * 0x1p-31f * 1.5f;
        dtype_convert((unsigned char *)at + (size_t)i * dtype_bytes(type), type, &x, F32, 1);
    }
    return at;
}

static float *floats(trial *t, int64_t count)
{
    return numbers(t, count, F32);
}

static int32_t *ids(trial *t, int64_t count, int64_t limit)
{
    int32_t *at = bytes_of(t, sizeof *at * (size_t)count);
    for (int64_t i = 0; i < count; i++) at[i] = (int32_t)between(t, 0, limit - 1);
    return at;
}

static kernel_call *call(trial *t, kernel_kind kind)
{
    t->calls[t->count] = (kernel_call){.kind = kind};
    return &t->calls[t->count++];
}

static void draw_matmul(trial *t, dtype type)
{
    kernel_matmul_args *p = &call(t, K_MATMUL)->u.matmul;
    static const int64_t most[4][3] = {
        {12, 1500, 800}, {300, 300, 400}, {900, 60, 900}, {40, 40, 6000}};
    const int64_t *m = most[between(t, 0, 3)];
    *p = (kernel_matmul_args){
        .m = size_up_to(t, m[0]), .n = size_up_to(t, m[1]), .k = size_up_to(t, m[2]), .type = type};
    p->c_type = coin(t) ? F32 : type;
    p->trans_a = coin(t), p->trans_b = coin(t), p->accumulate = coin(t);
    p->lda = (p->trans_a ? p->m : p->k) + between(t, 0, 3);
    p->ldb = (p->trans_b ? p->k : p->n) + between(t, 0, 3);
    p->ldc = p->n + between(t, 0, 3);
    p->a = numbers(t, (p->trans_a ? p->k : p->m) * p->lda, type);
    p->b = numbers(t, (p->trans_b ? p->n : p->k) * p->ldb, type);
    p->c = numbers(t, p->m * p->ldc, p->c_type);
    if (coin(t)) p->bias = numbers(t, p->n, type);
}

static void draw_bias_grad(trial *t, dtype type)
{
    int64_t rows = size_up_to(t, 700), cols = size_up_to(t, 900);
    call(t, K_BIAS_GRAD)->u.bias_grad = (kernel_bias_grad_args){.rows = rows,
                                                                .cols = cols,
                                                                .dy = numbers(t, rows * cols, type),
                                                                .db = floats(t, cols),
                                                                .type = type,
                                                                .accumulate = coin(t)};
}

static void draw_embedding(trial *t, dtype type)
{
    int64_t seq = size_up_to(t, 60), rows = seq * between(t, 1, 9), cols = size_up_to(t, 500),
            vocab = size_up_to(t, 200);
    bool residual_fp32 = coin(t);
    const int32_t *id = ids(t, rows, vocab);
    call(t, K_EMBEDDING)->u.embedding = (kernel_embedding_args){
        .rows = rows,
        .row_tokens = kernel_tokens_from(seq, 0),
        .cols = cols,
        .ids = id,
        .tokens = numbers(t, vocab * cols, type),
        .positions = numbers(t, seq * cols, type),
        .y = numbers(t, rows * cols, kernel_residual_type(type, residual_fp32)),
        .scale = 1.5f,
        .type = type,
        .residual_fp32 = residual_fp32};
    call(t, K_EMBEDDING_GRAD)->u.embedding_grad = (kernel_embedding_grad_args){
        .rows = rows,
        .row_tokens = kernel_tokens_from(seq, 0),
        .cols = cols,
        .vocab = vocab,
        .max_seq = seq,
        .ids = id,
        .dy = numbers(t, rows * cols, kernel_residual_type(type, residual_fp32)),
        .d_tokens = floats(t, vocab * cols),
        .d_positions = floats(t, seq * cols),
        .scale = 1.5f,
        .type = type,
        .accumulate_tokens = coin(t),
        .accumulate_positions = coin(t),
        .residual_fp32 = residual_fp32};
}

static void draw_norm(trial *t, dtype type)
{
    int64_t rows = size_up_to(t, 900), cols = size_up_to(t, 700);
    bool rms = coin(t), residual_fp32 = coin(t);
    dtype residual = kernel_residual_type(type, residual_fp32);
    kernel_norm_args n = {.rows = rows,
                          .cols = cols,
                          .x = numbers(t, rows * cols, residual),
                          .gain = numbers(t, cols, type),
                          .bias = rms ? NULL : numbers(t, cols, type),
                          .y = numbers(t, rows * cols, type),
                          .mean = rms ? NULL : floats(t, rows),
                          .rstd = floats(t, rows),
                          .eps = 1e-5f,
                          .is_rms = rms,
                          .type = type,
                          .residual_fp32 = residual_fp32};
    call(t, K_NORM)->u.norm = n;
    call(t, K_NORM_GRAD)->u.norm_grad =
        (kernel_norm_grad_args){.rows = rows,
                                .cols = cols,
                                .dy = numbers(t, rows * cols, type),
                                .x = n.x,
                                .gain = n.gain,
                                .mean = n.mean,
                                .rstd = n.rstd,
                                .dx = numbers(t, rows * cols, residual),
                                .dgain = floats(t, cols),
                                .dbias = rms ? NULL : floats(t, cols),
                                .is_rms = rms,
                                .accumulate_dx = coin(t),
                                .accumulate_dgain = coin(t),
                                .accumulate_dbias = coin(t),
                                .type = type,
                                .residual_fp32 = residual_fp32};
}

static void draw_rope(trial *t, dtype type)
{
    int64_t seq = size_up_to(t, 90), rows = seq * between(t, 1, 5), heads = between(t, 1, 6),
            dim = 2 * between(t, 1, 40);
    kernel_rope_args *p = &call(t, K_ROPE)->u.rope;
    *p = (kernel_rope_args){.rows = rows,
                            .row_tokens = kernel_tokens_from(seq, 0),
                            .heads = heads,
                            .head_dim = dim,
                            .rot = dim,
                            .stride = heads * dim,
                            .inverse = coin(t),
                            .type = type};
    p->x = numbers(t, rows * p->stride, type);
    p->table = floats(t, seq * dim);
}

static void draw_attention(trial *t, dtype type)
{
    int64_t kv = between(t, 1, 3), heads = kv * between(t, 1, 3), dim = between(t, 1, 70);
    int64_t batch = between(t, 1, 3), tokens = size_up_to(t, 200);
    int64_t q = heads * dim, k = kv * dim;
    kernel_attention_args f = {.batch = batch,
                               .queries = kernel_tokens_from(tokens, 0),
                               .tk = tokens,
                               .heads = heads,
                               .kv_heads = kv,
                               .head_dim = dim,
                               .q_stride = q,
                               .k_stride = k,
                               .v_stride = k,
                               .o_stride = q,
                               .k_batch = tokens * k,
                               .v_batch = tokens * k,
                               .scale = 0.3f,
                               .dropout.p = coin(t) ? 0.2f : 0,
                               .dropout.stride = (uint64_t)tokens,
                               .causal = coin(t),
                               .type = type};
    f.q = numbers(t, batch * tokens * q, type), f.k = numbers(t, batch * tokens * k, type);
    f.v = numbers(t, batch * tokens * k, type), f.o = numbers(t, batch * tokens * q, type);
    f.lse = floats(t, batch * heads * tokens);
    call(t, K_ATTENTION)->u.attention = f;
    call(t, K_ATTENTION_GRAD)->u.attention_grad =
        (kernel_attention_grad_args){.fwd = f,
                                     .d_o = numbers(t, batch * tokens * q, type),
                                     .dq = numbers(t, batch * tokens * q, type),
                                     .dk = numbers(t, batch * tokens * k, type),
                                     .dv = numbers(t, batch * tokens * k, type),
                                     .delta = floats(t, batch * heads * tokens)};
}

// Decoding: few queries, many keys.
static void draw_decode(trial *t, dtype type)
{
    int64_t kv = between(t, 1, 4), heads = kv * between(t, 1, 3), dim = between(t, 1, 70),
            q = heads * dim, k = kv * dim;
    int64_t batch = between(t, 1, 5), keys = size_up_to(t, 900);
    kernel_attention_args f = {.batch = batch,
                               .queries = kernel_tokens_from(1, keys - 1),
                               .tk = keys,
                               .heads = heads,
                               .kv_heads = kv,
                               .head_dim = dim,
                               .q_stride = q,
                               .k_stride = k,
                               .v_stride = k,
                               .o_stride = q,
                               .k_batch = keys * k,
                               .v_batch = keys * k,
                               .scale = 0.3f,
                               .causal = true,
                               .type = type};
    f.q = numbers(t, batch * q, type), f.k = numbers(t, batch * keys * k, type),
    f.v = numbers(t, batch * keys * k, type);
    f.o = numbers(t, batch * q, type), f.lse = floats(t, batch * heads);
    call(t, K_ATTENTION)->u.attention = f;
}

static void draw_pointwise(trial *t, dtype type)
{
    int64_t rows = size_up_to(t, 500), cols = size_up_to(t, 300), count = rows * cols;
    kernel_activation act = (kernel_activation)between(t, 0, 2);
    switch (between(t, 0, 4)) {
    case 0:
        call(t, K_ACTIVATION)->u.activation = (kernel_activation_args){.count = count,
                                                                       .x = numbers(t, count, type),
                                                                       .y = numbers(t, count, type),
                                                                       .act = act,
                                                                       .type = type};
        call(t, K_ACTIVATION_GRAD)->u.activation =
            (kernel_activation_args){.count = count,
                                     .x = numbers(t, count, type),
                                     .dy = numbers(t, count, type),
                                     .y = numbers(t, count, type),
                                     .act = act,
                                     .type = type};
        break;
    case 1:
        call(t, K_GLU)->u.glu = (kernel_glu_args){
            rows, cols, numbers(t, 2 * count, type), NULL, numbers(t, count, type), act, type};
        call(t, K_GLU_GRAD)->u.glu = (kernel_glu_args){rows,
                                                       cols,
                                                       numbers(t, 2 * count, type),
                                                       numbers(t, count, type),
                                                       numbers(t, 2 * count, type),
                                                       act,
                                                       type};
        break;
    case 2:
        call(t, K_ADD)->u.add = (kernel_add_args){.count = count,
                                                  .a = numbers(t, count, type),
                                                  .b = numbers(t, count, type),
                                                  .y = numbers(t, count, type),
                                                  .alpha = 0.7f,
                                                  .beta = 1.3f,
                                                  .type = type};
        break;
    case 3:
        call(t, K_DROPOUT)->u.dropout =
            (kernel_dropout_args){.rows = count,
                                  .cols = 1,
                                  .row_tokens = kernel_tokens_from(count, 0),
                                  .x = numbers(t, count, type),
                                  .y = numbers(t, count, type),
                                  .p = 0.3f,
                                  .draw = {.row0 = word(t)},
                                  .type = type};
        break;
    default:
        call(t, K_CONVERT)->u.convert = (kernel_convert_args){.count = count,
                                                              .src = numbers(t, count, type),
                                                              .dst = numbers(t, count, F32),
                                                              .src_type = type,
                                                              .dst_type = F32};
        call(t, K_CONVERT)->u.convert = (kernel_convert_args){.count = count,
                                                              .src = numbers(t, count, F32),
                                                              .dst = numbers(t, count, type),
                                                              .src_type = F32,
                                                              .dst_type = type};
    }
}

static void draw_loss(trial *t, dtype type)
{
    int64_t rows = size_up_to(t, 200), cols = size_up_to(t, 3000);
    const int32_t *labels = ids(t, rows, cols);
    kernel_cross_entropy_args *p = &call(t, K_CROSS_ENTROPY)->u.cross_entropy;
    *p = (kernel_cross_entropy_args){.rows = rows,
                                     .cols = cols,
                                     .labels = labels,
                                     .scale = 1.2f,
                                     .ignore = labels[0],
                                     .gradient = coin(t),
                                     .type = type};
    p->logits = numbers(t, rows * cols, type);
    p->loss_sum = bytes_of(t, sizeof(double)), p->count = bytes_of(t, sizeof(double));
    call(t, K_CROSS_ENTROPY_STATS)->u.cross_entropy_stats =
        (kernel_cross_entropy_stats_args){.rows = rows,
                                          .cols = cols,
                                          .logits = numbers(t, rows * cols, type),
                                          .labels = labels,
                                          .stats = floats(t, 3 * rows),
                                          .scale = 1.2f,
                                          .ignore = -1,
                                          .type = type};
}

static void draw_sums(trial *t, dtype type)
{
    int64_t count = size_up_to(t, 700000);
    double *sums = bytes_of(t, 4 * sizeof(double));
    void *x = numbers(t, count, type);
    if (coin(t)) {
        call(t, K_SQUARE_ERROR)->u.square_error =
            (kernel_square_error_args){.rows = count,
                                       .cols = 1,
                                       .x = x,
                                       .target = floats(t, count),
                                       .dx = numbers(t, count, type),
                                       .loss_sum = &sums[0],
                                       .total = &sums[1],
                                       .type = type};
    } else {
        call(t, K_SUM_SQUARES)->u.sum_squares =
            (kernel_sum_squares_args){.count = count, .x = x, .sum = &sums[2], .type = type};
    }
    call(t, K_DIGEST)->u.digest =
        (kernel_digest_args){count * (int64_t)dtype_bytes(type), x, word(t), (uint64_t *)&sums[3]};
}

static void draw_update(trial *t, dtype type)
{
    int64_t count = size_up_to(t, 200000);
    static const kernel_step step = {.result = {.scale = 0.5, .applies = true}};
    static const kernel_step_group group = {.lr = 0.1f, .beta1 = 0.9f, .c1 = 0.1f, .c2 = 0.01f};
    kernel_update_args u = {.count = count,
                            .rule = (kernel_update_rule)between(t, 0, UPDATE_RULES - 1),
                            .low_type = type,
                            .beta2 = 0.99f,
                            .eps = 1e-8f,
                            .weight_decay = 0.1f,
                            .step = coin(t) ? &step : NULL,
                            .group = &group};
    u.w = floats(t, count), u.m = floats(t, count), u.v = floats(t, count), u.g = floats(t, count);
    for (int64_t i = 0; i < count; i++) u.v[i] = fabsf(u.v[i]);
    if (coin(t)) u.low = numbers(t, count, type);
    call(t, K_UPDATE)->u.update = u;
    int64_t rows = size_up_to(t, 20000), cols = between(t, 1, 6);
    call(t, K_ORTHOGONALIZE)->u.orthogonalize =
        (kernel_orthogonalize_args){rows, cols, floats(t, rows * cols), 1e-6f};
}

// Runs random cases of a kernel in every type on every team.
static void check(draw d, const char *name)
{
    cpu_context teams[TEAMS];
    cpu_kernels kernels;
    trial t = {.memory = calloc(1, ARENA), .seed = 1};
    unsigned char *before = malloc(ARENA), *first = malloc(ARENA);
    for (int i = 0; i < TEAMS; i++) teams[i] = harness_open(team_sizes[i]);
    cpu_kernels_fill(&kernels, teams[0].level);
    const int cases = teams[0].level == CPU_GENERIC ? CASES / 4 : CASES; // the reference is slow
    for (int n = 0; n < cases; n++) {
        dtype type = (dtype)(F32 + n % 3);
        t.used = 0, t.count = 0;
        d(&t, type);
        memcpy(before, t.memory, t.used);
        for (int i = 0; i < TEAMS; i++) {
            memcpy(t.memory, before, t.used);
            for (int c = 0; c < t.count; c++)
                harness_run(&kernels, teams[0].level, &teams[i], &t.calls[c]);
            if (i == 0) memcpy(first, t.memory, t.used);
            if (memcmp(first, t.memory, t.used) != 0)
                fail_msg("%s, case %d of %s: %d threads give other bits than 1", name, n,
                         dtype_name(type), team_sizes[i]);
        }
    }
    for (int i = 0; i < TEAMS; i++) cpu_context_close(&teams[i]);
    free(t.memory), free(before), free(first);
}

#define TEST(kind)                                                                                 \
    static void any_team_gives_the_same_##kind(void **state)                                       \
    {                                                                                              \
        (void)state;                                                                               \
        check(draw_##kind, #kind);                                                                 \
    }
TEST(matmul)
TEST(bias_grad)
TEST(embedding)
TEST(norm)
TEST(rope)
TEST(attention)
TEST(decode)
TEST(pointwise)
TEST(loss)
TEST(sums)
TEST(update)

// The bf16 products by AVX512_BF16. Only some processors choose these by default.
static void bf16_pair_products_equal_the_reference(void **state)
{
    (void)state;
    cpu_features features;
    cpu_features_read(&features);
    if (!features.avx512_bf16) skip();
    cpu_context x = harness_open(2);
    trial t = {.memory = calloc(1, ARENA), .seed = 5};
    cpu_kernels reference;
    ref_kernels_fill(&reference);
    if (x.level > CPU_AVX512) x.level = CPU_AVX512;
    for (int n = 0; n < 20; n++) {
        t.used = 0, t.count = 0;
        draw_matmul(&t, BF16);
        kernel_matmul_args p = t.calls[0].u.matmul, r = p;
        int64_t count = p.m * p.ldc;
        if (p.m * p.n * p.k > 3000000) continue; // the reference is slow
        r.c = bytes_of(&t, (size_t)count * dtype_bytes(p.c_type));
        memcpy(r.c, p.c, (size_t)count * dtype_bytes(p.c_type));
        cpu_product_bf16(&x, &p);
        reference.run[K_MATMUL](&x, &r);
        for (int64_t i = 0; i < count; i++) {
            float got, want;
            size_t at = (size_t)i * dtype_bytes(p.c_type);
            dtype_convert(&got, F32, (unsigned char *)p.c + at, p.c_type, 1);
            dtype_convert(&want, F32, (unsigned char *)r.c + at, p.c_type, 1);
            assert_true(fabsf(got - want) <= 1e-2f * (1 + sqrtf((float)p.k) + fabsf(want)));
        }
    }
    free(t.memory);
    cpu_context_close(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_team_gives_the_same_matmul),
        cmocka_unit_test(any_team_gives_the_same_bias_grad),
        cmocka_unit_test(any_team_gives_the_same_embedding),
        cmocka_unit_test(any_team_gives_the_same_norm),
        cmocka_unit_test(any_team_gives_the_same_rope),
        cmocka_unit_test(any_team_gives_the_same_attention),
        cmocka_unit_test(any_team_gives_the_same_decode),
        cmocka_unit_test(any_team_gives_the_same_pointwise),
        cmocka_unit_test(any_team_gives_the_same_loss),
        cmocka_unit_test(any_team_gives_the_same_sums),
        cmocka_unit_test(any_team_gives_the_same_update),
        cmocka_unit_test(bf16_pair_products_equal_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
