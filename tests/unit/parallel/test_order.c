// test_order.c -- instructions that are replayed in the order that schedule_order_make finds take the times that
// simulate.c computes, which looks at values and slots itself.
#include "parallel/instructions.h"
#include "parallel/replay/order.h"
#include "parallel/replay/replay_ranks.h"
#include "parallel/simulate.h"

#include "unit/parallel/lists.h"

#include <math.h>

// Any seconds will do, as long as instructions differ.
static double seconds_of(const void *given, int stage, const schedule_instr *x)
{
    (void)given, (void)stage;
    const unsigned word = (unsigned)x->kind * 7919u + (unsigned)x->micro * 104729u +
                          (unsigned)x->index * 1299709u + (unsigned)x->what * 15485863u;
    return 1 + word % 1009 / 100.0;
}

static replay_ranks pieces_of(const schedule *s, const schedule_order *o)
{
    replay_ranks x = {.ranks = 1, .pieces = s->count, .waits = o->first[s->count]};
    x.piece = calloc((size_t)s->count, sizeof *x.piece);
    x.lead = calloc((size_t)x.waits + 1, sizeof *x.lead);
    assert_non_null(x.piece);
    assert_non_null(x.lead);
    x.wait = o->wait;
    for (int i = 0; i < s->count; i++)
        x.piece[i] = (replay_piece){.thread = (int)instr_row_of(s->instr[i].kind)->stream,
                                    .seconds = seconds_of(NULL, 0, &s->instr[i]),
                                    .comm = -1,
                                    .channel = -1,
                                    .first_wait = o->first[i],
                                    .waits = o->first[i + 1] - o->first[i]};
    return x;
}

static void expect_same_times(const lists_of *given)
{
    const double start = 0;
    const simulate_costs costs = {.seconds = seconds_of, .overlap = true};
    lists l;
    schedule_order o;
    simulate_result simulated;
    err e = {0};
    lists_open(&l, given);
    const schedule *s = l.of[0];
    assert_int_equal(schedule_simulate(l.of, l.plan_of, 1, &costs, &simulated, &e), OK);
    assert_int_equal(schedule_order_make(l.plan[0], s, &o, &e), OK);
    replay_ranks x = pieces_of(s, &o);
    replay_span *found = calloc((size_t)s->count, sizeof *found);
    assert_non_null(found);
    assert_int_equal(replay_ranks_link(&x, NULL, &e), OK);
    assert_int_equal(replay_ranks_run(&x, &start, found, NULL, &e), OK);
    for (int i = 0; i < s->count; i++) {
        const simulate_span *wanted = &simulated.span[0][i];
        if (fabs(found[i].begin - wanted->start) > 1e-9 || fabs(found[i].end - wanted->end) > 1e-9)
            fail_msg("instruction %d (%s): %g to %g, not %g to %g", i, instr_name(s->instr[i].kind),
                     found[i].begin, found[i].end, wanted->start, wanted->end);
    }
    free(found);
    free(x.piece);
    free(x.lead);
    replay_ranks_unlink(&x);
    schedule_order_clear(&o);
    simulate_result_clear(&simulated);
    lists_close(&l);
}

static void one_stage_takes_the_simulated_times(void **state)
{
    (void)state;
    static const char *const names[] = {"ddp", "zero1", "zero2", "zero3"};
    for (int p = 0; p < 4; p++)
        for (int micros = 1; micros < 4; micros++) {
            lists_of x = LISTS(PIPE_1F1B, 1, 1, micros, .blocks = 6, .dp_shard = 4);
            x.policy = names[p];
            expect_same_times(&x);
            x.no_sync = true;
            expect_same_times(&x);
            x.files = true;
            expect_same_times(&x);
        }
    expect_same_times(
        &LISTS(PIPE_1F1B, 1, 1, 3, .blocks = 6, .dp_shard = 4, .policy = "zero3", .reshard = 2));
    expect_same_times(
        &LISTS(PIPE_1F1B, 1, 1, 2, .blocks = 5, .dp_shard = 2, .policy = "zero3", .tied = true));
}

// An instruction waits for earlier ones of other streams, and a pass for the message that brings its input.
static void a_pass_waits_for_its_message(void **state)
{
    (void)state;
    lists l;
    schedule_order o;
    err e = {0};
    lists_open(&l, &LISTS(PIPE_1F1B, 2, 1, 4, .blocks = 4));
    const schedule *s = l.of[1];
    assert_int_equal(schedule_order_make(l.plan[1], s, &o, &e), OK);
    int waits = 0;
    for (int i = 0; i < s->count; i++)
        for (int k = o.first[i]; k < o.first[i + 1]; k++) {
            const schedule_instr *x = &s->instr[i], *before = &s->instr[o.wait[k]];
            assert_true(o.wait[k] < i);
            assert_int_not_equal(instr_row_of(x->kind)->stream, instr_row_of(before->kind)->stream);
            waits += x->kind == FORWARD && before->kind == RECV_ACT && before->micro == x->micro &&
                     before->index == x->index;
        }
    assert_int_equal(waits, 4);
    schedule_order_clear(&o);
    lists_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stage_takes_the_simulated_times),
        cmocka_unit_test(a_pass_waits_for_its_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
