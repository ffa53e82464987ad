// test_param_group.c -- which names a pattern matches, and which group a parameter belongs to.
#include "optim/param_group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void patterns_match_whole_names(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *name;
        bool matches;
    } rows[] = {
        {NULL, "a", true},
        {"*", "", true},
        {"", "", true},
        {"", "a", false},
        {"model.norm.weight", "model.norm.weight", true},
        {"model.norm", "model.norm.weight", false},
        {"norm.weight", "model.norm.weight", false},
        {"*.bias", "h.0.attn.bias", true},
        {"*.bias", "h.0.attn.bias.x", false},
        {"*.bias", "bias", false},
        {"model.layers.*.mlp.*", "model.layers.3.mlp.gate_proj.weight", true},
        {"model.layers.*.mlp.*", "model.layers.3.self_attn.q_proj.weight", false},
        {"model.layers.1.*", "model.layers.11.x", false},
        {"*a*b*c", "xaxbxbxc", true},
        {"*a*b*c", "xaxcxb", false},
        {"**", "anything", true},
        {"a*", "a", true},
        {"*ab", "aab", true},
        {"*aab*", "aaab", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (param_group_matches(rows[i].pattern, rows[i].name) != rows[i].matches)
            fail_msg("\"%s\" and \"%s\": not %d", rows[i].pattern, rows[i].name, rows[i].matches);
}

static void the_first_match_wins(void **state)
{
    (void)state;
    const param_group groups[] = {{.match = "*.bias"}, {.match = "h.0.*"}, {.match = "h.*"}};
    assert_int_equal(param_group_find(groups, 3, "h.0.bias"), 0);
    assert_int_equal(param_group_find(groups, 3, "h.0.weight"), 1);
    assert_int_equal(param_group_find(groups, 3, "h.1.weight"), 2);
    assert_int_equal(param_group_find(groups, 3, "wte.weight"), -1);
    assert_int_equal(param_group_find(groups, 0, "h.0.bias"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_whole_names),
        cmocka_unit_test(the_first_match_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
