// test_worker_output.c -- where the bytes of one stream of a worker go: whole lines with their prefix, the last bytes of the
// tail, lines with a word, a console that is slow to read, a file that is full.
#include "launch/worker_output.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { LIMIT_S = 20, LARGE = 1 << 19 };

// A file without a name, which is read with read_back.
static int open_scratch(void)
{
    char path[] = "/tmp/trireme-output-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    return fd;
}

static const char *read_back(int fd, char *out, size_t room)
{
    const ssize_t got = pread(fd, out, room - 1, 0);
    assert_true(got >= 0);
    out[got] = 0;
    close(fd);
    return out;
}

// The worker writes all words and ends.
static void play(worker_output *o, int child, const char *const *words)
{
    for (; *words; words++) {
        assert_int_equal(write(child, *words, strlen(*words)), strlen(*words));
        assert_true(worker_output_forward(o));
    }
    close(child);
    assert_false(worker_output_forward(o));
}

static void lines_leave_whole(void **state)
{
    (void)state;
    static const char *const words[] = {"one", " and", " two\nthree\n\nfo", "ur\nlast", NULL};
    char shown[200], matched[200];
    const int console = open_scratch(), matches = open_scratch();
    static const char *const kept[] = {"two", "as", NULL};
    const worker_output_plan plan = {
        .console = console, .prefix = "[a1]:", .words = kept, .matches = matches};
    worker_output o;
    int child = -1;
    assert_int_equal(worker_output_open(&plan, &o, &child, NULL), OK);
    play(&o, child, words);
    worker_output_close(&o);
    assert_int_equal(o.lost, 0);
    assert_string_equal(read_back(console, shown, sizeof shown),
                        "[a1]:one and two\n[a1]:three\n[a1]:\n[a1]:four\n[a1]:last");
    assert_string_equal(read_back(matches, matched, sizeof matched), "one and two\nlast");
}

static void bytes_without_a_prefix_leave_at_once(void **state)
{
    (void)state;
    char shown[200];
    const int console = open_scratch();
    const worker_output_plan plan = {.console = console, .keep_tail = true, .matches = -1};
    worker_output o;
    int child = -1;
    assert_int_equal(worker_output_open(&plan, &o, &child, NULL), OK);
    assert_int_equal(write(child, " 1%|", 4), 4);
    assert_true(worker_output_forward(&o));
    assert_string_equal(read_back(dup(console), shown, sizeof shown), " 1%|");
    close(child);
    worker_output_close(&o);
    assert_string_equal(read_back(console, shown, sizeof shown), " 1%|");
}

static void the_tail_is_the_last_bytes(void **state)
{
    (void)state;
    static char large[TAIL_BYTES + 1000];
    for (size_t i = 0; i < sizeof large; i++) large[i] = (char)('a' + i % 23);
    const worker_output_plan plan = {.console = -1, .keep_tail = true, .matches = -1};
    worker_output o;
    int child = -1;
    assert_int_equal(worker_output_open(&plan, &o, &child, NULL), OK);
    assert_true(child >= 0);
    // In pieces that fit, that fill it, and that are larger than it.
    static const size_t ends[] = {10, 30, TAIL_BYTES, TAIL_BYTES + 5, sizeof large};
    size_t sent = 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        assert_int_equal(write(child, large + sent, ends[i] - sent), ends[i] - sent);
        sent = ends[i];
        assert_true(worker_output_forward(&o));
        const size_t kept = sent < TAIL_BYTES ? sent : TAIL_BYTES;
        assert_int_equal(o.tail_bytes, kept);
        assert_memory_equal(o.tail, large + sent - kept, kept);
    }
    assert_int_equal(write(child, large, sizeof large), sizeof large);
    assert_true(worker_output_forward(&o));
    assert_int_equal(o.tail_bytes, TAIL_BYTES);
    assert_memory_equal(o.tail, large + sizeof large - TAIL_BYTES, TAIL_BYTES);
    close(child);
    worker_output_close(&o);
}

// Begins when the writer has most probably met the full pipe.
static void *read_all(void *fd)
{
    static char bytes[1 << 12];
    size_t all = 0;
    usleep(20000);
    for (ssize_t got = 1; got > 0; all += (size_t)got)
        got = read(*(const int *)fd, bytes, sizeof bytes);
    return (void *)all;
}

// The console of an agent may be a pipe that takes no byte now.
static void a_console_that_is_full_is_awaited(void **state)
{
    (void)state;
    static char large[LARGE];
    int console[2];
    void *got = NULL;
    pthread_t reader;
    memset(large, 'x', sizeof large);
    large[LARGE - 1] = '\n';
    assert_int_equal(pipe(console), 0);
    assert_int_equal(fcntl(console[1], F_SETFL, O_NONBLOCK), 0);
    // The pipe is full before the line comes, so that its first write is refused.
    while (write(console[1], "y", 1) == 1) continue;
    assert_int_equal(errno, EAGAIN);
    const worker_output_plan plan = {.console = console[1], .prefix = ":", .matches = -1};
    worker_output o;
    int child = -1;
    assert_int_equal(worker_output_open(&plan, &o, &child, NULL), OK);
    text_add_bytes(&o.line, large, LARGE);
    assert_int_equal(write(child, "\n", 1), 1);
    assert_int_equal(pthread_create(&reader, NULL, read_all, &console[0]), 0);
    assert_true(worker_output_forward(&o));
    close(child);
    worker_output_close(&o);
    assert_int_equal(o.lost, 0);
    close(console[1]);
    pthread_join(reader, &got);
    assert_true((size_t)got > LARGE + 2);
    close(console[0]);
}

static void bytes_that_are_lost_are_noted(void **state)
{
    (void)state;
    const worker_output_plan to_file = {
        .console = -1, .keep_tail = true, .file = "/dev/full", .matches = -1};
    const worker_output_plan to_console = {
        .console = open("/dev/full", O_WRONLY), .keep_tail = true, .matches = -1};
    static const char *const words[] = {"one\n", NULL};
    const worker_output_plan *plans[] = {&to_file, &to_console};
    for (int i = 0; i < 2; i++) {
        worker_output o;
        int child = -1;
        assert_int_equal(worker_output_open(plans[i], &o, &child, NULL), OK);
        play(&o, child, words);
        assert_int_equal(o.lost, ENOSPC);
        assert_int_equal(o.lost_of_file, i == 0);
        worker_output_close(&o);
    }
    close(to_console.console);
}

static void a_stream_with_one_end_is_the_workers_own(void **state)
{
    (void)state;
    const worker_output_plan console = {.console = 1, .matches = -1};
    const worker_output_plan file = {.console = -1, .file = "/dev/null", .matches = -1};
    const worker_output_plan missing = {.console = -1, .file = "/proc/none/x", .matches = -1};
    worker_output o;
    err e;
    int child = -2;
    assert_int_equal(worker_output_open(&console, &o, &child, NULL), OK);
    assert_int_equal(child, -1);
    assert_int_equal(o.from, -1);
    worker_output_close(&o);
    assert_int_equal(worker_output_open(&file, &o, &child, NULL), OK);
    assert_true(child >= 0);
    assert_int_equal(o.from, -1);
    close(child);
    worker_output_close(&o);
    assert_int_equal(worker_output_open(&missing, &o, &child, &e), E_USAGE);
    assert_non_null(strstr(e.text, "cannot write /proc/none/x"));
}

int main(void)
{
    alarm(LIMIT_S);
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_leave_whole),
        cmocka_unit_test(bytes_without_a_prefix_leave_at_once),
        cmocka_unit_test(the_tail_is_the_last_bytes),
        cmocka_unit_test(a_console_that_is_full_is_awaited),
        cmocka_unit_test(bytes_that_are_lost_are_noted),
        cmocka_unit_test(a_stream_with_one_end_is_the_workers_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
