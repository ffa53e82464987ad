// Tests that a thread leaves a core, and keeps its affinity mask.
#define _GNU_SOURCE // sched_getaffinity
#include "base/proc.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static int first_core(const cpu_set_t *set)
{
    int core = 0;
    while (!CPU_ISSET(core, set)) core++;
    return core;
}

static void a_thread_that_leaves_a_core_keeps_its_mask(void **state)
{
    (void)state;
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    for (int core = -1; core <= CPU_SETSIZE; core++) proc_leave_core(core);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

static void the_only_core_of_a_mask_is_kept(void **state)
{
    (void)state;
    cpu_set_t before, one, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    const int core = first_core(&before);
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(proc_core(), core);
    proc_leave_core(core);
    assert_int_equal(proc_core(), core);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&one, &after));
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_that_leaves_a_core_keeps_its_mask),
        cmocka_unit_test(the_only_core_of_a_mask_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
