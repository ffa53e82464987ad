// test_csv.c -- metrics.csv: a line for each step with its evaluation, what a resumed run keeps, and what is refused.
#include "monitor/metrics/csv.h"

#include "base/file.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define HEADER                                                                                     \
    "step,loss,grad_norm,lr,tokens,seconds,tokens_per_s,mfu,skipped,loss_scale,eval_loss\n"

static int enter_folder(void **state)
{
    static char folder[64];
    (void)snprintf(folder, sizeof folder, "/tmp/trireme-test-XXXXXX");
    *state = folder;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
    return chdir("/") || file_remove_tree(*state, NULL) != OK;
}

static void give(const event_sink *s, event ev)
{
    assert_int_equal(s->take(s->arg, &ev, NULL), OK);
}

static void start(const event_sink *s, int64_t resumed_from)
{
    give(s, (event){.kind = EVENT_START, .start = {.resumed_from = resumed_from}});
}

static void step(const event_sink *s, int64_t number, double loss)
{
    give(s, (event){.kind = EVENT_STEP,
                    .step = {.step = number,
                             .loss = loss,
                             .grad_norm = 1,
                             .lr = 0.001,
                             .tokens = 64,
                             .seconds = 0.5f,
                             .tokens_per_s = 128,
                             .mfu = number == 2 ? 0.25f : NAN,
                             .skipped = number == 3,
                             .loss_scale = number == 3 ? 1024 : 0}});
}

static void expect(const char *lines)
{
    char *found = NULL;
    assert_int_equal(file_read("metrics.csv", &found, NULL, NULL), OK);
    assert_string_equal(found, lines);
    free(found);
}

static void steps_and_evaluations_are_lines(void **state)
{
    (void)state;
    event_sink s;
    assert_int_equal(csv_open("metrics.csv", &s, NULL), OK);
    start(&s, -1);
    step(&s, 1, 0.1);
    step(&s, 2, INFINITY);
    give(&s, (event){.kind = EVENT_NOTE, .note = "a note"});
    give(&s, (event){.kind = EVENT_EVAL, .eval = {.step = 2, .loss = 3.5, .has_perplexity = true}});
    step(&s, 3, NAN);
    expect(HEADER
           "1,0.10000000000000001,1,0.001,64,0.5,128,,0,,\n2,inf,1,0.001,64,0.5,128,0.25,0,,3.5\n");
    s.close(s.arg);
    expect(HEADER
           "1,0.10000000000000001,1,0.001,64,0.5,128,,0,,\n2,inf,1,0.001,64,0.5,128,0.25,0,,3.5\n"
           "3,nan,1,0.001,64,0.5,128,,1,1024,\n");
}

// The file of the test above: the run resumes from step 2.
static void a_resumed_run_has_each_step_once(void **state)
{
    (void)state;
    event_sink s;
    assert_int_equal(csv_open("metrics.csv", &s, NULL), OK);
    start(&s, 2);
    step(&s, 3, 7);
    step(&s, 4, 8);
    give(&s, (event){.kind = EVENT_END, .end = {4, "done", 1}});
    const char *const all = HEADER
        "1,0.10000000000000001,1,0.001,64,0.5,128,,0,,\n2,inf,1,0.001,64,0.5,128,0.25,0,,3.5\n"
        "3,7,1,0.001,64,0.5,128,,1,1024,\n4,8,1,0.001,64,0.5,128,,0,,\n";
    expect(all);
    s.close(s.arg);
    expect(all);
}

static void an_unfinished_line_is_removed(void **state)
{
    (void)state;
    event_sink s;
    const char *const torn = HEADER "1,2,3,4,5,6,7,,0,,\n2,9";
    assert_int_equal(file_replace("metrics.csv", torn, strlen(torn), NULL), OK);
    assert_int_equal(csv_open("metrics.csv", &s, NULL), OK);
    start(&s, 2);
    expect(HEADER "1,2,3,4,5,6,7,,0,,\n");
    start(&s, -1);
    expect(HEADER);
    s.close(s.arg);
}

static void other_files_are_refused(void **state)
{
    (void)state;
    event_sink s;
    err e = {0};
    assert_int_equal(file_replace("metrics.csv", "a,b\n1,2\n", 8, NULL), OK);
    assert_int_equal(csv_open("metrics.csv", &s, NULL), OK);
    const event ev = {.kind = EVENT_START, .start = {.resumed_from = -1}};
    assert_int_equal(s.take(s.arg, &ev, &e), E_USAGE);
    assert_non_null(strstr(e.text, "metrics.csv: not the metrics of a run"));
    s.close(s.arg);
    expect("a,b\n1,2\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_and_evaluations_are_lines),
        cmocka_unit_test(a_resumed_run_has_each_step_once),
        cmocka_unit_test(an_unfinished_line_is_removed),
        cmocka_unit_test(other_files_are_refused),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
