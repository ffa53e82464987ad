// test_step.c -- the numbers of a step in device memory: what K_CLIP computes from the sums, and that
// the kernels follow it, at every level of instructions. The same calls give another result when the
// struct has changed, so they can be issued again as they are.
#include "device/cpu/ref/ref.h"
#include "unit/device/harness.h"

static cpu_context context;
static cpu_kernels kernels;

static void run(kernel_kind kind, const void *args)
{
    kernels.run[kind](&context, args);
}

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

// ---- The decision

typedef struct decision {
    double loss, count, squares, stop, samples, loss_scale, max_norm;
} decision;

static kernel_step_result decide(const decision *d)
{
    kernel_step s = {.loss_scale = d->loss_scale,
                     .sums = {d->loss, d->count, d->squares, d->stop, d->samples},
                     // What an earlier step left there.
                     .result = {.scale = NAN, .finite = true, .stop = true, .applies = true}};
    run(K_CLIP, &(kernel_clip_args){.step = &s, .max_norm = d->max_norm});
    return s.result;
}

static void check_sums(void)
{
    // 40 positions with gradients whose squares add to 36, so the norm of their mean is 6/40.
    const kernel_step_result r = decide(&(decision){100, 40, 36, 0, 8, 1, 0});
    assert_true(r.loss == 2.5 && r.count == 40 && r.norm == 0.15 && r.samples == 8);
    assert_true(r.scale == 1 / 40.0 && r.finite && r.applies && !r.stop);
    // A loss scale is in the gradients, and in neither loss nor norm.
    const kernel_step_result large =
        decide(&(decision){100, 40, 36 * 4096.0 * 4096, 2, 8, 4096, 0});
    assert_true(large.loss == 2.5 && large.norm == 0.15 && large.stop);
    assert_true(large.scale == 1 / 40.0 / 4096 && large.applies);
}

static void loss_norm_and_factor_follow_from_the_sums(void **state)
{
    (void)state;
    at_every_level(check_sums);
}

static void check_clipping(void)
{
    const double norm = sqrt(36.0) / 40, factor = 0.1 / (norm + 1e-6);
    assert_true(decide(&(decision){100, 40, 36, 0, 8, 1, 0.1}).scale == 1 / 40.0 * factor);
    assert_true(decide(&(decision){100, 40, 36, 0, 8, 1, 0.1}).norm == norm); // before clipping
    assert_true(decide(&(decision){100, 40, 36, 0, 8, 1, 0.2}).scale == 1 / 40.0);
    // A norm of exactly the maximum is clipped by the 1e-6, as in PyTorch.
    assert_true(decide(&(decision){100, 40, 1600, 0, 8, 1, 1}).scale ==
                1 / 40.0 * (1 / (1 + 1e-6)));
}

static void a_norm_above_the_maximum_is_clipped_as_in_pytorch(void **state)
{
    (void)state;
    at_every_level(check_clipping);
}

static void check_refusals(void)
{
    const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        const kernel_step_result loss = decide(&(decision){bad[i], 40, 36, 0, 8, 1, 1}),
                                 norm = decide(&(decision){100, 40, bad[i], 1, 8, 1, 1});
        assert_true(!loss.finite && !loss.applies && !norm.finite && !norm.applies && norm.stop);
        assert_true(norm.loss == 2.5 && loss.norm == 0.15); // what is finite stays readable
    }
    // Without a valid position all is zero, and the update applies. Without a sample there is no step.
    const kernel_step_result none = decide(&(decision){0, 0, 0, 0, 8, 1, 1}),
                             ended = decide(&(decision){0, 0, 0, 1, 0, 1, 1});
    assert_true(none.loss == 0 && none.norm == 0 && none.scale == 1 && none.applies);
    assert_true(ended.finite && ended.samples == 0 && !ended.applies && ended.stop);
}

static void a_step_that_is_not_finite_or_has_no_sample_does_not_apply(void **state)
{
    (void)state;
    at_every_level(check_refusals);
}

// ---- The update

enum { COUNT = 20011 }; // several grains of the vector form, and a rest

typedef struct arrays {
    float *w, *m, *v, *g;
    uint16_t *low;
} arrays;

static arrays arrays_open(void)
{
    arrays a = {harness_random(COUNT, 1), harness_random(COUNT, 2), harness_random(COUNT, 3),
                harness_random(COUNT, 4), calloc(COUNT, sizeof *a.low)};
    assert_non_null(a.low);
    for (int i = 0; i < COUNT; i++) a.v[i] = fabsf(a.v[i]);
    a.w[1] = 3e-40f, a.m[1] = a.v[1] = 1e-40f; // below the normal range
    a.w[2] = -0.0f, a.m[2] = NAN, a.g[3] = INFINITY;
    return a;
}

static void arrays_close(arrays *a)
{
    free(a->w), free(a->m), free(a->v), free(a->g), free(a->low);
}

static kernel_update_args update_of(const arrays *a, kernel_update_rule rule, dtype low,
                                    const kernel_step *step)
{
    static const kernel_step_group group = {.lr = 0.01f, .beta1 = 0.9f, .c1 = 0.1f, .c2 = 0.05f};
    return (kernel_update_args){.count = COUNT,
                                .w = a->w,
                                .m = a->m,
                                .v = rule == UPDATE_ADAMW || rule == UPDATE_ADAM ? a->v : NULL,
                                .g = a->g,
                                .low = low == F32 ? NULL : a->low,
                                .low_type = low,
                                .rule = rule,
                                .beta2 = 0.95f,
                                .eps = 1e-8f,
                                .weight_decay = 0.1f,
                                .step = step,
                                .group = &group};
}

static void check_skipped(kernel_update_rule rule, dtype low)
{
    arrays a = arrays_open(), before = arrays_open();
    kernel_step step = {.result = {.scale = NAN}};
    const kernel_update_args call = update_of(&a, rule, low, &step);
    uint16_t *rounded = harness_low(before.w, COUNT, low == F32 ? BF16 : low);
    run(K_UPDATE, &call);
    assert_memory_equal(a.w, before.w, COUNT * sizeof(float));
    assert_memory_equal(a.m, before.m, COUNT * sizeof(float));
    assert_memory_equal(a.v, before.v, COUNT * sizeof(float));
    if (low != F32) assert_memory_equal(a.low, rounded, COUNT * sizeof *rounded);
    // The same call, when the struct says so, updates.
    step.result = (kernel_step_result){.scale = 0.5, .applies = true};
    run(K_UPDATE, &call);
    assert_memory_not_equal(a.w, before.w, COUNT * sizeof(float));
    assert_memory_not_equal(a.m, before.m, COUNT * sizeof(float));
    free(rounded);
    arrays_close(&a), arrays_close(&before);
}

static void check_all_skipped(void)
{
    for (kernel_update_rule rule = 0; rule < UPDATE_RULES; rule++)
        for (dtype low = F32; low <= F16; low++) check_skipped(rule, low);
}

static void an_update_that_does_not_apply_only_writes_the_rounded_weights(void **state)
{
    (void)state;
    at_every_level(check_all_skipped);
}

// ---- Random numbers

static void check_draw(void)
{
    enum { ROWS = 37, COLS = 19 };
    float x[ROWS * COLS], y[ROWS * COLS];
    kernel_step step = {.step = 7, .first_row = (uint64_t)1 << 33};
    const kernel_dropout_args call = {.rows = ROWS,
                                      .cols = COLS,
                                      .row_tokens = kernel_tokens_from(ROWS, 0),
                                      .x = x,
                                      .y = y,
                                      .p = 0.25f,
                                      .draw = {.step = &step, .seed = 3, .node = 5, .row0 = 100}};
    for (int i = 0; i < ROWS * COLS; i++) x[i] = 1;
    for (; step.step < 9; step.step++, step.first_row += 1000) {
        run(K_DROPOUT, &call);
        const rng_key key = rng_key_make(3, RNG_DROPOUT, step.step, 5);
        for (uint64_t i = 0; i < ROWS * COLS; i++) {
            const uint64_t word = (step.first_row + 100) * COLS + i;
            assert_int_equal(y[i] != 0, rng_uniform(rng_word(key, word)) >= 0.25f);
        }
    }
}

static void dropout_is_keyed_by_the_step_and_its_first_row(void **state)
{
    (void)state;
    at_every_level(check_draw);
}

// ---- Padding rows

static void check_padding(int64_t first, int64_t filled, int64_t rows_counted)
{
    enum { ROWS = 5, COLS = 7 };
    float x[ROWS * COLS], target[ROWS * COLS], dx[ROWS * COLS];
    double loss = 0, total = 0;
    for (int i = 0; i < ROWS * COLS; i++) x[i] = 3, target[i] = 1, dx[i] = NAN;
    for (int i = (int)rows_counted * COLS; i < ROWS * COLS; i++) x[i] = NAN;
    run(K_SQUARE_ERROR, &(kernel_square_error_args){.rows = ROWS,
                                                    .cols = COLS,
                                                    .first = first,
                                                    .filled = &filled,
                                                    .x = x,
                                                    .target = target,
                                                    .dx = dx,
                                                    .loss_sum = &loss,
                                                    .total = &total});
    assert_true(total == (double)rows_counted * COLS && loss == 4 * total);
    for (int i = 0; i < ROWS * COLS; i++) assert_true(dx[i] == (i < rows_counted * COLS ? 4 : 0));
}

static void check_all_padding(void)
{
    check_padding(0, 5, 5);
    check_padding(0, 2, 2);
    check_padding(0, 0, 0);
    check_padding(10, 13, 3); // a later chunk of rows
    check_padding(10, 9, 0);
    check_padding(10, 20, 5);
}

static void rows_without_a_sample_add_nothing_and_get_a_zero_gradient(void **state)
{
    (void)state;
    at_every_level(check_all_padding);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_norm_and_factor_follow_from_the_sums),
        cmocka_unit_test(a_norm_above_the_maximum_is_clipped_as_in_pytorch),
        cmocka_unit_test(a_step_that_is_not_finite_or_has_no_sample_does_not_apply),
        cmocka_unit_test(an_update_that_does_not_apply_only_writes_the_rounded_weights),
        cmocka_unit_test(dropout_is_keyed_by_the_step_and_its_first_row),
        cmocka_unit_test(rows_without_a_sample_add_nothing_and_get_a_zero_gradient),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
