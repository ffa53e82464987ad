// test_frozen.c -- lists of two parameter groups: verify.h accepts them under every schedule, policy and
// tier; frozen parameters take part in nothing but forward and dgrad; and faults in such lists are
// found.
#include "parallel/instructions.h"
#include "parallel/verify.h"

#include "unit/parallel/lists.h"

// ---- Lists that are right

static void expect_verified(const lists_of *x)
{
    lists l;
    err e = {0};
    lists_open(&l, x);
    if (schedule_verify(l.of, l.plan_of, l.stages, false, &e) != OK)
        fail_msg("%s, %d stages, second group %d, %s and %s: %s", pipeline_schedule_name(x->order),
                 x->stages, x->second, x->policy, x->second_policy, e.text);
    lists_close(&l);
}

// Both groups under every pair of policies, in memory and in files.
static void verify_policies(lists_of x)
{
    static const char *const names[] = {"ddp", "zero2", "zero3", "fsdp_no_sync"};
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++)
            for (int bits = 0; bits < 16; bits++) {
                x.policy = names[a], x.second_policy = names[b];
                x.files = bits & 1;
                x.no_sync = x.files || bits & 2;
                x.second_files = bits & 4 && x.frozen;
                x.evaluate = bits & 8;
                expect_verified(&x);
            }
}

static lists_of pipeline_of(int order, int stages)
{
    return (lists_of){.order = stages == 1 ? PIPE_1F1B : (pipeline_schedule)order,
                      .stages = stages,
                      .chunks = stages > 1 && order == PIPE_INTERLEAVED ? 2 : 1,
                      .micros = 4,
                      .blocks = 8,
                      .dp_shard = 4};
}

static void test_lists_of_two_groups_pass(void **state)
{
    (void)state;
    for (int s = 0; s < PIPE_SCHEDULES; s++)
        for (int stages = 1; stages <= 4; stages *= 2)
            for (int frozen = 0; frozen < 2; frozen++) {
                lists_of x = pipeline_of(s, stages);
                x.frozen = frozen;
                x.both = true;
                verify_policies(x);
                x.both = false, x.second = 4;
                verify_policies(x);
                x.all_backward = true, x.in_place = true;
                verify_policies(x);
            }
}

static void test_lists_pass_wherever_backward_begins(void **state)
{
    (void)state;
    for (int s = 0; s < PIPE_SCHEDULES; s++)
        for (int stages = 1; stages <= 4; stages *= 2)
            for (int first = 1; first < 8; first++)
                for (int bits = 0; bits < 12; bits++) {
                    lists_of x = pipeline_of(s, stages);
                    x.second = first, x.frozen = true;
                    x.second_policy = x.policy = "zero3";
                    x.reshard = bits % 3 - 1 < 1 ? bits % 3 - 1 : 2;
                    x.in_place = bits / 3 & 1;
                    x.second_files = bits / 6;
                    expect_verified(&x);
                }
}

// ---- What frozen parameters take part in

static bool is_frozen(const plan *p, int bucket)
{
    return plan_group_of(p, bucket)->o.frozen;
}

static void expect_no_work_for_frozen(const plan *p, const schedule_instr *x)
{
    const instr_row *row = instr_row_of(x->kind);
    if (row->subject == ABOUT_BUCKET && is_frozen(p, x->index)) {
        const bool uses = x->kind == UNSHARD || x->kind == RESHARD ||
                          (x->kind == SWAP_IN && x->what == PLAN_WEIGHTS);
        if (!uses) fail_msg("%s of frozen bucket %d", row->name, x->index);
    }
    const unsigned backward = COMPUTES_DGRAD | COMPUTES_WGRAD;
    if (row->computes & backward) assert_true(x->index >= p->o.first_backward);
    if (x->kind == SEND_GRAD) assert_true(x->index > p->o.first_backward);
    if (x->kind == BACKWARD && x->index == p->o.first_backward) assert_int_equal(x->grad_out, -1);
}

static int count_kind(const schedule *s, schedule_instr_kind k)
{
    int count = 0;
    for (int i = 0; i < s->count; i++) count += s->instr[i].kind == k;
    return count;
}

static void test_frozen_parameters_have_neither_gradients_nor_updates(void **state)
{
    (void)state;
    for (int s = 0; s < PIPE_SCHEDULES; s++)
        for (int first = 1; first < 8; first++) {
            lists l;
            lists_of x = pipeline_of(s, 2);
            x.second = first, x.frozen = true, x.second_policy = "zero3", x.second_files = true;
            x.reshard = 2;
            lists_open(&l, &x);
            int backwards = 0, updates = 0, sends = 0, receives = 0;
            for (int i = 0; i < 2; i++) {
                for (int k = 0; k < l.list[i].count; k++)
                    expect_no_work_for_frozen(l.plan[i], &l.list[i].instr[k]);
                backwards += count_kind(&l.list[i], s == PIPE_ZB ? BACKWARD_INPUT : BACKWARD);
                updates += count_kind(&l.list[i], OPTIMIZER_STEP);
                sends += count_kind(&l.list[i], SEND_GRAD);
                receives += count_kind(&l.list[i], RECV_GRAD);
            }
            assert_int_equal(backwards, (8 - first) * 4);
            assert_int_equal(updates, 8 - first);
            assert_int_equal(sends, receives);
            // A chunk sends gradients if a block before it has a backward.
            const int each = 8 / (2 * x.chunks);
            assert_int_equal(sends, 4 * (2 * x.chunks - 1 - first / each));
            lists_close(&l);
        }
}

static void test_a_stage_without_a_backward_keeps_nothing(void **state)
{
    (void)state;
    for (int s = 0; s < PIPE_SCHEDULES; s++) {
        if (s == PIPE_INTERLEAVED) continue; // both of its stages have a chunk that trains
        lists l;
        lists_of x = pipeline_of(s, 2);
        x.second = 4, x.frozen = true;
        lists_open(&l, &x);
        assert_int_equal(l.list[0].act_slots[0], 1);
        assert_int_equal(l.list[0].wgrad_slots[0], 0);
        assert_int_equal(l.list[0].act_grad_slots, 0);
        assert_int_equal(l.list[0].gradients.count, 0);
        assert_true(l.list[1].act_slots[0] >= 1 && l.list[1].act_grad_slots == 4);
        lists_close(&l);
    }
}

// ---- Faults

static int find(const schedule *s, schedule_instr_kind kind, int micro, int index)
{
    for (int i = 0; i < s->count; i++)
        if (s->instr[i].kind == kind && s->instr[i].micro == micro && s->instr[i].index == index)
            return i;
    fail_msg("the list has no %s of micro %d, index %d", instr_name(kind), micro, index);
    return 0;
}

static void insert(schedule *s, int at, schedule_instr x)
{
    schedule_instr *all = realloc(s->instr, ((size_t)s->count + 1) * sizeof *all);
    assert_non_null(all);
    memmove(all + at + 1, all + at, (size_t)(s->count - at) * sizeof *all);
    all[at] = x;
    s->instr = all;
    s->count++;
}

static void drop(schedule *s, int at)
{
    memmove(s->instr + at, s->instr + at + 1, (size_t)(--s->count - at) * sizeof *s->instr);
}

static void expect_refused(lists *l, const char *says)
{
    err e = {0};
    assert_int_equal(schedule_verify(l->of, l->plan_of, l->stages, false, &e), E_INTERNAL);
    if (!strstr(e.text, says)) fail_msg("found \"%s\", expected \"%s\"", e.text, says);
    lists_close(l);
}

// The frozen first half of 8 blocks on two stages; stage 0 has no backward.
static schedule *open_half(lists *l, const char *name, bool files, int stages)
{
    lists_of x = pipeline_of(PIPE_1F1B, stages);
    x.second = 4, x.frozen = true, x.second_policy = name, x.second_files = files;
    lists_open(l, &x);
    return &l->list[0];
}

static int frozen_bucket(const plan *p)
{
    int k = 0;
    while (!is_frozen(p, k)) k++;
    return k;
}

static void test_work_for_frozen_parameters_is_found(void **state)
{
    (void)state;
    static const schedule_instr_kind kinds[] = {REDUCE_GRAD, OPTIMIZER_STEP, ALL_GATHER_UPDATED};
    static const char *const says[] = {"are not computed", "are not reduced", "are not updated"};
    for (int i = 0; i < 3; i++) {
        lists l;
        schedule *s = open_half(&l, "ddp", false, 1);
        const int clip = find(s, CLIP_GRAD_NORM, 0, 0), k = frozen_bucket(l.plan[0]);
        insert(s, clip + (kinds[i] != REDUCE_GRAD),
               (schedule_instr){
                   .kind = kinds[i], .index = k, .slot = -1, .state = {-1, -1, -1}, .last = true});
        expect_refused(&l, says[i]);
    }
}

static void test_frozen_weights_are_not_written_to_their_file(void **state)
{
    (void)state;
    lists l;
    schedule *s = open_half(&l, "zero3", true, 1);
    const int k = frozen_bucket(l.plan[0]);
    schedule_instr x = {.kind = SWAP_IN, .index = k, .slot = 0, .what = PLAN_WEIGHTS};
    insert(s, s->count, x);
    x.kind = SWAP_OUT;
    insert(s, s->count, x);
    expect_refused(&l, "are not updated");
}

static void test_a_backward_of_frozen_blocks_is_found(void **state)
{
    (void)state;
    lists l;
    schedule *s = open_half(&l, "ddp", false, 1);
    schedule_instr x = s->instr[find(s, BACKWARD, 0, 4)];
    const int at = find(s, BACKWARD, 0, 4) + 1;
    x.index = 3;
    insert(s, at, x);
    expect_refused(&l, "block 3");
}

static void test_missing_passes_and_updates_are_found(void **state)
{
    (void)state;
    lists l;
    schedule *s = open_half(&l, "ddp", false, 1);
    drop(s, find(s, BACKWARD, 3, 4));
    expect_refused(&l, "the weight gradient of micro 3 block 4 is not computed");
    s = open_half(&l, "zero3", false, 1);
    drop(s, find(s, UNSHARD, 0, frozen_bucket(l.plan[0])));
    expect_refused(&l, "are not unsharded");
    s = open_half(&l, "zero3", true, 1);
    drop(s, find(s, SWAP_IN, 0, frozen_bucket(l.plan[0])));
    expect_refused(&l, "is not swapped in");
}

// Without SEND_ACT, which ends them, the activations of a chunk without a backward keep their slot.
static void test_slots_that_are_not_freed_are_found(void **state)
{
    (void)state;
    lists l;
    schedule *s = open_half(&l, "ddp", false, 2);
    const int send = find(s, SEND_ACT, 0, 3), next = find(s, FORWARD, 1, 0);
    assert_true(send < next);
    const schedule_instr moved = s->instr[send];
    drop(s, send);
    insert(s, next, moved); // now between FORWARD micro 1 block 0 and block 1
    expect_refused(&l, "activation slot 0 still holds micro 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_of_two_groups_pass),
        cmocka_unit_test(test_lists_pass_wherever_backward_begins),
        cmocka_unit_test(test_frozen_parameters_have_neither_gradients_nor_updates),
        cmocka_unit_test(test_a_stage_without_a_backward_keeps_nothing),
        cmocka_unit_test(test_work_for_frozen_parameters_is_found),
        cmocka_unit_test(test_frozen_weights_are_not_written_to_their_file),
        cmocka_unit_test(test_a_backward_of_frozen_blocks_is_found),
        cmocka_unit_test(test_missing_passes_and_updates_are_found),
        cmocka_unit_test(test_slots_that_are_not_freed_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
