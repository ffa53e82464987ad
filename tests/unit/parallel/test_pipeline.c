// test_pipeline.c -- the order of passes of every pipeline schedule, and the division of a model
// into chunks. test_simulate.c compares the analytic bubble with the simulated one.
#include "parallel/pipeline.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_STAGES = 8, MOST_MICROS = 4 * MOST_STAGES, MOST_CHUNKS = 3 };

// "F0.1 B0.1": kind, micro-batch, chunk.
static void list_text(const pipeline_list *l, char *out, size_t room)
{
    size_t length = 0;
    for (int i = 0; i < l->count; i++) {
        const pipeline_op *o = &l->ops[i];
        length += (size_t)snprintf(out + length, room - length, "%s%c%d.%d", i ? " " : "",
                                   "FBIW"[o->kind], o -> micro, o -> chunk);
        assert_true(length < room);
    }
}

static void expect_list(pipeline_schedule s, int stages, int chunks, int micros, int stage,
                        const char *expected)
{
    char found[4096];
    pipeline_list l;
    err e = {0};
    if (pipeline_make(s, stages, chunks, micros, stage, &l, &e) != OK) fail_msg("%s", e.text);
    list_text(&l, found, sizeof found);
    assert_string_equal(found, expected);
    pipeline_list_clear(&l);
}

static void test_orders_are_those_of_the_papers(void **state)
{
    (void)state;
    expect_list(PIPE_GPIPE, 2, 1, 3, 0, "F0.0 F1.0 F2.0 B0.0 B1.0 B2.0");
    expect_list(PIPE_1F1B, 4, 1, 4, 1, "F0.0 F1.0 F2.0 B0.0 F3.0 B1.0 B2.0 B3.0");
    expect_list(PIPE_1F1B, 4, 1, 3, 3, "F0.0 B0.0 F1.0 B1.0 F2.0 B2.0");
    // Two stages of two chunks: 4 forwards ahead on the first stage, 2 on the last.
    expect_list(PIPE_INTERLEAVED, 2, 2, 4, 0,
                "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0");
    expect_list(PIPE_INTERLEAVED, 2, 2, 4, 1,
                "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
    expect_list(PIPE_ZB, 3, 1, 4, 0, "F0.0 F1.0 F2.0 I0.0 W0.0 F3.0 I1.0 W1.0 I2.0 W2.0 I3.0 W3.0");
    expect_list(PIPE_ZB, 3, 1, 4, 2, "F0.0 I0.0 F1.0 I1.0 F2.0 I2.0 W0.0 F3.0 I3.0 W1.0 W2.0 W3.0");
}

static void test_one_stage_saves_one_micro_batch_under_every_schedule(void **state)
{
    (void)state;
    for (int s = 0; s < PIPE_SCHEDULES; s++)
        if (s != PIPE_INTERLEAVED)
            expect_list((pipeline_schedule)s, 1, 1, 2, 0, "F0.0 B0.0 F1.0 B1.0");
    expect_list(PIPE_INTERLEAVED, 1, 2, 2, 0, "F0.0 F0.1 B0.1 B0.0 F1.0 F1.1 B1.1 B1.0");
}

// What a list does, in passes of one chunk for one micro-batch.
typedef struct pass_counts {
    int done[4][MOST_CHUNKS]; // by kind and chunk
    int most_saved;           // the most that are between forward and wgrad
    int most_waiting;         // the most that are between forward and dgrad
} pass_counts;

static void count_list(const pipeline_list *l, int chunks, pass_counts *c)
{
    *c = (pass_counts){0};
    int saved = 0, waiting = 0;
    for (int i = 0; i < l->count; i++) {
        const pipeline_op *o = &l->ops[i];
        assert_in_range(o->chunk, 0, chunks - 1);
        assert_int_equal(o->micro, c->done[o->kind][o->chunk]++); // 0, 1, 2 …
        int begun = c->done[PIPE_FORWARD][o->chunk];
        assert_true(o->kind == PIPE_FORWARD || o->micro < begun);
        if (o->kind == PIPE_BACKWARD_WEIGHT)
            assert_true(o->micro < c->done[PIPE_BACKWARD_INPUT][o->chunk]);
        waiting += (o->kind == PIPE_FORWARD) -
                   (o->kind == PIPE_BACKWARD || o->kind == PIPE_BACKWARD_INPUT);
        saved += (o->kind == PIPE_FORWARD) -
                 (o->kind == PIPE_BACKWARD || o->kind == PIPE_BACKWARD_WEIGHT);
        if (saved > c->most_saved) c->most_saved = saved;
        if (waiting > c->most_waiting) c->most_waiting = waiting;
    }
    assert_int_equal(saved, 0);
    assert_int_equal(waiting, 0);
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

static void check_memory(pipeline_schedule s, int stages, int chunks, int micros, int stage,
                         const pass_counts *c)
{
    int ahead = stages - stage;
    switch (s) {
    case PIPE_GPIPE:
        assert_int_equal(c->most_saved, micros);
        break;
    case PIPE_1F1B:
        assert_int_equal(c->most_saved, least(ahead, micros));
        break;
    case PIPE_INTERLEAVED:
        assert_int_equal(c->most_saved,
                         least(2 * ahead - 1 + (chunks - 1) * stages, micros * chunks));
        break;
    case PIPE_ZB: // the peak of all stages is 1F1B's
        assert_int_equal(c->most_waiting, least(ahead, micros));
        assert_int_equal(c->most_saved, least(stages, micros));
        break;
    case PIPE_SCHEDULES:
        fail();
    }
}

static void test_every_pass_runs_once_in_order_and_within_its_memory(void **state)
{
    (void)state;
    for (int p = 2; p <= MOST_STAGES; p++)
        for (int s = 0; s < PIPE_SCHEDULES; s++)
            for (int v = s == PIPE_INTERLEAVED ? 2 : 1; v <= (s == PIPE_INTERLEAVED ? 3 : 1); v++)
                for (int m = 1; m <= 4 * p; m++)
                    for (int stage = 0; stage < p; stage++) {
                        if (s == PIPE_INTERLEAVED && m % p) continue;
                        pipeline_list l;
                        pass_counts c;
                        assert_int_equal(
                            pipeline_make((pipeline_schedule)s, p, v, m, stage, &l, NULL), OK);
                        count_list(&l, v, &c);
                        for (int k = 0; k < v; k++) {
                            assert_int_equal(c.done[PIPE_FORWARD][k], m);
                            assert_int_equal(c.done[PIPE_BACKWARD][k], s == PIPE_ZB ? 0 : m);
                            assert_int_equal(c.done[PIPE_BACKWARD_WEIGHT][k], s == PIPE_ZB ? m : 0);
                        }
                        check_memory((pipeline_schedule)s, p, v, m, stage, &c);
                        pipeline_list_clear(&l);
                    }
}

static void expect_refused(pipeline_schedule s, int stages, int chunks, int micros, int stage,
                           const char *expected)
{
    pipeline_list l;
    err e = {0};
    assert_int_equal(pipeline_make(s, stages, chunks, micros, stage, &l, &e), E_USAGE);
    assert_string_equal(e.text, expected);
    assert_null(l.ops);
}

static void test_impossible_combinations_are_refused_by_name(void **state)
{
    (void)state;
    expect_refused(PIPE_1F1B, 4, 2, 8, 0,
                   "parallel.pp_schedule 1f1b: found parallel.virtual_stages 2; valid: 1, or "
                   "pp_schedule interleaved");
    expect_refused(PIPE_INTERLEAVED, 4, 1, 8, 0,
                   "parallel.pp_schedule interleaved: found parallel.virtual_stages 1; valid: 2 or "
                   "more, or pp_schedule 1f1b");
    expect_refused(PIPE_INTERLEAVED, 4, 2, 6, 0,
                   "parallel.pp_schedule interleaved: found 6 micro-batches a step for 4 stages; "
                   "valid: a multiple of 4");
    expect_refused(PIPE_ZB, 4, 1, 8, 4,
                   "parallel.pp_schedule zb: stage 4 of 4 with 8 micro-batches; valid: at least "
                   "one of each, and a stage below their number");
}

static void test_the_analytic_bubble_is_the_formula_of_the_schedule(void **state)
{
    (void)state;
    assert_true(fabs(pipeline_bubble(PIPE_GPIPE, 4, 1, 8) - 3.0 / 11) < 1e-15);
    assert_true(fabs(pipeline_bubble(PIPE_1F1B, 4, 1, 8) - 3.0 / 11) < 1e-15);
    assert_true(fabs(pipeline_bubble(PIPE_INTERLEAVED, 4, 2, 8) - 3.0 / 19) < 1e-15);
    assert_true(fabs(pipeline_bubble(PIPE_ZB, 4, 1, 8) - 3.0 / 27) < 1e-15);
    for (int s = 0; s < PIPE_SCHEDULES; s++)
        assert_true(pipeline_bubble((pipeline_schedule)s, 1, 1, 4) == 0);
}

// The smallest possible cost of the largest chunk, by trying every division.
static double best_by_trial(const double *cost, int blocks, int chunks)
{
    double sum = 0, best = INFINITY;
    for (int n = 1; n <= blocks; n++) {
        sum += cost[n - 1];
        if (chunks == 1 && n < blocks) continue;
        double rest = chunks == 1 ? 0 : best_by_trial(cost + n, blocks - n, chunks - 1);
        best = fmin(best, fmax(sum, rest));
    }
    return best;
}

// The smallest sum of squares of divisions whose chunks keep the limit.
static double squares_by_trial(const double *cost, int blocks, int chunks, double limit)
{
    double sum = 0, best = INFINITY;
    for (int n = 1; n <= blocks; n++) {
        sum += cost[n - 1];
        if (sum > limit) break;
        if (chunks == 1 && n < blocks) continue;
        double rest = chunks == 1 ? 0 : squares_by_trial(cost + n, blocks - n, chunks - 1, limit);
        best = fmin(best, sum * sum + rest);
    }
    return best;
}

static void test_the_largest_chunk_is_as_small_as_possible(void **state)
{
    (void)state;
    uint32_t random = 1;
    for (int round = 0; round < 200; round++) {
        double cost[9];
        int first[10], blocks = 1 + round % 9;
        for (int b = 0; b < blocks; b++) {
            random = random * 1664525u + 1013904223u;
            cost[b] = (double)(random >> 28);
        }
        for (int chunks = 1; chunks <= blocks; chunks++) {
            assert_int_equal(pipeline_split(cost, blocks, chunks, first, NULL), OK);
            assert_int_equal(first[0], 0);
            assert_int_equal(first[chunks], blocks);
            double largest = 0, squares = 0;
            for (int k = 0; k < chunks; k++) {
                double sum = 0;
                assert_true(first[k] < first[k + 1]);
                for (int b = first[k]; b < first[k + 1]; b++) sum += cost[b];
                largest = fmax(largest, sum);
                squares += sum * sum;
            }
            assert_true(largest == best_by_trial(cost, blocks, chunks));
            assert_true(squares == squares_by_trial(cost, blocks, chunks, largest));
        }
    }
}

static void test_equal_blocks_are_divided_evenly(void **state)
{
    (void)state;
    const double cost[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    int first[6];
    assert_int_equal(pipeline_split(cost, 12, 5, first, NULL), OK);
    for (int k = 0; k < 5; k++) assert_in_range(first[k + 1] - first[k], 2, 3);
}

static void test_more_chunks_than_blocks_are_refused(void **state)
{
    (void)state;
    const double cost[3] = {1, 1, 1};
    int first[5];
    err e = {0};
    assert_int_equal(pipeline_split(cost, 3, 4, first, &e), E_USAGE);
    assert_string_equal(e.text, "parallel.pp x parallel.virtual_stages: found 4 model chunks "
                                "for 3 blocks; valid: 1 to 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders_are_those_of_the_papers),
        cmocka_unit_test(test_one_stage_saves_one_micro_batch_under_every_schedule),
        cmocka_unit_test(test_every_pass_runs_once_in_order_and_within_its_memory),
        cmocka_unit_test(test_impossible_combinations_are_refused_by_name),
        cmocka_unit_test(test_the_analytic_bubble_is_the_formula_of_the_schedule),
        cmocka_unit_test(test_the_largest_chunk_is_as_small_as_possible),
        cmocka_unit_test(test_equal_blocks_are_divided_evenly),
        cmocka_unit_test(test_more_chunks_than_blocks_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
