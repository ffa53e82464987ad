// Tests the verdicts: each kind of made-up run gets its word, its rank and host, evidence with numbers, and a next thing to
// try that names keys of the job file.
#include "made_run.h"
#include "monitor/report/report.h"

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
static run_view *view;
static report *got;

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/trireme-verdict-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return file_remove_tree(folder, NULL) == OK ? 0 : -1;
}

static int close_report(void **state)
{
    (void)state;
    report_close(got);
    run_view_close(view);
    got = NULL;
    view = NULL;
    return 0;
}

static void make(const made_run *o)
{
    close_report(NULL);
    assert_int_equal(file_remove_tree(folder, &e), OK);
    assert_int_equal(made_run_write(folder, o, &e), OK);
    assert_int_equal(run_view_open(folder, &view, &e), OK);
    assert_int_equal(report_make(view, &got, &e), OK);
}

static bool has_evidence(const char *words)
{
    bool found = false;
    for (int i = 0; i < got->evidences; i++) found |= strstr(got->evidence[i], words) != NULL;
    return found;
}

static void stragglers_are_named_with_rank_host_and_cause(void **state)
{
    (void)state;
    static const made_cause causes[] = {MADE_COMPUTE, MADE_INPUT, MADE_LINK};
    static const char *const words[] = {"COMPUTE STRAGGLER", "INPUT STRAGGLER", "LINK STRAGGLER"};
    static const char *const next[] = {"launch.threads_per_rank", "data.train", "launch.comm"};
    for (size_t c = 0; c < 3; c++) {
        make(&(made_run){.ranks = 8,
                         .hosts = 2,
                         .steps = 60,
                         .jitter = 0.01,
                         .cause = causes[c],
                         .slow_rank = 5,
                         .slow_by = 0.3,
                         .slow_from = 20});
        assert_string_equal(got->verdict, words[c]);
        assert_int_equal(got->rank, 5);
        assert_string_equal(got->host, "b");
        assert_non_null(strstr(got->line, "STRAGGLER rank 5 on host b"));
        assert_true(has_evidence("waited for rank 5 on host b in 41 of 59 steps"));
        assert_non_null(strstr(got->next, next[c]));
    }
}

static void a_host_is_named_as_a_whole(void **state)
{
    (void)state;
    make(&(made_run){.ranks = 8,
                     .hosts = 2,
                     .steps = 40,
                     .cause = MADE_COMPUTE,
                     .slow_rank = 4,
                     .slow_host = true,
                     .slow_by = 0.2});
    assert_string_equal(got->verdict, "COMPUTE STRAGGLER");
    assert_int_equal(got->rank, -1);
    assert_non_null(strstr(got->line, "host b, all its ranks"));
}

static void a_straggler_that_is_gone_long_ago_is_evidence(void **state)
{
    (void)state;
    make(&(made_run){.ranks = 4,
                     .steps = 400,
                     .comm = 0.05,
                     .cause = MADE_INPUT,
                     .slow_rank = 2,
                     .slow_by = 0.3,
                     .slow_from = 50,
                     .slow_last = 65});
    assert_string_equal(got->verdict, "COMPUTE-BOUND");
    assert_true(has_evidence("waited for rank 2 on host a in 16 of 399 steps"));
    assert_true(has_evidence("chronic since step 57, and not any more"));
}

static void what_takes_the_time_is_the_verdict(void **state)
{
    (void)state;
    make(&(made_run){.ranks = 4, .steps = 30, .comm = 0.05});
    assert_string_equal(got->verdict, "COMPUTE-BOUND");
    assert_non_null(strstr(got->next, "train.precision: bf16"));
    make(&(made_run){.ranks = 4, .steps = 30, .comm = 0.05, .matmul_share = 0.3});
    assert_non_null(strstr(got->next, "train.micro_batch"));
    assert_true(has_evidence("mfu 30 %"));
    make(&(made_run){.ranks = 4, .steps = 30, .comm = 0.12, .input = 0.08});
    assert_string_equal(got->verdict, "HEALTHY");
    make(&(made_run){.ranks = 4, .steps = 30, .input = 0.3});
    assert_string_equal(got->verdict, "INPUT-BOUND");
    assert_true(has_evidence("input 30.0 %"));
    make(&(made_run){.ranks = 4, .steps = 30, .comm = 0.4, .input = 0.2});
    assert_string_equal(got->verdict, "COMMUNICATION-EXPOSED");
    assert_non_null(strstr(got->next, "parallel.hook"));
    make(&(made_run){.ranks = 4, .steps = 60, .save_every = 10, .save = 0.25});
    assert_string_equal(got->verdict, "CHECKPOINT-BOUND");
    assert_true(has_evidence("6 checkpoints took 0.33 s each"));
    assert_non_null(strstr(got->next, "train.save_every to 64"));
}

static void the_larger_of_two_causes_is_the_verdict(void **state)
{
    (void)state;
    made_run o = {.ranks = 4,
                  .steps = 40,
                  .input = 0.3,
                  .comm = 0.05,
                  .cause = MADE_COMPUTE,
                  .slow_rank = 1,
                  .slow_by = 0.1};
    make(&o);
    assert_string_equal(got->verdict, "INPUT-BOUND");
    assert_int_equal(got->rank, -1);
    assert_true(has_evidence("waited for rank 1 on host a"));
    o.slow_by = 0.9;
    make(&o);
    assert_string_equal(got->verdict, "COMPUTE STRAGGLER");
}

static void delays_that_move_are_summed_up(void **state)
{
    (void)state;
    make(&(made_run){.ranks = 4, .steps = 100, .spike_every = 20, .spike_by = 0.5, .comm = 0.05});
    assert_string_equal(got->verdict, "COMPUTE-BOUND");
    assert_true(has_evidence("one-off delays: 5 slow steps"));
}

static void unequal_stages_are_told_with_their_key(void **state)
{
    (void)state;
    make(&(made_run){.ranks = 4, .stages = 2, .steps = 30, .stage_by = 0.12});
    assert_null(strstr(got->verdict, "STRAGGLER"));
    assert_true(has_evidence("stage 1 is 12 % slower than the fastest stage: parallel.split"));
}

static void memory_that_grows_comes_first(void **state)
{
    (void)state;
    make(&(made_run){.ranks = 2, .steps = 300, .input = 0.3, .creep = 0.05});
    assert_string_equal(got->verdict, "MEMORY CREEP");
    assert_true(has_evidence("in 1,000 steps"));
    make(&(made_run){.ranks = 2, .steps = 300, .input = 0.3, .creep = 0.005});
    assert_string_equal(got->verdict, "INPUT-BOUND");
    make(&(made_run){.ranks = 2, .steps = 90, .input = 0.3, .creep = 0.05});
    assert_string_equal(got->verdict, "INPUT-BOUND");
}

static void a_short_run_is_healthy(void **state)
{
    (void)state;
    make(&(made_run){.ranks = 2, .steps = 10, .input = 0.5});
    assert_string_equal(got->verdict, "HEALTHY");
    assert_true(has_evidence("too few steps: 9 were measured"));
    assert_true(got->is_short);
    make(&(made_run){.ranks = 2, .steps = 11, .input = 0.5});
    assert_string_equal(got->verdict, "INPUT-BOUND");
    make(&(made_run){.ranks = 2, .steps = 1});
    assert_true(has_evidence("too few steps: 0 were measured"));
}

static void a_run_without_records_is_unknown(void **state)
{
    (void)state;
    char path[96];
    make(&(made_run){.ranks = 2, .steps = 20});
    close_report(NULL);
    (void)snprintf(path, sizeof path, "%s/spans", folder);
    assert_int_equal(file_remove_tree(path, &e), OK);
    assert_int_equal(run_view_open(folder, &view, &e), OK);
    assert_int_equal(report_make(view, &got, &e), OK);
    assert_string_equal(got->verdict, "UNKNOWN");
    assert_true(has_evidence("0 of 2 ranks have a record"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stragglers_are_named_with_rank_host_and_cause),
        cmocka_unit_test(a_host_is_named_as_a_whole),
        cmocka_unit_test(a_straggler_that_is_gone_long_ago_is_evidence),
        cmocka_unit_test(what_takes_the_time_is_the_verdict),
        cmocka_unit_test(the_larger_of_two_causes_is_the_verdict),
        cmocka_unit_test(delays_that_move_are_summed_up),
        cmocka_unit_test(unequal_stages_are_told_with_their_key),
        cmocka_unit_test(memory_that_grows_comes_first),
        cmocka_unit_test(a_short_run_is_healthy),
        cmocka_unit_test_teardown(a_run_without_records_is_unknown, close_report),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
