// The communicator ucx: the cases of every network, and those of its transports.
#define COMMUNICATOR "ucx"
#include "network_cases.h"

#include "attack/attack.h"

static void test_over_tcp_alone(void **state)
{
    (void)state;
    setenv("UCX_TLS", "tcp,self", 1);
    run(4, false, false, larger);
    run(3, false, false, reductions);
    unsetenv("UCX_TLS");
}

static void test_a_rank_that_is_killed_is_named_over_tcp(void **state)
{
    setenv("UCX_TLS", "tcp,self", 1);
    test_a_rank_that_is_killed_is_named(state);
    unsetenv("UCX_TLS");
}

// Ranks that met on loopback listen there alone.
static status listens_on_loopback(const test_rank *s, err *e)
{
    struct sockaddr_in ports[ATTACK_PORTS];
    const int found = attack_ports(getpid(), ports);
    for (int i = 0; i < found; i++)
        if (ports[i].sin_addr.s_addr != htonl(INADDR_LOOPBACK))
            return err_set(e, E_INTERNAL, "port %d is open to others", ntohs(ports[i].sin_port));
    if (s->comm->can.open_ports) return err_set(e, E_INTERNAL, "ports are said to be open");
    return found > 0 ? comm_barrier(s->comm, e) : err_set(e, E_INTERNAL, "no port is open");
}

static void test_ports_are_on_loopback(void **state)
{
    (void)state;
    setenv("UCX_TLS", "tcp,self", 1);
    far_ranks f = {.communicator = "ucx",
                   .ranks = 2,
                   .killed = -1,
                   .patience_ms = PATIENCE_MS,
                   .fn = listens_on_loopback};
    fork_far(&f);
    expect_ok(&f);
    unsetenv("UCX_TLS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_leave_the_lock), // before the tests that would wait for it
        cmocka_unit_test(test_a_rank_that_is_killed_is_named_over_tcp),
        cmocka_unit_test(test_ports_are_on_loopback),
        NETWORK_CASES,
        cmocka_unit_test(test_over_tcp_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
