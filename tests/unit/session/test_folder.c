// A run's folder when another begins in it: what was there is kept beside under numbers, or removed
// when the user said so; and a kill before any system call of that loses nothing and leaves no
// half.
#define _GNU_SOURCE
#include "base/file.h"
#include "ckpt/ckpt.h"
#include "session/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct {
    int calls;   // so far
    int kill_at; // the call before which the process dies; 0 never
} trap;

static void trap_step(void)
{
    if (++trap.calls == trap.kill_at) raise(SIGKILL);
}

// In front of the C library's.
int rename(const char *from, const char *to)
{
    trap_step();
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int fsync(int fd)
{
    (void)fd;
    trap_step();
    return 0;
}

int remove(const char *path)
{
    trap_step();
    if (syscall(SYS_unlinkat, AT_FDCWD, path, 0) == 0) return 0;
    return errno == EISDIR ? (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR) : -1;
}

static char scratch[64];

static int setup(void **state)
{
    (void)state;
    strcpy(scratch, "/tmp/trireme-folder-XXXXXX");
    return mkdtemp(scratch) && chdir(scratch) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return chdir("/") || file_remove_tree(scratch, NULL) != OK;
}

static void put(const char *name, const char *content)
{
    assert_int_equal(file_replace(name, content, strlen(content), NULL), OK);
}

static void put_run(const char *mark)
{
    assert_int_equal(file_make_directories("out/checkpoints/step-00000004", NULL), OK);
    put("out/checkpoints/step-00000004/config.json", mark);
    put("out/log.jsonl", mark);
    put("out/job.yaml", mark);
}

static bool holds(const char *name, const char *mark)
{
    char *content = NULL;
    bool same = file_read(name, &content, NULL, NULL) == OK && strcmp(content, mark) == 0;
    free(content);
    return same;
}

static void begin(bool overwrite, const char *expected)
{
    text kept = {0};
    err e = {0};
    if (folder_begin("out", overwrite, &kept, &e) != OK) fail_msg("%s", e.text);
    assert_string_equal(kept.chars ? kept.chars : "", expected);
    text_clear(&kept);
}

static void each_earlier_run_gets_a_number(void **state)
{
    (void)state;
    begin(false, "");
    put_run("first");
    begin(false, "checkpoints-1, log-1.jsonl, job-1.yaml");
    put_run("second");
    put("out/notes", "mine");
    begin(false, "checkpoints-2, log-2.jsonl, job-2.yaml");
    assert_true(holds("out/checkpoints-1/step-00000004/config.json", "first"));
    assert_true(holds("out/log-2.jsonl", "second") && holds("out/job-2.yaml", "second"));
    assert_true(holds("out/notes", "mine"));
    // A number that any of the three has is taken; what a run did not leave is not looked for.
    put("out/log-3.jsonl", "somebody's");
    put("out/log.jsonl", "third");
    begin(false, "log-4.jsonl");
    // Neither a job.yaml alone nor a folder without checkpoints tells of a run.
    put("out/job.yaml", "fourth");
    assert_int_equal(file_make_directories("out/checkpoints/mine", NULL), OK);
    begin(false, "");
    assert_true(holds("out/job.yaml", "fourth") && file_exists("out/checkpoints/mine"));
}

static void overwrite_removes_the_run_and_nothing_else(void **state)
{
    (void)state;
    put_run("first");
    begin(false, "checkpoints-1, log-1.jsonl, job-1.yaml");
    put_run("second");
    put("out/notes", "mine");
    begin(true, "");
    assert_false(file_exists("out/checkpoints") || file_exists("out/log.jsonl") ||
                 file_exists("out/job.yaml") || file_exists("out/log-2.jsonl") ||
                 file_exists("out/checkpoints-2"));
    assert_true(holds("out/log-1.jsonl", "first") && holds("out/notes", "mine"));
    assert_true(holds("out/checkpoints-1/step-00000004/config.json", "first"));
}

// A child begins anew and is killed before call `n`; true when it ended.
static bool killed_begin(bool overwrite, int n)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        trap.calls = 0;
        trap.kill_at = n;
        _exit(folder_begin("out", overwrite, NULL, NULL) == OK ? 0 : 1);
    }
    int how;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    return !WIFSIGNALED(how);
}

static bool kept_anywhere(const char *stem, const char *extension)
{
    bool kept = false;
    for (int i = 0; i < 3; i++) {
        char name[96], number[8] = "";
        if (i) snprintf(number, sizeof number, "-%d", i);
        snprintf(name, sizeof name, "out/%s%s%s", stem, number, extension);
        kept = kept || holds(name, "first");
    }
    return kept;
}

static bool has_checkpoints(void)
{
    bool has;
    assert_int_equal(ckpt_has_any("out", &has, NULL), OK);
    return has;
}

static void a_kill_anywhere_loses_nothing(void **state)
{
    (void)state;
    bool ended = false;
    int n = 1;
    for (; !ended; n++) {
        put_run("first");
        ended = killed_begin(false, n);
        // Checkpoints in their place are those of the log beside them.
        if (has_checkpoints()) assert_true(holds("out/log.jsonl", "first"));
        assert_true(killed_begin(false, 0));
        assert_false(has_checkpoints() || file_exists("out/log.jsonl"));
        assert_true(kept_anywhere("log", ".jsonl"));
        assert_true(kept_anywhere("checkpoints", "/step-00000004/config.json"));
        assert_int_equal(file_remove_tree("out", NULL), OK);
    }
    assert_true(n > 5);
}

static void a_removal_killed_anywhere_leaves_no_half_run(void **state)
{
    (void)state;
    bool ended = false;
    int n = 1;
    for (; !ended; n++) {
        put_run("first");
        ended = killed_begin(true, n);
        if (has_checkpoints())
            assert_true(holds("out/checkpoints/step-00000004/config.json", "first"));
        assert_true(killed_begin(true, 0));
        assert_false(has_checkpoints() || file_exists("out/log.jsonl"));
        assert_int_equal(file_remove_tree("out", NULL), OK);
    }
    assert_true(n > 8);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(each_earlier_run_gets_a_number),
        IN_FOLDER(overwrite_removes_the_run_and_nothing_else),
        IN_FOLDER(a_kill_anywhere_loses_nothing),
        IN_FOLDER(a_removal_killed_anywhere_leaves_no_half_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
