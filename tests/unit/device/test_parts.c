// Tensor-parallel ranks, each with a shard of the vocabulary and of the heads, compute what one
// rank computes from all of it, at every level of instructions.
#include "device/cpu/ref/ref.h"
#include "unit/device/harness.h"

static cpu_context context;
static cpu_kernels kernels;

static void run(kernel_kind kind, const void *args)
{
    kernels.run[kind](&context, args);
}

// Runs a test with the reference, and with the table of every level of this machine.
static void at_every_level(void (*test)(void))
{
    cpu_features features;
    cpu_features_read(&features);
    for (cpu_level level = CPU_GENERIC; level <= features.best && level <= CPU_AVX512; level++) {
        cpu_kernels_fill(&kernels, level);
        if (level == CPU_GENERIC) ref_kernels_fill(&kernels);
        test();
    }
}

static int setup(void **state)
{
    (void)state;
    context = harness_open(2);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cpu_context_close(&context);
    return 0;
}

// Uneven shards of a vocabulary of VOCAB: shard i holds ids cut[i] … cut[i+1]-1.
enum { VOCAB = 1037, ROWS = 9, SEQ = 3, COLS = 37, IGNORE = -100 };

static const int32_t labels[ROWS] = {0, 1036, 400, -100, 399, 401, 17, 1000, 700};
static const int64_t cuts[][4] = {{0, 1037}, {0, 400, 1037}, {0, 3, 701, 1037}};
enum { CUTS = sizeof cuts / sizeof *cuts };

static bool near(double have, double want, double typical, dtype type)
{
    double tolerance = type == F32 ? 4e-6 : type == BF16 ? 0.0079 : 0.00098;
    return fabs(have - want) <= tolerance * (fabs(want) + typical);
}

// ---- cross-entropy

typedef struct entropy {
    double loss, count;
    void *gradient; // [ROWS, VOCAB]
} entropy;

static void *logits_of(dtype type, double scale)
{
    float *x = harness_random(ROWS * VOCAB, 1);
    for (int64_t i = 0; i < ROWS * VOCAB; i++) x[i] *= (float)scale;
    void *out = x;
    if (type != F32) {
        out = harness_low(x, ROWS * VOCAB, type);
        free(x);
    }
    return out;
}

// `step` gives the loss scale.
static entropy entropy_whole(dtype type, const kernel_step *step)
{
    entropy out = {.gradient = logits_of(type, 4)};
    run(K_CROSS_ENTROPY, &(kernel_cross_entropy_args){.rows = ROWS,
                                                      .cols = VOCAB,
                                                      .logits = out.gradient,
                                                      .labels = labels,
                                                      .loss_sum = &out.loss,
                                                      .count = &out.count,
                                                      .scale = 0.7f,
                                                      .step = step,
                                                      .ignore = IGNORE,
                                                      .gradient = true,
                                                      .type = type});
    return out;
}

// Copies columns first … last-1 of [ROWS, VOCAB] to a dense array, or back with `into`.
static void copy_columns(void *shard, void *full, int64_t first, int64_t last, dtype type,
                         bool into)
{
    size_t size = dtype_bytes(type), bytes = size * (size_t)(last - first);
    for (size_t r = 0; r < ROWS; r++) {
        char *row = (char *)full + (r * VOCAB + (size_t)first) * size;
        char *own = (char *)shard + r * bytes;
        memcpy(into ? row : own, into ? own : row, bytes);
    }
}

// As ranks do: the statistics of every shard, gathered, then the gradient of every shard. Shard 0
// counts the rows.
static entropy entropy_of_shards(dtype type, const int64_t *cut, int shards,
                                 const kernel_step *step)
{
    entropy out = {.gradient = logits_of(type, 4)};
    float stats[3 * ROWS * 3];
    char *shard = malloc(ROWS * VOCAB * 4);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < shards; i++) {
            int64_t cols = cut[i + 1] - cut[i];
            copy_columns(shard, out.gradient, cut[i], cut[i + 1], type, false);
            if (pass == 0) {
                run(K_CROSS_ENTROPY_STATS,
                    &(kernel_cross_entropy_stats_args){.rows = ROWS,
                                                       .cols = cols,
                                                       .first = cut[i],
                                                       .logits = shard,
                                                       .labels = labels,
                                                       .stats = stats + 3 * ROWS * i,
                                                       .scale = 0.7f,
                                                       .ignore = IGNORE,
                                                       .type = type});
                continue;
            }
            run(K_CROSS_ENTROPY, &(kernel_cross_entropy_args){.rows = ROWS,
                                                              .cols = cols,
                                                              .first = cut[i],
                                                              .logits = shard,
                                                              .labels = labels,
                                                              .stats = stats,
                                                              .shards = shards,
                                                              .loss_sum = i == 0 ? &out.loss : NULL,
                                                              .count = i == 0 ? &out.count : NULL,
                                                              .scale = 0.7f,
                                                              .step = step,
                                                              .ignore = IGNORE,
                                                              .gradient = true,
                                                              .type = type});
            copy_columns(shard, out.gradient, cut[i], cut[i + 1], type, true);
        }
    }
    free(shard);
    return out;
}

static void check_entropy_of_parts(void)
{
    for (dtype type = F32; type <= F16; type++) {
        entropy full = entropy_whole(type, NULL);
        for (int shards = 1; shards <= CUTS; shards++) {
            entropy have = entropy_of_shards(type, cuts[shards - 1], shards, NULL);
            assert_true(have.count == ROWS - 1 && full.count == ROWS - 1);
            assert_true(fabs(have.loss - full.loss) <= 1e-6 * full.loss);
            for (int64_t i = 0; i < ROWS * VOCAB; i++) {
                double h = ref_load(have.gradient, i, type), w = ref_load(full.gradient, i, type);
                if (!near(h, w, 1e-3, type))
                    fail_msg("%d shards, %s, [%ld, %ld]: %.9g, one rank %.9g", shards,
                             dtype_name(type), (long)(i / VOCAB), (long)(i % VOCAB), h, w);
            }
            free(have.gradient);
        }
        free(full.gradient);
    }
}

static void cross_entropy_of_vocabulary_shards_equals_that_of_one_rank(void **state)
{
    (void)state;
    at_every_level(check_entropy_of_parts);
}

static void check_grad_scale(void)
{
    const kernel_step one = {.loss_scale = 1}, large = {.loss_scale = 1024},
                      eight = {.loss_scale = 8};
    entropy plain = entropy_whole(F32, NULL), once = entropy_whole(F32, &one);
    entropy scaled = entropy_whole(F32, &large);
    entropy shards = entropy_of_shards(F32, cuts[1], 2, NULL);
    entropy scaled_shards = entropy_of_shards(F32, cuts[1], 2, &large);
    assert_memory_equal(plain.gradient, once.gradient, sizeof(float) * ROWS * VOCAB);
    assert_true(plain.loss == scaled.loss && shards.loss == scaled_shards.loss);
    for (int64_t i = 0; i < ROWS * VOCAB; i++) {
        assert_true(((float *)scaled.gradient)[i] == 1024 * ((float *)plain.gradient)[i]);
        assert_true(((float *)scaled_shards.gradient)[i] == 1024 * ((float *)shards.gradient)[i]);
    }
    free(plain.gradient), free(once.gradient), free(scaled.gradient);
    free(shards.gradient), free(scaled_shards.gradient);
    float x[2] = {3, -1}, target[2] = {1, 1}, dx[2];
    run(K_SQUARE_ERROR,
        &(kernel_square_error_args){
            .rows = 2, .cols = 1, .x = x, .target = target, .dx = dx, .step = &eight});
    assert_true(dx[0] == 32 && dx[1] == -32);
}

static void a_loss_scale_multiplies_the_gradient_and_not_the_loss(void **state)
{
    (void)state;
    at_every_level(check_grad_scale);
}

// An infinite logit of any shard must reach the loss of all shards.
static void check_bad_logits(void)
{
    for (int i = 0; i < 3; i++) {
        const float bad[3] = {NAN, INFINITY, 1};
        float here[20] = {0}, stats[2][3], other[3] = {0};
        double loss = 0;
        const int32_t label = 21;
        here[7] = bad[i];
        kernel_cross_entropy_stats_args s = {.rows = 1, .cols = 20, .labels = &label, .scale = 1};
        s.logits = here, s.stats = stats[0];
        run(K_CROSS_ENTROPY_STATS, &s);
        s.logits = other, s.stats = stats[1], s.first = 20, s.cols = 3;
        run(K_CROSS_ENTROPY_STATS, &s);
        run(K_CROSS_ENTROPY, &(kernel_cross_entropy_args){.rows = 1,
                                                          .cols = 3,
                                                          .first = 20,
                                                          .logits = other,
                                                          .labels = &label,
                                                          .stats = stats[0],
                                                          .shards = 2,
                                                          .loss_sum = &loss,
                                                          .scale = 1});
        assert_true(isfinite(loss) == (i == 2));
    }
}

static void an_infinite_logit_of_one_shard_reaches_the_others(void **state)
{
    (void)state;
    at_every_level(check_bad_logits);
}

// ---- embedding

static const int32_t ids[ROWS] = {0, 1036, 400, 400, 399, 3, 2, 1000, 700};

static void check_embedding_of_parts(void)
{
    float *tokens = harness_random(VOCAB * COLS, 1), *positions = harness_random(SEQ * COLS, 2);
    float *full = harness_zeros(ROWS * COLS), *shard = harness_zeros(ROWS * COLS);
    kernel_embedding_args p = {.rows = ROWS,
                               .row_tokens = kernel_tokens_from(SEQ, 0),
                               .cols = COLS,
                               .ids = ids,
                               .tokens = tokens,
                               .positions = positions,
                               .y = full,
                               .scale = 1.5f};
    run(K_EMBEDDING, &p);
    for (int shards = 1; shards <= CUTS; shards++) {
        float *sum = harness_zeros(ROWS * COLS);
        for (int i = 0; i < shards; i++) {
            p.first = cuts[shards - 1][i], p.vocab = cuts[shards - 1][i + 1] - p.first;
            p.tokens = tokens + p.first * COLS, p.y = shard;
            p.positions = i == 0 ? positions : NULL;
            run(K_EMBEDDING, &p);
            for (int64_t j = 0; j < ROWS * COLS; j++) sum[j] += shard[j];
        }
        for (int64_t j = 0; j < ROWS * COLS; j++) assert_true(near(sum[j], full[j], 0.1, F32));
        free(sum);
    }
    free(tokens), free(positions), free(full), free(shard);
}

static void embeddings_of_vocabulary_shards_add_up_to_the_full_one(void **state)
{
    (void)state;
    at_every_level(check_embedding_of_parts);
}

static void check_embedding_grad_of_parts(void)
{
    int32_t sorted[2 * ROWS];
    context.workspace = sorted;
    float *dy = harness_random(ROWS * COLS, 3);
    float *full = harness_random(VOCAB * COLS, 4), *shard = harness_random(VOCAB * COLS, 5);
    kernel_embedding_grad_args p = {.rows = ROWS,
                                    .row_tokens = kernel_tokens_from(SEQ, 0),
                                    .cols = COLS,
                                    .vocab = VOCAB,
                                    .ids = ids,
                                    .dy = dy,
                                    .d_tokens = full,
                                    .scale = 1.5f};
    run(K_EMBEDDING_GRAD, &p);
    for (int shards = 1; shards <= CUTS; shards++) {
        for (int i = 0; i < shards; i++) {
            p.first = cuts[shards - 1][i], p.vocab = cuts[shards - 1][i + 1] - p.first;
            p.d_tokens = shard + p.first * COLS;
            run(K_EMBEDDING_GRAD, &p);
        }
        assert_memory_equal(shard, full, sizeof(float) * VOCAB * COLS);
    }
    free(dy), free(full), free(shard);
}

static void embedding_gradients_of_shards_are_rows_of_the_full_one(void **state)
{
    (void)state;
    at_every_level(check_embedding_grad_of_parts);
}

// ---- heads

enum { BATCH = 2, HEADS = 5, DIM = 16, WIDTH = HEADS * DIM, MOST_TOKENS = 40 };
enum { MOST = BATCH * MOST_TOKENS * WIDTH };

typedef struct attended {
    float o[MOST], lse[BATCH * HEADS * MOST_TOKENS], delta[BATCH * HEADS * MOST_TOKENS];
    float dq[MOST], dk[MOST], dv[MOST];
} attended;

// Heads head0 … head0+heads-1 of arrays that hold all heads. lse and delta of these heads come
// first.
static void attend(attended *out, int64_t tokens, int64_t head0, int64_t heads, int64_t all_heads)
{
    float *q = harness_random(MOST, 1), *k = harness_random(MOST, 2), *v = harness_random(MOST, 3);
    float *d_o = harness_random(MOST, 4);
    int64_t at = head0 * DIM;
    kernel_attention_grad_args g = {.fwd = {.batch = BATCH,
                                            .queries = kernel_tokens_from(tokens, 0),
                                            .tk = tokens,
                                            .heads = heads,
                                            .kv_heads = heads,
                                            .head_dim = DIM,
                                            .q_stride = WIDTH,
                                            .k_stride = WIDTH,
                                            .v_stride = WIDTH,
                                            .o_stride = WIDTH,
                                            .k_batch = tokens * WIDTH,
                                            .v_batch = tokens * WIDTH,
                                            .q = q + at,
                                            .k = k + at,
                                            .v = v + at,
                                            .o = out->o + at,
                                            .lse = out->lse,
                                            .scale = 0.25f,
                                            .dropout.p = 0.3f,
                                            .dropout.draw = {.seed = 3, .row0 = 7},
                                            .dropout.stride = (uint64_t)tokens,
                                            .dropout.head0 = all_heads ? head0 : 0,
                                            .dropout.all_heads = all_heads,
                                            .causal = true},
                                    .d_o = d_o + at,
                                    .dq = out->dq + at,
                                    .dk = out->dk + at,
                                    .dv = out->dv + at,
                                    .delta = out->delta};
    run(K_ATTENTION, &g.fwd);
    run(K_ATTENTION_GRAD, &g);
    free(q), free(k), free(v), free(d_o);
}

static void check_heads(void)
{
    attended *full = calloc(1, sizeof *full), *shards = calloc(1, sizeof *shards);
    const int64_t tokens[] = {1, 3, MOST_TOKENS}; // few queries have a form of their own
    for (int i = 0; i < 3; i++) {
        attend(full, tokens[i], 0, HEADS, 0);
        attend(shards, tokens[i], 0, 2, HEADS);
        attend(shards, tokens[i], 2, 3, HEADS);
        assert_memory_equal(full->o, shards->o, sizeof full->o);
        assert_memory_equal(full->dq, shards->dq, sizeof full->dq);
        assert_memory_equal(full->dk, shards->dk, sizeof full->dk);
        assert_memory_equal(full->dv, shards->dv, sizeof full->dv);
    }
    attend(shards, MOST_TOKENS, 2, 3, 0); // with another head0 the heads draw other numbers
    assert_memory_not_equal(full->o, shards->o, sizeof full->o);
    free(full), free(shards);
}

static void some_heads_drop_what_they_drop_among_all_heads(void **state)
{
    (void)state;
    at_every_level(check_heads);
}

// ---- counts of zero, and numbers too large for fp16

static void check_nothing(void)
{
    double sum = 3;
    for (dtype type = F32; type <= F16; type++) {
        run(K_SUM_SQUARES, &(kernel_sum_squares_args){.sum = &sum, .type = type});
        run(K_ADD, &(kernel_add_args){.alpha = 1, .beta = 1, .type = type});
        run(K_CONVERT, &(kernel_convert_args){.src_type = F32, .dst_type = type});
    }
    run(K_FILL, &(kernel_fill_args){NULL, 0});
    run(K_ORTHOGONALIZE, &(kernel_orthogonalize_args){.cols = 4});
    run(K_ORTHOGONALIZE, &(kernel_orthogonalize_args){.rows = 4});
    assert_true(sum == 3);
}

static void a_count_of_zero_does_nothing(void **state)
{
    (void)state;
    at_every_level(check_nothing);
}

static void check_large(void)
{
    enum { COUNT = 21 }; // full vectors and a rest
    float x[COUNT];
    uint16_t low[COUNT];
    double sum = 0;
    for (int i = 0; i < COUNT; i++) x[i] = i % 2 ? -65520.0f : 65519.0f;
    run(K_CONVERT, &(kernel_convert_args){
                       .count = COUNT, .src = x, .dst = low, .src_type = F32, .dst_type = F16});
    for (int i = 0; i < COUNT; i++) assert_int_equal(low[i], i % 2 ? 0xfc00 : 0x7bff);
    run(K_SUM_SQUARES,
        &(kernel_sum_squares_args){.count = COUNT, .x = low, .sum = &sum, .type = F16});
    assert_true(isinf(sum));
    for (int i = 0; i < COUNT; i++) low[i] = float_to_fp16(300);
    run(K_ADD, &(kernel_add_args){.count = COUNT, .a = low, .y = low, .alpha = 300, .type = F16});
    for (int i = 0; i < COUNT; i++) assert_int_equal(low[i], 0x7c00);
}

static void a_number_too_large_for_fp16_becomes_infinite(void **state)
{
    (void)state;
    at_every_level(check_large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cross_entropy_of_vocabulary_shards_equals_that_of_one_rank),
        cmocka_unit_test(a_loss_scale_multiplies_the_gradient_and_not_the_loss),
        cmocka_unit_test(an_infinite_logit_of_one_shard_reaches_the_others),
        cmocka_unit_test(embeddings_of_vocabulary_shards_add_up_to_the_full_one),
        cmocka_unit_test(embedding_gradients_of_shards_are_rows_of_the_full_one),
        cmocka_unit_test(some_heads_drop_what_they_drop_among_all_heads),
        cmocka_unit_test(a_count_of_zero_does_nothing),
        cmocka_unit_test(a_number_too_large_for_fp16_becomes_infinite),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
