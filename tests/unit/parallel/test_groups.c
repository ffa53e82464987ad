// test_groups.c -- plans of several parameter groups: their buckets, bytes, traffic and lines; and process
// groups of flattened axes.
#include "parallel/calls.h"
#include "parallel/traffic.h"

#include "unit/parallel/planned.h"

enum { N = 4 * 64 * 128 }; // elements of a block's matrix

// Four blocks of which the first two are in group 1, which is frozen; two ranks.
static planned frozen_half(const char *trained, const char *frozen)
{
    planned x = planned_blocks(4, 4 * 64, 128);
    x.shard = 2, x.inner = trained, x.reshard = 1;
    x.groups = 1, x.group[0] = (planned_group){.inner = frozen, .frozen = true};
    x.param[0].group = x.param[1].group = 1;
    x.first_backward = 2;
    return x;
}

// ---- Buckets

static void test_groups_that_are_alike_share_buckets(void **state)
{
    (void)state;
    planned x = planned_blocks(4, 8, 4);
    x.bucket_bytes = 100 << 20;
    x.groups = 2;
    x.param[1].group = 1, x.param[2].group = 2;
    plan *p = planned_open(&x);
    assert_int_equal(p->buckets, 1);
    assert_true(p->group[1].representative == 0 && p->group[2].representative == 0);
    plan_free(p);
    x.group[1].compute = BF16;
    p = planned_open(&x);
    assert_int_equal(p->buckets, 2); // a, b, d; c
    assert_int_equal(p->bucket[p->row[2].bucket].group, 2);
    assert_int_equal(p->bucket[p->row[1].bucket].group, 0);
    assert_int_equal(p->array_bytes[ARRAY_WEIGHTS], 512 + 256);
    assert_int_equal(p->array_bytes[ARRAY_MASTER], 256);
    plan_free(p);
}

// ---- Bytes

static void expect_bytes(const planned *x, uint64_t weights, uint64_t master, uint64_t gradients,
                         uint64_t optimizer, uint64_t file)
{
    plan *p = planned_open(x);
    assert_int_equal(p->bytes[BYTES_WEIGHTS], weights);
    assert_int_equal(p->bytes[BYTES_MASTER], master);
    assert_int_equal(p->bytes[BYTES_GRADIENTS], gradients);
    assert_int_equal(p->bytes[BYTES_OPTIMIZER], optimizer);
    assert_int_equal(p->tier_bytes[TIER_FILE], file);
    plan_free(p);
}

static void test_a_frozen_half_has_only_weights(void **state)
{
    (void)state;
    planned x = frozen_half("ddp", "ddp");
    expect_bytes(&x, 4 * 4 * N, 0, 2 * 4 * N, 2 * 8 * N, 0);
    x = frozen_half("ddp", "zero3");
    expect_bytes(&x, 2 * 4 * N + 4 * N, 0, 2 * 4 * N, 2 * 8 * N, 0);
    x = frozen_half("zero3", "ddp");
    expect_bytes(&x, 4 * N + 2 * 4 * N, 0, 4 * N, 8 * N, 0);
    x.compute = x.group[0].compute = BF16;
    expect_bytes(&x, 2 * N + 2 * 2 * N, 4 * N, 4 * N, 8 * N, 0);
    x = frozen_half("zero3", "zero3");
    x.group[0].tier[PLAN_WEIGHTS] = TIER_FILE;
    expect_bytes(&x, 4 * N, 0, 4 * N, 8 * N, 4 * N);
}

// A row of 128 columns is 20 words: 16 of codes, one of the mean, two of maxima, one of the place and two scales.
static void test_packed_weights_have_the_bytes_of_their_rows(void **state)
{
    (void)state;
    enum { ROWS = 4 * 64, PACKED = ROWS * 20 * 4 }; // bytes of a block
    planned x = frozen_half("ddp", "ddp");
    x.group[0].storage = STORAGE_NF4;
    expect_bytes(&x, 2 * 4 * N + 2 * PACKED, 0, 2 * 4 * N, 2 * 8 * N, 0);
    x = frozen_half("ddp", "zero3");
    x.group[0].storage = STORAGE_NF4, x.group[0].compute = BF16;
    expect_bytes(&x, 2 * 4 * N + PACKED, 0, 2 * 4 * N, 2 * 8 * N, 0);
    x.group[0].tier[PLAN_WEIGHTS] = TIER_FILE; // where a bucket is whole pages
    expect_bytes(&x, 2 * 4 * N, 0, 2 * 4 * N, 2 * 8 * N, 2 * 4 * 2 * FILE_ALIGN);
}

// A slot has the unpacked weights, and behind them the packed rows where they are gathered.
static void test_packed_weights_are_gathered_behind_a_slot(void **state)
{
    (void)state;
    planned x = frozen_half("ddp", "zero3");
    x.group[0].storage = STORAGE_NF4, x.group[0].compute = BF16;
    plan *p = planned_open(&x);
    const int k = p->row[0].bucket;
    const plan_redistribution *m = &plan_group_of(p, k)->redistribute.unshard;
    assert_int_equal(m->count, 1);
    assert_true(m->layout == LAYOUT_PACKED && m->step[0].to == LAYOUT_PACKED);
    const comm_segment *s = &m->step[0].segment[p->bucket[k].first_row];
    assert_int_equal(s->count, 256 * 20);
    assert_int_equal(s->shard_count, 128 * 20);
    assert_int_equal(plan_packed_start(p, k), 2 * N);
    assert_int_equal(plan_weight_slot(p, k), N + 256 * 20 * 4 / 2);
    assert_int_equal(plan_weight_slot(p, p->row[2].bucket), N);
    plan_free(p);
    x.group[0].inner = "ddp";
    p = planned_open(&x);
    assert_true(plan_group_of(p, k)->weight_slots);
    assert_int_equal(plan_group_of(p, k)->redistribute.unshard.count, 0);
    assert_int_equal(plan_weight_slot(p, k), N);
    text t = {0};
    plan_print(p, false, &t);
    assert_non_null(strstr(t.chars,
                           "weights replicated as NF4, frozen: no gradients, no optimizer state\n"
                           "  each forward                unpack weights from NF4 to bf16, block "
                           "by block\n"));
    text_clear(&t);
    plan_print(p, true, &t);
    assert_non_null(strstr(t.chars, "\"frozen\":true,\"storage\":\"nf4\","));
    text_clear(&t);
    plan_free(p);
}

static void test_rows_of_parts_of_blocks_are_not_packed(void **state)
{
    (void)state;
    err e = {.code = OK};
    plan *p = NULL;
    planned x = frozen_half("ddp", "ddp");
    x.group[0].storage = STORAGE_NF4;
    x.param[1].cols = 100;
    assert_int_equal(planned_make(&x, &p, &e), E_USAGE);
    assert_string_equal(e.text,
                        "model.storage: nf4 keeps blocks of 64 elements together, but a rank has "
                        "rows of 100 of b; valid: auto, or a parallel.tp that divides the rows "
                        "into blocks");
}

static void test_groups_have_their_own_optimizer_state_and_type(void **state)
{
    (void)state;
    planned x = planned_blocks(4, 4 * 64, 128);
    x.groups = 2;
    x.group[0] = (planned_group){.compute = BF16};
    x.group[1] = (planned_group){.no_moments = true};
    x.param[0].group = 1, x.param[1].group = 2;
    expect_bytes(&x, 3 * 4 * N + 2 * N, 4 * N, 4 * 4 * N, 3 * 8 * N, 0);
}

// ---- Traffic

// Bytes of a step of two micro-batches over a process group; blocks send nothing.
static double sent(const planned *x, int group)
{
    err e = {0};
    schedule s;
    plan *p = planned_open(x);
    if (schedule_make(p, PASS_TRAIN, &s, &e) != OK || calls_list(&s, p, NULL, &e) != OK)
        fail_msg("%s", e.text);
    traffic_count(p, &s);
    const double bytes = p->sent_bytes[group];
    schedule_clear(&s);
    plan_free(p);
    return bytes;
}

static void test_each_group_sends_its_own_closed_form(void **state)
{
    (void)state;
    const int shard = MESH_AXIS(AXIS_DP_SHARD);
    const double part = 0.5;
    planned x = frozen_half("ddp", "ddp");
    x.micros = 2, x.no_sync = true;
    // Gradients of the trained half are summed once a step: 2 (n-1)/n of their bytes.
    assert_true(sent(&x, shard) == 2 * part * 4 * 2 * N);
    x.group[0].inner = "zero3"; // both frozen blocks are all-gathered for each forward
    assert_true(sent(&x, shard) == 2 * part * 4 * 2 * N + 2 * part * 4 * 2 * N);
    x.inner = "zero3", x.group[0].inner = "ddp";
    // Block 2 for forward and backward, block 3 once: its weights stay between the two.
    assert_true(sent(&x, shard) == part * 4 * 2 * N + part * 4 * (2 * 2 + 2 - 1 + 1) * N);
    x.group[0].frozen = false, x.first_backward = 0; // ddp over zero3: all gradients
    assert_true(sent(&x, shard) > 2 * part * 4 * 2 * N + part * 4 * 2 * N);
}

// ---- Process groups

static void test_parameters_are_sharded_over_flattened_axes(void **state)
{
    (void)state;
    planned x = planned_blocks(2, 8, 4);
    x.replicate = x.shard = x.cp = 2, x.inner = "zero3";
    int64_t seen[8] = {0};
    for (x.rank = 0; x.rank < 8; x.rank++) {
        plan *p = planned_open(&x);
        const plan_group *g = &p->group[0];
        const plan_shard s = plan_local_shard(p, &p->row[0], g->weight, p->coord);
        char name[MESH_NAME_BYTES];
        assert_int_equal(s.count, 8 * 4 / 4);
        seen[s.first / s.count]++;
        assert_int_equal(g->redistribute.unshard.step[0].ranks, 4);
        assert_string_equal(
            process_group_name(&p->o.mesh, g->redistribute.unshard.step[0].group, name),
            "dp_shard_cp");
        assert_string_equal(
            process_group_name(&p->o.mesh, g->redistribute.reduce_step.step[0].group, name),
            "dp_replicate");
        plan_free(p);
    }
    for (int i = 0; i < 4; i++) assert_int_equal(seen[i], 2); // a shard and its replica
}

// The second group is sharded over dp_shard alone. The ranks of cp have its parameters, and first sum their
// gradients; or each of them computes with another shard.
static void test_a_group_has_process_groups_of_its_own(void **state)
{
    (void)state;
    const mesh_axes cp = MESH_AXIS(AXIS_CP), shard = MESH_AXIS(AXIS_DP_SHARD);
    planned x = planned_blocks(2, 8, 4);
    x.shard = x.cp = 2, x.inner = "zero3", x.groups = 1;
    x.group[0] = (planned_group){.inner = "zero3", .level = {[LEVEL_INNER] = shard}};
    x.param[1].group = 1;
    for (int sharded = 0; sharded < 2; sharded++) {
        x.param[0].partial = cp;
        x.param[1].partial = sharded ? 0 : cp, x.param[1].sharded = sharded ? cp : 0;
        for (x.rank = 0; x.rank < 4; x.rank++) {
            plan *p = planned_open(&x);
            bool used[PROCESS_GROUPS] = {false};
            int group[PROCESS_GROUPS];
            const plan_row *own = &p->row[1];
            for (int i = plan_process_groups(p, group) - 1; i >= 0; i--) used[group[i]] = true;
            assert_true(used[cp] && used[shard] && used[cp | shard]);
            assert_int_equal(p->group[0].redistribute.unshard.step[0].group, cp | shard);
            assert_int_equal(p->group[1].redistribute.unshard.step[0].group, shard);
            assert_int_equal(plan_local_shard(p, own, p->group[1].weight, p->coord).count,
                             8 * 4 / 2);
            assert_true(p->row[0].partial == 0 && p->row[0].copies == 0);
            assert_int_equal(own->partial, sharded ? 0 : cp);
            assert_int_equal(own->counted, sharded || p->coord[AXIS_CP] == 0 ? own->count : 0);
            plan_free(p);
        }
    }
    x.param[1].sharded = shard;
    plan *p = NULL;
    assert_int_equal(planned_make(&x, &p, NULL), E_INTERNAL);
}

static void test_groups_in_use_are_listed_by_name(void **state)
{
    (void)state;
    const int sizes[AXES] = {1, 2, 2, 2, 1};
    double bytes[PROCESS_GROUPS] = {0};
    int group[PROCESS_GROUPS];
    char name[MESH_NAME_BYTES];
    text t = {0};
    mesh m;
    assert_int_equal(mesh_make(sizes, 8, &m, NULL), OK);
    for (int used = 0; used < 2; used++) {
        if (used) bytes[MESH_AXIS(AXIS_DP_SHARD) | MESH_AXIS(AXIS_CP)] = 1;
        const int count = traffic_groups(bytes, group);
        for (int i = 0; i < count; i++)
            text_addf(&t, "%s ", process_group_name(&m, group[i], name));
        text_add(&t, "| ");
    }
    assert_string_equal(t.chars, "pp dp_replicate dp_shard cp tp post_forward tied dp world | "
                                 "pp dp_replicate dp_shard cp tp post_forward tied dp dp_shard_cp "
                                 "world | ");
    text_clear(&t);
}

// ---- Lines

static void test_each_group_is_printed(void **state)
{
    (void)state;
    planned x = frozen_half("ddp", "zero3");
    x.groups = 2; // group 2 has no parameters, and is as the first
    plan *p = planned_open(&x);
    text t = {0};
    plan_print(p, false, &t);
    const char *const start =
        "plan, groups 0, 2: ddp over dp_shard (2 ranks): weights replicated, gradients full until "
        "the step, optimizer state replicated\n"
        "  each step                   all-reduce gradients over dp_shard\n"
        "  memory                      weights, gradients and optimizer state on the device\n"
        "plan, group 1: zero3 over dp_shard (2 ranks): weights sharded, frozen: no gradients, no "
        "optimizer state\n"
        "  each forward                all-gather weights over dp_shard\n"
        "  memory                      weights on the device\n"
        "  parameters                  4, in 4 buckets\n";
    if (strncmp(t.chars, start, strlen(start))) fail_msg("found\n%s", t.chars);
    text_clear(&t);
    plan_print(p, true, &t);
    assert_non_null(
        strstr(t.chars, "\"groups\":[{\"group\":0,\"frozen\":false,\"policy\":\"ddp\","));
    assert_non_null(strstr(t.chars,
                           "{\"group\":1,\"frozen\":true,\"policy\":\"zero3\",\"placements\":"
                           "{\"dp_shard\":{\"weight\":\"S\""));
    text_clear(&t);
    plan_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_that_are_alike_share_buckets),
        cmocka_unit_test(test_a_frozen_half_has_only_weights),
        cmocka_unit_test(test_packed_weights_have_the_bytes_of_their_rows),
        cmocka_unit_test(test_packed_weights_are_gathered_behind_a_slot),
        cmocka_unit_test(test_rows_of_parts_of_blocks_are_not_packed),
        cmocka_unit_test(test_groups_have_their_own_optimizer_state_and_type),
        cmocka_unit_test(test_each_group_sends_its_own_closed_form),
        cmocka_unit_test(test_parameters_are_sharded_over_flattened_axes),
        cmocka_unit_test(test_a_group_has_process_groups_of_its_own),
        cmocka_unit_test(test_groups_in_use_are_listed_by_name),
        cmocka_unit_test(test_each_group_is_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
