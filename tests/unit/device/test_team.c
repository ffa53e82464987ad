// test_team.c -- a team of threads runs every item exactly once, at every size, and idle threads
// use no processor time.
#include "device/cpu/cpu_team.h"
#include "unit/device/harness.h"

#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { SIZES = 5 };

static const int threads_of[SIZES] = {1, 2, 3, 4, 7};

enum { ITEMS = 1000, JOBS = 3000 };

static void count_item(const void *arg, int64_t item, int thread)
{
    _Atomic int *counts = *(_Atomic int *const *)arg;
    assert_true(thread >= 0 && thread < 7);
    atomic_fetch_add(&counts[item], 1);
}

static void a_team_runs_every_item_once(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 6, 7, 8, 50, ITEMS};
    for (int i = 0; i < SIZES; i++) {
        cpu_team *team;
        err e = {0};
        assert_int_equal(cpu_team_open(threads_of[i], &team, &e), OK);
        for (int job = 0; job < JOBS; job++) {
            int64_t items = sizes[job % (int)(sizeof sizes / sizeof *sizes)];
            if (items == ITEMS && job % 100 != 7) continue;
            _Atomic int counts[ITEMS] = {0}, *first = counts;
            cpu_team_run(team, items, count_item, &first);
            for (int64_t k = 0; k < ITEMS; k++) assert_int_equal(counts[k], k < items);
        }
        cpu_team_close(team);
    }
}

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void an_idle_team_sleeps(void **state)
{
    (void)state;
    cpu_team *team;
    err e = {0};
    _Atomic int counts[ITEMS] = {0}, *first = counts;
    assert_int_equal(cpu_team_open(4, &team, &e), OK);
    cpu_team_run(team, 8, count_item, &first);
    double before = processor_seconds();
    usleep(300000);
    assert_true(processor_seconds() - before < 0.1);
    cpu_team_close(team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_team_runs_every_item_once),
        cmocka_unit_test(an_idle_team_sleeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
