// test_plan.c -- layouts, shards, offsets, stages, tied weights and bytes of a plan; and
// the options that plan_make refuses.
#include "unit/parallel/planned.h"

// ---- Layouts

static char layout_letter(plan_layout l)
{
    return "FIOBG"[l]; // full, inner axis, outer axis, both, post-forward group
}

static void expect_layouts(const planned *x, const char *expected)
{
    plan *p = planned_open(x);
    const char found[] = {layout_letter(p->group[0].weight), layout_letter(p->group[0].gradient),
                          layout_letter(p->group[0].optimizer), '\0'};
    if (strcmp(found, expected))
        fail_msg("%s over %s: %s, expected %s", x->outer, x->inner, found, expected);
    assert_int_equal(p->group[0].weight_slots, p->group[0].weight != LAYOUT_FULL);
    assert_int_equal(p->group[0].gradient_slots, p->group[0].gradient != LAYOUT_FULL);
    plan_free(p);
}

static void test_layouts_follow_from_both_policies(void **state)
{
    (void)state;
    static const planned_pair pairs[] = {{"ddp", "ddp", "FFF"},
                                         {"ddp", "zero1", "FFI"},
                                         {"ddp", "zero2", "FII"},
                                         {"ddp", "zero3", "III"},
                                         {"ddp", "fsdp_no_sync", "IFI"},
                                         {"zero1", "ddp", "FFO"},
                                         {"zero1", "zero1", "FFB"},
                                         {"zero1", "zero2", "FIB"},
                                         {"zero1", "zero3", "IIB"},
                                         {"zero1", "fsdp_no_sync", "IFB"},
                                         {"zero2", "ddp", "FOO"},
                                         {"zero2", "zero2", "FBB"},
                                         {"zero2", "zero3", "IBB"},
                                         {"zero3", "ddp", "OOO"},
                                         {"zero3", "zero3", "BBB"},
                                         {"fsdp_no_sync", "ddp", "OFO"},
                                         {"fsdp_no_sync", "zero3", "BIB"},
                                         {"fsdp_no_sync", "fsdp_no_sync", "BFB"}};
    for (size_t i = 0; i < 18; i++) {
        planned x = planned_blocks(2, 8, 4);
        x.replicate = x.shard = 2;
        x.outer = pairs[i].outer, x.inner = pairs[i].inner;
        expect_layouts(&x, pairs[i].expected);
        // Under no_sync several micro-batches are summed in full gradients.
        char summed[] = {pairs[i].expected[0], 'F', pairs[i].expected[2], '\0'};
        x.micros = 2;
        expect_layouts(&x, pairs[i].expected);
        x.no_sync = true;
        expect_layouts(&x, summed);
        x.micros = 1;
        expect_layouts(&x, pairs[i].expected);
    }
}

static void test_an_axis_of_one_rank_shards_nothing(void **state)
{
    (void)state;
    planned x = planned_blocks(2, 8, 4);
    x.outer = x.inner = "zero3";
    expect_layouts(&x, "FFF");
    x.shard = 2;
    expect_layouts(&x, "III");
    x.shard = 1, x.replicate = 2;
    expect_layouts(&x, "OOO");
}

// ---- Shards

static void expect_shards(planned x, int64_t rows, plan_layout l, const char *expected)
{
    text t = {0};
    x.params = x.blocks = 1;
    x.param[0] = (planned_param){rows, 4, .block = 0};
    const int ranks = at_least_1(x.replicate) * at_least_1(x.shard);
    for (x.rank = 0; x.rank < ranks; x.rank++) {
        plan *p = planned_open(&x);
        const plan_shard s = plan_local_shard(p, &p->row[0], l, p->coord);
        assert_int_equal(s.first % 4, 0);
        assert_int_equal(s.count % 4, 0);
        text_addf(&t, "%s%d+%d", x.rank ? " " : "", (int)s.first / 4, (int)s.count / 4);
        plan_free(p);
    }
    assert_string_equal(t.chars, expected);
    text_clear(&t);
}

static void test_shards_are_those_of_torch_chunk(void **state)
{
    (void)state;
    const planned four = {.shard = 4, .inner = "zero3"};
    expect_shards(four, 8, LAYOUT_INNER, "0+2 2+2 4+2 6+2");
    expect_shards(four, 10, LAYOUT_INNER, "0+3 3+3 6+3 9+1");
    expect_shards(four, 5, LAYOUT_INNER, "0+2 2+2 4+1 5+0"); // the last rank has none
    expect_shards(four, 1, LAYOUT_INNER, "0+1 1+0 1+0 1+0");
    expect_shards(four, 10, LAYOUT_FULL, "0+10 0+10 0+10 0+10");
    expect_shards((planned){.replicate = 4, .outer = "zero3"}, 10, LAYOUT_OUTER, "0+3 3+3 6+3 9+1");
}

static void test_the_outer_axis_shards_the_inner_shard(void **state)
{
    (void)state;
    const planned x = {.replicate = 2, .shard = 2, .outer = "zero3", .inner = "zero3"};
    // dp_shard varies faster: rank 1 is the second of the inner axis.
    expect_shards(x, 10, LAYOUT_BOTH, "0+3 5+3 3+2 8+2");
    expect_shards(x, 10, LAYOUT_INNER, "0+5 5+5 0+5 5+5");
    expect_shards(x, 10, LAYOUT_OUTER, "0+5 0+5 5+5 5+5");
    expect_shards(x, 3, LAYOUT_BOTH, "0+1 2+1 1+1 3+0");
}

static void test_a_post_forward_group_keeps_shards(void **state)
{
    (void)state;
    planned x = {.shard = 4, .inner = "zero3", .reshard = 2};
    expect_shards(x, 10, LAYOUT_POST_FORWARD, "0+5 5+5 0+5 5+5");
    x.params = x.blocks = 1, x.param[0] = (planned_param){16, 4, .block = 0};
    plan *p = planned_open(&x);
    assert_true(p->group[0].keeps_post_forward_shards);
    assert_int_equal(p->bytes[BYTES_WEIGHTS],
                     256 + 256); // a fourth between uses, a half in the group: 64 and 128 bytes
    plan_free(p);
    static const int others[] = {0, 1, 4}; // kept unsharded, resharded, and a group of all ranks
    for (int i = 0; i < 3; i++) {
        x.reshard = others[i];
        p = planned_open(&x);
        assert_false(p->group[0].keeps_post_forward_shards);
        plan_free(p);
    }
}

// ---- Offsets

static void test_a_parameter_lies_at_the_same_offset_on_every_rank(void **state)
{
    (void)state;
    planned x = {.params = 4, .blocks = 3, .replicate = 2, .shard = 3, .inner = "zero3"};
    x.outer = "zero3";
    x.param[0] = (planned_param){7, 5, .block = 0};
    x.param[1] = (planned_param){11, 0, .block = 0};
    x.param[2] = (planned_param){1, 9, .block = 1};
    x.param[3] = (planned_param){4, 4, .block = 2};
    plan *first = planned_open(&x);
    for (x.rank = 1; x.rank < 6; x.rank++) {
        plan *p = planned_open(&x);
        for (int l = 0; l < LAYOUT_POST_FORWARD; l++) {
            for (int k = 0; k < p->buckets; k++)
                assert_int_equal(p->bucket[k].count[l], first->bucket[k].count[l]);
            for (int i = 0; i < p->rows; i++)
                assert_int_equal(p->row[i].offset[l], first->row[i].offset[l]);
        }
        plan_free(p);
    }
    plan_free(first);
}

// In a bucket, rows follow each other. In an array, each bucket starts at the next multiple of 256 bytes.
static void expect_packed(const plan *p, plan_layout l, plan_array array, int64_t bucket_align)
{
    size_t bytes = 0;
    for (int k = 0; k < p->buckets; k++) {
        const plan_bucket *b = &p->bucket[k];
        int64_t end = 0;
        for (int i = 0; i < b->rows; i++) {
            const plan_row *r = &p->row[p->order[b->first_row + i]];
            assert_true(r->offset[l] >= end && r->offset[l] < end + BUCKET_ALIGN);
            assert_int_equal(r->offset[l] % BUCKET_ALIGN, 0);
            end = r->offset[l] + plan_local_shard(p, r, l, p->coord).count;
        }
        assert_true(b->count[l] >= end && b->count[l] < end + bucket_align);
        assert_int_equal(b->count[l] % bucket_align, 0);
        assert_int_equal(b->start[array], bytes);
        bytes += (plan_bucket_bytes(p, k, array) + 255) / 256 * 256;
    }
    assert_int_equal(p->array_bytes[array], bytes);
}

static void test_arrays_are_packed_but_for_the_alignment_of_starts(void **state)
{
    (void)state;
    planned x = planned_blocks(5, 7, 3);
    x.shard = 2, x.inner = "zero3";
    plan *p = planned_open(&x);
    expect_packed(p, LAYOUT_FULL, ARRAY_WEIGHTS, BUCKET_ALIGN);
    expect_packed(p, LAYOUT_INNER, ARRAY_GRADIENTS, BUCKET_ALIGN);
    plan_free(p);
    x.tier[PLAN_OPTIMIZER_STATE] = TIER_FILE; // multiples of pages
    p = planned_open(&x);
    expect_packed(p, LAYOUT_FULL, ARRAY_WEIGHTS, FILE_ALIGN);
    expect_packed(p, LAYOUT_INNER, ARRAY_GRADIENTS, FILE_ALIGN);
    assert_int_equal(p->array_bytes[ARRAY_M], 0);
    for (int k = 0; k < p->buckets; k++)
        assert_int_equal(p->bucket[k].swap_start[PLAN_OPTIMIZER_STATE], k * 2 * 4 * FILE_ALIGN);
    assert_int_equal(p->swap_bytes[TIER_FILE][PLAN_OPTIMIZER_STATE], 5 * 2 * 4 * FILE_ALIGN);
    plan_free(p);
}

// ---- Stages

static void expect_stages(const planned *x, const char *expected)
{
    plan *p = planned_open(x);
    text t = {0};
    for (int k = 0; k < p->chunks; k++)
        text_addf(&t, "%s%d-%d", k ? " " : "", p->chunk_first[k], p->chunk_first[k + 1] - 1);
    assert_string_equal(t.chars, expected);
    for (int b = 0; b < x->blocks; b++) {
        const int chunk = plan_chunk_of(p, b);
        assert_true(p->chunk_first[chunk] <= b && b < p->chunk_first[chunk + 1]);
        assert_int_equal(plan_stage_of(p, b), chunk % p->o.mesh.size[AXIS_PP]);
        assert_int_equal(plan_has_block(p, b), plan_stage_of(p, b) == p->coord[AXIS_PP]);
    }
    text_clear(&t);
    plan_free(p);
}

static void test_stages_are_as_given_or_balanced(void **state)
{
    (void)state;
    planned x = planned_blocks(6, 8, 4);
    expect_stages(&x, "0-5");
    x.pp = 2;
    expect_stages(&x, "0-2 3-5");
    x.cost[4] = 3, x.cost[5] = 2;
    expect_stages(&x, "0-3 4-5");
    x.split = (const int[]){1, 5};
    expect_stages(&x, "0-0 1-5");
    x.split = (const int[]){1, 3}; // without the first and the last block
    expect_stages(&x, "0-1 2-5");
    x.pp = 3, x.rank = 1;
    x.split = NULL, x.cost[5] = 1;
    expect_stages(&x, "0-1 2-3 4-5");
    x.pp = 2, x.chunks = 3; // the c-th chunk of stage s is model chunk 2c + s
    x.split = (const int[]){1, 1, 1, 1, 1, 1};
    expect_stages(&x, "0-0 1-1 2-2 3-3 4-4 5-5");
}

static void test_a_stage_has_the_parameters_of_its_blocks(void **state)
{
    (void)state;
    planned x = planned_blocks(4, 8, 4);
    x.pp = 2, x.rank = 1;
    expect_buckets(&x, "c | d");
    plan *p = planned_open(&x);
    assert_int_equal(p->local_rows, 2);
    assert_int_equal(p->row[0].bucket, -1);
    assert_int_equal(p->row[0].stage, 0);
    assert_int_equal(p->row[3].stage, 1);
    assert_int_equal(p->array_bytes[ARRAY_WEIGHTS], 2 * 256);
    assert_true(plan_block_uses(p, 2, 0) && plan_block_uses(p, 3, 1));
    assert_false(plan_block_uses(p, 3, 0) || plan_block_uses(p, 0, 0));
    assert_false(plan_ties_stages(p));
    plan_free(p);
}

// ---- Tied weights

static void test_the_first_and_the_last_stage_may_share(void **state)
{
    (void)state;
    planned x = planned_blocks(4, 8, 4);
    x.param[0].also = 3;
    x.pp = 2;
    for (x.rank = 0; x.rank < 2; x.rank++) {
        plan *p = planned_open(&x);
        const plan_row *r = &p->row[0];
        assert_true(r->tied && plan_ties_stages(p));
        assert_true(r->bucket >= 0);
        assert_int_equal(r->counted, x.rank == 0 ? r->count : 0); // once in the norm
        assert_int_equal(r->block, x.rank == 0 ? 0 : 3);
        assert_int_equal(r->tied_grad, -1);
        assert_false(p->row[2].tied);
        plan_free(p);
    }
    x.rank = 1;
    expect_buckets(&x, "c | a d"); // its place is at the first block of this stage that uses it
}

static void test_two_uses_on_a_stage_are_summed_apart_over_micro_batches(void **state)
{
    (void)state;
    planned x = planned_blocks(4, 8, 4);
    x.param[1].also = 3;
    x.micros = 2;
    x.shard = 2, x.inner = "zero2";
    plan *p =
        planned_open(&x); // gradients are reduced after each micro-batch, and shards are summed
    assert_int_equal(p->row[1].tied_grad, -1);
    assert_int_equal(p->row[1].tied_shard, 0);
    assert_int_equal(p->row[0].tied_shard, -1);
    assert_int_equal(p->tied_grads, 16);
    assert_int_equal(p->bucket[p->row[1].bucket].second_use, 3);
    assert_int_equal(p->bucket[p->row[0].bucket].second_use, -1);
    plan_free(p);
    x.shard = 0, x.inner = NULL;
    p = planned_open(&x); // ddp has full sums, whatever no_sync says
    assert_int_equal(p->row[1].tied_grad, 0);
    plan_free(p);
    x.no_sync = true;
    p = planned_open(&x);
    assert_int_equal(p->row[1].tied_grad, 0);
    assert_int_equal(p->row[0].tied_grad, -1);
    assert_int_equal(p->tied_grads, 32);
    assert_int_equal(p->bytes[BYTES_GRADIENTS], 4 * 256 + 4 * 32);
    assert_true(plan_block_uses(p, 1, 1) && plan_block_uses(p, 3, 1));
    assert_false(plan_block_uses(p, 2, 1));
    plan_free(p);
}

static void test_the_norm_counts_every_parameter_once_over_tensor_parallel_ranks(void **state)
{
    (void)state;
    planned x = planned_blocks(3, 8, 4);
    x.tp = 2;
    x.param[0].tp_sharded = true;
    x.param[1].tp_partial = true;
    for (x.rank = 0; x.rank < 2; x.rank++) {
        plan *p = planned_open(&x);
        assert_int_equal(p->row[0].counted, p->row[0].count);
        assert_int_equal(p->row[1].counted, x.rank == 0 ? p->row[1].count : 0);
        assert_int_equal(p->row[2].counted, x.rank == 0 ? p->row[2].count : 0);
        assert_true(p->row[1].partial == MESH_AXIS(AXIS_TP) && p->row[2].partial == 0);
        plan_free(p);
    }
}

// Pairs of tensor-parallel ranks have the last 3 rows of parameter 0 in common.
static void test_rows_that_ranks_share_are_counted_once_and_have_a_group(void **state)
{
    (void)state;
    planned x = planned_blocks(3, 8, 4);
    x.tp = 4, x.shard = 2, x.inner = "zero3";
    x.param[0].tp_sharded = x.param[1].tp_sharded = true;
    x.param[0].shared = (plan_shared){5, 2};
    for (x.rank = 0; x.rank < 8; x.rank++) {
        int group[PROCESS_GROUPS], shared = 0;
        plan *p = planned_open(&x);
        for (int i = plan_process_groups(p, group); i > 0; i--)
            shared += group[i - 1] == GROUP_SHARED;
        assert_int_equal(shared, 1);
        assert_int_equal(plan_group_ranks(p, GROUP_SHARED), 2);
        assert_int_equal(plan_group_index(p, GROUP_SHARED), x.rank % 2);
        assert_int_equal(p->row[0].shared, 20);
        assert_int_equal(p->row[0].counted, x.rank % 2 ? 20 : 32);
        assert_int_equal(p->row[1].shared, 32);
        assert_int_equal(p->row[1].counted, 32);
        plan_free(p);
    }
    x.rank = 0;
    x.param[1].shared = (plan_shared){5, 4};
    err e = {0};
    plan *none;
    assert_int_equal(planned_make(&x, &none, &e), E_USAGE);
    assert_string_equal(e.text,
                        "parallel.tp: 4 ranks share a head of keys and values of b, and 2 one of "
                        "another layer; valid: at most the key-value heads of each layer");
    x.param[1].shared = (plan_shared){0, 1};
    x.hook = (strategy_hook){.kind = HOOK_POWERSGD, .rank = 2, .min_compression_rate = 1.5};
    assert_int_equal(planned_make(&x, &none, &e), E_USAGE);
    assert_string_equal(e.text, "parallel.hook powersgd: 2 ranks of parallel.tp have the same rows "
                                "of a, which it would not keep equal; valid: another hook, or at "
                                "most as many ranks as key-value heads");
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
    assert_int_equal(plan_bytes(p), weights + master + gradients + optimizer);
    plan_free(p);
}

static void test_state_bytes_are_the_formulas_of_each_policy(void **state)
{
    (void)state;
    enum { N = 4 * 64 * 128 }; // the shard of a block is a page of the file
    planned x = planned_blocks(4, 64, 128);
    x.shard = 4;
    expect_bytes(&x, 4 * N, 0, 4 * N, 8 * N, 0);
    x.compute = BF16;
    expect_bytes(&x, 2 * N, 4 * N, 4 * N, 8 * N, 0);
    x.inner = "zero1";
    expect_bytes(&x, 2 * N, N, 4 * N, 2 * N, 0);
    x.inner = "zero2";
    expect_bytes(&x, 2 * N, N, N, 2 * N, 0);
    x.inner = "zero3";
    expect_bytes(&x, N / 2, N, N, 2 * N, 0);
    x.tier[PLAN_OPTIMIZER_STATE] = TIER_FILE; // and the master weights with it
    expect_bytes(&x, N / 2, 0, N, 0, 3 * N);
    x.tier[PLAN_GRADIENTS] = x.tier[PLAN_WEIGHTS] = TIER_FILE;
    expect_bytes(&x, 0, 0, 0, 0, 4 * N + N / 2);
}

static void test_the_host_tier_is_the_devices_own_memory(void **state)
{
    (void)state;
    planned x = planned_blocks(1, 64, 64);
    x.tier[PLAN_OPTIMIZER_STATE] = TIER_HOST;
    plan *p = planned_open(&x);
    assert_int_equal(p->bytes[BYTES_OPTIMIZER], 8 * 64 * 64);
    assert_int_equal(p->tier_bytes[TIER_HOST], 8 * 64 * 64);
    assert_int_equal(p->tier_bytes[TIER_FILE], 0);
    plan_free(p);
}

static void test_a_host_apart_has_bytes_of_its_own_and_is_swapped(void **state)
{
    (void)state;
    enum { N = 64 * 64 };
    planned x = planned_blocks(2, 64, 64);
    x.apart = true;
    x.compute = BF16;
    x.tier[PLAN_OPTIMIZER_STATE] = x.tier[PLAN_WEIGHTS] = TIER_HOST;
    plan *p = planned_open(&x);
    const plan_group *g = &p->group[0];
    assert_true(plan_is_swapped(g, PLAN_WEIGHTS) && plan_is_swapped(g, PLAN_OPTIMIZER_STATE));
    assert_false(plan_is_swapped(g, PLAN_GRADIENTS));
    assert_true(g->weight_slots && !g->gradient_slots);
    assert_int_equal(p->bytes[BYTES_GRADIENTS], 2 * 4 * N);
    assert_int_equal(plan_bytes(p), 2 * 4 * N);
    assert_int_equal(p->host_bytes[BYTES_WEIGHTS], 2 * 2 * N);
    assert_int_equal(p->host_bytes[BYTES_MASTER], 2 * 4 * N);
    assert_int_equal(p->host_bytes[BYTES_OPTIMIZER], 2 * 8 * N);
    assert_int_equal(plan_host_bytes(p), 2 * 14 * N);
    assert_int_equal(p->tier_bytes[TIER_HOST], 2 * 14 * N);
    assert_int_equal(p->array_bytes[ARRAY_M] + p->array_bytes[ARRAY_WEIGHTS], 0);
    // Master weights and two moments of a bucket lie together.
    assert_int_equal(p->swap_bytes[TIER_HOST][PLAN_OPTIMIZER_STATE], 2 * 12 * N);
    assert_int_equal(p->bucket[1].swap_start[PLAN_OPTIMIZER_STATE], 12 * N);
    assert_int_equal(p->bucket[1].swap_start[PLAN_WEIGHTS], 2 * N);
    plan_free(p);
    x.no_moments = true; // nothing of the optimizer is swapped where there is nothing
    x.compute = F32;
    p = planned_open(&x);
    assert_false(plan_is_swapped(&p->group[0], PLAN_OPTIMIZER_STATE));
    plan_free(p);
}

// A bucket starts at BUCKET_START_BYTES on the host, too.
static void test_buckets_on_the_host_are_aligned(void **state)
{
    (void)state;
    planned x = planned_blocks(3, 7, 3);
    x.apart = true;
    x.compute = BF16;
    for (int k = 0; k < PLAN_STATES; k++) x.tier[k] = TIER_HOST;
    plan *p = planned_open(&x);
    for (int b = 0; b < p->buckets; b++)
        for (int k = 0; k < PLAN_STATES; k++)
            assert_int_equal(p->bucket[b].swap_start[k] % BUCKET_START_BYTES, 0);
    assert_int_equal(p->bucket[1].swap_start[PLAN_WEIGHTS], BUCKET_START_BYTES);
    plan_free(p);
}

static void test_no_sync_auto_is_true_for_gradients_that_are_swapped(void **state)
{
    (void)state;
    static const policies zero2 = {{"", REPLICATE, PARTIAL, REPLICATE},
                                   {"", REPLICATE, SHARD, SHARD}};
    const mesh m = {.size = {1, 1, 2, 1, 1}, .ranks = 2};
    for (int t = 0; t < TIERS; t++)
        for (int apart = 0; apart < 2; apart++) {
            strategy s = {.dp = zero2, .no_sync = NO_SYNC_AUTO};
            s.offload.tier[PLAN_GRADIENTS] = (memory_tier)t;
            s.offload.host_is_apart = apart;
            const bool swapped = t == TIER_FILE || (t == TIER_HOST && apart);
            assert_int_equal(strategy_resolve(&s, &m).no_sync == NO_SYNC_TRUE, swapped);
        }
}

// ---- Refusals

static void expect_refused(const planned *x, const char *says)
{
    plan *p = NULL;
    err e = {0};
    assert_int_equal(planned_make(x, &p, &e), E_USAGE);
    assert_string_equal(e.text, says);
    assert_null(p);
}

static void test_options_that_exclude_each_other_are_refused_in_one_line(void **state)
{
    (void)state;
    planned x = planned_blocks(6, 8, 4);
    x.replicate = x.shard = 2;
    x.outer = "zero3", x.inner = "zero1";
    expect_refused(&x, "parallel.dp: zero3 over dp_replicate shards weights, zero1 over dp_shard "
                       "does not; valid: shard them on dp_shard too, or nothing there (ddp)");
    x.outer = "ddp";
    x.tier[PLAN_WEIGHTS] = TIER_FILE;
    expect_refused(&x, "parallel.offload.weights: file needs weights that are sharded as the "
                       "optimizer's state is; valid: parallel.dp zero3, or device");
    x.tier[PLAN_WEIGHTS] = TIER_DEVICE, x.tier[PLAN_GRADIENTS] = TIER_FILE;
    x.micros = 2;
    expect_refused(&x, "parallel.offload.gradients: file cannot be added to in every micro-batch; "
                       "valid: parallel.no_sync true, one micro-batch a step, or device");
    x.apart = true, x.tier[PLAN_GRADIENTS] = TIER_HOST;
    expect_refused(&x, "parallel.offload.gradients: host cannot be added to in every micro-batch; "
                       "valid: parallel.no_sync true, one micro-batch a step, or device");
    x.apart = false, x.tier[PLAN_GRADIENTS] = TIER_FILE;
    x.micros = 1, x.outer = "zero1", x.inner = "zero2";
    expect_refused(&x, "parallel.offload.gradients: file needs gradients that are unsharded, "
                       "or sharded as the optimizer's state is; valid: one policy for both axes, "
                       "or device");
    x = planned_blocks(6, 8, 4);
    x.shard = 4, x.inner = "zero3", x.reshard = 3;
    expect_refused(&x, "parallel.reshard_after_forward: groups of 3 do not divide the 4 ranks "
                       "of dp_shard; valid: true, false, or a divisor");
}

static void test_impossible_stages_are_refused_in_one_line(void **state)
{
    (void)state;
    planned x = planned_blocks(6, 8, 4);
    x.pp = 2;
    x.split = (const int[]){2, 3};
    expect_refused(&x, "parallel.split: 5 blocks in all; valid: 6, or 4 without the first and the "
                       "last block");
    x.split = NULL, x.pp = 7;
    expect_refused(&x, "parallel.pp x parallel.virtual_stages: found 7 model chunks for 6 "
                       "blocks; valid: 1 to 6");
    x.pp = 3;
    x.param[0].also = 2;
    expect_refused(&x, "parameter a is shared by blocks on stages 0 to 1; valid: on one stage, or "
                       "on the first and the last");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts_follow_from_both_policies),
        cmocka_unit_test(test_an_axis_of_one_rank_shards_nothing),
        cmocka_unit_test(test_shards_are_those_of_torch_chunk),
        cmocka_unit_test(test_the_outer_axis_shards_the_inner_shard),
        cmocka_unit_test(test_a_post_forward_group_keeps_shards),
        cmocka_unit_test(test_a_parameter_lies_at_the_same_offset_on_every_rank),
        cmocka_unit_test(test_arrays_are_packed_but_for_the_alignment_of_starts),
        cmocka_unit_test(test_stages_are_as_given_or_balanced),
        cmocka_unit_test(test_a_stage_has_the_parameters_of_its_blocks),
        cmocka_unit_test(test_the_first_and_the_last_stage_may_share),
        cmocka_unit_test(test_two_uses_on_a_stage_are_summed_apart_over_micro_batches),
        cmocka_unit_test(test_the_norm_counts_every_parameter_once_over_tensor_parallel_ranks),
        cmocka_unit_test(test_rows_that_ranks_share_are_counted_once_and_have_a_group),
        cmocka_unit_test(test_state_bytes_are_the_formulas_of_each_policy),
        cmocka_unit_test(test_the_host_tier_is_the_devices_own_memory),
        cmocka_unit_test(test_a_host_apart_has_bytes_of_its_own_and_is_swapped),
        cmocka_unit_test(test_buckets_on_the_host_are_aligned),
        cmocka_unit_test(test_no_sync_auto_is_true_for_gradients_that_are_swapped),
        cmocka_unit_test(test_options_that_exclude_each_other_are_refused_in_one_line),
        cmocka_unit_test(test_impossible_stages_are_refused_in_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
