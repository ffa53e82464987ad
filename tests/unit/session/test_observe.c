// Tests what rank 0 sees of its run: stragglers told once, traces cut behind them and behind a spike of the loss, at most
// three; the verdict at the end; and silence where there are no records.
#include "made_run.h"
#include "monitor/run_view.h"
#include "own_text.h"
#include "session/observe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];
static err e;

static struct {
    int named, chronic, notes, cuts;
    int64_t step;
    int rank;
    uint64_t first, last;
} seen;

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/trireme-observe-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return file_remove_tree(folder, NULL) == OK ? 0 : -1;
}

static void make(const made_run *o)
{
    memset(&seen, 0, sizeof seen);
    assert_int_equal(file_remove_tree(folder, &e), OK);
    assert_int_equal(made_run_write(folder, o, &e), OK);
}

static status take(void *arg, const event *ev, err *why)
{
    (void)arg;
    (void)why;
    if (ev->kind == EVENT_NOTE) seen.notes++;
    if (ev->kind != EVENT_STRAGGLER) return OK;
    seen.named += !ev->straggler.chronic;
    seen.chronic += ev->straggler.chronic;
    seen.step = ev->straggler.step;
    seen.rank = ev->straggler.rank;
    assert_string_equal(ev->straggler.cause, "input");
    return OK;
}

// Stands for trace_cut (-Wl,--wrap).
status __wrap_trace_cut(const run_view *v, uint64_t first, uint64_t last, char **out, err *why);
status __wrap_trace_cut(const run_view *v, uint64_t first, uint64_t last, char **out, err *why)
{
    assert_true(v->recorded > 0);
    seen.cuts++;
    seen.first = first;
    seen.last = last;
    return text_copy("traces/steps", out, why);
}

static void observe(session_observer *o, int64_t step, int64_t steps, double loss)
{
    const event_sinks sinks = {.items = {{.take = take}}, .count = 1};
    const event_step s = {.step = step, .steps = steps, .loss = loss};
    assert_int_equal(session_observe_step(o, &s, &sinks, &e), OK);
}

static void a_straggler_is_told_and_traced(void **state)
{
    (void)state;
    session_observer *o;
    make(&(made_run){.ranks = 4,
                     .steps = 40,
                     .cause = MADE_INPUT,
                     .slow_rank = 2,
                     .slow_by = 0.3,
                     .slow_from = 15,
                     .goes_on = true});
    assert_int_equal(session_observer_open(folder, &o, &e), OK);
    observe(o, 40, 40, 1);
    assert_int_equal(seen.named, 1);
    assert_int_equal(seen.chronic, 1);
    assert_int_equal(seen.step, 22);
    assert_int_equal(seen.rank, 2);
    assert_int_equal(seen.cuts, 1);
    assert_int_equal(seen.first, 23);
    assert_int_equal(seen.last, 25);
    assert_int_equal(seen.notes, 1);
    observe(o, 40, 40, 1);
    assert_int_equal(seen.chronic, 1);
    session_observer_close(o);
}

static void spikes_of_the_loss_are_traced_at_most_three_times(void **state)
{
    (void)state;
    session_observer *o;
    make(&(made_run){.ranks = 2, .steps = 1000, .goes_on = true});
    assert_int_equal(session_observer_open(folder, &o, &e), OK);
    for (int64_t step = 1; step <= 400; step++)
        observe(o, step, step % 10 == 0 ? step : 1000, step % 60 == 0 ? 4 : 2 + 0.01 * (step % 3));
    assert_int_equal(seen.cuts, SESSION_TRACES);
    assert_int_equal(seen.first, 181);
    assert_int_equal(seen.last, 183);
    assert_int_equal(seen.chronic, 0);
    session_observer_close(o);
}

static void the_end_has_a_verdict(void **state)
{
    (void)state;
    session_verdict v;
    char *path = own_path(folder, "report.json");
    make(&(made_run){
        .ranks = 4, .hosts = 2, .steps = 40, .cause = MADE_INPUT, .slow_rank = 3, .slow_by = 0.3});
    session_observe_end(folder, false, &v);
    assert_string_equal(v.word, "INPUT STRAGGLER");
    assert_string_equal(v.host, "b");
    assert_int_equal(session_verdict_event(&v).verdict.rank, 3);
    assert_true(file_exists(path));
    assert_int_equal(seen.cuts, 0);
    session_verdict_clear(&v);
    session_observe_end(folder, true, &v);
    assert_int_equal(seen.cuts, 1);
    assert_int_equal(seen.first, 38);
    assert_int_equal(seen.last, 40);
    session_verdict_clear(&v);
    // A short run has a report and no line.
    make(&(made_run){.ranks = 2, .steps = 5});
    session_observe_end(folder, false, &v);
    assert_null(v.word);
    assert_true(file_exists(path));
    free(path);
}

static void without_records_nothing_happens(void **state)
{
    (void)state;
    session_observer *o;
    session_verdict v;
    char *records = own_path(folder, "spans"), *path = own_path(folder, "report.json");
    make(&(made_run){.ranks = 2, .steps = 40});
    assert_int_equal(file_remove_tree(records, &e), OK);
    assert_int_equal(session_observer_open(folder, &o, &e), OK);
    for (int64_t step = 1; step <= 40; step++) observe(o, step, step, step == 39 ? 9 : 1);
    session_observer_close(o);
    session_observe_end(folder, true, &v);
    assert_null(v.word);
    assert_false(file_exists(path));
    assert_int_equal(seen.cuts + seen.notes + seen.chronic, 0);
    // Nor with those of a run that has ended.
    make(&(made_run){.ranks = 2, .steps = 40, .cause = MADE_INPUT, .slow_by = 0.3});
    assert_int_equal(session_observer_open(folder, &o, &e), OK);
    observe(o, 40, 40, 1);
    session_observer_close(o);
    assert_int_equal(seen.cuts + seen.notes + seen.chronic, 0);
    free(records);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_straggler_is_told_and_traced),
        cmocka_unit_test(spikes_of_the_loss_are_traced_at_most_three_times),
        cmocka_unit_test(the_end_has_a_verdict),
        cmocka_unit_test(without_records_nothing_happens),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
