// test_log.c -- log.jsonl: every line is JSON, numbers read back to the same bits, and an unfinished
// line of a killed run is removed.
#include "base/file.h"
#include "monitor/log.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[64];
static err e;

static int setup(void **state)
{
    (void)state;
    strcpy(path, "/tmp/trireme-log-XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0) return -1;
    return close(fd);
}

static int teardown(void **state)
{
    (void)state;
    return unlink(path);
}

// Parses the n-th line, from 0. The caller calls json_decref.
static json_t *parse_line(int n)
{
    char *content, *start;
    json_t *line;

    assert_int_equal(file_read(path, &content, NULL, &e), OK);
    start = content;
    while (n-- > 0) start = strchr(start, '\n') + 1;
    line = json_loadb(start, (size_t)(strchr(start, '\n') - start), 0, NULL);
    assert_non_null(line);
    free(content);
    return line;
}

static double number(json_t *line, const char *key)
{
    json_t *v = json_object_get(line, key);
    assert_true(json_is_number(v));
    return json_number_value(v);
}

static log_file *opened(void)
{
    log_file *l;
    assert_int_equal(log_open(path, &l, &e), OK);
    return l;
}

static status add_step(log_file *l, const event_step *s)
{
    return log_event(l, &(event){.kind = EVENT_STEP, .step = *s}, &e);
}

static status add_eval(log_file *l, int64_t step, double loss)
{
    return log_event(
        l,
        &(event){.kind = EVENT_EVAL, .eval = {.step = step, .loss = loss, .has_perplexity = true}},
        &e);
}

static void a_step_reads_back_to_the_same_bits(void **state)
{
    event_step s = {.step = 7,
                    .steps = 9,
                    .loss = 1.0 / 3.0,
                    .grad_norm = 1e-300,
                    .lr = 0.1 + 0.2,
                    .tokens = 1024,
                    .seconds = 0.1f,
                    .tokens_per_s = 10240.33f,
                    .mfu = NAN};
    log_file *l = opened();
    json_t *line;

    (void)state;
    assert_int_equal(add_step(l, &s), OK);
    line = parse_line(0);
    assert_string_equal(json_string_value(json_object_get(line, "event")), "step");
    assert_true(number(line, "step") == 7 && number(line, "tokens") == 1024);
    assert_true(number(line, "loss") == s.loss);
    assert_true(number(line, "grad_norm") == s.grad_norm);
    assert_true(number(line, "lr") == s.lr);
    assert_true((float)number(line, "seconds") == s.seconds);
    assert_true((float)number(line, "tokens_per_s") == s.tokens_per_s);
    assert_true(json_is_false(json_object_get(line, "skipped")));
    assert_null(json_object_get(line, "matmul_share"));
    json_decref(line);
    log_close(l);
}

static void norms_of_groups_are_an_object(void **state)
{
    static const event_group_norm norm[] = {{"*.bias", 1.0 / 3.0}, {"no group", INFINITY}};
    const event_step s = {.step = 1, .mfu = NAN, .group_norm = norm, .group_norms = 2};
    log_file *l = opened();
    (void)state;
    assert_int_equal(add_step(l, &s), OK);
    json_t *line = parse_line(0);
    json_t *found = json_object_get(line, "grad_norm_by_group");
    assert_true(json_object_size(found) == 2 && number(found, "*.bias") == norm[0].norm);
    assert_true(json_is_null(json_object_get(found, "no group")));
    json_decref(line);
    log_close(l);
}

static void numbers_that_json_lacks_are_null_beside_their_text(void **state)
{
    event_step s = {.step = 1, .loss = NAN, .grad_norm = INFINITY, .lr = -INFINITY};
    log_file *l = opened();
    json_t *line;

    (void)state;
    assert_int_equal(add_step(l, &s), OK);
    line = parse_line(0);
    assert_true(json_is_null(json_object_get(line, "loss")));
    assert_string_equal(json_string_value(json_object_get(line, "loss_text")), "nan");
    assert_string_equal(json_string_value(json_object_get(line, "grad_norm_text")), "inf");
    assert_string_equal(json_string_value(json_object_get(line, "lr_text")), "-inf");
    json_decref(line);
    log_close(l);
}

static void every_event_is_an_object_on_a_line_of_its_own(void **state)
{
    static const char *const events[] = {"start",   "eval",  "save", "straggler",
                                         "verdict", "error", "end"};
    const event_axis mesh[] = {{"dp", 2}, {"tp", 1}};
    event_start start = {.version = "0.1.0",
                         .mesh = mesh,
                         .axes = 2,
                         .ranks = 2,
                         .threads_per_rank = -1,
                         .params = 124439808,
                         .plan_bytes_per_rank = 5000000000,
                         .resumed_from = -1,
                         .note = "a slower way"};
    // A note is no line.
    const event others[] = {
        {.kind = EVENT_SAVE, .save = {3, "out/checkpoints/step-00000003", 77, 0.5f}},
        {.kind = EVENT_NOTE, .note = "the peak is measured"},
        {.kind = EVENT_STRAGGLER, .straggler = {7, 3, "b", "input", 0.25, true}},
        {.kind = EVENT_VERDICT, .verdict = {"INPUT STRAGGLER", 3, "b", "its line", "Try it."}},
        {.kind = EVENT_ERROR, .error = {1, "rank 1: \"quoted\"\\ \x01 \xff"}},
        {.kind = EVENT_END, .end = {3, "failed", 1.5f}}};
    log_file *l = opened();
    json_t *line;

    (void)state;
    assert_int_equal(log_event(l, &(event){.kind = EVENT_START, .start = start}, &e), OK);
    assert_int_equal(add_eval(l, 3, 2.0), OK);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(log_event(l, &others[i], &e), OK);
    log_close(l);
    for (int i = 0; i < 7; i++) {
        line = parse_line(i);
        assert_string_equal(json_string_value(json_object_get(line, "event")), events[i]);
        json_decref(line);
    }
    line = parse_line(0);
    assert_true(number(json_object_get(line, "mesh"), "dp") == 2);
    assert_true(number(line, "params") == 124439808 && number(line, "ranks") == 2);
    assert_null(json_object_get(line, "resumed_from"));
    assert_null(json_object_get(line, "model"));
    assert_string_equal(json_string_value(json_object_get(line, "note")), "a slower way");
    json_decref(line);
    line = parse_line(3);
    assert_true(number(line, "step") == 7 && number(line, "rank") == 3);
    assert_true(number(line, "share") == 0.25);
    assert_string_equal(json_string_value(json_object_get(line, "cause")), "input");
    assert_true(json_is_true(json_object_get(line, "chronic")));
    json_decref(line);
    line = parse_line(4);
    assert_string_equal(json_string_value(json_object_get(line, "verdict")), "INPUT STRAGGLER");
    assert_string_equal(json_string_value(json_object_get(line, "next")), "Try it.");
    json_decref(line);
    line = parse_line(5);
    assert_string_equal(json_string_value(json_object_get(line, "text")),
                        "rank 1: \"quoted\"\\ \x01 \xef\xbf\xbd");
    json_decref(line);
}

static void write_raw(const char *s)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(s, f);
    assert_int_equal(fclose(f), 0);
}

static void expect_raw(const char *s)
{
    char *content;
    assert_int_equal(file_read(path, &content, NULL, &e), OK);
    assert_string_equal(content, s);
    free(content);
}

static void opening_removes_an_unfinished_line_and_nothing_else(void **state)
{
    char far[9000];

    (void)state;
    write_raw("{\"a\":1}\n{\"b\":2}\n{\"half");
    log_close(opened());
    expect_raw("{\"a\":1}\n{\"b\":2}\n");
    log_close(opened());
    expect_raw("{\"a\":1}\n{\"b\":2}\n");

    write_raw("{\"only half");
    log_close(opened());
    expect_raw("");

    // The unfinished line is longer than one piece of the search.
    memset(far, 'x', sizeof far - 1);
    far[sizeof far - 1] = 0;
    memcpy(far, "{}\n", 3);
    write_raw(far);
    log_close(opened());
    expect_raw("{}\n");
}

static void opening_keeps_the_old_lines(void **state)
{
    log_file *l;

    (void)state;
    write_raw("{\"old\":1}\n");
    l = opened();
    assert_int_equal(add_eval(l, 3, 0.0), OK);
    log_close(l);
    expect_raw("{\"old\":1}\n{\"event\":\"eval\",\"step\":3,\"loss\":0,\"perplexity\":1}\n");
}

static void a_path_that_cannot_be_opened_is_named(void **state)
{
    log_file *l;

    (void)state;
    assert_int_equal(log_open("/nowhere/log.jsonl", &l, &e), E_IO);
    assert_null(l);
    assert_non_null(strstr(e.text, "/nowhere/log.jsonl"));
}

static void a_full_disk_is_an_error_that_names_the_file(void **state)
{
    log_file *l;

    (void)state;
    assert_int_equal(log_open("/dev/full", &l, &e), OK);
    assert_int_equal(add_eval(l, 1, 1.0), E_IO);
    assert_non_null(strstr(e.text, "/dev/full"));
    log_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_step_reads_back_to_the_same_bits, setup, teardown),
        cmocka_unit_test_setup_teardown(norms_of_groups_are_an_object, setup, teardown),
        cmocka_unit_test_setup_teardown(numbers_that_json_lacks_are_null_beside_their_text, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(every_event_is_an_object_on_a_line_of_its_own, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(opening_removes_an_unfinished_line_and_nothing_else, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(opening_keeps_the_old_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(a_path_that_cannot_be_opened_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_disk_is_an_error_that_names_the_file, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
