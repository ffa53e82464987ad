// test_calls.c -- the calls that each instruction makes: over which process group, in which array, in which
// type, on which elements. The lists of policies are golden text (test_schedule.c).
#include "parallel/calls.h"
#include "parallel/instructions.h"

#include "unit/parallel/planned.h"

typedef struct listed {
    plan *p;
    schedule s;
} listed;

static void listed_open(listed *l, const planned *x, const calls_block *blocks)
{
    err e = {0};
    l->p = planned_open(x);
    if (schedule_make(l->p, PASS_TRAIN, &l->s, &e) != OK ||
        calls_list(&l->s, l->p, blocks, &e) != OK)
        fail_msg("%s", e.text);
}

static void listed_close(listed *l)
{
    schedule_clear(&l->s);
    plan_free(l->p);
}

// The `number`-th instruction of a kind in the list, from 0.
static const schedule_instr *nth(const listed *l, schedule_instr_kind k, int number)
{
    for (int i = 0; i < l->s.count; i++)
        if (l->s.instr[i].kind == k && number-- == 0) return &l->s.instr[i];
    fail_msg("the list has too few %s", instr_name(k));
    return NULL;
}

static const schedule_call *calls_of(const listed *l, const schedule_instr *x)
{
    return l->s.call + x->first_call;
}

// Two blocks of a matrix of 64 x 32; two ranks of dp_shard.
static planned two_blocks(const char *name)
{
    planned x = {.shard = 2, .inner = name, .blocks = 2, .params = 2, .micros = 2, .reshard = 1};
    for (int i = 0; i < 2; i++) x.param[i] = (planned_param){.rows = 64, .cols = 32, .block = i};
    return x;
}

// ---- Gradients

// The first reduce-scatter writes this rank's shards where they are kept. Later ones work in the slot, and
// their shards are added to the kept ones.
static void test_later_micro_batches_reduce_in_their_slot(void **state)
{
    (void)state;
    const planned x = two_blocks("zero2");
    listed l;
    listed_open(&l, &x, NULL);
    for (int i = 0; i < 4; i++) {
        const schedule_instr *r = nth(&l, REDUCE_GRAD, i);
        assert_int_equal(r->calls, 1);
        assert_int_equal(calls_of(&l, r)->call.kind, CALL_REDUCE_SCATTER);
        assert_int_equal(calls_of(&l, r)->array, IN_BUCKET);
        assert_int_equal(calls_of(&l, r)->call.in_place, r->micro > 0);
        assert_true(calls_of(&l, r)->bytes == 64 * 32 * 4);
        assert_true(calls_of(&l, r)->sent == 64 * 32 * 4 / 2);
    }
    listed_close(&l);
}

// hybrid sharding sums shards over dp_replicate once, after the last micro-batch.
static void test_the_outer_level_is_reduced_in_the_shards(void **state)
{
    (void)state;
    planned x = two_blocks("zero3");
    listed l;
    x.replicate = 2;
    listed_open(&l, &x, NULL);
    for (int i = 0; i < 4; i++) {
        const schedule_instr *r = nth(&l, REDUCE_GRAD, i);
        const schedule_call *c = calls_of(&l, r);
        assert_int_equal(r->calls, r->last ? 2 : 1);
        assert_int_equal(c[0].group, MESH_AXIS(AXIS_DP_SHARD));
        if (!r->last) continue;
        assert_int_equal(c[1].call.kind, CALL_ALL_REDUCE);
        assert_int_equal(c[1].group, MESH_AXIS(AXIS_DP_REPLICATE));
        assert_int_equal(c[1].array, IN_SHARDS);
        assert_true(c[1].bytes == 64 * 32 * 4 / 2);
    }
    listed_close(&l);
}

static void test_a_hook_shortens_the_type(void **state)
{
    (void)state;
    planned x = two_blocks("zero2");
    listed l;
    x.hook.kind = HOOK_BF16;
    listed_open(&l, &x, NULL);
    const schedule_call *c = calls_of(&l, nth(&l, REDUCE_GRAD, 0));
    // Gradients are converted around the call, so it works in one array.
    assert_true(c->call.type == BF16 && c->compressed && c->starts && c->ends && c->call.in_place);
    assert_true(c->bytes == 64 * 32 * 2);
    assert_false(calls_of(&l, nth(&l, CLIP_GRAD_NORM, 0))->compressed);
    listed_close(&l);
}

// PowerSGD factors the matrix, with rank 2, and leaves the vector as it is.
static void test_powersgd_sends_factors_and_the_rest(void **state)
{
    (void)state;
    planned x = two_blocks("ddp");
    listed l;
    x.no_sync = true, x.blocks = 1;
    x.param[1] = (planned_param){.rows = 8};
    x.hook = (strategy_hook){
        .kind = HOOK_POWERSGD, .rank = 2, .start_step = 3, .min_compression_rate = 2};
    listed_open(&l, &x, NULL);
    const schedule_instr *r = nth(&l, REDUCE_GRAD, 0);
    const schedule_call *c = calls_of(&l, r);
    assert_int_equal(r->calls, 5);
    assert_true(c[0].call.kind == CALL_ALL_REDUCE && c[0].steps == STEPS_BEFORE_POWERSGD);
    assert_true(c[1].call.kind == CALL_REDUCE_SCATTER && c[1].starts && !c[1].ends);
    assert_true(c[2].call.kind == CALL_ALL_GATHER && !c[2].starts && c[2].ends);
    assert_true(c[1].bytes == 8 * 4 && c[2].bytes == 8 * 4);
    assert_true(c[3].array == IN_LEFT_FACTORS && c[3].call.count == 64 * 2);
    assert_true(c[4].array == IN_RIGHT_FACTORS && c[4].call.count == 32 * 2);
    for (int i = 1; i < 5; i++) assert_int_equal(c[i].steps, STEPS_OF_POWERSGD);
    listed_close(&l);
    x.hook.start_step = 0; // no step is before it
    listed_open(&l, &x, NULL);
    assert_int_equal(nth(&l, REDUCE_GRAD, 0)->calls, 4);
    listed_close(&l);
}

// ---- Passes

static void test_equal_passes_share_their_calls(void **state)
{
    (void)state;
    static const schedule_call tp[3] = {
        {.call = {.kind = CALL_ALL_GATHER, .type = BF16, .count = 4},
         .group = MESH_AXIS(AXIS_DP_SHARD)},
        {.call = {.kind = CALL_ALL_REDUCE, .type = F32, .count = 16},
         .group = MESH_AXIS(AXIS_DP_SHARD)},
        {.call = {.kind = CALL_REDUCE_SCATTER, .type = F32, .count = 2},
         .group = MESH_AXIS(AXIS_DP_SHARD)}};
    const calls_block blocks[2] = {{.call = tp, .forward = 1, .dgrad = 1, .wgrad = 1},
                                   {.call = tp, .forward = 1}};
    const planned x = two_blocks("ddp");
    listed l;
    listed_open(&l, &x, blocks);
    const schedule_instr *first = nth(&l, FORWARD, 0), *next = nth(&l, FORWARD, 2),
                         *last = nth(&l, FORWARD, 1), *back = nth(&l, BACKWARD, 1);
    assert_true(first->index == 0 && next->index == 0 && last->index == 1 && back->index == 0);
    assert_int_equal(first->first_call, next->first_call);
    assert_true(first->calls == 1 && last->calls == 1 && back->calls == 2);
    assert_int_equal(nth(&l, BACKWARD, 0)->calls, 0); // of block 1
    assert_true(calls_of(&l, first)->call.kind == CALL_ALL_GATHER &&
                calls_of(&l, first)->sent == 8);
    assert_int_equal(calls_of(&l, back)[0].call.kind, CALL_ALL_REDUCE);
    assert_true(calls_of(&l, back)[0].sent == 64 && calls_of(&l, back)[1].sent == 8);
    listed_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_later_micro_batches_reduce_in_their_slot),
        cmocka_unit_test(test_the_outer_level_is_reduced_in_the_shards),
        cmocka_unit_test(test_a_hook_shortens_the_type),
        cmocka_unit_test(test_powersgd_sends_factors_and_the_rest),
        cmocka_unit_test(test_equal_passes_share_their_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
