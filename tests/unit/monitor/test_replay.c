// test_replay.c -- a recorded step that is replayed with its own durations takes what it took; without its slow rank,
// its communication or its input it takes what a run without them takes; and what does not fit is refused.
#include "monitor/replay/replay_report.h"

#include "made_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct opened {
    char folder[64];
    run_view *view;
    replay_record *record;
    replay_report report;
} opened;

static void make_folder(opened *o)
{
    *o = (opened){.folder = "/tmp/trireme-replay-XXXXXX"};
    assert_non_null(mkdtemp(o->folder));
}

static status try_open(opened *o, const made_run *m, uint64_t step, err *e)
{
    status result = OK;
    make_folder(o);
    TRY(made_run_write(o->folder, m, e));
    TRY(run_view_open(o->folder, &o->view, e));
    if (!step) TRY(replay_record_median_step(o->view, &step, e));
    TRY(replay_record_open(o->view, step, NULL, &o->record, e));
    TRY(replay_report_make(o->record, &o->report, e));
done:
    return result;
}

static void open_run(opened *o, made_run m)
{
    err e = {0};
    if (try_open(o, &m, 0, &e) != OK) fail_msg("%s", e.text);
}

static void close_run(opened *o)
{
    err e = {0};
    replay_report_clear(&o->report);
    replay_record_close(o->record);
    run_view_close(o->view);
    assert_int_equal(file_remove_tree(o->folder, &e), OK);
}

static void expect_near(double found, double wanted, double off)
{
    if (!(fabs(found - wanted) <= off)) fail_msg("found %.12g, not %.12g", found, wanted);
}

enum { NS_OFF = 3 }; // the times of a record are whole nanoseconds

static void measured_durations_give_the_measured_step(void **state)
{
    (void)state;
    const made_run runs[] = {
        {.ranks = 1},
        {.ranks = 2, .jitter = 0.2},
        {.ranks = 4, .jitter = 0.3, .input = 0.1, .micro = 3},
        {.ranks = 4, .stages = 4, .jitter = 0.1},
        {.ranks = 8, .stages = 2, .micro = 6, .jitter = 0.2, .stage_by = 0.2},
        {.ranks = 4, .cause = MADE_COMPUTE, .slow_rank = 2, .slow_by = 0.4},
        {.ranks = 4, .cause = MADE_INPUT, .slow_rank = 1, .slow_by = 0.4},
        {.ranks = 3, .comm = -1},
        {.ranks = 2, .save_every = 3, .save = 0.2},
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        opened o;
        open_run(&o, runs[i]);
        const replay_record *r = o.record;
        for (int k = 0; k < r->x.pieces; k++) {
            expect_near(o.report.time[k].begin, r->part[k].begin, NS_OFF * 1e-9);
            expect_near(o.report.time[k].end, r->part[k].end, NS_OFF * 1e-9);
        }
        expect_near(r->missed, 0, NS_OFF * 1e-9);
        expect_near(o.report.replayed, o.report.measured, NS_OFF * 1e-9);
        close_run(&o);
    }
}

// The critical path and each rank's uses leave no moment out.
static void causes_add_up(void **state)
{
    (void)state;
    opened o;
    open_run(&o, (made_run){.ranks = 8, .stages = 2, .micro = 4, .jitter = 0.3, .input = 0.05});
    const replay_record *r = o.record;
    double end[8], last = 0;
    replay_record_ends(r, o.report.time, end);
    for (int k = 0; k < 8; k++) {
        double sum = 0;
        for (int u = 0; u < REPLAY_USES; u++) sum += o.report.uses[k].seconds[u];
        expect_near(sum, end[k] - r->start[k], 1e-9);
        last = end[k] > last ? end[k] : last;
    }
    expect_near(o.report.path.seconds, last, 1e-9);
    double now = 0;
    for (int i = 0; i < o.report.path.count; i++) {
        expect_near(o.report.path.items[i].begin, now, 1e-9);
        now += o.report.path.items[i].seconds;
    }
    close_run(&o);
}

static void the_slow_rank_is_on_the_path_and_is_waited_for(void **state)
{
    (void)state;
    opened o;
    open_run(&o, (made_run){.ranks = 4, .cause = MADE_COMPUTE, .slow_rank = 2, .slow_by = 0.5});
    const replay_rank_uses *u = o.report.uses;
    assert_int_equal(u[0].last, 2);
    expect_near(u[0].last_seconds, u[0].seconds[USE_WAIT_RANK], 1e-9);
    assert_true(u[0].seconds[USE_WAIT_RANK] > 0.04);
    expect_near(u[2].seconds[USE_WAIT_RANK], 0, 1e-8);
    for (int i = 0; i < o.report.path.count; i++)
        if (o.report.path.items[i].piece >= 0 && o.report.path.items[i].seconds > 0.011)
            assert_int_equal(o.report.path.items[i].rank, 2);
    close_run(&o);
}

static double ask(opened *o, replay_change c)
{
    err e = {0};
    if (replay_report_ask(&o->report, &c, &e) != OK) fail_msg("%s", e.text);
    return o->report.answer[o->report.answers - 1].seconds;
}

static double seconds_of(made_run m)
{
    opened o;
    open_run(&o, m);
    const double seconds = o.report.measured;
    close_run(&o);
    return seconds;
}

// A change gives the step of a run that was made with it.
static void what_if(void **state)
{
    (void)state;
    const made_cause causes[] = {MADE_COMPUTE, MADE_INPUT};
    const made_run shapes[] = {{.ranks = 4}, {.ranks = 4, .stages = 2}, {.ranks = 2}};
    for (int i = 0; i < 6; i++) {
        opened o;
        int rank;
        err e = {0};
        made_run m = shapes[i / 2];
        const double wanted = seconds_of(m);
        m.cause = causes[i % 2];
        m.slow_rank = 1;
        m.slow_by = 0.3;
        open_run(&o, m);
        assert_int_equal(replay_change_slowest(o.record, &rank, &e), OK);
        assert_int_equal(rank, 1);
        expect_near(ask(&o, (replay_change){.kind = CHANGE_RANK, .rank = 1}), wanted, 1e-7);
        close_run(&o);
    }
    opened o;
    const made_run m = {.ranks = 4, .comm = 0.2, .input = 0.1, .jitter = 0};
    open_run(&o, m);
    const double whole = o.report.measured;
    expect_near(ask(&o, (replay_change){.kind = CHANGE_NOTHING}), whole, 1e-7);
    expect_near(ask(&o, (replay_change){.kind = CHANGE_COMM}), 0.8 * whole, 1e-4);
    expect_near(ask(&o, (replay_change){.kind = CHANGE_INPUT}), 0.9 * whole, 1e-4);
    // The passes take 0.7 / 1.05 of the step, two thirds of which are backward.
    const replay_change faster = {.kind = CHANGE_INSTR, .instr = "BACKWARD", .faster = 0.5};
    expect_near(ask(&o, faster), (1 - 0.7 / 1.05 / 3) * whole, 1e-4);
    close_run(&o);
}

static void expect_refused(const made_run *m, uint64_t step, const char *says)
{
    opened o;
    err e = {0};
    assert_int_equal(try_open(&o, m, step, &e), E_USAGE);
    if (!strstr(e.text, says)) fail_msg("found '%s', not '%s'", e.text, says);
    close_run(&o);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    expect_refused(&(made_run){.ranks = 2, .steps = 5}, 6, "rank 0 has no record of step 6");
    expect_refused(&(made_run){.ranks = 2, .steps = 300, .ring = 64}, 2,
                   "rank 0 no longer has the spans of step 2");
    opened o;
    err e = {0};
    open_run(&o, (made_run){.ranks = 2, .stages = 2});
    assert_int_equal(
        replay_report_ask(&o.report, &(replay_change){.kind = CHANGE_RANK, .rank = 1}, &e),
        E_USAGE);
    assert_string_equal(e.text,
                        "rank 1 is alone in its stage, so it has no peers to be compared with");
    assert_int_equal(replay_report_ask(
                         &o.report, &(replay_change){.kind = CHANGE_INSTR, .instr = "NOTHING"}, &e),
                     E_USAGE);
    assert_string_equal(e.text, "the step has no instruction NOTHING");
    close_run(&o);
}

// Sets the error of a rank's clock, as the ranks of several hosts agree on it.
static void set_clock(const char *folder, int rank, int64_t offset_ns, int64_t error_ns)
{
    char *path = NULL, *chars = NULL;
    size_t bytes;
    err e = {0};
    assert_int_equal(run_view_spans_path(folder, rank, &path, &e), OK);
    assert_int_equal(file_read(path, &chars, &bytes, &e), OK);
    spans_head *head = (spans_head *)(void *)chars;
    head->clock.offset_ns = offset_ns;
    head->clock.error_ns = error_ns;
    assert_int_equal(file_replace(path, chars, bytes, &e), OK);
    free(path);
    free(chars);
}

static void a_clock_that_nobody_compared_is_refused(void **state)
{
    (void)state;
    const made_run m = {.ranks = 4, .hosts = 2, .jitter = 0.1};
    opened o;
    err e = {0};
    make_folder(&o);
    assert_int_equal(made_run_write(o.folder, &m, &e), OK);
    set_clock(o.folder, 2, 0, 1000);
    set_clock(o.folder, 3, 0, -1);
    assert_int_equal(run_view_open(o.folder, &o.view, &e), OK);
    assert_int_equal(replay_record_open(o.view, 3, NULL, &o.record, &e), E_USAGE);
    assert_non_null(strstr(e.text, "rank 3 on host b: "));
    set_clock(o.folder, 3, 0, 1000);
    run_view_close(o.view);
    assert_int_equal(run_view_open(o.folder, &o.view, &e), OK);
    assert_int_equal(replay_record_open(o.view, 3, NULL, &o.record, &e), OK);
    close_run(&o);
}

static void print(opened *o, bool json, text *out)
{
    err e = {0};
    assert_int_equal(replay_report_ask_all(&o->report, &e), OK);
    replay_report_print(&o->report, json, out);
    assert_int_equal(text_check(out, &e), OK);
}

static void a_report_says_it(void **state)
{
    (void)state;
    opened o;
    text out = {0};
    open_run(&o, (made_run){.ranks = 40, .cause = MADE_COMPUTE, .slow_rank = 7, .slow_by = 0.5});
    print(&o, false, &out);
    assert_non_null(strstr(out.chars, "40 ranks"));
    assert_non_null(strstr(out.chars, " 7  BACKWARD micro-batch 0\n"));
    assert_non_null(strstr(out.chars, "the 16 of 40 ranks that wait least"));
    assert_non_null(strstr(out.chars, "rank 7 were as fast as its peers\n"));
    text_clear(&out);
    print(&o, true, &out);
    json_t *all = json_loads(out.chars, 0, NULL);
    assert_non_null(all);
    assert_int_equal(json_array_size(json_object_get(all, "rank_seconds")), 40);
    expect_near(json_number_value(json_object_get(all, "error_percent")), 0, 1e-4);
    json_decref(all);
    text_clear(&out);
    close_run(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measured_durations_give_the_measured_step),
        cmocka_unit_test(causes_add_up),
        cmocka_unit_test(the_slow_rank_is_on_the_path_and_is_waited_for),
        cmocka_unit_test(what_if),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(a_clock_that_nobody_compared_is_refused),
        cmocka_unit_test(a_report_says_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
