// test_simulate.c -- simulated lists take the seconds of the analytic bubble, and an instruction waits
// for what it reads and for nothing else.
#include "parallel/simulate.h"

#include "unit/parallel/lists.h"

#include <math.h>

static void simulate(const lists *l, simulate_seconds *seconds, const void *given, bool overlap,
                     simulate_result *r)
{
    const simulate_costs c = {seconds, given, overlap, false};
    err e = {0};
    if (schedule_simulate(l->of, l->plan_of, l->stages, &c, r, &e) != OK) fail_msg("%s", e.text);
}

// All blocks alike.
static void simulate_passes(const lists_of *x, double forward, double dgrad, bool overlap,
                            simulate_result *r)
{
    double f[LISTS_BLOCKS], b[LISTS_BLOCKS];
    lists l;
    for (int i = 0; i < LISTS_BLOCKS; i++) f[i] = forward, b[i] = dgrad; // wgrad takes as long
    lists_open(&l, x);
    simulate(&l, simulate_block_seconds, &(simulate_blocks){f, b, b}, overlap, r);
    lists_close(&l);
}

static void expect_analytic(const lists_of *x, double dgrad)
{
    for (int overlap = 0; overlap < 2; overlap++) {
        simulate_result r;
        simulate_passes(x, 1, dgrad, overlap, &r);
        double analytic = pipeline_bubble(x->order, x->stages, x->chunks, x->micros);
        if (fabs(r.bubble - analytic) > 1e-12)
            fail_msg("%s, %d stages of %d chunks, %d micro-batches: bubble %g, analytic %g",
                     pipeline_schedule_name(x->order), x->stages, x->chunks, x->micros, r.bubble,
                     analytic);
        simulate_result_clear(&r);
    }
}

static void test_simulated_bubbles_equal_the_analytic_ones(void **state)
{
    (void)state;
    for (int p = 2; p <= LISTS_STAGES; p++)
        for (int m = 1; m <= 4 * p; m++) {
            for (int half = 1; half <= 3; half++) {
                expect_analytic(&LISTS(PIPE_GPIPE, p, 1, m), 0.5 * half);
                expect_analytic(&LISTS(PIPE_1F1B, p, 1, m), 0.5 * half);
                for (int v = 2; v <= 3 && m % p == 0; v++)
                    expect_analytic(&LISTS(PIPE_INTERLEAVED, p, v, m), 0.5 * half);
            }
            expect_analytic(&LISTS(PIPE_ZB, p, 1, m), 1);
        }
}

// Forward, dgrad and wgrad take one second each. The last stage cannot begin before p-1 forwards have
// ended, so no order is idle for less than p-1 seconds. The bubble of 1F1B, whose step is longer,
// relates to that as (m+p-1)/(3m+p-1).
static void test_zero_bubble_is_idle_a_third_of_the_seconds_of_1f1b(void **state)
{
    (void)state;
    for (int p = 2; p <= LISTS_STAGES; p++)
        for (int m = p; m <= 4 * p; m++) {
            simulate_result zero, one;
            simulate_passes(&LISTS(PIPE_ZB, p, 1, m), 1, 1, true, &zero);
            simulate_passes(&LISTS(PIPE_1F1B, p, 1, m), 1, 1, true, &one);
            for (int i = 0; i < p; i++) {
                assert_true(zero.idle[i] == p - 1);
                assert_true(one.idle[i] == 3 * (p - 1));
            }
            double ratio = zero.bubble / one.bubble;
            assert_true(fabs(ratio - (m + p - 1.0) / (3 * m + p - 1.0)) < 1e-12);
            assert_true(m < 2 * p || ratio < 3.0 / 7);
            simulate_result_clear(&zero);
            simulate_result_clear(&one);
        }
}

// ---- What is waited for

typedef struct kind_costs {
    double of[INSTRS];
} kind_costs;

static double seconds_by_kind(const void *given, int stage, const schedule_instr *x)
{
    (void)stage;
    return ((const kind_costs *)given)->of[x->kind];
}

static void expect_seconds(const lists_of *x, const kind_costs *c, double strict, double overlapped)
{
    for (int overlap = 0; overlap < 2; overlap++) {
        lists l;
        simulate_result r;
        lists_open(&l, x);
        simulate(&l, seconds_by_kind, c, overlap, &r);
        assert_true(fabs(r.seconds - (overlap ? overlapped : strict)) < 1e-12);
        simulate_result_clear(&r);
        lists_close(&l);
    }
}

static void test_a_message_takes_its_seconds(void **state)
{
    (void)state;
    const kind_costs c = {{[FORWARD] = 1, [BACKWARD] = 2, [SEND_ACT] = 10, [SEND_GRAD] = 20}};
    // There and back: nothing can overlap with one micro-batch.
    expect_seconds(&LISTS(PIPE_1F1B, 2, 1, 1), &c, 36, 36);
}

static void test_unshard_overlaps_the_block_before(void **state)
{
    (void)state;
    const kind_costs c = {{[FORWARD] = 2, [BACKWARD] = 4, [UNSHARD] = 1}};
    // Three UNSHARDs: of both blocks, and of the first again for its backward. Only the very first
    // costs time.
    expect_seconds(&LISTS(PIPE_1F1B, 1, 1, 1, .blocks = 2, .policy = "zero3", .dp_shard = 2), &c,
                   15, 13);
}

static void test_reductions_overlap_the_next_backward(void **state)
{
    (void)state;
    const kind_costs c = {{[FORWARD] = 1, [BACKWARD] = 3, [REDUCE_GRAD] = 2}};
    expect_seconds(&LISTS(PIPE_1F1B, 1, 1, 1, .blocks = 3), &c, 18, 14);
}

static void test_all_batches_are_loaded_first(void **state)
{
    (void)state;
    const kind_costs c = {{[FORWARD] = 1, [BACKWARD] = 3, [LOAD_BATCH] = 5}};
    expect_seconds(&LISTS(PIPE_1F1B, 1, 1, 2, .blocks = 1), &c, 18, 18);
}

// The updated weights are gathered on the compute stream, which the next update waits for.
static void test_updated_weights_are_gathered_before_the_next_update(void **state)
{
    (void)state;
    const kind_costs c = {{[OPTIMIZER_STEP] = 1, [ALL_GATHER_UPDATED] = 3}};
    expect_seconds(&LISTS(PIPE_1F1B, 1, 1, 1, .blocks = 2, .policy = "zero1", .dp_shard = 2), &c, 8,
                   8);
}

static void test_a_collective_begins_when_the_last_stage_is_there(void **state)
{
    (void)state;
    const kind_costs c = {
        {[FORWARD] = 1, [BACKWARD] = 2, [CLIP_GRAD_NORM] = 5, [OPTIMIZER_STEP] = 1}};
    lists l;
    simulate_result r;
    lists_open(&l, &LISTS(PIPE_1F1B, 3, 1, 3));
    simulate(&l, seconds_by_kind, &c, true, &r);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < l.list[i].count; k++) {
            if (l.list[i].instr[k].kind != CLIP_GRAD_NORM) continue;
            assert_true(r.span[i][k].start == 15); // stage 0 is the last to end: 3 * 3 + 2 * 3
            assert_true(r.span[i][k].end == 20);
        }
    assert_true(r.seconds == 21);
    simulate_result_clear(&r);
    lists_close(&l);
}

// Different for every instruction, so that an order that is not kept shows.
static double uneven_seconds(const void *given, int stage, const schedule_instr *x)
{
    (void)given;
    return 1 + (x->kind * 7 + x->micro * 3 + x->index * 5 + stage) % 11;
}

static void check_times(const lists *l, const simulate_result *r)
{
    for (int i = 0; i < l->stages; i++) {
        const schedule *s = &l->list[i];
        assert_true(fabs(r->busy[i] + r->idle[i] - r->seconds) < 1e-9);
        double compute = 0;
        for (int k = 0; k < s->count; k++) {
            const schedule_instr *x = &s->instr[k];
            const simulate_span *t = &r->span[i][k];
            assert_true(t->start >= 0 && t->end <= r->seconds);
            if (x->kind < FORWARD || x->kind == SEND_ACT || x->kind > BACKWARD_WEIGHT) continue;
            if (x->kind == RECV_GRAD) continue;
            assert_true(t->start >= compute); // passes keep their order
            compute = t->end;
        }
    }
}

static void test_overlap_only_ever_saves_time(void **state)
{
    (void)state;
    for (int p = 1; p <= 4; p++)
        for (int s = 0; s < PIPE_SCHEDULES; s++)
            for (int bits = 0; bits < 4; bits++) {
                if (p == 1 && s == PIPE_INTERLEAVED) continue;
                const lists_of x = {.order = (pipeline_schedule)s,
                                    .stages = p,
                                    .chunks = s == PIPE_INTERLEAVED ? 2 : 1,
                                    .micros = 2 * p,
                                    .blocks = 9,
                                    .policy = bits & 1 ? "zero3" : "ddp",
                                    .dp_shard = 2,
                                    .no_sync = true,
                                    .files = bits & 2,
                                    .tied = true};
                lists l;
                simulate_result strict, overlapped;
                lists_open(&l, &x);
                simulate(&l, uneven_seconds, NULL, false, &strict);
                simulate(&l, uneven_seconds, NULL, true, &overlapped);
                check_times(&l, &strict);
                check_times(&l, &overlapped);
                // In ddp only reductions overlap, and the other stages may be what takes long.
                assert_true(bits > 0 ? overlapped.seconds < strict.seconds
                                     : overlapped.seconds <= strict.seconds);
                simulate_result_clear(&strict);
                simulate_result_clear(&overlapped);
                lists_close(&l);
            }
}

static void test_lists_that_deadlock_are_refused(void **state)
{
    (void)state;
    const kind_costs free_of_cost = {{0}};
    lists l;
    simulate_result r;
    err e = {0};
    lists_open(&l, &LISTS(PIPE_1F1B, 2, 1, 2));
    l.list[1].count--; // the last ALL_GATHER_UPDATED, which no stage waits for
    const simulate_costs c = {seconds_by_kind, &free_of_cost, true, false};
    assert_int_equal(schedule_simulate(l.of, l.plan_of, 2, &c, &r, &e), OK);
    simulate_result_clear(&r);
    l.list[1].count = 0;
    assert_int_equal(schedule_simulate(l.of, l.plan_of, 2, &c, &r, &e), E_INTERNAL);
    assert_non_null(strstr(e.text, "deadlocks"));
    simulate_result_clear(&r);
    lists_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simulated_bubbles_equal_the_analytic_ones),
        cmocka_unit_test(test_zero_bubble_is_idle_a_third_of_the_seconds_of_1f1b),
        cmocka_unit_test(test_a_message_takes_its_seconds),
        cmocka_unit_test(test_unshard_overlaps_the_block_before),
        cmocka_unit_test(test_reductions_overlap_the_next_backward),
        cmocka_unit_test(test_all_batches_are_loaded_first),
        cmocka_unit_test(test_updated_weights_are_gathered_before_the_next_update),
        cmocka_unit_test(test_a_collective_begins_when_the_last_stage_is_there),
        cmocka_unit_test(test_overlap_only_ever_saves_time),
        cmocka_unit_test(test_lists_that_deadlock_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
