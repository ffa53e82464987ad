// test_segments.c -- a launch with a segment table has the bits of one launch for each segment, with the
// reference and with every vector form, on one and on several threads.
#include "harness.h"

enum {
    LONG = 200000, // more than one block of a sum, and many grains
    SEGMENTS = 9,
    ROOM = 3 * LONG,
};

static cpu_context contexts[2];
static const cpu_context *context;
static cpu_kernels kernels;

// Runs a test with the reference and with the table of every level, on one and on three threads.
static void at_every_level(void (*test)(void))
{
    cpu_features features;
    cpu_features_read(&features);
    for (cpu_level level = CPU_GENERIC; level <= features.best && level <= CPU_AVX512; level++) {
        cpu_kernels_fill(&kernels, level);
        if (level == CPU_GENERIC) ref_kernels_fill(&kernels);
        for (int i = 0; i < 2; i++) {
            context = &contexts[i];
            test();
        }
    }
}

static int setup(void **state)
{
    (void)state;
    contexts[0] = harness_open(1);
    contexts[1] = harness_open(3);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cpu_context_close(&contexts[0]);
    cpu_context_close(&contexts[1]);
    return 0;
}

static void run(kernel_kind k, const void *args)
{
    kernels.run[k](context, args);
}

// Segments of many lengths. Their places in the arrays are apart and in different orders.
static int64_t make_table(kernel_segment s[SEGMENTS])
{
    static const int64_t counts[SEGMENTS] = {7, LONG, 1, 0, 16384, 16385, 33, 70000, 768};
    int64_t total = 0;
    for (int i = 0; i < SEGMENTS; i++) {
        s[i] = (kernel_segment){.count = counts[i], .decays = i % 3 != 0};
        for (int j = 0; j < i; j++) s[i].src += counts[j] + 3;
        for (int j = i + 1; j < SEGMENTS; j++) s[i].dst += counts[j] + 5;
        for (int j = 0; j < i; j++) s[i].state += counts[j];
        total += counts[i];
    }
    return total;
}

// The sum starts with a large number, so that another order of additions would round otherwise.
static void check_squares_of(uint64_t seed)
{
    kernel_segment s[SEGMENTS];
    const int64_t total = make_table(s);
    float *x = harness_random(ROOM, seed);
    const dtype types[] = {F32, BF16, F16};
    for (int t = 0; t < 3; t++) {
        double want = 1e7 / 3, have = want;
        uint16_t *low = harness_low(x, ROOM, types[t] == F32 ? BF16 : types[t]);
        const void *array = types[t] == F32 ? (void *)x : low;
        for (int i = 0; i < SEGMENTS; i++)
            run(K_SUM_SQUARES,
                &(kernel_sum_squares_args){.count = s[i].count,
                                           .x = kernel_element(array, s[i].src, types[t]),
                                           .sum = &want,
                                           .type = types[t]});
        run(K_SUM_SQUARES, &(kernel_sum_squares_args){.count = total,
                                                      .x = array,
                                                      .sum = &have,
                                                      .type = types[t],
                                                      .segment = s,
                                                      .segments = SEGMENTS});
        assert_true(want == have && want > 1e7 / 3);
        free(low);
    }
    free(x);
}

static void check_squares(void)
{
    for (uint64_t seed = 1; seed <= 4; seed++) check_squares_of(seed);
}

static void sums_of_squares_keep_their_order(void **state)
{
    (void)state;
    at_every_level(check_squares);
}

// Shared memory has room for the sums of half of these segments.
static void check_many_squares(void)
{
    enum { MANY = 2 * CPU_SHARED_BYTES / (int)sizeof(double) + 5 };
    kernel_segment *s = calloc(MANY, sizeof *s);
    float *x = harness_random(1000, 2);
    double want = 0, have = 0;
    assert_non_null(s);
    for (int i = 0; i < MANY; i++) {
        s[i] = (kernel_segment){.count = 1, .src = i % 1000};
        want += (double)x[i % 1000] * (double)x[i % 1000];
    }
    run(K_SUM_SQUARES,
        &(kernel_sum_squares_args){
            .count = MANY, .x = x, .sum = &have, .type = F32, .segment = s, .segments = MANY});
    assert_true(want == have);
    free(s), free(x);
}

static void a_table_may_have_more_segments_than_shared_memory_has_room_for(void **state)
{
    (void)state;
    at_every_level(check_many_squares);
}

// The arrays of one update, and how it is run.
typedef struct update_case {
    float *w, *m, *v, *average;
    uint16_t *low;
} update_case;

static update_case make_update(const float *g, dtype low)
{
    update_case c = {harness_random(ROOM, 3), harness_random(ROOM, 4), harness_random(ROOM, 5),
                     harness_random(ROOM, 6), low == F32 ? NULL : harness_low(g, ROOM, low)};
    for (int64_t i = 0; i < ROOM; i++) c.v[i] = fabsf(c.v[i]);
    return c;
}

static void free_update(update_case *c)
{
    free(c->w), free(c->m), free(c->v), free(c->average), free(c->low);
}

static void check_update_rule(kernel_update_rule rule, dtype low, bool applies, const float *g)
{
    kernel_segment s[SEGMENTS];
    const int64_t total = make_table(s);
    update_case want = make_update(g, low), have = make_update(g, low);
    const kernel_step step = {.result = {.scale = 0.5, .applies = applies}};
    const kernel_step_group numbers = {
        .lr = 0.01f, .beta1 = 0.9f, .c1 = 0.271f, .c2 = 0.142f, .average_rest = 0.125f};
    kernel_update_args p = {.rule = rule,
                            .low_type = low,
                            .beta2 = 0.95f,
                            .eps = 1e-8f,
                            .weight_decay = 0.1f,
                            .step = &step,
                            .group = &numbers};
    for (int i = 0; i < SEGMENTS; i++) {
        kernel_update_args one = p;
        one.count = s[i].count;
        one.g = g + s[i].src;
        one.w = want.w + (want.low ? s[i].state : s[i].dst);
        one.m = want.m + s[i].state, one.v = want.v + s[i].state;
        one.average = want.average + s[i].state;
        if (want.low) one.low = want.low + s[i].dst;
        if (!s[i].decays) one.weight_decay = 0;
        run(K_UPDATE, &one);
    }
    p.count = total, p.segment = s, p.segments = SEGMENTS;
    p.w = have.w, p.m = have.m, p.v = have.v, p.low = have.low, p.g = g;
    p.average = have.average;
    run(K_UPDATE, &p);
    assert_memory_equal(want.w, have.w, ROOM * sizeof(float));
    assert_memory_equal(want.m, have.m, ROOM * sizeof(float));
    assert_memory_equal(want.v, have.v, ROOM * sizeof(float));
    assert_memory_equal(want.average, have.average, ROOM * sizeof(float));
    if (want.low) assert_memory_equal(want.low, have.low, ROOM * sizeof(uint16_t));
    free_update(&want), free_update(&have);
}

static void check_update(void)
{
    float *g = harness_random(ROOM, 6);
    for (kernel_update_rule rule = 0; rule < UPDATE_RULES; rule++) {
        check_update_rule(rule, F32, true, g);
        check_update_rule(rule, BF16, true, g);
        check_update_rule(rule, BF16, false, g);
    }
    free(g);
}

static void updates_have_the_bits_of_one_launch_a_segment(void **state)
{
    (void)state;
    at_every_level(check_update);
}

static void check_copy(bool accumulate, dtype to)
{
    kernel_segment s[SEGMENTS];
    const int64_t total = make_table(s);
    float *from = harness_random(ROOM, 7), *want = harness_random(ROOM, 8),
          *have = harness_random(ROOM, 8);
    for (int i = 0; i < SEGMENTS; i++) {
        void *dst = kernel_element(want, s[i].dst, to);
        if (accumulate)
            run(K_ADD, &(kernel_add_args){.count = s[i].count,
                                          .a = dst,
                                          .b = from + s[i].src,
                                          .y = dst,
                                          .alpha = 1,
                                          .beta = 1,
                                          .type = F32});
        else
            dtype_convert(dst, to, from + s[i].src, F32, (size_t)s[i].count);
    }
    run(K_CONVERT, &(kernel_convert_args){.count = total,
                                          .src = from,
                                          .dst = have,
                                          .src_type = F32,
                                          .dst_type = to,
                                          .accumulate = accumulate,
                                          .segment = s,
                                          .segments = SEGMENTS});
    assert_memory_equal(want, have, ROOM * sizeof(float));
    free(from), free(want), free(have);
}

static void check_copies(void)
{
    check_copy(false, F32);
    check_copy(true, F32);
    check_copy(false, BF16);
    check_copy(false, F16);
}

static void segments_are_copied_added_and_converted(void **state)
{
    (void)state;
    at_every_level(check_copies);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_squares_keep_their_order),
        cmocka_unit_test(a_table_may_have_more_segments_than_shared_memory_has_room_for),
        cmocka_unit_test(updates_have_the_bits_of_one_launch_a_segment),
        cmocka_unit_test(segments_are_copied_added_and_converted),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
