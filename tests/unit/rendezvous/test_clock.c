// The clock beside that of a store: 0 on one machine; else the difference of the clocks, to within the error.
#define _GNU_SOURCE // unshare
#include "patience.h"
#include "rendezvous/store_server.h"
#include "rendezvous/store_tcp.h"

#include "base/clock.h"

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static _Thread_local int64_t
    shift_s; // of the clock of this thread: the server has a thread of its own
static _Thread_local uint64_t identity;

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
uint64_t __real_clock_identity(void);
uint64_t __wrap_clock_identity(void);

int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    const int result = __real_clock_gettime(id, t);
    t->tv_sec += id == CLOCK_MONOTONIC ? shift_s : 0;
    return result;
}

uint64_t __wrap_clock_identity(void)
{
    return identity ? identity : __real_clock_identity();
}

static const net_secret SECRET = {.key = "of the server, its clients"};

static store_server *open_server(net_address *address)
{
    net_address local;
    store_server *server = NULL;
    err e;
    alarm(200);
    if (net_address_resolve("127.0.0.1", 0, &local, &e) != OK ||
        store_server_open(&local, &SECRET, &server, address, &e) != OK)
        fail_msg("%s", e.text);
    return server;
}

static store_clock measure(uint64_t own, int64_t ahead_s)
{
    net_address address;
    store_server *server = open_server(&address);
    comm_store *s = NULL;
    store_clock c = {-1, -1};
    err e;
    identity = own;
    shift_s = ahead_s;
    if (comm_store_tcp_open(&address, &SECRET, TEST_PATIENCE_MS, &s, &e) != OK ||
        comm_store_clock(s, &c, &e) != OK)
        fail_msg("%s", e.text);
    comm_store_close(s);
    store_server_close(server);
    identity = 0;
    shift_s = 0;
    return c;
}

static void test_one_machine_has_one_clock(void **state)
{
    (void)state;
    const store_clock c = measure(0, 0);
    assert_true(clock_identity() != 0);
    assert_int_equal(c.offset_ns, 0);
    assert_int_equal(c.error_ns, 0);
}

static void test_machines_differ(void **state)
{
    (void)state;
    static const int64_t AHEAD_S[] = {5, -7, 100000, 0};
    for (size_t i = 0; i < sizeof AHEAD_S / sizeof *AHEAD_S; i++) {
        const store_clock c = measure(1, AHEAD_S[i]);
        const int64_t wrong = c.offset_ns + AHEAD_S[i] * 1000000000;
        assert_true(c.error_ns > 0);
        assert_in_range(wrong + c.error_ns, 0, 2 * c.error_ns);
    }
}

// What a process in a time namespace of its own and the test share.
typedef struct apart {
    net_address address;
    store_clock clock;
    status result;
    err why;
    int64_t ahead_s;
} apart;

enum { NO_NAMESPACE = 77 };

// Its next child has a clock that is ahead.
static bool enter_namespace(int64_t ahead_s)
{
    if (unshare(CLONE_NEWUSER | CLONE_NEWTIME) != 0) return false;
    const int fd = open("/proc/self/timens_offsets", O_WRONLY);
    const bool done = fd >= 0 && dprintf(fd, "monotonic %lld 0\n", (long long)ahead_s) > 0;
    if (fd >= 0) close(fd);
    return done;
}

static _Noreturn void measure_apart(apart *x, int started)
{
    char byte;
    comm_store *s = NULL;
    alarm(200);
    if (!enter_namespace(x->ahead_s)) _exit(NO_NAMESPACE);
    const pid_t inside = fork();
    if (inside == 0) {
        if (read(started, &byte, 1) != 1) _exit(1);
        x->result = comm_store_tcp_open(&x->address, &SECRET, TEST_PATIENCE_MS, &s, &x->why);
        if (x->result == OK) x->result = comm_store_clock(s, &x->clock, &x->why);
        comm_store_close(s);
        _exit(0);
    }
    int how = 1;
    waitpid(inside, &how, 0);
    _exit(how == 0 ? 0 : 1);
}

static void test_a_time_namespace_has_a_clock_of_its_own(void **state)
{
    (void)state;
    int started[2], how = 0;
    apart *x = mmap(NULL, sizeof *x, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(x != MAP_FAILED);
    *x = (apart){.ahead_s = 4000};
    assert_int_equal(pipe(started), 0);
    const pid_t child = fork(); // before the server's thread starts
    if (child == 0) measure_apart(x, started[0]);
    store_server *server = open_server(&x->address);
    assert_int_equal(write(started[1], "", 1), 1);
    assert_int_equal(waitpid(child, &how, 0), child);
    store_server_close(server);
    close(started[0]);
    close(started[1]);
    const apart got = *x;
    munmap(x, sizeof *x);
    if (WIFEXITED(how) && WEXITSTATUS(how) == NO_NAMESPACE) skip(); // this machine allows none
    assert_int_equal(how, 0);
    if (got.result != OK) fail_msg("%s", got.why.text);
    const int64_t wrong = got.clock.offset_ns + got.ahead_s * 1000000000;
    assert_true(got.clock.error_ns > 0);
    assert_in_range(wrong + got.clock.error_ns, 0, 2 * got.clock.error_ns);
}

static void test_no_store_is_the_own_machine(void **state)
{
    (void)state;
    store_clock c = {-1, -1};
    assert_int_equal(comm_store_clock(NULL, &c, NULL), OK);
    assert_int_equal(c.offset_ns, 0);
    assert_int_equal(c.error_ns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_a_time_namespace_has_a_clock_of_its_own), // it forks, before there are threads
        cmocka_unit_test(test_no_store_is_the_own_machine),
        cmocka_unit_test(test_one_machine_has_one_clock),
        cmocka_unit_test(test_machines_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
