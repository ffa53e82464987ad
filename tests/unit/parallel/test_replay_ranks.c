// test_replay_ranks.c -- hand-made pieces of several ranks end when they must, waits are computed from who comes last,
// and pieces that do not fit together are refused.
#include "parallel/replay/replay_ranks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 64 };

typedef struct made_step {
    replay_piece piece[MOST];
    int wait[MOST];
    double lead[MOST];
    replay_ranks x;
    replay_span time[MOST];
} made_step;

static void begin_step(made_step *m, int ranks)
{
    *m = (made_step){.x = {.ranks = ranks, .comms = 4, .channels = 4}};
    m->x.piece = m->piece;
    m->x.wait = m->wait;
    m->x.lead = m->lead;
}

static int add(made_step *m, replay_piece p)
{
    m->piece[m->x.pieces] = p;
    return m->x.pieces++;
}

static int work(made_step *m, int rank, double seconds)
{
    return add(m, (replay_piece){.rank = rank, .seconds = seconds, .comm = -1, .channel = -1});
}

static int meet(made_step *m, int rank, int comm, double seconds)
{
    return add(m, (replay_piece){.rank = rank, .seconds = seconds, .comm = comm, .channel = -1});
}

static int message(made_step *m, int rank, int channel, bool sends, double seconds)
{
    return add(
        m, (replay_piece){
               .rank = rank, .seconds = seconds, .comm = -1, .channel = channel, .sends = sends});
}

static void run(made_step *m)
{
    const double start[8] = {0};
    err e = {0};
    if (replay_ranks_link(&m->x, NULL, &e) != OK ||
        replay_ranks_run(&m->x, start, m->time, NULL, &e) != OK)
        fail_msg("%s", e.text);
}

static void expect(double found, double wanted)
{
    if (fabs(found - wanted) > 1e-12) fail_msg("found %.17g, not %.17g", found, wanted);
}

static double last_end(const made_step *m)
{
    double last = 0;
    for (int i = 0; i < m->x.pieces; i++)
        if (m->time[i].end > last) last = m->time[i].end;
    return last;
}

// Two ranks; rank 1 computes longer.
static void make_ddp(made_step *m, double slow)
{
    begin_step(m, 2);
    for (int rank = 0; rank < 2; rank++) {
        work(m, rank, rank ? slow : 1);
        meet(m, rank, 0, 0.5);
        work(m, rank, 0.25);
    }
}

static void a_collective_ends_after_its_last_rank(void **state)
{
    (void)state;
    made_step m;
    make_ddp(&m, 3);
    run(&m);
    expect(m.time[1].begin, 1);
    expect(m.time[1].met, 3);
    expect(m.time[1].end, 3.5);
    assert_int_equal(m.time[1].last, 4); // rank 1's call
    assert_int_equal(m.time[4].last, -1);
    assert_int_equal(m.time[4].cause, 3);
    expect(last_end(&m), 3.75);
    replay_ranks_unlink(&m.x);
    // Without the slow rank nobody waits.
    make_ddp(&m, 1);
    run(&m);
    expect(last_end(&m), 1.75);
    replay_ranks_unlink(&m.x);
}

static void a_rank_that_leaves_waits_for_nobody(void **state)
{
    (void)state;
    made_step m;
    make_ddp(&m, 3);
    m.piece[1].leaves = true;
    run(&m);
    expect(m.time[2].end, 1.75);
    expect(m.time[5].end, 3.75);
    replay_ranks_unlink(&m.x);
}

static void lags_and_threads(void **state)
{
    (void)state;
    made_step m;
    begin_step(&m, 1);
    work(&m, 0, 1);
    const int beside = work(&m, 0, 2), after = work(&m, 0, 1);
    m.piece[beside].thread = 1;
    m.piece[after].lag = 0.5;
    run(&m);
    expect(m.time[beside].begin, 0);
    expect(m.time[after].begin, 1.5);
    replay_ranks_unlink(&m.x);
    // It also waits for the other thread.
    m.wait[0] = beside;
    m.x.waits = 1;
    m.piece[after].waits = 1;
    run(&m);
    expect(m.time[after].begin, 2.5);
    assert_int_equal(m.time[after].cause, beside);
    replay_ranks_unlink(&m.x);
    // It needs what the other thread has a quarter before its end.
    m.lead[0] = 0.25;
    run(&m);
    expect(m.time[after].begin, 2.25);
    replay_ranks_unlink(&m.x);
    m.lead[0] = 3;
    run(&m);
    expect(m.time[after].begin, 1.5);
    replay_ranks_unlink(&m.x);
}

// gpipe of two stages: each micro-batch takes 1 forward and 2 backward on each.
static void make_pipeline(made_step *m, int micros)
{
    begin_step(m, 2);
    for (int i = 0; i < micros; i++) {
        work(m, 0, 1);
        message(m, 0, 0, true, 0);
    }
    for (int i = 0; i < micros; i++) {
        message(m, 0, 1, false, 0);
        work(m, 0, 2);
    }
    for (int i = 0; i < micros; i++) {
        message(m, 1, 0, false, 0);
        work(m, 1, 1);
    }
    for (int i = 0; i < micros; i++) {
        work(m, 1, 2);
        message(m, 1, 1, true, 0);
    }
}

static void a_pipeline_has_its_bubble(void **state)
{
    (void)state;
    for (int micros = 1; micros <= 8; micros++) {
        made_step m;
        make_pipeline(&m, micros);
        run(&m);
        expect(last_end(&m), 3.0 * (micros + 1));
        replay_ranks_unlink(&m.x);
    }
}

static void a_receive_that_waits_for_nothing_gives_another_time(void **state)
{
    (void)state;
    made_step m;
    make_pipeline(&m, 4);
    for (int i = 0; i < m.x.pieces; i++) m.piece[i].channel = -1;
    run(&m);
    expect(last_end(&m), 12);
    replay_ranks_unlink(&m.x);
}

static void sends_may_wait(void **state)
{
    (void)state;
    made_step m;
    begin_step(&m, 2);
    const int send = message(&m, 0, 0, true, 0.5);
    work(&m, 1, 2);
    const int receive = message(&m, 1, 0, false, 0.5);
    m.x.sends_wait = true;
    run(&m);
    expect(m.time[send].end, 2.5);
    expect(m.time[receive].end, 2.5);
    assert_int_equal(m.time[send].last, receive);
    replay_ranks_unlink(&m.x);
    m.x.sends_wait = false;
    run(&m);
    expect(m.time[send].end, 0.5);
    expect(m.time[receive].end, 2.5);
    replay_ranks_unlink(&m.x);
}

static void pieces_without_duration_take_no_time(void **state)
{
    (void)state;
    made_step m;
    make_pipeline(&m, 3);
    for (int i = 0; i < m.x.pieces; i++) m.piece[i].seconds = 0;
    run(&m);
    expect(last_end(&m), 0);
    replay_ranks_unlink(&m.x);
}

// Rank 1 begins late, and its update takes longer than the others': the step is as long as its own work, not longer.
static void the_period_is_that_of_the_slowest_rank(void **state)
{
    (void)state;
    made_step m;
    const double gap[2] = {0.125, 0.125};
    double seconds;
    err e = {0};
    make_ddp(&m, 3);
    m.piece[5].seconds = 1;
    assert_int_equal(replay_ranks_link(&m.x, NULL, &e), OK);
    assert_int_equal(replay_ranks_period(&m.x, gap, m.time, &seconds, &e), OK);
    expect(seconds, 4.625);
    replay_ranks_unlink(&m.x);
}

static void expect_refused(made_step *m, bool links, const char *text, int which)
{
    const double start[8] = {0};
    int piece = -2;
    err e = {0};
    status result = replay_ranks_link(&m->x, &piece, &e);
    if (links) {
        assert_int_equal(result, OK);
        result = replay_ranks_run(&m->x, start, m->time, &piece, &e);
    }
    assert_int_equal(result, E_USAGE);
    assert_string_equal(e.text, text);
    assert_int_equal(piece, which);
    replay_ranks_unlink(&m->x);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    made_step m;
    make_ddp(&m, 1);
    const int more = meet(&m, 1, 0, 1);
    expect_refused(&m, false, "another rank of its group makes fewer calls", more);
    begin_step(&m, 2);
    const int sent = message(&m, 0, 0, true, 1);
    expect_refused(&m, false, "nobody receives the message", sent);
    begin_step(&m, 2);
    const int received = message(&m, 0, 0, false, 1);
    expect_refused(&m, false, "nobody sends the message", received);
    // Each rank receives first what the other one sends later.
    begin_step(&m, 2);
    message(&m, 0, 0, false, 1);
    message(&m, 0, 1, true, 1);
    message(&m, 1, 1, false, 1);
    message(&m, 1, 0, true, 1);
    expect_refused(&m, true, "it waits for itself, in a circle", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_collective_ends_after_its_last_rank),
        cmocka_unit_test(a_rank_that_leaves_waits_for_nobody),
        cmocka_unit_test(lags_and_threads),
        cmocka_unit_test(a_pipeline_has_its_bubble),
        cmocka_unit_test(a_receive_that_waits_for_nothing_gives_another_time),
        cmocka_unit_test(sends_may_wait),
        cmocka_unit_test(pieces_without_duration_take_no_time),
        cmocka_unit_test(the_period_is_that_of_the_slowest_rank),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
