// Tests a run seen from outside: a log with a resumed run, an unfinished last line, a damaged one; the ranks of the start
// event and of the records; the steps that all records have.
#include "made_run.h"
#include "monitor/run_view.h"
#include "own_text.h"

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

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/trireme-view-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return file_remove_tree(folder, NULL) == OK ? 0 : -1;
}

static void write_log(const char *lines)
{
    char *path = own_path(folder, "log.jsonl");
    assert_int_equal(file_replace(path, lines, strlen(lines), &e), OK);
    free(path);
}

static run_view *opened(void)
{
    run_view *v = NULL;
    if (run_view_open(folder, &v, &e) != OK) fail_msg("%s", e.text);
    return v;
}

static void a_folder_without_a_run_is_refused(void **state)
{
    (void)state;
    run_view *v = NULL;
    assert_int_equal(run_view_open("/tmp/trireme-no-such-folder", &v, &e), E_USAGE);
    assert_int_equal(run_view_open(folder, &v, &e), E_USAGE);
    assert_non_null(strstr(e.text, "not the folder of a run"));
    assert_null(v);
}

#define START         "{\"event\":\"start\",\"ranks\":3,\"model\":\"gpt2\"}\n"
#define STEP(n, loss) "{\"event\":\"step\",\"step\":" #n ",\"loss\":" #loss "}\n"

static void steps_of_a_resumed_run_replace_the_earlier_ones(void **state)
{
    (void)state;
    write_log(
        START STEP(1, 3.5) STEP(2, 3.25)
            STEP(3, 3.0) "{\"event\":\"error\",\"text\":\"rank 1 was killed\"}\n" START STEP(
                2, 2.25) "{\"event\":\"save\",\"step\":2,\"bytes\":9,\"seconds\":0.5}\n"
                         "{\"event\":\"eval\",\"step\":2,\"loss\":2.5}\n{\"event\":\"step\",\"st");
    run_view *v = opened();
    assert_int_equal(v->ranks, 3);
    assert_int_equal(v->recorded, 0);
    assert_string_equal(run_view_text(v, "model"), "gpt2");
    assert_null(v->error);
    assert_null(v->end);
    assert_int_equal(v->steps, 2);
    assert_true(v->step[1].loss == 2.25);
    assert_true(isnan(v->step[1].seconds));
    assert_int_equal(v->saves, 1);
    assert_true(v->save[0].seconds == 0.5);
    assert_int_equal(v->evals, 1);
    // The line is finished, and the run ends.
    write_log(START STEP(1, 3.5) STEP(2, 3.25)
                  STEP(3, 3.0) "{\"event\":\"error\",\"text\":\"rank 1 was killed\"}\n" START STEP(
                      2, 2.25) "{\"event\":\"save\",\"step\":2,\"bytes\":9,\"seconds\":0.5}\n"
                               "{\"event\":\"eval\",\"step\":2,\"loss\":2.5}\n" STEP(
                                   3, 2.0) "{\"event\":\"end\",\"step\":3,\"reason\":\"done\"}\n");
    assert_int_equal(run_view_refresh(v, &e), OK);
    assert_int_equal(v->steps, 3);
    assert_true(v->step[2].loss == 2.0);
    assert_non_null(v->end);
    run_view_close(v);
}

static void a_damaged_line_is_named(void **state)
{
    (void)state;
    run_view *v = NULL;
    write_log(START "{\"event\":\n");
    assert_int_equal(run_view_open(folder, &v, &e), E_USAGE);
    assert_non_null(strstr(e.text, "log.jsonl:2: not JSON"));
    write_log(START "\n[1]\n");
    assert_int_equal(run_view_open(folder, &v, &e), E_USAGE);
    assert_non_null(strstr(e.text, "log.jsonl:3: not a JSON object"));
}

static void records_say_their_ranks_and_steps(void **state)
{
    (void)state;
    uint64_t first = 0, last = 0;
    spans_step step;
    const made_run o = {
        .ranks = 4, .steps = 6, .hosts = 2, .cause = MADE_COMPUTE, .slow_rank = 2, .slow_by = 0.3};
    assert_int_equal(made_run_write(folder, &o, &e), OK);
    run_view *v = opened();
    assert_int_equal(v->ranks, 4);
    assert_int_equal(v->recorded, 4);
    assert_string_equal(v->rank[2]->head->host, "b");
    assert_true(run_view_common_steps(v, &first, &last));
    assert_int_equal(first, 1);
    assert_int_equal(last, 6);
    assert_true(run_view_step_of(v, 0, 4, &step));
    assert_int_equal(step.step, 4);
    assert_int_equal(step.waited_for, 2);
    assert_in_range(step.waited_for_ns, 29900000, 30100000);
    int64_t sum = 0;
    for (int p = 0; p < SPANS_PHASES; p++) sum += step.phase_ns[p];
    assert_int_equal(sum, step.duration_ns);
    assert_true(run_view_step_of(v, 2, 4, &step));
    assert_int_equal(step.waited_for, -1);
    assert_false(run_view_step_of(v, 0, 7, &step));
    assert_false(run_view_runs(v, 0));
    run_view_close(v);
}

static void a_record_that_is_not_there_is_no_error(void **state)
{
    (void)state;
    uint64_t first = 0, last = 0;
    char *path = own_path(folder, "spans/rank-00001.spans");
    assert_int_equal(unlink(path), 0);
    run_view *v = opened();
    assert_int_equal(v->ranks, 4);
    assert_int_equal(v->recorded, 3);
    assert_null(v->rank[1]);
    assert_true(run_view_common_steps(v, &first, &last));
    assert_int_equal(last, 6);
    run_view_close(v);
    assert_int_equal(file_replace(path, "none", 4, &e), OK);
    assert_int_equal(run_view_open(folder, &v, &e), E_USAGE);
    assert_non_null(strstr(e.text, "rank-00001.spans: not a record of spans"));
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_without_a_run_is_refused),
        cmocka_unit_test(steps_of_a_resumed_run_replace_the_earlier_ones),
        cmocka_unit_test(a_damaged_line_is_named),
        cmocka_unit_test(records_say_their_ranks_and_steps),
        cmocka_unit_test(a_record_that_is_not_there_is_no_error),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
