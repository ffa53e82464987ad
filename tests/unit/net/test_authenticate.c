// test_greet.c -- a server of one client (net/authenticate.h): a thousand strangers who say nothing, answers that are changed and
// another user of the machine keep out nobody who has the secret.
#include "base/clock.h"
#include "net/authenticate.h"
#include "net/socket.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { LONG_S = 30, SILENT = 1000, FRAMES = 500, NS = 1000000000 };

static const net_secret SECRET = {.key = "of both ends"};

static struct {
    net_address address;
    int listener;
    pthread_t thread;
    net_client came;
    status result;
    err why;
    atomic_int refused, has_ended;
    char last[80]; // why the last client was refused
} the;

static int64_t soon(void)
{
    return clock_ns() + (int64_t)LONG_S * NS;
}

static void note_refused(void *owner, const char *from, const char *why)
{
    (void)owner, (void)from;
    strncpy(the.last, why, sizeof the.last - 1);
    atomic_fetch_add(&the.refused, 1);
}

static void *serve(void *unused)
{
    the.result = net_authenticate_client(the.listener, &SECRET, soon(), note_refused, NULL,
                                         &the.came, &the.why);
    // Nobody serves the others: they learn it at once.
    atomic_store(&the.has_ended, 1);
    shutdown(the.listener, SHUT_RDWR);
    return unused;
}

static int start(void **state)
{
    net_address any;
    (void)state;
    alarm(6 * LONG_S);
    atomic_store(&the.refused, 0);
    atomic_store(&the.has_ended, 0);
    the.came.fd = -1;
    if (net_address_resolve("127.0.0.1", 0, &any, NULL) != OK) return -1;
    if (net_listen(&any, &the.listener, &the.address, NULL) != OK) return -1;
    return pthread_create(&the.thread, NULL, serve, NULL);
}

static int connect_one(void)
{
    int fd = -1;
    err e;
    const int64_t end_ns = atomic_load(&the.has_ended) ? 0 : soon();
    if (net_connect(&the.address, end_ns, &fd, &e) != OK) fail_msg("%s", e.text);
    return fd;
}

// The one with the secret is served, once.
static void expect_served(void)
{
    net_session session;
    err e;
    unsigned char code[NET_MAC_BYTES];
    const int fd = connect_one();
    if (net_authenticate_to_server(fd, &SECRET, soon(), &session, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(pthread_join(the.thread, NULL), 0);
    if (the.result != OK) fail_msg("%s", the.why.text);
    net_seal(&session, "x", 1, code);
    assert_true(net_seal_check(&the.came.session, "x", 1, code));
    close(the.came.fd);
    close(the.listener);
    close(fd);
}

static void test_silent_strangers_keep_nobody_out(void **state)
{
    (void)state;
    struct rlimit files;
    int fds[SILENT];
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    const int count = files.rlim_cur < 2 * SILENT ? 4 * NET_UNAUTHENTICATED : SILENT;
    for (int i = 0; i < count; i++) fds[i] = connect_one();
    expect_served();
    assert_true(atomic_load(&the.refused) >= count - NET_UNAUTHENTICATED - 1);
    for (int i = 0; i < count; i++) close(fds[i]);
}

static void test_mutated_answers_are_refused(void **state)
{
    (void)state;
    for (int i = 0; i < FRAMES; i++) {
        net_challenge challenge;
        net_response response;
        net_session session;
        net_outcome outcome;
        const int fd = connect_one();
        assert_int_equal(net_read(fd, &challenge, sizeof challenge, soon(), NULL), OK);
        assert_int_equal(net_response_make(&SECRET, &challenge, &response, &session, NULL), OK);
        ((unsigned char *)&response)[i % sizeof response] ^=
            (unsigned char)(1 << i / sizeof response % 8);
        const size_t bytes = i % 7 == 6 ? (size_t)i % sizeof response : sizeof response;
        (void)net_write(fd, &response, bytes, soon(), NULL);
        if (bytes == sizeof response) {
            assert_int_equal(net_read(fd, &outcome, sizeof outcome, soon(), NULL), OK);
            assert_int_equal(net_outcome_check(&session, &outcome, NULL), E_USAGE);
        }
        close(fd);
    }
    expect_served();
}

static void test_another_user_is_refused(void **state)
{
    (void)state;
    int how = 0;
    const pid_t pid = geteuid() == 0 ? fork() : -1;
    if (pid == 0) {
        net_session session;
        err e = {0};
        if (setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
        const int fd = connect_one();
        const status got = net_authenticate_to_server(fd, &SECRET, soon(), &session, &e);
        _exit(got == E_USAGE && strstr(e.text, "it is a process of another user") ? 0 : 1);
    }
    if (pid > 0) {
        assert_int_equal(waitpid(pid, &how, 0), pid);
        assert_int_equal(how, 0);
    }
    expect_served();
    if (pid < 0) skip(); // only root can become another user
    assert_int_equal(atomic_load(&the.refused), 1);
    assert_string_equal(the.last, "it is a process of another user of this machine");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_silent_strangers_keep_nobody_out, start),
        cmocka_unit_test_setup(test_mutated_answers_are_refused, start),
        cmocka_unit_test_setup(test_another_user_is_refused, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
