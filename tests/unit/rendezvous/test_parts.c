// The parts of a world, each alone: the lock, the arena, the failure record, the stop request and the
// watchdog. They lie in memory that a child process shares. The linker replaces comm_lock_give, so that
// a child can be killed while it holds the lock (tests/CMakeLists.txt).
#include "rendezvous/arena.h"
#include "rendezvous/failure.h"
#include "rendezvous/lock.h"
#include "rendezvous/stop.h"
#include "rendezvous/watchdog.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

void __real_comm_lock_give(comm_lock *l);
void __wrap_comm_lock_give(comm_lock *l);

static bool dies_with_the_lock;

void __wrap_comm_lock_give(comm_lock *l)
{
    if (dies_with_the_lock) kill(getpid(), SIGKILL);
    __real_comm_lock_give(l);
}

static void *share(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    alarm(200);
    return p;
}

static int reap(pid_t pid)
{
    int how = 0;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    return how;
}

static void test_a_lock_of_a_dead_process_is_taken_by_the_next(void **state)
{
    (void)state;
    comm_lock *l = share(sizeof *l);
    assert_int_equal(comm_lock_init(l, NULL), OK);
    for (int i = 0; i < 3; i++) {
        const pid_t pid = fork();
        if (pid == 0) {
            comm_lock_take(l, LOCK_FOR_EVER);
            _exit(7);
        }
        assert_int_equal(WEXITSTATUS(reap(pid)), 7);
        assert_true(comm_lock_take(l, 0));
        assert_false(comm_lock_take(l, 0));
        assert_false(comm_lock_take(l, 30));
        __real_comm_lock_give(l);
        assert_true(comm_lock_take(l, 0));
        __real_comm_lock_give(l);
    }
    munmap(l, sizeof *l);
}

static void test_a_rank_that_dies_leaves_the_arena_usable(void **state)
{
    (void)state;
    enum { MIB = 1 << 20, BUFFERS_BYTES = 64 * MIB };
    comm_arena *a = NULL;
    void *first = NULL, *second = NULL, *third = NULL;
    err e;
    alarm(200);
    char *shared = share(2 * BUFFERS_BYTES);
    assert_true(comm_arena_bytes(4) <= BUFFERS_BYTES);
    assert_int_equal(comm_arena_open(shared, 4, shared + BUFFERS_BYTES, BUFFERS_BYTES, &a, &e), OK);
    assert_int_equal(comm_arena_take(a, MIB, true, &first, &e), OK);
    assert_true(comm_arena_holds(a, first));
    assert_false(comm_arena_holds(a, &e));
    memset(first, 1, MIB);
    // A rank dies with the lock when it has taken MIB bytes, and another when it has given them.
    for (int gives = 0; gives < 2; gives++) {
        const pid_t pid = fork();
        if (pid == 0) {
            dies_with_the_lock = true;
            if (gives) comm_arena_give(a, (char *)first + MIB);
            comm_arena_take(a, MIB, false, &second, NULL);
            _exit(0);
        }
        assert_true(WIFSIGNALED(reap(pid)));
        assert_int_equal(comm_arena_take(a, 2 * MIB, false, &second, &e), OK);
        assert_ptr_equal(second, (char *)first + (gives ? MIB : 2 * MIB));
        assert_int_equal(((char *)second)[5], 0);
        memset(second, 2, 2 * MIB);
        comm_arena_give(a, second);
    }
    // Memory that comes back is zero, and the list has its limit.
    assert_int_equal(comm_arena_take(a, 2 * MIB, false, &second, &e), OK);
    assert_int_equal(((char *)second)[5], 0);
    assert_int_equal(comm_arena_take(a, 1, false, &third, &e), OK);
    assert_int_equal(comm_arena_take(a, 1, false, &third, &e), OK);
    assert_int_equal(comm_arena_take(a, 1, false, &third, &e), E_FIT);
    assert_string_equal(e.text, "no 4096 bytes of shared memory are left (4 buffers)");
    assert_null(third);
    assert_int_equal(((char *)first)[MIB - 1], 1);
    munmap(shared, 2 * BUFFERS_BYTES);
}

static void test_the_first_failure_is_kept(void **state)
{
    (void)state;
    comm_failure *f = share(sizeof *f);
    err why = {0}, e = {0};
    int rank = 0;
    assert_false(comm_failure_known(f));
    assert_false(comm_failure_get(f, &rank, &e));
    const pid_t pid = fork();
    if (pid == 0) {
        err_set(&why, E_NUMERIC, "NaN in the loss");
        _exit(comm_failure_set(f, 2, &why));
    }
    assert_int_equal(WEXITSTATUS(reap(pid)), true);
    err_set(&why, E_IO, "disk full");
    assert_false(comm_failure_set(f, 1, &why));
    assert_false(comm_failure_set_lost(f, 2, 77, 9, NULL, ""));
    assert_true(comm_failure_get(f, &rank, &e));
    assert_int_equal(rank, 2);
    assert_int_equal(e.code, E_NUMERIC);
    assert_string_equal(e.text, "rank 2: NaN in the loss");
    assert_int_equal(comm_failure_error(f, &e), E_PEER);
    assert_string_equal(e.text, "rank 2: NaN in the loss");
    assert_true(comm_failure_await(f));
    munmap(f, sizeof *f);
}

// A rank that died between its claim and its record is named by the way it died, and only it.
static void test_a_failure_that_its_rank_could_not_write_is_named(void **state)
{
    (void)state;
    comm_failure *f = share(sizeof *f);
    err e = {0};
    f->claimed = 2 + 1;
    assert_false(comm_failure_set_lost(f, 0, 76, 9, NULL, ""));
    assert_false(comm_failure_known(f));
    assert_true(comm_failure_set_lost(f, 1, 77, 9, "a file was truncated", ""));
    assert_true(comm_failure_get(f, NULL, &e));
    assert_string_equal(e.text,
                        "rank 1 (pid 77) was killed by signal 9 (Killed): a file was truncated");
    munmap(f, sizeof *f);
}

static void test_a_stop_reaches_another_process(void **state)
{
    (void)state;
    comm_stop *s = share(sizeof *s);
    assert_false(comm_stop_requested(s));
    const pid_t pid = fork();
    if (pid == 0) {
        comm_stop_request(s);
        _exit(0);
    }
    assert_int_equal(reap(pid), 0);
    assert_true(comm_stop_requested(s));
    munmap(s, sizeof *s);
}

static void say_step(uint64_t what, char *out, size_t room)
{
    snprintf(out, room, "step %d", (int)what);
}

static void test_the_watchdog_says_who_did_not_come(void **state)
{
    (void)state;
    enum { RANKS = 300 };
    comm_watchdog *w = share(comm_watchdog_bytes(RANKS));
    comm_failure *f = share(sizeof *f);
    err e = {0};
    const comm_wait wait = {.waiting = 4,
                            .awaited = RANKS - 1,
                            .ranks = RANKS,
                            .what = 8,
                            .call = "barrier",
                            .label = "dp"};
    comm_watchdog_set(w, 1500);
    for (int r = 0; r < RANKS; r++) {
        atomic_store(&comm_watchdog_activity(w, r)->describe, say_step);
        comm_activity_set(comm_watchdog_activity(w, r), (uint64_t)r);
    }
    assert_int_equal(comm_watchdog_error(w, f, &wait, &e), E_PEER);
    assert_string_equal(e.text, "Watchdog caught collective operation timeout: rank 299 did not "
                                "come to barrier over dp (step 8) within 1.5 s; it is in step 299");
    // It is the failure of the run now, and a second wait gets the same line.
    const comm_wait second = {.waiting = 5, .awaited = 6, .call = "split"};
    err again = {0};
    assert_int_equal(comm_watchdog_error(w, f, &second, &again), E_PEER);
    assert_string_equal(again.text, e.text);
    munmap(w, comm_watchdog_bytes(RANKS));
    munmap(f, sizeof *f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lock_of_a_dead_process_is_taken_by_the_next),
        cmocka_unit_test(test_a_rank_that_dies_leaves_the_arena_usable),
        cmocka_unit_test(test_the_first_failure_is_kept),
        cmocka_unit_test(test_a_failure_that_its_rank_could_not_write_is_named),
        cmocka_unit_test(test_a_stop_reaches_another_process),
        cmocka_unit_test(test_the_watchdog_says_who_did_not_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
