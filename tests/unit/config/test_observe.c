// test_observe.c -- the keys of the section observe: their values, what is refused, and that a resumed run may change them.
#include "job_fixture.h"

static void nothing_is_observed_by_default(void **state)
{
    (void)state;
    job *j = good_job(SMALL, "");
    assert_int_equal(j->observe.trace_first, 0);
    assert_int_equal(j->observe.trace_last, 0);
    assert_null(j->observe.prometheus);
    assert_null(j->observe.textfile);
    assert_false(j->observe.tensorboard);
    assert_false(j->observe.csv);
    text t = yaml_of(j);
    assert_non_null(strstr(t.chars, "observe:\n"));
    assert_non_null(strstr(t.chars, "  trace_steps: none\n"));
    assert_non_null(strstr(t.chars, "  prometheus: off\n"));
    text_clear(&t);
    job_close(j);
}

static void values_are_read(void **state)
{
    (void)state;
    job *j = good_job(SMALL "observe: {trace_steps: 10-12, prometheus: 9401, csv: true}\n", "");
    assert_int_equal(j->observe.trace_first, 10);
    assert_int_equal(j->observe.trace_last, 12);
    assert_string_equal(j->observe.prometheus, "9401");
    assert_true(j->observe.csv);
    job_close(j);
    j = good_job(SMALL "observe: {trace_steps: 10-12, prometheus: 9401, textfile: x.prom}\n",
                 "--observe.trace_steps|1k|--observe.prometheus|[::1]:0|--observe.textfile|off|"
                 "--observe.tensorboard");
    assert_int_equal(j->observe.trace_first, 1000);
    assert_int_equal(j->observe.trace_last, 1000);
    assert_string_equal(j->observe.prometheus, "[::1]:0");
    assert_null(j->observe.textfile);
    assert_true(j->observe.tensorboard);
    job_close(j);
    j = good_job(SMALL, "--observe.textfile|t/x.prom|--observe.prometheus|0.0.0.0:9401");
    assert_int_equal(j->observe.textfile[0], '/');
    assert_non_null(strstr(j->observe.textfile, "/t/x.prom"));
    job_close(j);
}

#define STEPS "; valid: none, or a step as 10, or a range as 10-12 of at most 1024 steps"
#define PORTS "; valid: off, or PORT or ADDRESS:PORT with a port from 0 to 65535"

static void values_are_refused(void **state)
{
    (void)state;
    static const refusal all[] = {
        {SMALL, "--observe.trace_steps|0", "--observe.trace_steps: found 0" STEPS},
        {SMALL, "--observe.trace_steps|12-10", "--observe.trace_steps: found 12-10" STEPS},
        {SMALL, "--observe.trace_steps|1-1025", "--observe.trace_steps: found 1-1025" STEPS},
        {SMALL, "--observe.trace_steps|-3", "--observe.trace_steps: found -3" STEPS},
        {SMALL, "--observe.trace_steps|3-", "--observe.trace_steps: found 3-" STEPS},
        {SMALL, "--observe.trace_steps|all", "--observe.trace_steps: found all" STEPS},
        {SMALL "observe:\n  trace_steps: [1, 2]\n", "",
         "job.yaml:4: observe.trace_steps: found [1, 2]" STEPS},
        {SMALL, "--observe.prometheus|65536", "--observe.prometheus: found 65536" PORTS},
        {SMALL, "--observe.prometheus|localhost", "--observe.prometheus: found localhost" PORTS},
        {SMALL, "--observe.prometheus|:9400", "--observe.prometheus: found :9400" PORTS},
        {SMALL, "--observe.csv|maybe", "--observe.csv: found maybe; valid: false, true"},
        {SMALL, "--observe.csvs|true", "--observe.csvs: unknown key; did you mean observe.csv?"},
    };
    ASSERT_ALL_REFUSED(all);
}

static void a_resumed_run_may_change_them(void **state)
{
    (void)state;
    job *j = good_job(SMALL, "");
    text t = yaml_of(j), found = {0};
    put_file("old.yaml", t.chars);
    text_clear(&t);
    job_close(j);
    j = good_job(SMALL, "--observe.trace_steps|1-3|--observe.prometheus|9401|--observe.csv|"
                        "--observe.tensorboard|--observe.textfile|x.prom");
    assert_int_equal(job_compare_run(j, "old.yaml", &found, NULL), OK);
    assert_null(found.chars);
    job_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_observed_by_default),
        cmocka_unit_test(values_are_read),
        cmocka_unit_test(values_are_refused),
        cmocka_unit_test(a_resumed_run_may_change_them),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
