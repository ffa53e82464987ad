// The clock beside that of a store: 0 on one machine; else the difference of the clocks, to within the error.
#include "patience.h"
#include "rendezvous/store_server.h"
#include "rendezvous/store_tcp.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
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

static store_clock measure(uint64_t own, int64_t ahead_s)
{
    net_address local, address;
    store_server *server = NULL;
    comm_store *s = NULL;
    store_clock c = {-1, -1};
    err e;
    alarm(200);
    if (net_address_resolve("127.0.0.1", 0, &local, &e) != OK ||
        store_server_open(&local, &SECRET, &server, &address, &e) != OK)
        fail_msg("%s", e.text);
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
        cmocka_unit_test(test_no_store_is_the_own_machine),
        cmocka_unit_test(test_one_machine_has_one_clock),
        cmocka_unit_test(test_machines_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
