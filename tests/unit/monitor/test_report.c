// Tests report.json against a golden file, the text of a report, and the comparison of two runs.
#include "made_run.h"
#include "monitor/report/report.h"
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
    strcpy(folder, "/tmp/trireme-report-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return file_remove_tree(folder, NULL) == OK ? 0 : -1;
}

static void make(const char *name, const made_run *o, run_view **v, report **r)
{
    char *path = own_path(folder, name);
    assert_int_equal(file_remove_tree(path, &e), OK);
    assert_int_equal(made_run_write(path, o, &e), OK);
    assert_int_equal(run_view_open(path, v, &e), OK);
    assert_int_equal(report_make(*v, r, &e), OK);
    free(path);
}

static const made_run SLOW = {.ranks = 3,
                              .hosts = 3,
                              .steps = 40,
                              .cause = MADE_COMPUTE,
                              .slow_rank = 1,
                              .slow_by = 0.25,
                              .save_every = 20,
                              .save = 0.02,
                              .matmul_share = 0.6};

static void report_json_is_as_the_golden_file(void **state)
{
    (void)state;
    run_view *v;
    report *r;
    char *written, *golden;
    make("a", &SLOW, &v, &r);
    assert_int_equal(report_write(r, &e), OK);
    char *path = own_path(folder, "a/report.json");
    assert_int_equal(file_read(path, &written, NULL, &e), OK);
    assert_int_equal(file_read(TESTS_DIR "/golden/report.json", &golden, NULL, &e), OK);
    assert_string_equal(written, golden);
    free(written);
    free(golden);
    free(path);
    report_close(r);
    run_view_close(v);
}

static void the_text_has_a_row_for_the_worst_ranks(void **state)
{
    (void)state;
    run_view *v;
    report *r;
    text t = {0};
    made_run o = SLOW;
    o.ranks = 12;
    make("a", &o, &v, &r);
    report_add_text(r, &t);
    assert_int_equal(strncmp(t.chars, r->line, strlen(r->line)), 0);
    assert_non_null(strstr(t.chars, "\nnext: "));
    assert_non_null(strstr(t.chars, "4 more ranks"));
    // The slow one is the first of the table.
    const char *head = strstr(t.chars, "  rank  host");
    assert_non_null(head);
    assert_int_equal(strncmp(strchr(head, '\n') + 1, "     1  a", 9), 0);
    text_clear(&t);
    report_close(r);
    run_view_close(v);
}

static void write_job(const char *name, const char *yaml)
{
    char *path = own_path(folder, name);
    assert_int_equal(file_replace(path, yaml, strlen(yaml), &e), OK);
    free(path);
}

static void two_runs_are_compared(void **state)
{
    (void)state;
    run_view *a, *b;
    report *ra, *rb;
    json_t *j;
    text t = {0};
    make("a", &SLOW, &a, &ra);
    made_run o = SLOW;
    o.cause = MADE_NOTHING;
    make("b", &o, &b, &rb);
    write_job("a/job.yaml",
              "# x\ntrain:\n  seed: 0\n  out: a\nparallel:\n  dp: ddp\n  offload:\n    "
              "weights: device\n");
    write_job("b/job.yaml", "train:\n  seed: 0\n  out: b\n  keep: 2\nparallel:\n  dp: zero3\n  "
                            "offload:\n    weights: host\n");
    assert_int_equal(report_compare(ra, rb, &j, &t, &e), OK);
    const double speedup = json_number_value(json_object_get(j, "speedup"));
    assert_true(speedup > 1.24 && speedup < 1.26);
    assert_non_null(strstr(t.chars, "b is 1.25 times as fast as "));
    assert_non_null(strstr(t.chars, "communication takes 25.0 ms less"));
    const json_t *settings = json_object_get(j, "settings");
    assert_int_equal(json_object_size(settings), 3);
    assert_string_equal(
        json_string_value(json_array_get(json_object_get(settings, "parallel.offload.weights"), 1)),
        "host");
    assert_true(json_is_null(json_array_get(json_object_get(settings, "train.keep"), 0)));
    assert_int_equal(json_integer_value(json_object_get(j, "loss_step")), 40);
    json_decref(j);
    text_clear(&t);
    report_close(ra);
    report_close(rb);
    run_view_close(a);
    run_view_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report_json_is_as_the_golden_file),
        cmocka_unit_test(the_text_has_a_row_for_the_worst_ranks),
        cmocka_unit_test(two_runs_are_compared),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
