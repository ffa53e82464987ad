// test_progress.c -- the contents of the progress line, its width, and how often it is shown.
#include "monitor/progress.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const event_step sample = {.step = 120,
                                  .steps = 1000,
                                  .loss = 3.21449,
                                  .grad_norm = 0.911,
                                  .lr = 3e-4,
                                  .tokens = 512,
                                  .seconds = 0.1f,
                                  .tokens_per_s = 12345.0f,
                                  .mfu = 0.712f};

static void expect_line(const event_step *s, double left_s, int columns, const char *line)
{
    text t = {0};
    progress_format(s, left_s, columns, &t);
    assert_string_equal(t.chars, line);
    text_clear(&t);
}

static void a_wide_line_has_every_field(void **state)
{
    (void)state;
    expect_line(&sample, 83.2, 0,
                "step 120/1000  loss 3.2145  lr 3.00e-04  |g| 0.91  12.3k tok/s  "
                "mfu 71 %  1m23s left");
}

static void a_narrow_line_omits_the_less_important_fields(void **state)
{
    (void)state;
    expect_line(&sample, 83.2, 79,
                "step 120/1000  loss 3.2145  lr 3.00e-04  |g| 0.91  12.3k tok/s  1m23s left");
    expect_line(&sample, 83.2, 40, "step 120/1000  loss 3.2145  1m23s left");
    expect_line(&sample, 83.2, 5, "step 120/1000");
    for (int columns = 14; columns < 120; columns++) {
        text t = {0};
        progress_format(&sample, 83.2, columns, &t);
        assert_true(t.bytes <= (size_t)columns);
        text_clear(&t);
    }
}

static void unknown_values_are_omitted(void **state)
{
    event_step s = sample;

    (void)state;
    s.mfu = NAN;
    s.skipped = true;
    s.loss = NAN;
    s.grad_norm = 123456.0;
    s.tokens_per_s = 5.0f;
    s.unit = "samples";
    expect_line(&s, -1.0, 0,
                "step 120/1000  loss nan (skipped)  lr 3.00e-04  |g| 1.2e+05  5.0 samples/s");
}

static void durations_of_any_length_are_short(void **state)
{
    static const struct {
        double s;
        const char *end;
    } all[] = {{0.2, "  0s left"},
               {59.6, "  1m00s left"},
               {3725, "  1h02m left"},
               {200000, "  2d07h left"}};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        text t = {0};
        progress_format(&sample, all[i].s, 0, &t);
        assert_string_equal(t.chars + t.bytes - strlen(all[i].end), all[i].end);
        text_clear(&t);
    }
}

// Runs `steps` steps of 0.1 s each. Returns the output; the caller frees it.
static char *run(progress_mode mode, int steps)
{
    char *out = NULL;
    size_t bytes;
    progress p;
    FILE *f = open_memstream(&out, &bytes);

    assert_non_null(f);
    progress_open(&p, f, mode);
    p.columns = 80;
    p.started_s = 100.0;
    for (int i = 1; i <= steps; i++) {
        event_step s = sample;
        s.step = i;
        s.steps = steps;
        progress_step(&p, &s, 100.0 + 0.1 * i);
        if (i == 2) progress_note(&p, "saved %s", "here");
    }
    progress_close(&p);
    progress_close(&p);
    fclose(f);
    return out;
}

static int count_of(const char *s, char c)
{
    int n = 0;
    for (; *s; s++) n += *s == c;
    return n;
}

static void plain_lines_become_rarer_and_the_last_always_comes(void **state)
{
    char *out = run(PROGRESS_PLAIN, 25), *longer;
    int lines = count_of(out, '\n');

    (void)state;
    assert_true(lines >= 4 && lines <= 6);
    assert_int_equal(strncmp(out, "step 1/25 ", 10), 0);
    assert_non_null(strstr(out, "\nsaved here\n"));
    assert_non_null(strstr(out, "step 25/25"));
    assert_null(strchr(out, '\r'));
    free(out);

    longer = run(PROGRESS_PLAIN, 100000);
    lines = count_of(longer, '\n');
    assert_true(lines > 30 && lines < 120);
    free(longer);
}

static void a_terminal_gets_one_line_rewritten(void **state)
{
    char *out = run(PROGRESS_TERMINAL, 25);

    (void)state;
    assert_int_equal(count_of(out, '\n'), 2); // the note, and the end
    assert_true(count_of(out, '\r') >= 12);
    assert_non_null(strstr(out, "\r\033[Ksaved here\n\rstep"));
    assert_int_equal(out[strlen(out) - 1], '\n');
    free(out);
}

static void quiet_prints_nothing(void **state)
{
    char *out = run(PROGRESS_QUIET, 25);

    (void)state;
    assert_string_equal(out, "");
    free(out);
}

static void a_stopped_run_shows_its_newest_step_at_the_end(void **state)
{
    char *out = NULL;
    size_t bytes;
    progress p;
    FILE *f = open_memstream(&out, &bytes);
    event_step s = sample;

    (void)state;
    progress_open(&p, f, PROGRESS_AUTO); // not a terminal
    assert_int_equal(p.mode, PROGRESS_PLAIN);
    progress_step(&p, &s, p.started_s + 0.1);
    s.step++;
    progress_step(&p, &s, p.started_s + 0.2);
    progress_close(&p);
    fclose(f);
    assert_int_equal(count_of(out, '\n'), 2);
    assert_non_null(strstr(out, "step 121/1000"));
    free(out);
}

// Runs 30 steps with the progress line in a pipe. Returns the state at the end.
static progress run_into_pipe(int fd[2], const char *note)
{
    progress p;
    FILE *f = fdopen(fd[1], "w");
    event_step s = sample;
    signal(SIGPIPE, SIG_IGN);
    progress_open(&p, f, PROGRESS_PLAIN);
    for (s.step = 1; s.step <= 30; s.step++) {
        progress_step(&p, &s, p.started_s + (double)s.step * 100);
        if (note) progress_note(&p, "%s", note);
    }
    progress_close(&p);
    fclose(f);
    return p;
}

static void a_closed_reader_makes_it_quiet(void **state)
{
    int fd[2];
    (void)state;
    assert_int_equal(pipe(fd), 0);
    close(fd[0]);
    assert_int_equal(run_into_pipe(fd, "saved").mode, PROGRESS_QUIET);
}

static void a_reader_that_does_not_read_stops_nothing(void **state)
{
    int fd[2];
    char note[4000];
    (void)state;
    memset(note, 'n', sizeof note - 1);
    note[sizeof note - 1] = 0;
    assert_int_equal(pipe(fd), 0);
    alarm(20);
    assert_int_equal(run_into_pipe(fd, note).mode, PROGRESS_PLAIN);
    close(fd[0]);
}

static void control_characters_do_not_reach_the_terminal(void **state)
{
    char *out = NULL;
    size_t bytes;
    progress p;
    FILE *f = open_memstream(&out, &bytes);
    (void)state;
    progress_open(&p, f, PROGRESS_PLAIN);
    progress_note(&p, "saved %s", "a\x1b[31m\nb");
    progress_close(&p);
    fclose(f);
    assert_string_equal(out, "saved a\\x1b[31m\\nb\n");
    free(out);
}

static void a_straggler_is_shown_when_it_is_chronic(void **state)
{
    char *out = NULL;
    size_t bytes;
    progress p;
    FILE *f = open_memstream(&out, &bytes);
    event ev = {.kind = EVENT_STRAGGLER, .straggler = {7, 3, "b", "input", 0.25, false}};
    (void)state;
    progress_open(&p, f, PROGRESS_PLAIN);
    const event_sink sink = progress_sink(&p);
    assert_int_equal(sink.take(sink.arg, &ev, NULL), OK);
    fflush(f);
    assert_int_equal(bytes, 0);
    ev.straggler.chronic = true;
    assert_int_equal(sink.take(sink.arg, &ev, NULL), OK);
    ev.straggler.rank = -1;
    assert_int_equal(sink.take(sink.arg, &ev, NULL), OK);
    ev = (event){.kind = EVENT_VERDICT, .verdict = {.line = "HEALTHY: fine", .next = "Rest."}};
    assert_int_equal(sink.take(sink.arg, &ev, NULL), OK);
    progress_close(&p);
    fclose(f);
    assert_string_equal(out, "step 7  straggler: rank 3 on host b; the others wait for it for 25 % "
                             "of a step; cause: input\n"
                             "step 7  straggler: all ranks on host b; the others wait for it for "
                             "25 % of a step; cause: input\n"
                             "verdict: HEALTHY: fine\nnext: Rest.\n");
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wide_line_has_every_field),
        cmocka_unit_test(a_narrow_line_omits_the_less_important_fields),
        cmocka_unit_test(unknown_values_are_omitted),
        cmocka_unit_test(durations_of_any_length_are_short),
        cmocka_unit_test(plain_lines_become_rarer_and_the_last_always_comes),
        cmocka_unit_test(a_terminal_gets_one_line_rewritten),
        cmocka_unit_test(quiet_prints_nothing),
        cmocka_unit_test(a_stopped_run_shows_its_newest_step_at_the_end),
        cmocka_unit_test(a_closed_reader_makes_it_quiet),
        cmocka_unit_test(a_reader_that_does_not_read_stops_nothing),
        cmocka_unit_test(control_characters_do_not_reach_the_terminal),
        cmocka_unit_test(a_straggler_is_shown_when_it_is_chronic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
