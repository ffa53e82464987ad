// test_worker.c -- one program is started, watched and waited for. unit/launch has no agent; cli/run starts those.
#include "launch/worker.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static status start(const char *script, worker_process *w, err *e)
{
    char *const argv[] = {"sh", "-c", (char *)(uintptr_t)script, NULL};
    char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    const worker_command c = {.argv = argv, .env = env, .out = -1, .error = -1};
    memset(w, 0x11, sizeof *w); // the call writes all of it
    return worker_start(&c, w, e);
}

static void expect_none(const worker_process *w)
{
    assert_int_equal(w->pid, 0);
    assert_int_equal(w->pidfd, -1);
    worker_signal(w, SIGKILL); // nobody gets it, this process least of all
}

static void a_worker_has_its_process_and_its_end(void **state)
{
    (void)state;
    worker_process w;
    err e = {0};
    assert_int_equal(start("exit 7", &w, &e), OK);
    assert_true(w.pid > 0 && w.pid != getpid());
    assert_true(w.pidfd >= 0);
    const int how = worker_reap(&w);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 7);
    expect_none(&w);
    assert_int_equal(start("sleep 100", &w, &e), OK);
    worker_signal(&w, SIGTERM);
    const int killed = worker_reap(&w);
    assert_true(WIFSIGNALED(killed) && WTERMSIG(killed) == SIGTERM);
    expect_none(&w);
}

static void a_program_that_is_not_there_is_refused(void **state)
{
    (void)state;
    char *const argv[] = {"./no-such-program", NULL}, *const env[] = {NULL};
    const worker_command c = {.argv = argv, .env = env, .out = -1, .error = -1};
    worker_process w;
    err e = {0};
    assert_int_equal(worker_start(&c, &w, &e), E_USAGE);
    assert_string_equal(e.text, "cannot run ./no-such-program: No such file or directory");
    expect_none(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_has_its_process_and_its_end),
        cmocka_unit_test(a_program_that_is_not_there_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
