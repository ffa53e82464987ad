// Every collective on 1 to 8 ranks, and sums on up to 16, against plain loops, bit for bit.
#include "collective_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void run(int ranks, bool as_threads, bool late)
{
    alarm(200);
    workers k = {.ranks = ranks, .as_threads = as_threads, .late = late, .fn = everything};
    assert_int_equal(workers_run(&k), 0);
}

static void test_solo(void **state)
{
    (void)state;
    run(1, false, false);
}

static void test_processes(void **state)
{
    (void)state;
    for (int n = 2; n <= 4; n++) run(n, false, false);
}

static void test_eight_processes_on_few_cores(void **state)
{
    (void)state;
    run(8, false, false);
}

// Sums and shards of sums, of few elements.
static status few(const test_rank *s, err *e)
{
    status result = OK;
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++)
        for (size_t count = 3; count < 1000; count += 500) {
            TRY(one_all_reduce(s, t % 2 ? SHARED : PRIVATE, count, TYPES[t], REDUCE_SUM, e));
            TRY(one_reduce_scatter(s, t % 2 ? PRIVATE : SHARED, count, TYPES[t], REDUCE_SUM, false,
                                   e));
        }
done:
    return result;
}

static void test_other_numbers_of_ranks(void **state)
{
    (void)state;
    static const int sizes[] = {5, 6, 7, 9, 16};
    alarm(200);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        workers k = {.ranks = sizes[i], .as_threads = i % 2, .fn = few};
        assert_int_equal(workers_run(&k), 0);
    }
}

static void test_threads(void **state)
{
    (void)state;
    for (int n = 2; n <= 4; n++) run(n, true, false);
}

static void test_late_streams(void **state)
{
    (void)state;
    run(3, false, true);
    run(2, true, true);
}

static void test_larger_than_staging(void **state)
{
    (void)state;
    alarm(200);
    workers k = {.ranks = 3, .fn = large};
    assert_int_equal(workers_run(&k), 0);
    k.as_threads = true;
    assert_int_equal(workers_run(&k), 0);
}

static void test_a_nan_wins_every_maximum(void **state)
{
    (void)state;
    workers k = {.ranks = 3, .as_threads = true, .fn = nan_wins};
    assert_int_equal(workers_run(&k), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_solo),
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_eight_processes_on_few_cores),
        cmocka_unit_test(test_other_numbers_of_ranks),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_late_streams),
        cmocka_unit_test(test_larger_than_staging),
        cmocka_unit_test(test_a_nan_wins_every_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
