// test_launch.c -- ranks are started and watched, errors name the rank that failed, and no rank is
// left behind.
#include "base/clock.h"
#include "launch/launch.h"
#include "patience.h"
#include "unit/comm/streams.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

// Lies in memory that the test and all ranks share.
typedef struct launch_page {
    volatile int runs[8], peer_errors, atexit_runs;
    volatile pid_t pids[8];
    atomic_int opened;
} launch_page;

static launch_page *page_open(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    alarm(200);
    return p;
}

static void page_close(launch_page *p)
{
    munmap(p, 4096);
}

static void attach(world *w, int rank, device *d, comm **c)
{
    d->ops = &test_device_ops;
    comm_watchdog_set(w->watchdog, TEST_PATIENCE_MS);
    comm_open("auto", test_world_options(w, rank, d), c, NULL);
}

static status mark(world *w, int rank, int ranks, void *arg, err *e)
{
    launch_page *p = arg;
    device d = {0};
    comm *c = NULL;
    attach(w, rank, &d, &c);
    p->runs[rank] += ranks;
    p->pids[rank] = getpid();
    const status result = comm_barrier(c, e);
    comm_close(c);
    return result;
}

static void test_every_rank_runs_once(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        launch_page *p = page_open();
        const launch_options o = {.ranks = i < 2 ? 3 : 1, .as_threads = i % 2};
        err e;
        assert_int_equal(launch_ranks(&o, mark, p, NULL, &e), OK);
        for (int r = 0; r < o.ranks; r++) {
            assert_int_equal(p->runs[r], o.ranks);
            assert_int_equal(p->pids[r] == getpid(), o.as_threads);
        }
        page_close(p);
    }
}

static void test_several_processes_of_another_launcher_are_refused(void **state)
{
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        launch_page *p = page_open();
        const launch_options o = {.ranks = 2, .as_threads = threads};
        err e;
        setenv("RANK", "1", 1);
        setenv("WORLD_SIZE", "2", 1);
        assert_int_equal(launch_ranks(&o, mark, p, NULL, &e), E_USAGE);
        assert_non_null(strstr(e.text, "RANK=1 WORLD_SIZE=2"));
        assert_int_equal(p->runs[0], 0);
        setenv("WORLD_SIZE", "1", 1);
        assert_int_equal(launch_ranks(&o, mark, p, NULL, &e), OK);
        unsetenv("RANK");
        unsetenv("WORLD_SIZE");
        page_close(p);
    }
}

static status fail_one(world *w, int rank, int ranks, void *arg, err *e)
{
    (void)ranks, (void)arg;
    device d = {0};
    comm *c = NULL;
    status result = OK;
    attach(w, rank, &d, &c);
    if (rank == 1)
        result = err_set(e, E_NUMERIC, "step 3: NaN in the loss");
    else
        while (result == OK) result = comm_barrier(c, e);
    if (rank != 1 && result == E_PEER) __atomic_fetch_add(&((launch_page *)arg)->peer_errors, 1, 5);
    comm_close(c);
    return result;
}

static void test_the_first_failure_is_returned_and_named(void **state)
{
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        launch_page *p = page_open();
        const launch_options o = {.ranks = 4, .as_threads = threads};
        err e;
        int first = -2;
        assert_int_equal(launch_ranks(&o, fail_one, p, &first, &e), E_NUMERIC);
        assert_string_equal(e.text, "rank 1: step 3: NaN in the loss");
        assert_int_equal(first, 1);
        assert_int_equal(p->peer_errors, 3);
        page_close(p);
    }
}

static status kill_one(world *w, int rank, int ranks, void *arg, err *e)
{
    (void)ranks;
    launch_page *p = arg;
    device d = {0};
    comm *c = NULL;
    attach(w, rank, &d, &c);
    p->pids[rank] = getpid();
    status result = comm_barrier(c, e);
    if (rank == 2) kill(getpid(), SIGKILL);
    // Rank 3 does not notice the failure, so it must be killed.
    while (rank == 3) pause();
    while (result == OK) result = comm_barrier(c, e);
    return result;
}

static void test_a_killed_rank_ends_all_at_once(void **state)
{
    (void)state;
    launch_page *p = page_open();
    const launch_options o = {.ranks = 4};
    char want[100];
    err e;
    int first = -2;
    const double start = clock_seconds();
    assert_int_equal(launch_ranks(&o, kill_one, p, &first, &e), E_PEER);
    assert_true(clock_seconds() - start < SOON_S);
    snprintf(want, sizeof want, "rank 2 (pid %d) was killed by signal 9 (Killed)", (int)p->pids[2]);
    assert_string_equal(e.text, want);
    assert_int_equal(first, 2);
    for (int r = 0; r < 4; r++) assert_int_equal(kill(p->pids[r], 0), -1); // not even a zombie
    page_close(p);
}

static void describe_number(uint64_t what, char *out, size_t room)
{
    snprintf(out, room, "number %d", (int)what);
}

static status kill_a_busy_one(world *w, int rank, int ranks, void *arg, err *e)
{
    (void)ranks, (void)arg;
    device d = {0};
    comm *c = NULL;
    comm_activity *a = comm_watchdog_activity(w->watchdog, rank);
    attach(w, rank, &d, &c);
    status result = comm_barrier(c, e);
    atomic_store(&a->describe, describe_number);
    comm_activity_set(a, 70 + (uint64_t)rank);
    if (rank == 1) kill(getpid(), SIGKILL);
    while (result == OK) result = comm_barrier(c, e);
    return result;
}

static void test_what_a_killed_rank_was_doing_is_named(void **state)
{
    (void)state;
    const launch_options o = {.ranks = 2, .record = {.calls = 8, .within = "/nowhere"}};
    err e;
    alarm(200);
    assert_int_equal(launch_ranks(&o, kill_a_busy_one, NULL, NULL, &e), E_PEER);
    if (!strstr(e.text, " (Killed); it was in number 71; its last call is barrier 1"))
        fail_msg("%s", e.text);
}

static status leave_early(world *w, int rank, int ranks, void *arg, err *e)
{
    if (rank == 1) _exit(*(int *)arg);
    return mark(w, rank, ranks, &(launch_page){0}, e);
}

static void test_a_rank_that_exits_by_itself_has_failed(void **state)
{
    (void)state;
    const launch_options o = {.ranks = 2};
    for (int code = 0; code < 4; code += 3) {
        err e;
        alarm(200);
        assert_int_equal(launch_ranks(&o, leave_early, &code, NULL, &e), E_PEER);
        assert_non_null(strstr(e.text, "rank 1 (pid "));
        assert_non_null(strstr(e.text, code ? ") ended with exit code 3 before its work was done"
                                            : ") ended with exit code 0 before its work was done"));
    }
}

static status sleep_on(world *w, int rank, int ranks, void *arg, err *e)
{
    (void)w, (void)ranks, (void)e;
    ((launch_page *)arg)->pids[rank] = getpid();
    while (true) pause();
    return OK;
}

static void test_ranks_die_with_their_parent(void **state)
{
    (void)state;
    launch_page *p = page_open();
    prctl(PR_SET_CHILD_SUBREAPER, 1); // makes orphans children of this test
    const pid_t parent = fork();
    if (parent == 0) {
        const launch_options o = {.ranks = 3, .own_terminal = true};
        launch_ranks(&o, sleep_on, p, NULL, NULL);
        _exit(0);
    }
    while (!p->pids[0] || !p->pids[1] || !p->pids[2]) usleep(1000);
    const double start = clock_seconds();
    kill(parent, SIGKILL);
    for (int i = 0; i < 4; i++) assert_true(wait(NULL) > 0);
    assert_int_equal(wait(NULL), -1);
    assert_true(clock_seconds() - start < SOON_S);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    page_close(p);
}

// A rank that stops when it is asked to; rank 0 sends the signal of the terminal.
static status stop_in_good_order(world *w, int rank, int ranks, void *arg, err *e)
{
    (void)ranks, (void)e;
    const launch_options *o = arg;
    const pid_t starter = o->as_threads ? getpid() : getppid();
    if (!o->as_threads) kill(getpid(), SIGINT); // a terminal signals the ranks, too
    if (rank == 0) kill(starter, SIGINT);
    while (!comm_stop_requested(w->stop)) usleep(1000);
    return E_INTERRUPTED;
}

static void test_the_first_signal_stops_all_ranks(void **state)
{
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        launch_options o = {.ranks = 2, .as_threads = threads, .own_terminal = true};
        sigset_t after;
        err e;
        alarm(200);
        assert_int_equal(launch_ranks(&o, stop_in_good_order, &o, NULL, &e), E_INTERRUPTED);
        assert_string_equal(e.text, "stopped by signal 2 (Interrupt)");
        pthread_sigmask(SIG_BLOCK, NULL, &after);
        assert_false(sigismember(&after, SIGINT));
    }
}

static status never_stop(world *w, int rank, int ranks, void *arg, err *e)
{
    const launch_options *o = arg;
    (void)ranks;
    device d = {0};
    comm *c = NULL;
    status result = OK;
    attach(w, rank, &d, &c);
    const pid_t starter = o->as_threads ? getpid() : getppid();
    if (rank == 0) kill(starter, SIGINT);
    while (!comm_stop_requested(w->stop)) usleep(1000);
    if (rank == 0) kill(starter, SIGTERM);
    while (result == OK) result = comm_barrier(c, e);
    comm_close(c);
    return result;
}

static void test_a_second_signal_fails_the_run(void **state)
{
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        launch_options o = {.ranks = 3, .as_threads = threads, .own_terminal = true};
        err e;
        int first = -2;
        alarm(200);
        assert_int_equal(launch_ranks(&o, never_stop, &o, &first, &e), E_PEER);
        assert_string_equal(e.text, "stopped by a second signal");
        assert_int_equal(first, -1);
    }
}

static launch_page *atexit_page;

static void count_exit(void)
{
    __atomic_fetch_add(&atexit_page->atexit_runs, 1, 5);
}

static void test_ranks_do_not_run_exit_handlers(void **state)
{
    (void)state;
    char got[32] = {0};
    int fds[2];
    atexit_page = page_open();
    assert_int_equal(pipe(fds), 0);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        const launch_options o = {.ranks = 3};
        dup2(fds[1], 1);
        atexit(count_exit);
        printf("once");
        exit(launch_ranks(&o, mark, atexit_page, NULL, NULL) == OK ? 0 : 1);
    }
    int how = 0;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_int_equal(WEXITSTATUS(how), 0);
    assert_int_equal(atexit_page->atexit_runs, 1);
    assert_int_equal(read(fds[0], got, sizeof got - 1), 4);
    assert_string_equal(got, "once");
    close(fds[0]);
    close(fds[1]);
    page_close(atexit_page);
}

static void test_impossible_numbers_of_ranks_are_refused(void **state)
{
    (void)state;
    const launch_options o = {.ranks = 0};
    err e;
    assert_int_equal(launch_ranks(&o, mark, NULL, NULL, &e), E_USAGE);
    assert_string_equal(e.text, "0 ranks on one machine: valid are 1 to 4096");
}

static status open_and_close(world *w, int rank, int ranks, void *arg, err *e)
{
    status result = OK;
    launch_page *p = arg;
    device d = {.ops = &test_device_ops};
    comm *c = NULL;
    TRY(comm_open("auto", comm_world_options(w, rank, &d, 0), &c, e));
    if (c->size != ranks || c->rank != rank) FAIL(E_INTERNAL, "rank %d of %d", c->rank, c->size);
    atomic_fetch_add(&p->opened, 1);
done:
    comm_close(c);
    return result;
}

static void test_hundreds_of_ranks_open_and_close(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        launch_page *p = page_open();
        const launch_options o = {.ranks = i < 2 ? 512 : 1000, .as_threads = i % 2};
        err e = {0};
        launch_ranks(&o, open_and_close, p, NULL, &e);
        assert_string_equal(e.text, "");
        assert_int_equal(p->opened, o.ranks);
        page_close(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_rank_runs_once),
        cmocka_unit_test(test_hundreds_of_ranks_open_and_close),
        cmocka_unit_test(test_several_processes_of_another_launcher_are_refused),
        cmocka_unit_test(test_the_first_failure_is_returned_and_named),
        cmocka_unit_test(test_a_killed_rank_ends_all_at_once),
        cmocka_unit_test(test_what_a_killed_rank_was_doing_is_named),
        cmocka_unit_test(test_a_rank_that_exits_by_itself_has_failed),
        cmocka_unit_test(test_ranks_die_with_their_parent),
        cmocka_unit_test(test_the_first_signal_stops_all_ranks),
        cmocka_unit_test(test_a_second_signal_fails_the_run),
        cmocka_unit_test(test_ranks_do_not_run_exit_handlers),
        cmocka_unit_test(test_impossible_numbers_of_ranks_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
