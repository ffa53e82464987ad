// test_interface.c -- the rules of interfaces (net/interface.h), and the interface that each chooses here.
#include "net/interface.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void rules(void **state)
{
    static const struct {
        const char *rule, *name;
        bool chosen;
    } cases[] = {
        {"eth", "eth0", true},       {"eth", "eth", true},      {"eth", "veth0", false},
        {"eth0", "eth01", true},     {"=eth0", "eth01", false}, {"=eth0", "eth0", true},
        {"ib,eth", "eth3", true},    {"ib,eth", "lo", false},   {"=ib0,lo", "lo", true},
        {"=ib0,lo", "ib01", false},  {"^docker", "eth0", true}, {"^docker", "docker0", false},
        {"^lo,docker", "lo", false}, {"^=eth0", "eth0", false}, {"^=eth0", "eth01", true},
        {"^=a,b", "b", false},       {"^", "anything", true},   {"=", "anything", false},
        {",,eth", "eth0", true},     {",", "eth0", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (net_interface_matches(cases[i].rule, cases[i].name) != cases[i].chosen)
            fail_msg("rule %s, name %s", cases[i].rule, cases[i].name);
}

// Every machine has loopback.
static void loopback(void **state)
{
    err e = {0};
    net_interface found;
    (void)state;
    assert_int_equal(net_interface_find("=lo", &found, &e), OK);
    assert_string_equal(found.name, "lo");
    assert_true(net_address_is_loopback(&found.address));
    assert_int_equal(net_address_port(&found.address), 0);
    assert_int_equal(net_interface_find(NULL, &found, &e), OK);
    assert_true(net_address_is_own(&found.address));
    assert_int_equal(net_interface_find("=no-such", &found, &e), E_USAGE);
    assert_non_null(strstr(e.text, "interface =no-such: none"));
    assert_non_null(strstr(e.text, "lo"));
}

// The names that a rule chooses, each once: loopback has addresses of two families on most machines.
static void names(void **state)
{
    err e = {0};
    text out = {0};
    (void)state;
    assert_int_equal(net_interface_list("=lo", &out, &e), OK);
    assert_string_equal(out.chars, "lo");
    assert_int_equal(net_interface_list("=lo", &out, &e), OK);
    assert_string_equal(out.chars, "lo,lo");
    text_clear(&out);
    assert_int_equal(net_interface_list("=lo,no-such", &out, &e), OK);
    assert_string_equal(out.chars, "lo");
    assert_int_equal(net_interface_list("=no-such", &out, &e), E_USAGE);
    assert_non_null(strstr(e.text, "interface =no-such: none"));
    assert_string_equal(out.chars, "lo");
    text_clear(&out);
}

static void make_port(const char *folder, const char *port, const char *is)
{
    char command[512];
    snprintf(command, sizeof command, "mkdir -p %s/%s && echo '%s' >%s/%s/state", folder, port, is,
             folder, port);
    assert_int_equal(system(command), 0);
}

// Ports of RDMA devices as Linux shows them. One that is down is left out.
static void rdma(void **state)
{
    char folder[] = "/tmp/trireme-rdma.XXXXXX", command[64];
    text out = {0};
    (void)state;
    assert_non_null(mkdtemp(folder));
    net_interface_list_rdma(folder, &out);
    assert_int_equal(out.bytes, 0);
    make_port(folder, "mlx5_0/ports/1", "1: DOWN");
    make_port(folder, "mlx5_0/ports/2", "4: ACTIVE");
    text_add(&out, "eth0");
    net_interface_list_rdma(folder, &out);
    assert_string_equal(out.chars, "eth0,mlx5_0:2");
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    net_interface_list_rdma(folder, &out);
    assert_string_equal(out.chars, "eth0,mlx5_0:2");
    text_clear(&out);
}

// NCCL_IB_DISABLE=1 leaves RDMA devices out, a rule of interfaces keeps them, and without both there is no restriction.
static void allowed(void **state)
{
    char folder[] = "/tmp/trireme-rdma.XXXXXX", command[64];
    text out = {0}, all = {0};
    err e = {0};
    (void)state;
    assert_non_null(mkdtemp(folder));
    make_port(folder, "mlx5_0/ports/1", "4: ACTIVE");
    unsetenv("NCCL_SOCKET_IFNAME");
    assert_int_equal(net_interface_list_allowed(folder, &out, &e), OK);
    assert_int_equal(out.bytes, 0);
    setenv("NCCL_IB_DISABLE", "0", 1);
    assert_int_equal(net_interface_list_allowed(folder, &out, &e), OK);
    assert_int_equal(out.bytes, 0);
    setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
    assert_int_equal(net_interface_list_allowed(folder, &out, &e), OK);
    assert_string_equal(out.chars, "lo,mlx5_0:1");
    text_clear(&out);
    setenv("NCCL_IB_DISABLE", "1", 1);
    assert_int_equal(net_interface_list_allowed(folder, &out, &e), OK);
    assert_string_equal(out.chars, "lo");
    text_clear(&out);
    unsetenv("NCCL_SOCKET_IFNAME");
    assert_int_equal(net_interface_list_allowed(folder, &out, &e), OK);
    assert_int_equal(net_interface_list("^", &all, &e), OK);
    assert_string_equal(out.chars, all.chars);
    setenv("NCCL_SOCKET_IFNAME", "=no-such", 1);
    assert_int_equal(net_interface_list_allowed(folder, &out, &e), E_USAGE);
    assert_non_null(strstr(e.text, "NCCL_SOCKET_IFNAME: interface =no-such: none"));
    unsetenv("NCCL_SOCKET_IFNAME");
    unsetenv("NCCL_IB_DISABLE");
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    text_clear(&out);
    text_clear(&all);
}

// The first variable that is not empty counts.
static void variables(void **state)
{
    const char *name;
    (void)state;
    unsetenv("TRIREME_SOCKET_IFNAME");
    unsetenv("NCCL_SOCKET_IFNAME");
    unsetenv("GLOO_SOCKET_IFNAME");
    assert_null(net_interface_rule(&name));
    setenv("GLOO_SOCKET_IFNAME", "gloo", 1);
    assert_string_equal(net_interface_rule(&name), "gloo");
    assert_string_equal(name, "GLOO_SOCKET_IFNAME");
    setenv("NCCL_SOCKET_IFNAME", "nccl", 1);
    assert_string_equal(net_interface_rule(&name), "nccl");
    setenv("TRIREME_SOCKET_IFNAME", "", 1);
    assert_string_equal(net_interface_rule(&name), "nccl");
    setenv("TRIREME_SOCKET_IFNAME", "own", 1);
    assert_string_equal(net_interface_rule(&name), "own");
    assert_string_equal(name, "TRIREME_SOCKET_IFNAME");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rules),   cmocka_unit_test(loopback),
                                       cmocka_unit_test(names),   cmocka_unit_test(rdma),
                                       cmocka_unit_test(allowed), cmocka_unit_test(variables)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
