// The sampler gives every sample once per epoch for any number of ranks; `torch` gives PyTorch's
// order.
#include "unit/data/scratch.h"

#include "data/sampler.h"

static sampler *open_or_fail(sampler_order order, uint64_t n, uint64_t seed, int rank, int ranks)
{
    err e = {0};
    sampler *s = NULL;
    if (sampler_open(order, n, seed, rank, ranks, &s, &e) != OK) fail_msg("%s", e.text);
    return s;
}

static void an_epoch_of_shuffle_is_a_bijection(void **state)
{
    (void)state;
    const uint64_t sizes[] = {1,  2,  3,  4,   5,   7,    8,    15,   16,    17,    63,
                              64, 65, 99, 256, 257, 1000, 4095, 4096, 65536, 65537, 300007};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t n = sizes[i];
        sampler *s = open_or_fail(ORDER_SHUFFLE, n, 7 + i, 0, 1);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            uint8_t *seen = calloc(n, 1);
            for (uint64_t k = 0; k < n; k++) {
                uint64_t sample = sampler_sample(s, epoch * n + k);
                assert_true(sample < n);
                assert_false(seen[sample]);
                seen[sample] = 1;
            }
            free(seen);
        }
        sampler_close(s);
    }
}

static void shuffle_works_on_more_samples_than_fit_memory(void **state)
{
    (void)state;
    const uint64_t sizes[] = {(uint64_t)1 << 40, ((uint64_t)1 << 62) + 1, UINT64_MAX};
    for (int i = 0; i < 3; i++) {
        sampler *s = open_or_fail(ORDER_SHUFFLE, sizes[i], 1, 0, 1);
        uint64_t high = 0;
        for (uint64_t k = 0; k < 1000; k++) {
            uint64_t sample = sampler_sample(s, k);
            assert_true(sample < sizes[i]);
            high += sample > sizes[i] / 2;
        }
        assert_in_range(high, 400, 600);
        sampler_close(s);
    }
}

static void shuffle_depends_on_seed_and_epoch_only(void **state)
{
    (void)state;
    enum { N = 1000, G = 12, STEPS = 200 };
    sampler *one = open_or_fail(ORDER_SHUFFLE, N, 5, 0, 1);
    const int worlds[] = {2, 3, 4, 12};
    for (int w = 0; w < 4; w++)
        for (int rank = 0; rank < worlds[w]; rank++) {
            sampler *s = open_or_fail(ORDER_SHUFFLE, N, 5, rank, worlds[w]);
            uint64_t local = G / (uint64_t)worlds[w];
            for (uint64_t step = 0; step < STEPS; step++)
                for (uint64_t i = 0; i < local; i++)
                    assert_int_equal(sampler_step_sample(s, step, G, i),
                                     sampler_step_sample(one, step, G, (uint64_t)rank * local + i));
            sampler_close(s);
        }
    sampler *other = open_or_fail(ORDER_SHUFFLE, N, 6, 0, 1);
    int same_seed = 0, same_epoch = 0, in_order = 0;
    for (uint64_t k = 0; k < N; k++) {
        same_seed += sampler_sample(one, k) == sampler_sample(other, k);
        same_epoch += sampler_sample(one, k) == sampler_sample(one, N + k);
        in_order += sampler_sample(one, k) == k;
    }
    assert_true(same_seed < 10 && same_epoch < 10 && in_order < 10);
    sampler_close(one);
    sampler_close(other);
}

// With 6000 seeds each of the six orders of three samples comes 1000 times, within five standard
// deviations.
static void all_orders_of_three_are_equally_likely(void **state)
{
    (void)state;
    int seen[9] = {0};
    for (uint64_t seed = 0; seed < 6000; seed++) {
        sampler *s = open_or_fail(ORDER_SHUFFLE, 3, seed, 0, 1);
        seen[3 * sampler_sample(s, 0) + sampler_sample(s, 1)]++;
        sampler_close(s);
    }
    for (int i = 0; i < 9; i++)
        if (i % 4 != 0) assert_in_range(seen[i], 1000 - 145, 1000 + 145);
}

static void sequential_counts_and_wraps(void **state)
{
    (void)state;
    sampler *s = open_or_fail(ORDER_SEQUENTIAL, 10, 99, 1, 2);
    for (uint64_t step = 0; step < 20; step++)
        for (uint64_t i = 0; i < 2; i++)
            assert_int_equal(sampler_step_sample(s, step, 4, i), (step * 4 + 2 + i) % 10);
    assert_true(sampler_epoch(s, 5, 4) == 2.0);
    sampler_close(s);
}

static uint64_t fnv_add(uint64_t h, uint64_t v)
{
    for (int i = 0; i < 8; i++) h = (h ^ (v >> (8 * i) & 255)) * UINT64_C(0x100000001b3);
    return h;
}

// The cases come from tests/golden/make_sampler_golden.py. The global batch is one sequence per rank.
static void torch_order_equals_distributed_sampler(void **state)
{
    (void)state;
    FILE *f = fopen(TESTS_DIR "/golden/sampler_torch.txt", "r");
    assert_non_null(f);
    unsigned long long n, seed, epoch, count, hash, want;
    int ranks, rank, used, cases = 0;
    char line[512];
    while (fgets(line, sizeof line, f)) {
        assert_int_equal(sscanf(line, "%llu %llu %llu %d %d %llu %llx%n", &n, &seed, &epoch, &ranks,
                                &rank, &count, &hash, &used),
                         7);
        sampler *s = open_or_fail(ORDER_TORCH, n, seed, rank, ranks);
        uint64_t h = UINT64_C(0xcbf29ce484222325);
        const char *rest = line + used;
        for (uint64_t k = 0; k < count; k++) {
            uint64_t sample = sampler_step_sample(s, epoch * count + k, (uint64_t)ranks, 0);
            int step = 0;
            if (k < 8) {
                assert_int_equal(sscanf(rest, "%llu%n", &want, &step), 1);
                assert_int_equal(sample, want);
                rest += step;
            }
            h = fnv_add(h, sample);
        }
        assert_true(h == hash);
        // An epoch has `count` steps.
        assert_true(sampler_epoch(s, count, (uint64_t)ranks) == 1.0);
        sampler_close(s);
        cases++;
    }
    fclose(f);
    assert_true(cases > 200);
}

static void torch_order_can_seek_between_epochs(void **state)
{
    (void)state;
    sampler *a = open_or_fail(ORDER_TORCH, 100, 3, 1, 3),
            *b = open_or_fail(ORDER_TORCH, 100, 3, 1, 3);
    for (uint64_t k = 0; k < 200; k++) {
        uint64_t position = k * 73 % 200, sample = sampler_step_sample(a, position, 3, 0);
        assert_int_equal(sample, sampler_step_sample(b, position / 2, 6, position % 2));
        assert_int_equal(sample, sampler_sample(b, position * 3 + 1));
    }
    sampler_close(a);
    sampler_close(b);
}

// Runs of 3, 1 and 2 sequences are those of one rank with 6.
static void runs_of_unequal_length_follow_each_other(void **state)
{
    (void)state;
    enum { N = 50, G = 6 };
    static const uint64_t length[] = {3, 1, 2};
    sampler *one = open_or_fail(ORDER_SHUFFLE, N, 5, 0, 1);
    uint64_t first = 0;
    for (int rank = 0; rank < 3; rank++) {
        sampler *s = open_or_fail(ORDER_SHUFFLE, N, 5, rank, 3);
        sampler_begin_at(s, first);
        for (uint64_t step = 0; step < 20; step++)
            for (uint64_t i = 0; i < length[rank]; i++)
                assert_int_equal(sampler_step_sample(s, step, G, i),
                                 sampler_step_sample(one, step, G, first + i));
        first += length[rank];
        sampler_close(s);
    }
    sampler_close(one);
}

static void no_samples_and_too_many_for_torch_are_refused(void **state)
{
    (void)state;
    err e = {0};
    sampler *s = NULL;
    assert_int_equal(sampler_open(ORDER_SHUFFLE, 0, 0, 0, 1, &s, &e), E_USAGE);
    assert_int_equal(sampler_open(ORDER_TORCH, (uint64_t)1 << 32, 0, 0, 1, &s, &e), E_USAGE);
    assert_says(&e, "data.order: torch: found 4294967296 samples");
    assert_null(s);
    sampler_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_of_shuffle_is_a_bijection),
        cmocka_unit_test(shuffle_works_on_more_samples_than_fit_memory),
        cmocka_unit_test(shuffle_depends_on_seed_and_epoch_only),
        cmocka_unit_test(all_orders_of_three_are_equally_likely),
        cmocka_unit_test(sequential_counts_and_wraps),
        cmocka_unit_test(torch_order_equals_distributed_sampler),
        cmocka_unit_test(torch_order_can_seek_between_epochs),
        cmocka_unit_test(runs_of_unequal_length_follow_each_other),
        cmocka_unit_test(no_samples_and_too_many_for_torch_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
