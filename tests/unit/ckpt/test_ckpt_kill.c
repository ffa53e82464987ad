// A save that is killed before any of its system calls, or at any moment, leaves a valid checkpoint.
// A save whose disk is full from any of its calls on says so and leaves the old checkpoint. This
// program defines open, write, fsync, …, which count the calls, in place of the C library's.
#define _GNU_SOURCE
#include "ckpt_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static struct {
    int calls;   // so far
    int kill_at; // the process is killed before this call; 0 means never
    int full_at; // the disk is full from this call on; 0 means never
} trap;

// True when this call must fail.
static bool trap_step(bool needs_room)
{
    trap.calls++;
    if (trap.calls == trap.kill_at) raise(SIGKILL);
    if (!needs_room || !trap.full_at || trap.calls < trap.full_at) return false;
    errno = ENOSPC;
    return true;
}

int open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    // A call that only reads changes nothing: a kill before it equals a kill before the next call.
    if ((flags & O_CREAT) && trap_step(true)) return -1;
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    return trap_step(true) ? -1 : syscall(SYS_write, fd, data, bytes);
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
    return trap_step(true) ? -1 : syscall(SYS_pwrite64, fd, data, bytes, offset);
}

int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
    return trap_step(true) ? -1 : (int)syscall(SYS_fallocate, fd, mode, offset, bytes);
}

int ftruncate(int fd, off_t bytes)
{
    return trap_step(true) ? -1 : (int)syscall(SYS_ftruncate, fd, bytes);
}

int fsync(int fd)
{
    (void)fd;
    return trap_step(true) ? -1 : 0; // the page cache outlives a kill
}

int mkdir(const char *path, mode_t mode)
{
    return trap_step(true) ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int rename(const char *from, const char *to)
{
    return trap_step(false) ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int symlink(const char *target, const char *path)
{
    return trap_step(true) ? -1 : (int)syscall(SYS_symlinkat, target, AT_FDCWD, path);
}

int remove(const char *path)
{
    if (trap_step(false)) return -1;
    if (syscall(SYS_unlinkat, AT_FDCWD, path, 0) == 0) return 0;
    return errno == EISDIR ? (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR) : -1;
}

static void save_here(int64_t step, int64_t mark)
{
    err e = {0};
    if (fixture_save(step, mark, 1, 0, NULL, NULL, &e) != OK) fail_msg("%s", e.text);
}

// A child saves and is killed before call `n`. Returns true when the child finished.
static bool killed_save(int64_t step, int64_t mark, int n)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        trap.calls = 0;
        trap.kill_at = n;
        _exit(fixture_save(step, mark, 1, 0, NULL, NULL, NULL) == OK ? 0 : 1);
    }
    int how;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    if (WIFSIGNALED(how)) return false;
    assert_int_equal(WEXITSTATUS(how), 0);
    return true;
}

// Checks that a visible checkpoint of this step is complete. Returns whether there is one.
static bool check_visible(int64_t step)
{
    char name[64];
    err e = {0};
    snprintf(name, sizeof name, "checkpoints/step-%08lld", (long long)step);
    char *path = inside(name);
    const bool is_there = file_exists(path);
    if (is_there && ckpt_verify(path, &e) != OK) fail_msg("%s", e.text);
    free(path);
    return is_there;
}

// Checks that the newest checkpoint is complete, and that it is the new one as soon as that is
// visible. Returns its mark, or 0 when there is none.
static int64_t check_newest(int64_t old_step, int64_t old_mark, int64_t new_step, int64_t new_mark)
{
    err e = {0};
    text warnings = {0};
    char *folder = NULL;
    ckpt *c = NULL;
    check_visible(old_step);
    const bool new_there = check_visible(new_step) && new_step != old_step;
    if (ckpt_newest(out_folder, &folder, &warnings, &e) != OK) fail_msg("%s", e.text);
    assert_null(warnings.chars);
    if (!folder) return 0;
    assert_int_equal(ckpt_open(folder, &c, &e), OK);
    uint8_t first = *(const uint8_t *)safetensors_find(c->weights, "w.0")->data;
    ckpt_close(c);
    bool is_new = first == fixture_byte(new_mark, 0, 0);
    assert_true(is_new || !new_there);
    check_checkpoint(folder, is_new ? new_step : old_step, is_new ? new_mark : old_mark);
    free(folder);
    return is_new ? new_mark : old_mark;
}

static int links_of(const char *name)
{
    struct stat info;
    char *path = inside(name);
    assert_int_equal(stat(path, &info), 0);
    free(path);
    return (int)info.st_nlink;
}

// Kills a save before its 1st, 2nd, … call until one finishes: with an older checkpoint or without
// one, and for the next step or (again) for the same step.
static void kill_everywhere(bool has_old, bool again)
{
    bool ended = false, seen_old = false, seen_new = false;
    int64_t old = 1;
    int n = 1;
    if (has_old) save_here(old, 1);
    for (; !ended; n++) {
        int64_t step = again ? old : old + 1;
        ended = killed_save(step, 2, n);
        int64_t mark = check_newest(old, 1, step, 2);
        if (has_old) assert_int_not_equal(mark, 0);
        if (mark == 2)
            seen_new = true;
        else
            seen_old = true;
        old = step + 1; // the next save removes what the killed one left
        save_here(old, 1);
        assert_int_equal(check_newest(old, 1, step, 2), 1);
        assert_int_equal(links_of("checkpoints"), 3); // ".", ".." and one checkpoint
        if (has_old) continue;
        assert_int_equal(file_remove_tree(out_folder, NULL), OK);
        assert_int_equal(file_make_directories(out_folder, NULL), OK);
    }
    assert_true(n > 20 && seen_old && seen_new);
}

static void a_first_save_killed_anywhere_leaves_nothing_or_a_valid_one(void **state)
{
    (void)state;
    kill_everywhere(false, false);
}

static void a_later_save_killed_anywhere_leaves_the_old_or_the_new_one(void **state)
{
    (void)state;
    kill_everywhere(true, false);
}

static void a_repeated_save_killed_anywhere_leaves_the_old_or_the_new_one(void **state)
{
    (void)state;
    kill_everywhere(true, true);
}

// There are steps 10 to 40. A child resumes from step 20 and is killed before call `n`. Returns true
// when the child finished.
static bool killed_resume(const char *aside, int n)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        bool moved;
        char *folder = inside("checkpoints/step-00000020");
        trap.calls = 0;
        trap.kill_at = n;
        _exit(ckpt_resume_from(out_folder, folder, aside, &moved, NULL) == OK ? 0 : 1);
    }
    int how;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    return !WIFSIGNALED(how);
}

static int64_t newest_step(void)
{
    char *folder = NULL;
    assert_int_equal(ckpt_newest(out_folder, &folder, NULL, NULL), OK);
    assert_non_null(folder);
    int64_t step = strtoll(strrchr(folder, '-') + 1, NULL, 10);
    check_checkpoint(folder, step, step);
    free(folder);
    return step;
}

// Is there a checkpoint of this step in checkpoints/ or in one of the folders beside it?
static bool is_kept(int64_t step)
{
    bool kept = false;
    static const char *const folders[] = {"checkpoints", "checkpoints-1", "checkpoints-2"};
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s/step-%08lld", folders[i], (long long)step);
        kept = kept || present(name);
    }
    return kept;
}

static void a_resume_killed_anywhere_is_done_or_not_and_loses_no_checkpoint(void **state)
{
    (void)state;
    bool ended = false, seen_before = false, seen_after = false;
    int n = 1;
    for (; !ended; n++) {
        for (int64_t step = 10; step <= 40; step += 10) save_good(step, step, 0);
        char *first = inside("checkpoints-1"), *second = inside("checkpoints-2");
        ended = killed_resume(first, n);
        const int64_t newest = newest_step();
        assert_true(newest == 20 || newest == 40);
        seen_before = seen_before || newest == 40;
        seen_after = seen_after || newest == 20;
        assert_true(!ended || newest == 20);
        assert_true(killed_resume(second, 0));
        assert_int_equal(newest_step(), 20);
        for (int64_t step = 10; step <= 40; step += 10) assert_true(is_kept(step));
        free(first);
        free(second);
        assert_int_equal(file_remove_tree(out_folder, NULL), OK);
        assert_int_equal(file_make_directories(out_folder, NULL), OK);
    }
    assert_true(n > 8 && seen_before && seen_after);
}

// Checks that no temporary folder of step 2 is left. One of the link may be.
static void expect_nothing_hidden(void)
{
    char *checkpoints = inside("checkpoints");
    DIR *dir = opendir(checkpoints);
    for (struct dirent *d; (d = readdir(dir));)
        if (strncmp(d->d_name, ".tmp-step-", 10) == 0) fail_msg("%s is left", d->d_name);
    closedir(dir);
    free(checkpoints);
}

static void a_disk_full_at_any_call_leaves_the_old_checkpoint(void **state)
{
    (void)state;
    status result = E_IO;
    int n = 1;
    for (; result != OK; n++) {
        err e = {0};
        save_here(1, 1);
        trap.calls = 0;
        trap.full_at = n;
        result = fixture_save(2, 2, 1, 0, NULL, NULL, &e);
        trap.full_at = 0;
        check_newest(1, 1, 2, 2);
        if (result == OK) break;
        assert_int_equal(result, E_IO);
        assert_non_null(strstr(e.text, "the checkpoint of step 2 is"));
        if (!strstr(e.text, "No space left")) fail_msg("call %d: \"%s\"", n, e.text);
        assert_null(strchr(e.text, '\n'));
        expect_nothing_hidden();
    }
    assert_true(n > 15);
}

// A child saves one step after another without end; the parent kills it after `microseconds`.
static void kill_after(unsigned microseconds, int64_t step)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        for (;; step++)
            if (fixture_save(step, step, 2, 0, NULL, NULL, NULL) != OK) _exit(1);
    usleep(microseconds);
    kill(pid, SIGKILL);
    int how;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFSIGNALED(how));
}

static void saves_killed_at_random_moments_leave_a_valid_one(void **state)
{
    (void)state;
    unsigned random = 12345;
    int64_t step = 1;
    save_here(1, 1);
    for (int round = 0; round < 50; round++) {
        random = random * 1103515245 + 12345;
        kill_after(random / 65536 % 12000, step + 1);
        err e = {0};
        text warnings = {0};
        char *folder = NULL;
        if (ckpt_newest(out_folder, &folder, &warnings, &e) != OK) fail_msg("%s", e.text);
        assert_non_null(folder);
        assert_null(warnings.chars);
        int64_t newest = strtoll(strrchr(folder, '-') + 1, NULL, 10);
        assert_true(newest >= step);
        step = newest;
        check_checkpoint(folder, step, step);
        free(folder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_first_save_killed_anywhere_leaves_nothing_or_a_valid_one),
        IN_FOLDER(a_later_save_killed_anywhere_leaves_the_old_or_the_new_one),
        IN_FOLDER(a_repeated_save_killed_anywhere_leaves_the_old_or_the_new_one),
        IN_FOLDER(a_resume_killed_anywhere_is_done_or_not_and_loses_no_checkpoint),
        IN_FOLDER(a_disk_full_at_any_call_leaves_the_old_checkpoint),
        IN_FOLDER(saves_killed_at_random_moments_leave_a_valid_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
