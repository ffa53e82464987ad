// The communicator ucx: the cases of every network, and those of its transports.
#define COMMUNICATOR "ucx"
#include "network_cases.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rank_that_is_killed_is_named_over_tcp),
        NETWORK_CASES,
        cmocka_unit_test(test_over_tcp_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
