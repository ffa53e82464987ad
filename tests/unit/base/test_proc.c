// Tests that a thread leaves a core, and keeps its affinity mask, and that processes are told from each other.
#define _GNU_SOURCE // sched_getaffinity
#include "base/proc.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

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

// The identity of the first process of a new namespace of processes, which is its number 1.
static proc_identity first_of_namespace(void)
{
    proc_identity found = {0};
    int ends[2], ended;
    assert_int_equal(pipe(ends), 0);
    const pid_t outer = fork();
    if (outer == 0) { // unshare is for the next child
        if (unshare(geteuid() == 0 ? CLONE_NEWPID : CLONE_NEWUSER | CLONE_NEWPID) != 0) _exit(2);
        const pid_t inner = fork();
        if (inner == 0) {
            const bool good = proc_identify(&found, NULL) == OK &&
                              write(ends[1], &found, sizeof found) == sizeof found;
            _exit(good ? 0 : 1);
        }
        _exit(inner > 0 && waitpid(inner, &ended, 0) == inner && ended == 0 ? 0 : 1);
    }
    close(ends[1]);
    const bool got = read(ends[0], &found, sizeof found) == sizeof found;
    close(ends[0]);
    assert_int_equal(waitpid(outer, &ended, 0), outer);
    if (WIFEXITED(ended) && WEXITSTATUS(ended) == 2) skip(); // this machine allows no namespaces
    assert_true(got && ended == 0);
    return found;
}

// A process is itself, and no other, also where containers give two processes one number.
static void processes_of_containers_differ(void **state)
{
    (void)state;
    proc_identity own, again;
    assert_int_equal(proc_identify(&own, NULL), OK);
    assert_int_equal(proc_identify(&again, NULL), OK);
    assert_memory_equal(&own, &again, sizeof own);
    assert_int_equal(own.pid, getpid());
    const proc_identity first = first_of_namespace();
    assert_int_equal(first.pid, 1);
    assert_true(first.space != own.space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_that_leaves_a_core_keeps_its_mask),
        cmocka_unit_test(the_only_core_of_a_mask_is_kept),
        cmocka_unit_test(processes_of_containers_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
