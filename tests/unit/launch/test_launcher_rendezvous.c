// Tests where the hosts of a run meet: the first host of a list of Slurm's, and the port.
#include "launch/launcher.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static status find(const char *nodes, launcher_location *p, err *e)
{
    *p = (launcher_location){.launcher = "srun", .ranks = 8, .local_ranks = 4};
    setenv("SLURM_JOB_NODELIST", nodes, 1);
    return launcher_find_rendezvous(p, e);
}

static int clear_environment(void **state)
{
    (void)state;
    static const char *const NAMES[] = {
        "MASTER_ADDR",  "MASTER_PORT",   "SLURM_STEP_NODELIST",         "SLURM_JOB_NODELIST",
        "SLURM_JOB_ID", "SLURM_STEP_ID", "TORCHELASTIC_USE_AGENT_STORE"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) unsetenv(NAMES[i]);
    return 0;
}

static void the_first_host_of_a_list_is_found(void **state)
{
    (void)state;
    static const struct {
        const char *nodes, *host;
    } cases[] = {{"gnode[10,20-22]", "gnode10"},     {"gnode[20-22,10]", "gnode20"},
                 {"node[07-09,12],login", "node07"}, {"login,node[07-09]", "login"},
                 {"rack[1-2]n[3-4]", "rack1n3"},     {"node-a.b", "node-a.b"},
                 {"n[5]-ib,n[6]-ib", "n5-ib"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        launcher_location p;
        err e = {0};
        assert_int_equal(find(cases[i].nodes, &p, &e), OK);
        assert_string_equal(p.rendezvous.host, cases[i].host);
    }
}

static void a_list_without_an_end_is_refused(void **state)
{
    (void)state;
    launcher_location p;
    err e = {0};
    assert_int_equal(find("gnode[10,20", &p, &e), E_USAGE);
    assert_non_null(strstr(e.text, "SLURM_JOB_NODELIST: found gnode[10,20; valid"));
}

static void the_nodes_of_the_step_and_a_given_address_come_first(void **state)
{
    (void)state;
    launcher_location p;
    err e = {0};
    setenv("SLURM_JOB_ID", "25000", 1);
    setenv("SLURM_STEP_ID", "1", 1);
    setenv("SLURM_STEP_NODELIST", "gnode[20-21]", 1);
    assert_int_equal(find("gnode[10,20-22]", &p, &e), OK);
    assert_string_equal(p.rendezvous.host, "gnode20");
    assert_int_equal(p.rendezvous.port, 10000 + (25000 + 7919) % 20000);
    setenv("MASTER_ADDR", "n0", 1);
    setenv("MASTER_PORT", "4000", 1);
    assert_int_equal(find("gnode[10,20-22]", &p, &e), OK);
    assert_string_equal(p.rendezvous.host, "n0");
    assert_int_equal(p.rendezvous.port, 4000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_first_host_of_a_list_is_found, clear_environment),
        cmocka_unit_test_setup(a_list_without_an_end_is_refused, clear_environment),
        cmocka_unit_test_setup(the_nodes_of_the_step_and_a_given_address_come_first,
                               clear_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
