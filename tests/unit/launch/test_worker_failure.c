// test_worker_failure.c -- how a worker's end is told: the record that agents give each other, the file that a worker
// writes, its line and torchrun's report.
#include "launch/worker_failure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const worker_failure FAILED = {.rank = 3,
                                      .local_rank = 1,
                                      .node = 1,
                                      .host = "n2",
                                      .pid = 12,
                                      .exit_code = 7,
                                      .time_s = 86400 + 3661,
                                      .what = "Traceback\nno \"such\" layer\n",
                                      .error_file = "logs/error.json"};
static const worker_failure KILLED = {
    .rank = 0, .local_rank = 0, .host = "n1", .pid = 11, .exit_code = -9};

static void a_record_is_read_as_it_was_written(void **state)
{
    (void)state;
    char packed[STORE_VALUE_BYTES];
    size_t bytes = 0;
    worker_failure f;
    err e = {0};
    assert_int_equal(worker_failure_pack(&FAILED, packed, &bytes, &e), OK);
    assert_int_equal(worker_failure_unpack(packed, bytes, &f, &e), OK);
    assert_int_equal(f.rank, 3);
    assert_int_equal(f.local_rank, 1);
    assert_int_equal(f.node, 1);
    assert_int_equal(f.pid, 12);
    assert_int_equal(f.exit_code, 7);
    assert_int_equal(f.time_s, FAILED.time_s);
    assert_string_equal(f.host, FAILED.host);
    assert_string_equal(f.what, FAILED.what);
    assert_string_equal(f.error_file, FAILED.error_file);
    assert_int_equal(worker_failure_unpack(packed, bytes - 1, &f, &e), E_IO);
    assert_string_equal(e.text, "a failure on another host, whose record is damaged");
    assert_int_equal(worker_failure_unpack("{\"rank\": 1}", 11, &f, &e), E_IO);
}

// JSON writes a control character as six, so that the message does not fit into a value of the store.
static void a_message_that_escapes_make_too_long_is_left_out(void **state)
{
    (void)state;
    char packed[STORE_VALUE_BYTES];
    size_t bytes = 0;
    worker_failure f = FAILED;
    err e = {0};
    memset(f.what, 1, sizeof f.what - 1);
    assert_int_equal(worker_failure_pack(&f, packed, &bytes, &e), OK);
    assert_int_equal(worker_failure_unpack(packed, bytes, &f, &e), OK);
    assert_int_equal(f.rank, 3);
    assert_string_equal(f.what, "");
    assert_string_equal(f.error_file, FAILED.error_file);
}

static void expect_line(const worker_failure *f, const char *line)
{
    text out = {0};
    worker_failure_line(f, &out);
    assert_string_equal(out.chars, line);
    text_clear(&out);
}

static void a_line_has_the_last_line_of_the_message(void **state)
{
    (void)state;
    worker_failure f = {.rank = -1, .node = 2, .host = "n3", .what = "its agent ended"};
    expect_line(&FAILED, "rank 3 (host n2, local rank 1, pid 12) ended with exit code 7: no "
                         "\"such\" layer");
    expect_line(&KILLED, "rank 0 (host n1, local rank 0, pid 11) was killed by signal 9 (Killed)");
    expect_line(&f, "node 2 (host n3): its agent ended");
    f = KILLED;
    strcpy(f.what, "\n\n");
    expect_line(&f, "rank 0 (host n1, local rank 0, pid 11) was killed by signal 9 (Killed)");
}

// A rank of another node, or one whose process is gone, has no number of a process.
static void a_rank_that_another_one_blames_is_named_with_it(void **state)
{
    (void)state;
    char packed[STORE_VALUE_BYTES];
    size_t bytes = 0;
    worker_failure f = FAILED;
    text out = {0};
    f.reported_by = 1 + 0;
    f.pid = 0;
    assert_int_equal(worker_failure_pack(&f, packed, &bytes, NULL), OK);
    assert_int_equal(worker_failure_unpack(packed, bytes, &f, NULL), OK);
    expect_line(&f, "rank 3 (host n2, local rank 1), says rank 0: no \"such\" layer");
    worker_failure_report("train.py", &f, 1, &out);
    assert_non_null(strstr(out.chars, "  exitcode  : <N/A> (pid: 0), says rank 0\n"));
    text_clear(&out);
    f.reported_by = 0;
    assert_int_equal(worker_failure_pack(&f, packed, &bytes, NULL), OK);
    assert_int_equal(worker_failure_unpack(packed, bytes, &f, NULL), E_IO);
}

static void the_output_of_a_worker_is_its_message(void **state)
{
    (void)state;
    static const struct {
        const char *output;
        bool is_cut;
        const char *what;
    } cases[] = {{"of a line\nwhole\n", true, "whole\n"},
                 {"a line\nwhole\n", false, "a line\nwhole\n"},
                 {"one line without an end", true, "one line without an end"},
                 {"error\r\n", false, "error\\r\n"},
                 {"\r 1%|\r 2%|\nlost\n", false, "lost\n"},
                 {"step 1/2  loss 3\nstep two\n", false, "step two\n"},
                 {" 1%|Traceback (most recent call last):\n  a\nE: b\n", false,
                  "Traceback (most recent call last):\n  a\nE: b\n"},
                 {"\r 1%|", false, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        worker_failure f = KILLED;
        worker_failure_take_output(&f, cases[i].output, strlen(cases[i].output), cases[i].is_cut);
        assert_string_equal(f.what, cases[i].what);
    }
    // The file of a worker counts before its output. A long one begins with a line.
    worker_failure f = FAILED;
    worker_failure_take_output(&f, "later\n", 6, false);
    assert_string_equal(f.what, FAILED.what);
    strcpy(f.what, "x");
    worker_failure_take_output(&f, "later\n", 6, false);
    assert_string_equal(f.what, "x");
    char longer[2 * WHAT_BYTES];
    memset(longer, 'x', sizeof longer);
    longer[WHAT_BYTES + 100] = '\n';
    f = KILLED;
    worker_failure_take_output(&f, longer, sizeof longer, false);
    assert_int_equal(strlen(f.what), WHAT_BYTES - 101);
}

static void the_report_is_that_of_torchrun(void **state)
{
    (void)state;
    const worker_failure all[] = {FAILED, KILLED};
    text out = {0};
    setenv("TZ", "UTC", 1);
    tzset();
    worker_failure_report("train.py", all, 2, &out);
    assert_string_equal(out.chars,
                        "============================================================\n"
                        "train.py FAILED\n"
                        "------------------------------------------------------------\n"
                        "Failures:\n"
                        "[1]:\n"
                        "  time      : 1970-01-01_00:00:00\n"
                        "  host      : n1\n"
                        "  rank      : 0 (local_rank: 0)\n"
                        "  exitcode  : -9 (pid: 11)\n"
                        "  error_file: <N/A>\n"
                        "  traceback : Signal 9 (SIGKILL) received by PID 11\n"
                        "------------------------------------------------------------\n"
                        "Root Cause (first observed failure):\n"
                        "[0]:\n"
                        "  time      : 1970-01-02_01:01:01\n"
                        "  host      : n2\n"
                        "  rank      : 3 (local_rank: 1)\n"
                        "  exitcode  : 7 (pid: 12)\n"
                        "  error_file: logs/error.json\n"
                        "  traceback : Traceback\nno \"such\" layer\n\n"
                        "============================================================\n");
    text_clear(&out);
    worker_failure_report("train.py", all, 1, &out);
    assert_non_null(strstr(out.chars, "Failures:\n  <NO_OTHER_FAILURES>\n---"));
    text_clear(&out);
}

// Reads a file of these bytes; returns the failure's message, or NULL where it stays as it was.
static const char *message_of(const char *content, worker_failure *f)
{
    char path[] = "/tmp/trireme-error-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), strlen(content));
    close(fd);
    *f = KILLED;
    const int blamed = worker_failure_read_file(path, f);
    assert_int_equal(blamed, strstr(content, "\"rank\": 4") ? 4 : -1);
    unlink(path);
    assert_string_equal(f->error_file, f->what[0] ? path : "");
    return f->what[0] ? f->what : NULL;
}

static void the_file_of_a_worker_has_its_message(void **state)
{
    (void)state;
    worker_failure f = KILLED;
    assert_string_equal(message_of("{\"message\": \"no layer\"}", &f), "no layer");
    assert_string_equal(
        message_of("{\"message\": {\"message\": \"no key\", \"extraInfo\": {}}}", &f), "no key");
    assert_string_equal(message_of("{\"message\": \"late\", \"rank\": 4}", &f), "late");
    assert_string_equal(message_of("{\"message\": \"late\", \"rank\": -4}", &f), "late");
    assert_null(message_of("{\"message\": 5}", &f));
    assert_null(message_of("{\"mess", &f));
    assert_null(message_of("", &f));
    worker_failure_read_file("/proc/none", &f);
    assert_string_equal(f.what, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_is_read_as_it_was_written),
        cmocka_unit_test(a_message_that_escapes_make_too_long_is_left_out),
        cmocka_unit_test(a_line_has_the_last_line_of_the_message),
        cmocka_unit_test(a_rank_that_another_one_blames_is_named_with_it),
        cmocka_unit_test(the_output_of_a_worker_is_its_message),
        cmocka_unit_test(the_report_is_that_of_torchrun),
        cmocka_unit_test(the_file_of_a_worker_has_its_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
