// Tests the trace that observe.trace_steps asks for: it is cut once when its steps are done, or at the end those of its
// steps that the run has taken, and a run without records says why there is none.
#include "session/trace.h"

#include "base/file.h"
#include "made_run.h"
#include "own_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/trireme-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return file_remove_tree(folder, NULL) == OK ? 0 : -1;
}

static session_trace *open_trace(int steps, int64_t first, int64_t last)
{
    session_trace *t;
    const made_run o = {.ranks = 2, .steps = steps, .goes_on = true};
    assert_int_equal(made_run_write(folder, &o, NULL), OK);
    assert_int_equal(session_trace_open(folder, first, last, &t, NULL), OK);
    return t;
}

static void expect_note(char *note, const char *words)
{
    if (!note || !strstr(note, words)) fail_msg("'%s' lacks '%s'", note ? note : "no note", words);
    free(note);
}

static void expect_trace(const char *name)
{
    char *path = own_path(folder, name);
    assert_true(file_exists(path));
    free(path);
}

static void steps_that_are_done_are_traced_once(void **state)
{
    (void)state;
    session_trace *t = open_trace(6, 2, 4);
    char *note = NULL, *later;
    for (uint64_t step = 1; step <= 6; step++) {
        session_trace_due(t, step, &later);
        assert_true(!later || (!note && step > 4));
        if (later) note = later;
    }
    session_trace_finish(t, &later);
    assert_true(!later != !note);
    expect_note(note ? note : later, "traced steps 2 to 4: ");
    expect_trace("traces/steps-00000002-00000004/steps-00000002-00000004.tar");
    session_trace_finish(t, &later);
    assert_null(later);
    session_trace_close(t);
}

static void a_run_that_ends_early_traces_what_it_has(void **state)
{
    (void)state;
    session_trace *t = open_trace(3, 2, 900);
    char *note;
    for (uint64_t step = 1; step <= 3; step++) {
        session_trace_due(t, step, &note);
        assert_null(note);
    }
    session_trace_finish(t, &note);
    expect_note(note, "traced steps 2 to 3: ");
    expect_trace("traces/steps-00000002-00000003/spans/rank-00001.spans");
    session_trace_close(t);
}

static void what_cannot_be_traced_is_said(void **state)
{
    (void)state;
    session_trace *t;
    char *note;
    assert_int_equal(session_trace_open(folder, 2, 3, &t, NULL), OK); // nothing is there
    session_trace_due(t, 1, &note);
    session_trace_due(t, 2, &note);
    assert_null(note);
    session_trace_finish(t, &note);
    expect_note(note, "steps 2 to 3 were not traced: ");
    session_trace_close(t);
    assert_int_equal(session_trace_open(folder, 2, 3, &t, NULL), OK);
    session_trace_due(t, 7, &note); // resumed behind them
    assert_null(note);
    session_trace_finish(t, &note);
    assert_null(note);
    session_trace_close(t);
    assert_int_equal(session_trace_open(folder, 0, 0, &t, NULL), OK);
    assert_null(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(steps_that_are_done_are_traced_once, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_run_that_ends_early_traces_what_it_has, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(what_cannot_be_traced_is_said, make_folder, remove_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
