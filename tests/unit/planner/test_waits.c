// test_waits.c -- in a pipeline whose passes alone take time, stages are idle for each other, as long as the simulation of
// the lists says; and each instruction waits for one that ends when it begins.
#include "planner/waits.h"

#include "parallel/instructions.h"

#include <math.h>

#include "unit/parallel/lists.h"

typedef struct timed_lists {
    lists lists;
    simulate_result r;
    planner_machine machine;
    planner_step step;
    planner_times times;
    planner_waits waits;
} timed_lists;

static void expect_ok(status result, const err *e)
{
    if (result != OK) fail_msg("%s", e->text);
}

static void timed_open(timed_lists *t, const lists_of *of, bool sends_wait)
{
    double seconds[LISTS_BLOCKS];
    err e = {0};
    for (int i = 0; i < LISTS_BLOCKS; i++) seconds[i] = 1 + 0.1 * i;
    const simulate_blocks blocks = {seconds, seconds, seconds};
    const simulate_costs c = {simulate_block_seconds, &blocks, true, sends_wait};
    *t = (timed_lists){.machine.costs = {.streams_apart = true, .sends_wait = sends_wait}};
    lists_open(&t->lists, of);
    expect_ok(schedule_simulate(t->lists.of, t->lists.plan_of, t->lists.stages, &c, &t->r, &e), &e);
    t->step = (planner_step){.plan = t->lists.plan_of,
                             .list = t->lists.of,
                             .stages = t->lists.stages,
                             .machine = &t->machine};
    t->times =
        (planner_times){.seconds = t->r.seconds, .stages = t->lists.stages, .span = t->r.span};
    t->times.call = calloc((size_t)t->lists.stages, sizeof *t->times.call);
    for (int k = 0; k < t->lists.stages; k++)
        t->times.call[k] = calloc((size_t)t->lists.of[k]->calls + 1, sizeof **t->times.call);
    expect_ok(planner_waits_find(&t->step, &t->times, &t->waits, &e), &e);
}

static void timed_close(timed_lists *t)
{
    for (int k = 0; k < t->lists.stages; k++) free(t->times.call[k]);
    free(t->times.call);
    planner_waits_clear(&t->waits);
    simulate_result_clear(&t->r);
    lists_close(&t->lists);
}

static void check_idle(const timed_lists *t)
{
    for (int k = 0; k < t->lists.stages; k++) {
        const planner_stage_time *g = &t->waits.stage[k];
        assert_true(fabs(g->busy_s - t->r.busy[k]) < 1e-9);
        assert_true(fabs(g->idle_s[IDLE_STAGES] - t->r.idle[k]) < 1e-9);
        assert_true(g->first_s >= 0 && g->last_s <= t->r.seconds && g->first_s < g->last_s);
    }
}

static void check_waits(const timed_lists *t, bool sends_wait)
{
    int between = 0;
    for (int k = 0; k < t->lists.stages; k++)
        for (int i = 0; i < t->lists.of[k]->count; i++) {
            const planner_wait w = t->waits.of[k][i];
            if (w.stage < 0) continue;
            const simulate_span *own = &t->r.span[k][i], *other = &t->r.span[w.stage][w.instr];
            between += w.stage != k;
            // Members of a collective begin together, and so do messages whose sends wait.
            const bool message = instr_is_message(&t->lists.of[k]->instr[i]);
            if (w.stage == k || (message && !sends_wait))
                assert_true(own->start >= other->end - 1e-9);
        }
    assert_true(between > 0);
}

static void stages_wait_for_each_other(void **state)
{
    static const pipeline_schedule orders[] = {PIPE_GPIPE, PIPE_1F1B, PIPE_ZB};
    (void)state;
    for (int i = 0; i < 3; i++) {
        timed_lists t;
        timed_open(&t, &LISTS(orders[i], 4, 1, 6), false);
        check_idle(&t);
        check_waits(&t, false);
        timed_close(&t);
        timed_open(&t, &LISTS(orders[i], 4, 1, 6, .sends_wait = true), true);
        check_waits(&t, true);
        timed_close(&t);
    }
}

static void one_stage_waits_for_nobody(void **state)
{
    (void)state;
    timed_lists t;
    timed_open(&t, &LISTS(PIPE_1F1B, 1, 1, 3), false);
    assert_true(fabs(t.waits.stage[0].busy_s - t.r.seconds) < 1e-9);
    for (int c = 0; c < PLANNER_IDLES; c++) assert_true(t.waits.stage[0].idle_s[c] < 1e-9);
    timed_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_wait_for_each_other),
        cmocka_unit_test(one_stage_waits_for_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
