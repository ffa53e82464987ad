// test_plan_print.c -- the text and the JSON of a plan: what `trireme explain` says of every
// policy, of two axes, no_sync, tiers, post-forward groups and tied weights.
#include "unit/parallel/planned.h"

// The lines in front of the bytes.
static void expect_text(const planned *x, const char *expected)
{
    plan *p = planned_open(x);
    text t = {0};
    plan_print(p, false, &t);
    char *bytes = strstr(t.chars, "  bytes per rank");
    assert_non_null(bytes);
    *bytes = '\0';
    assert_string_equal(t.chars, expected);
    text_clear(&t);
    plan_free(p);
}

#define ALL_ON_DEVICE                                                                              \
    "  memory                      weights, gradients and optimizer state on the device\n"
#define BUCKETS(n) "  parameters                  4, in " n "\n"

static void test_every_policy_is_printed(void **state)
{
    (void)state;
    static const struct {
        const char *policy;
        int micros;
        bool no_sync;
        const char *text;
    } cases[] = {
        {"ddp", 2, true,
         "plan: ddp over dp_shard (2 ranks): weights replicated, gradients summed locally until "
         "the "
         "step, optimizer state replicated\n"
         "  each step                   all-reduce gradients over dp_shard\n" ALL_ON_DEVICE BUCKETS(
             "4 buckets")},
        {"zero1", 2, true,
         "plan: zero1 over dp_shard (2 ranks): weights replicated, gradients summed locally until "
         "the step, optimizer state sharded\n"
         "  each step                   reduce-scatter gradients over dp_shard\n"
         "  each step                   all-gather updated weights over dp_shard\n" ALL_ON_DEVICE
             BUCKETS("4 buckets")},
        {"zero2", 2, false,
         "plan: zero2 over dp_shard (2 ranks): weights replicated, gradients sharded, optimizer "
         "state sharded\n"
         "  each micro-batch            reduce-scatter gradients over dp_shard\n"
         "  each step                   all-gather updated weights over dp_shard\n" ALL_ON_DEVICE
             BUCKETS("4 buckets")},
        {"zero3", 2, true,
         "plan: zero3 over dp_shard (2 ranks): weights sharded, gradients summed locally until the "
         "step, optimizer state sharded\n"
         "  each forward and backward   all-gather weights over dp_shard\n"
         "  each step                   reduce-scatter gradients over dp_shard\n" ALL_ON_DEVICE
             BUCKETS("4 buckets")},
        {"zero3", 1, false,
         "plan: zero3 over dp_shard (2 ranks): weights sharded, gradients sharded, optimizer state "
         "sharded\n"
         "  each forward and backward   all-gather weights over dp_shard\n"
         "  each step                   reduce-scatter gradients over dp_shard\n" ALL_ON_DEVICE
             BUCKETS("4 buckets")},
        {"fsdp_no_sync", 1, false,
         "plan: fsdp_no_sync over dp_shard (2 ranks): weights sharded, gradients full until the "
         "step, optimizer state sharded\n"
         "  each forward and backward   all-gather weights over dp_shard\n"
         "  each step                   reduce-scatter gradients over dp_shard\n" ALL_ON_DEVICE
             BUCKETS("4 buckets")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        planned x = planned_blocks(4, 8, 4);
        x.shard = 2, x.reshard = 1;
        x.inner = cases[i].policy, x.micros = cases[i].micros, x.no_sync = cases[i].no_sync;
        expect_text(&x, cases[i].text);
    }
}

static void test_two_axes_are_named_where_they_differ(void **state)
{
    (void)state;
    planned x = planned_blocks(4, 8, 4);
    x.replicate = 2, x.shard = 4, x.reshard = 1, x.inner = "zero3";
    expect_text(
        &x, "plan: ddp over dp_replicate (2 ranks) x zero3 over dp_shard (4 ranks): weights "
            "sharded over dp_shard, gradients sharded over dp_shard, optimizer state "
            "sharded over dp_shard\n"
            "  each forward and backward   all-gather weights over dp_shard\n"
            "  each step                   reduce-scatter gradients over dp_shard\n"
            "  each step                   all-reduce gradients over dp_replicate\n" ALL_ON_DEVICE
                BUCKETS("4 buckets"));
    x.outer = "zero1", x.inner = "zero1";
    expect_text(&x,
                "plan: zero1 over dp_replicate (2 ranks) x zero1 over dp_shard (4 ranks): weights "
                "replicated, gradients full until the step, optimizer state sharded over "
                "dp_replicate and dp_shard\n"
                "  each step                   reduce-scatter gradients over dp_shard, "
                "reduce-scatter gradients over dp_replicate\n"
                "  each step                   all-gather updated weights over dp_replicate, "
                "all-gather updated weights over dp_shard\n" ALL_ON_DEVICE BUCKETS("4 buckets"));
}

static void test_backward_gathers_as_reshard_after_forward_says(void **state)
{
    (void)state;
    planned x = planned_blocks(4, 8, 4);
    x.shard = 4, x.inner = "zero3";
#define ZERO3                                                                                      \
    "plan: zero3 over dp_shard (4 ranks): weights sharded, gradients sharded, optimizer state "    \
    "sharded\n"
    expect_text(
        &x,
        ZERO3 "  each forward                all-gather weights over dp_shard\n"
              "  each step                   reduce-scatter gradients over dp_shard\n" ALL_ON_DEVICE
                  BUCKETS("4 buckets"));
    x.reshard = 2;
    expect_text(
        &x,
        ZERO3 "  each forward                all-gather weights over dp_shard\n"
              "  each backward               all-gather weights over post-forward groups "
              "of 2 ranks\n"
              "  each step                   reduce-scatter gradients over dp_shard\n" ALL_ON_DEVICE
                  BUCKETS("4 buckets"));
}

#define ONE_RANK(gradients)                                                                        \
    "plan: one data-parallel rank: weights full, gradients " gradients                             \
    " until the step, optimizer state full\n"

static void test_tiers_are_printed_by_tier(void **state)
{
    (void)state;
    planned x = planned_blocks(4, 8, 4);
    x.tier[PLAN_OPTIMIZER_STATE] = TIER_FILE;
    expect_text(&x, ONE_RANK("full") "  memory                      weights and gradients on the "
                                     "device; optimizer state "
                                     "in files\n" BUCKETS("4 buckets"));
    x.tier[PLAN_OPTIMIZER_STATE] = TIER_HOST;
    x.tier[PLAN_GRADIENTS] = x.tier[PLAN_WEIGHTS] = TIER_FILE;
    expect_text(&x,
                ONE_RANK("full") "  memory                      optimizer state on the host (on "
                                 "cpu ranks that is the "
                                 "device's own memory); weights and gradients in files\n" BUCKETS(
                                     "4 buckets"));
    x.apart = true;
    expect_text(&x, ONE_RANK("full") "  memory                      optimizer state on the host; "
                                     "weights and gradients in files\n" BUCKETS("4 buckets"));
    for (int k = 0; k < PLAN_STATES; k++) x.tier[k] = TIER_HOST;
    x.host_updates = true;
    expect_text(&x,
                ONE_RANK("full") "  memory                      weights, gradients and optimizer "
                                 "state on the host\n"
                                 "  optimizer step              on the host: gradients go down, "
                                 "updated weights come up\n" BUCKETS("4 buckets"));
}

static void test_tied_weights_stages_and_tensor_parallelism_are_printed(void **state)
{
    (void)state;
    planned x = planned_blocks(4, 8, 4);
    x.param[0].also = 3;
    x.micros = 2, x.no_sync = true, x.bucket_bytes = 1 << 20;
    expect_text(&x,
                ONE_RANK("summed locally")
                    ALL_ON_DEVICE BUCKETS("1 bucket") "  tied weights                the two uses "
                                                      "sum their 32 gradients apart until the "
                                                      "step\n");
    x.pp = 2, x.tp = 2, x.param[1].tp_partial = true;
    expect_text(&x, ONE_RANK("summed locally") "  each step                   all-reduce gradients "
                                               "of unsharded parameters over tp\n"
                                               "  each step                   all-reduce gradients "
                                               "of tied weights over the first "
                                               "and the last stage\n" ALL_ON_DEVICE
                                               "  mesh                        2 pipeline stages "
                                               "(pp), 2 tensor-parallel ranks (tp)\n"
                                               "  parameters                  4, of which 2 on "
                                               "this stage, in 1 bucket\n");
}

static void test_json_has_the_placements_of_every_axis(void **state)
{
    (void)state;
    planned x = planned_blocks(4, 8, 4);
    x.replicate = x.shard = 2, x.inner = "zero3";
    plan *p = planned_open(&x);
    text t = {0};
    plan_print(p, true, &t);
    const char *const start =
        "{\"policy\":\"ddp x zero3\",\"placements\":{"
        "\"dp_replicate\":{\"weight\":\"R\",\"gradient\":\"P\",\"optimizer\":\"R\"},"
        "\"dp_shard\":{\"weight\":\"S\",\"gradient\":\"S\",\"optimizer\":\"S\"}},"
        "\"mesh\":{\"pp\":1,\"dp_replicate\":2,\"dp_shard\":2,\"cp\":1,\"tp\":1},"
        "\"buckets\":4,\"parameters_here\":4,"
        "\"tiers\":{\"weights\":\"device\",\"gradients\":\"device\",\"optimizer\":\"device\"},";
    assert_memory_equal(t.chars, start, strlen(start));
    text_clear(&t);
    plan_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_policy_is_printed),
        cmocka_unit_test(test_two_axes_are_named_where_they_differ),
        cmocka_unit_test(test_backward_gathers_as_reshard_after_forward_says),
        cmocka_unit_test(test_tiers_are_printed_by_tier),
        cmocka_unit_test(test_tied_weights_stages_and_tensor_parallelism_are_printed),
        cmocka_unit_test(test_json_has_the_placements_of_every_axis),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
