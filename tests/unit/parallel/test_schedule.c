// test_schedule.c -- the list of a step: complete lists of every policy, tier and pipeline equal golden
// text, and lists of larger models are good ones. verify.c says whether a list is right.
#include "base/file.h"
#include "parallel/instructions.h"
#include "unit/parallel/lists.h"

#define ALONE(m, ...) LISTS(PIPE_1F1B, 1, 1, (m), __VA_ARGS__)

// ---- Golden text

// The lines after "== name" up to the next.
static char *golden(const char *name)
{
    char *all = NULL, head[64];
    size_t bytes;
    err e = {0};
    if (file_read(TESTS_DIR "/golden/schedules.txt", &all, &bytes, &e) != OK)
        fail_msg("%s", e.text);
    snprintf(head, sizeof head, "== %s\n", name);
    char *from = strstr(all, head);
    if (!from) fail_msg("schedules.txt has no %s", name);
    from += strlen(head);
    char *end = strstr(from, "== ");
    const size_t length = end ? (size_t)(end - from) : strlen(from);
    memmove(all, from, length);
    all[length] = '\0';
    return all;
}

static void expect_golden(const char *name, const lists_of *x)
{
    lists l;
    text t = {0};
    char *expected = golden(name);
    lists_open(&l, x);
    for (int i = 0; i < l.stages; i++) {
        if (l.stages > 1) text_addf(&t, "stage %d\n", i);
        schedule_print(l.plan[i], &l.list[i], false, &t);
    }
    if (strcmp(t.chars, expected)) {
        fprintf(stderr, "ERROR: %s is\n%s\nexpected\n%s", name, t.chars,
                expected); // longer than cmocka prints
        fail();
    }
    text_clear(&t);
    free(expected);
    lists_close(&l);
}

static void test_lists_of_policies(void **state)
{
    (void)state;
    lists_of x = ALONE(2, .blocks = 2, .dp_shard = 2);
    expect_golden("ddp", &x);
    x.no_sync = true;
    expect_golden("ddp", &x);
    x.policy = "zero1";
    expect_golden("zero1", &x);
    x.policy = "zero2";
    expect_golden("zero1", &x); // the sum over micro-batches is full
    x.no_sync = false;
    expect_golden("zero2", &x);
    x.policy = "zero3", x.blocks = 3;
    expect_golden("zero3", &x);
    x.no_sync = true;
    expect_golden("zero3 no_sync", &x);
    x.reshard = -1, x.micros = 1;
    expect_golden("zero3 kept", &x);
    x.reshard = 2, x.dp_shard = 4;
    expect_golden("zero3 among 2", &x);
    x.evaluate = true;
    expect_golden("zero3 evaluate", &x);
}

static void test_lists_of_files(void **state)
{
    (void)state;
    expect_golden("zero1 files", &ALONE(2, .blocks = 2, .dp_shard = 2, .no_sync = true,
                                        .files = true, .policy = "zero1"));
    expect_golden("zero3 files", &ALONE(2, .blocks = 3, .dp_shard = 2, .no_sync = true,
                                        .files = true, .policy = "zero3"));
}

static void test_lists_of_pipelines(void **state)
{
    (void)state;
    expect_golden("gpipe", &LISTS(PIPE_GPIPE, 2, 1, 2));
    expect_golden("1f1b", &LISTS(PIPE_1F1B, 2, 1, 2));
    expect_golden("interleaved", &LISTS(PIPE_INTERLEAVED, 2, 2, 2));
    expect_golden("zb", &LISTS(PIPE_ZB, 2, 1, 2));
    expect_golden("1f1b tied", &LISTS(PIPE_1F1B, 2, 1, 2, .tied = true, .blocks = 4));
    expect_golden("1f1b zero2 tied", &LISTS(PIPE_1F1B, 2, 1, 2, .tied = true, .blocks = 3,
                                            .policy = "zero2", .dp_shard = 2));
}

// ---- Larger models

static bool is_pass(const schedule_instr *x)
{
    return instr_row_of(x->kind)->computes != COMPUTES_NOTHING;
}

typedef void check_fn(const plan *p, const schedule *s, const lists_of *x);

static void check_list(const lists_of *x, check_fn *check)
{
    lists l;
    lists_open(&l, x);
    for (int i = 0; i < l.stages; i++) check(l.plan_of[i], l.of[i], x);
    lists_close(&l);
}

// zero3 of 12 blocks, alone and under every pipeline.
static void check_all(lists_of x, check_fn *check)
{
    x.policy = x.policy ? x.policy : "zero3";
    x.dp_shard = 2, x.micros = 4, x.blocks = 12;
    for (int s = 0; s < PIPE_SCHEDULES; s++) {
        x.order = (pipeline_schedule)s;
        x.chunks = s == PIPE_INTERLEAVED ? 2 : 1;
        x.stages = s == PIPE_INTERLEAVED ? 2 : 1;
        check_list(&x, check);
        x.stages = 4;
        check_list(&x, check);
    }
}

static void two_are_unsharded(const plan *p, const schedule *s, const lists_of *x)
{
    int now = 0;
    (void)p;
    (void)x;
    assert_true(s->weights.count <= 2);
    for (int i = 0; i < s->count; i++) {
        now += (s->instr[i].kind == UNSHARD) - (s->instr[i].kind == RESHARD);
        assert_in_range(now, 0, 2);
    }
    assert_int_equal(now, 0);
}

static void test_at_most_two_blocks_are_unsharded(void **state)
{
    (void)state;
    check_all((lists_of){.no_sync = true}, two_are_unsharded);
    check_all((lists_of){.no_sync = false}, two_are_unsharded);
    check_all((lists_of){.evaluate = true}, two_are_unsharded);
    check_all((lists_of){.reshard = 2, .no_sync = true}, two_are_unsharded);
}

// Passes between an instruction and the next pass that uses its bucket.
static int passes_before_use(const plan *p, const schedule *s, int number)
{
    int passes = 0;
    for (int i = number + 1; i < s->count; i++) {
        if (!is_pass(&s->instr[i])) continue;
        if (plan_block_uses(p, s->instr[i].index, s->instr[number].index)) return passes;
        passes++;
    }
    fail_msg("instruction %d is never used", number);
    return 0;
}

static void unshards_are_early(const plan *p, const schedule *s, const lists_of *x)
{
    bool first = true;
    (void)x;
    for (int i = 0; i < s->count; i++) {
        if (s->instr[i].kind != UNSHARD) continue;
        assert_int_equal(passes_before_use(p, s, i), first ? 0 : 1);
        first = false;
    }
}

static void test_weights_are_unsharded_while_the_block_before_runs(void **state)
{
    (void)state;
    check_all((lists_of){.no_sync = true}, unshards_are_early);
    check_all((lists_of){.evaluate = true}, unshards_are_early);
}

static void unshards_in_forward_only(const plan *p, const schedule *s, const lists_of *x)
{
    (void)x;
    for (int i = 0; i < s->count; i++) {
        if (s->instr[i].kind != UNSHARD) continue;
        int k = i + 1;
        while (!is_pass(&s->instr[k]) || !plan_block_uses(p, s->instr[k].index, s->instr[i].index))
            k++;
        assert_int_equal(s->instr[k].kind, FORWARD);
    }
}

static void test_without_reshard_backward_unshards_nothing(void **state)
{
    (void)state;
    check_list(&ALONE(4, .blocks = 12, .dp_shard = 2, .policy = "zero3", .reshard = -1),
               unshards_in_forward_only);
}

// ---- Gradients

static int count_reduces(const schedule *s, int bucket)
{
    int count = 0;
    for (int i = 0; i < s->count; i++)
        count += s->instr[i].kind == REDUCE_GRAD && s->instr[i].index == bucket;
    return count;
}

static void reduces_at_the_end(const plan *p, const schedule *s, const lists_of *x)
{
    for (int k = 0; k < p->buckets; k++) assert_int_equal(count_reduces(s, k), 1);
    for (int i = 0; i < s->count; i++)
        if (s->instr[i].kind == REDUCE_GRAD)
            assert_true(s->instr[i].last && s->instr[i].micro == x->micros - 1);
}

static void reduces_every_time(const plan *p, const schedule *s, const lists_of *x)
{
    for (int k = 0; k < p->buckets; k++) assert_int_equal(count_reduces(s, k), x->micros);
    for (int i = 0; i < s->count; i++)
        if (s->instr[i].kind == REDUCE_GRAD)
            assert_int_equal(s->instr[i].last, s->instr[i].micro == x->micros - 1);
}

static void test_no_sync_reduces_after_the_last_micro_batch_only(void **state)
{
    (void)state;
    static const char *const names[] = {"ddp", "zero1", "zero2", "zero3"};
    for (int i = 0; i < 4; i++) {
        check_all((lists_of){.policy = names[i], .no_sync = true}, reduces_at_the_end);
        check_all((lists_of){.policy = names[i]}, i < 2 ? reduces_at_the_end : reduces_every_time);
    }
}

// Between the pass and its reduction stand only instructions that give memory back, and a message.
static void reduces_at_once(const plan *p, const schedule *s, const lists_of *x)
{
    (void)x;
    for (int i = 0; i < s->count; i++) {
        if (s->instr[i].kind != REDUCE_GRAD) continue;
        int k = i - 1;
        while (!is_pass(&s->instr[k])) {
            const schedule_instr_kind kind = s->instr[k--].kind;
            assert_true(kind == RESHARD || kind == RESHARD_POST_FORWARD || kind == SEND_GRAD ||
                        kind == REDUCE_GRAD);
        }
        assert_true(plan_block_uses(p, s->instr[k].index, s->instr[i].index));
        assert_int_equal(s->instr[k].micro, s->instr[i].micro);
        assert_true(s->instr[k].kind == BACKWARD || s->instr[k].kind == BACKWARD_WEIGHT);
    }
}

static void test_a_bucket_is_reduced_right_after_its_last_gradient(void **state)
{
    (void)state;
    static const char *const names[] = {"ddp", "zero1", "zero2", "zero3"};
    for (int i = 0; i < 4; i++) {
        check_all((lists_of){.policy = names[i]}, reduces_at_once);
        check_all((lists_of){.policy = names[i], .no_sync = true}, reduces_at_once);
    }
}

// Between the instruction that takes a gradient slot and the bucket's reduction, no other micro-batch adds to it.
static void slots_hold_one_micro_batch(const plan *p, const schedule *s, const lists_of *x)
{
    int holds[2 * LISTS_PARAMS];
    (void)x;
    for (int k = 0; k < p->buckets; k++) holds[k] = -1;
    for (int i = 0; i < s->count; i++) {
        const schedule_instr *y = &s->instr[i];
        const unsigned computes = instr_row_of(y->kind)->computes;
        if (y->kind == ALLOC_GRAD) holds[y->index] = y->micro;
        for (int k = 0; computes && k < p->buckets; k++)
            if (plan_block_writes(p, y->index, k) & computes) assert_int_equal(holds[k], y->micro);
        if (y->kind == REDUCE_GRAD) {
            assert_int_equal(holds[y->index], y->micro);
            holds[y->index] = -1;
        }
    }
}

static void test_a_gradient_slot_holds_one_micro_batch(void **state)
{
    (void)state;
    static const char *const names[] = {"zero2", "zero3"};
    for (int i = 0; i < 2; i++) {
        check_all((lists_of){.policy = names[i], .passes = true}, slots_hold_one_micro_batch);
        check_all(
            (lists_of){.policy = names[i], .both = true, .second_policy = names[i], .passes = true},
            slots_hold_one_micro_batch);
    }
}

// ---- Files

static int find_of_bucket(const schedule *s, schedule_instr_kind kind, plan_state what, int bucket)
{
    for (int i = 0; i < s->count; i++) {
        const schedule_instr *x = &s->instr[i];
        if (x->kind == kind && x->index == bucket && (kind == OPTIMIZER_STEP || x->what == what))
            return i;
    }
    fail_msg("no %s of %s of bucket %d", instr_name(kind), plan_state_name(what), bucket);
    return -1;
}

// The state of the first buckets, one for each slot, is read before the first backward of the last
// micro-batch. That of every other bucket is read when the bucket that had its slot and the next one
// have been updated.
static void state_is_read_ahead(const plan *p, const schedule *s, const lists_of *x)
{
    const int slots = x->slots ? x->slots : 3;
    const plan_state what = PLAN_OPTIMIZER_STATE;
    int backward = 0;
    while (!is_pass(&s->instr[backward]) || s->instr[backward].kind == FORWARD ||
           s->instr[backward].micro != p->o.micros - 1)
        backward++;
    assert_int_equal(s->state[what].count, p->buckets < slots ? p->buckets : slots);
    for (int k = 0; k < p->buckets; k++) {
        const int in = find_of_bucket(s, SWAP_IN, what, k),
                  step = find_of_bucket(s, OPTIMIZER_STEP, what, k);
        assert_int_equal(s->instr[in].slot, s->instr[step].state[what]);
        if (k < slots) {
            assert_true(in < backward);
            continue;
        }
        assert_true(in > find_of_bucket(s, SWAP_OUT, what, k - slots + 1));
        assert_true(in < find_of_bucket(s, OPTIMIZER_STEP, what, k - slots + 2));
    }
}

static void test_optimizer_state_is_read_ahead_of_its_update(void **state)
{
    (void)state;
    for (int slots = 0; slots <= 5; slots += slots ? 1 : 2) {
        check_all((lists_of){.policy = "zero1", .no_sync = true, .files = true, .slots = slots},
                  state_is_read_ahead);
        check_all((lists_of){.no_sync = true, .files = true, .slots = slots}, state_is_read_ahead);
    }
}

// The first two buckets are read at the start of the list, when no pass runs. Between two uses by a
// chunk of one block there is only one pass.
static void weights_are_read_early(const plan *p, const schedule *s, const lists_of *x)
{
    int seen = 0, passes = 0, read[LISTS_BLOCKS] = {0}; // read: after how many passes
    if (2 * p->chunks > x->blocks) return;
    for (int i = 0; i < s->count && s->instr[i].kind != CLIP_GRAD_NORM; i++) {
        const schedule_instr *y = &s->instr[i];
        passes += is_pass(y);
        if (y->kind == SWAP_IN && y->what == PLAN_WEIGHTS) read[y->index] = passes;
        if (y->kind == UNSHARD && ++seen > 2) assert_true(passes > read[y->index]);
    }
}

static void test_weights_are_read_while_the_block_before_their_unshard_runs(void **state)
{
    (void)state;
    check_all((lists_of){.no_sync = true, .files = true}, weights_are_read_early);
    check_all((lists_of){.evaluate = true, .no_sync = true, .files = true}, weights_are_read_early);
}

// ---- Memory

// Both slots of an instruction are in range, and two values never share a slot.
static void act_grad_slots_alternate(const plan *p, const schedule *s, const lists_of *x)
{
    assert_int_equal(s->act_grad_slots, x->stages > 1 ? 4 : 2);
    for (int i = 0; i < s->count; i++) {
        const schedule_instr *y = &s->instr[i];
        const unsigned computes = instr_row_of(y->kind)->computes;
        if (computes != (COMPUTES_DGRAD | COMPUTES_WGRAD)) continue;
        assert_true((y->grad_in < 0) == (y->index == p->o.blocks - 1));
        assert_true((y->grad_out < 0) == (y->index == 0));
        assert_true(y->grad_in < s->act_grad_slots && y->grad_out < s->act_grad_slots);
        if (y->grad_in >= 0) assert_true((y->grad_in == y->grad_out) == x->in_place);
    }
}

static void test_activation_gradients_alternate_between_few_slots(void **state)
{
    (void)state;
    check_all((lists_of){.no_sync = true}, act_grad_slots_alternate);
    // In place all blocks of a chunk use one slot, and block 0 writes none.
    lists l;
    lists_open(&l, &ALONE(2, .blocks = 6, .in_place = true));
    for (int i = 0; i < l.list[0].count; i++) {
        const schedule_instr *y = &l.list[0].instr[i];
        if (y->kind == BACKWARD && y->index > 0 && y->index < 5)
            assert_int_equal(y->grad_in, y->grad_out);
    }
    lists_close(&l);
}

// With a post-forward group no file is read for a backward: all that is read is unsharded.
static void test_weights_that_are_read_are_unsharded(void **state)
{
    (void)state;
    lists l;
    int read = 0, used = 0, last = 0; // pass of the list
    lists_open(&l, &ALONE(4, .blocks = 9, .dp_shard = 4, .policy = "zero3", .reshard = 2,
                          .no_sync = true, .files = true));
    for (int i = 0; i < l.list[0].count; i++)
        if (is_pass(&l.list[0].instr[i])) last = i;
    for (int i = 0; i < last; i++) {
        const schedule_instr *y = &l.list[0].instr[i];
        read += y->kind == SWAP_IN && y->what == PLAN_WEIGHTS;
        used += y->kind == UNSHARD && !y->post_forward;
    }
    assert_int_equal(read, used);
    lists_close(&l);
}

static void test_activations_of_as_many_micro_batches_live_as_the_pipeline_needs(void **state)
{
    (void)state;
    lists l;
    for (int s = 0; s < PIPE_SCHEDULES; s++) {
        if (s == PIPE_INTERLEAVED) continue;
        lists_open(&l, &LISTS((pipeline_schedule)s, 4, 1, 8));
        for (int i = 0; i < 4; i++) {
            const int needed = s == PIPE_GPIPE ? 8 : s == PIPE_1F1B ? 4 - i : 4;
            assert_int_equal(l.list[i].act_slots[0], needed);
            assert_int_equal(l.list[i].wgrad_slots[0], s == PIPE_ZB ? i + 1 : 0);
        }
        lists_close(&l);
    }
    lists_open(&l, &ALONE(8, .blocks = 3)); // each backward follows its forward
    assert_int_equal(l.list[0].act_slots[0], 1);
    lists_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_of_policies),
        cmocka_unit_test(test_lists_of_files),
        cmocka_unit_test(test_lists_of_pipelines),
        cmocka_unit_test(test_at_most_two_blocks_are_unsharded),
        cmocka_unit_test(test_weights_are_unsharded_while_the_block_before_runs),
        cmocka_unit_test(test_without_reshard_backward_unshards_nothing),
        cmocka_unit_test(test_no_sync_reduces_after_the_last_micro_batch_only),
        cmocka_unit_test(test_a_bucket_is_reduced_right_after_its_last_gradient),
        cmocka_unit_test(test_a_gradient_slot_holds_one_micro_batch),
        cmocka_unit_test(test_optimizer_state_is_read_ahead_of_its_update),
        cmocka_unit_test(test_weights_are_read_while_the_block_before_their_unshard_runs),
        cmocka_unit_test(test_activation_gradients_alternate_between_few_slots),
        cmocka_unit_test(test_weights_that_are_read_are_unsharded),
        cmocka_unit_test(test_activations_of_as_many_micro_batches_live_as_the_pipeline_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
