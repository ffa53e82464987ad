// test_policy.c -- the table of policies, which pairs of them are legal on two axes, and the table
// of redistributions.
#include "parallel/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_a_policy_is_three_placements(void **state)
{
    (void)state;
    static const struct {
        const char *name, *placements;
    } cases[] = {{"ddp", "RPR"},
                 {"zero1", "RPS"},
                 {"zero2", "RSS"},
                 {"zero3", "SSS"},
                 {"fsdp_no_sync", "SPS"}};
    for (size_t i = 0; i < 5; i++) {
        const policy *p = policy_find(cases[i].name);
        assert_non_null(p);
        assert_ptr_equal(p, policy_row(i));
        const char found[] = {placement_letter(p->weight), placement_letter(p->gradient),
                              placement_letter(p->optimizer), '\0'};
        assert_string_equal(found, cases[i].placements);
    }
    assert_null(policy_row(5));
}

// Gradients start PARTIAL. The optimizer needs full weights or a shard of them. Weights and
// gradients are sharded only where the optimizer state is. No collectives exist for other policies.
static void test_every_policy_has_its_collectives(void **state)
{
    (void)state;
    for (size_t i = 0; policy_row(i); i++) {
        const policy *p = policy_row(i);
        assert_true(p->gradient == PARTIAL || p->gradient == SHARD);
        assert_true(p->weight != PARTIAL && p->optimizer != PARTIAL);
        if (p->weight == SHARD || p->gradient == SHARD) assert_int_equal(p->optimizer, SHARD);
    }
}

static void test_names_of_other_systems_are_unknown_here(void **state)
{
    (void)state;
    static const char *const others[] = {"", "fsdp", "FULL_SHARD", "DDP", "zero", "zero4", "3"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) assert_null(policy_find(others[i]));
}

// Outer (dp_replicate) by row, inner (dp_shard) by column; '-' is refused.
static const char *const NAMES[] = {"ddp", "zero1", "zero2", "zero3", "fsdp_no_sync"};
static const char *const LEGAL[] = {
    "+++++", // ddp
    "+++++", // zero1
    "+-++-", // zero2: zero1 and fsdp_no_sync do not shard gradients on the inner axis
    "+--+-", // zero3: zero2 does not shard weights there either
    "+--++", // fsdp_no_sync
};

static policies pair_of(int outer, int inner)
{
    return (policies){*policy_find(NAMES[outer]), *policy_find(NAMES[inner])};
}

static void test_18_of_25_pairs_are_legal(void **state)
{
    (void)state;
    int legal = 0;
    for (int o = 0; o < 5; o++)
        for (int i = 0; i < 5; i++) {
            const policies p = pair_of(o, i);
            err e = {0};
            const status s = policies_check(&p, &e);
            if ((s == OK) != (LEGAL[o][i] == '+'))
                fail_msg("%s over %s: %s", NAMES[o], NAMES[i], s == OK ? "legal" : e.text);
            assert_true(s == OK || s == E_USAGE);
            legal += s == OK;
        }
    assert_int_equal(legal, 18);
}

static void expect_refused(int outer, int inner, const char *says)
{
    const policies p = pair_of(outer, inner);
    err e = {0};
    assert_int_equal(policies_check(&p, &e), E_USAGE);
    assert_string_equal(e.text, says);
}

static void test_a_refusal_names_the_pair_and_the_state(void **state)
{
    (void)state;
    expect_refused(2, 1,
                   "parallel.dp: zero2 over dp_replicate shards gradients, zero1 over dp_shard "
                   "does not; valid: shard them on dp_shard too, or nothing there (ddp)");
    expect_refused(3, 2,
                   "parallel.dp: zero3 over dp_replicate shards weights, zero2 over dp_shard does "
                   "not; valid: shard them on dp_shard too, or nothing there (ddp)");
    // No policy of the table shards only the optimizer state of the outer axis.
    const policies p = {{"outer", REPLICATE, PARTIAL, SHARD},
                        {"inner", REPLICATE, SHARD, REPLICATE}};
    err e = {0};
    assert_int_equal(policies_check(&p, &e), E_USAGE);
    assert_non_null(strstr(e.text, "shards optimizer state"));
}

static void test_no_sync_makes_gradients_partial(void **state)
{
    (void)state;
    for (int o = 0; o < 5; o++)
        for (int i = 0; i < 5; i++) {
            const policies was = pair_of(o, i), now = policies_no_sync(was);
            assert_int_equal(now.outer.gradient, PARTIAL);
            assert_int_equal(now.inner.gradient, PARTIAL);
            assert_int_equal(now.inner.weight, was.inner.weight);
            assert_int_equal(now.outer.optimizer, was.outer.optimizer);
        }
}

static void test_the_table_of_redistributions(void **state)
{
    (void)state;
    static const placement_collective table[PLACEMENTS][PLACEMENTS] = {
        {REDISTRIBUTE_NOTHING, REDISTRIBUTE_ILLEGAL, REDISTRIBUTE_TAKE_SHARD},
        {REDISTRIBUTE_ALL_REDUCE, REDISTRIBUTE_NOTHING, REDISTRIBUTE_REDUCE_SCATTER},
        {REDISTRIBUTE_ALL_GATHER, REDISTRIBUTE_ILLEGAL, REDISTRIBUTE_NOTHING}};
    for (int from = 0; from < PLACEMENTS; from++)
        for (int to = 0; to < PLACEMENTS; to++)
            assert_int_equal(placement_redistribute((placement)from, (placement)to),
                             table[from][to]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_policy_is_three_placements),
        cmocka_unit_test(test_every_policy_has_its_collectives),
        cmocka_unit_test(test_names_of_other_systems_are_unknown_here),
        cmocka_unit_test(test_18_of_25_pairs_are_legal),
        cmocka_unit_test(test_a_refusal_names_the_pair_and_the_state),
        cmocka_unit_test(test_no_sync_makes_gradients_partial),
        cmocka_unit_test(test_the_table_of_redistributions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
