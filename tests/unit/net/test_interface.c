// test_interface.c -- the rules of interfaces (net/interface.h), and the interface that each chooses here.
#include "net/interface.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rules), cmocka_unit_test(loopback)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
