// test_save_faults.c -- a save in which rank 1 fails, or is killed with all others, in the middle of its writes: the
// older checkpoint is complete, and the line of the failure names rank and file. This program defines pwrite and
// fsync, which count the calls of one rank, in place of the C library's.
#define _GNU_SOURCE
#include "equiv/workers.h"

#include "base/file.h"
#include "ckpt/ckpt.h"
#include "train/trainer_private.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static struct {
    int rank;    // whose calls count
    int calls;   // so far
    int full_at; // its disk is full from this call on; 0: never
    int kill_at; // the process is killed before this call; 0: never
} trap;

static _Thread_local int own_rank = -1; // while the rank saves

// True when this call must fail.
static bool trap_step(void)
{
    if (own_rank != trap.rank) return false;
    trap.calls++;
    if (trap.calls == trap.kill_at) raise(SIGKILL);
    if (!trap.full_at || trap.calls < trap.full_at) return false;
    errno = ENOSPC;
    return true;
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
    return trap_step() ? -1 : syscall(SYS_pwrite64, fd, data, bytes, offset);
}

int fsync(int fd)
{
    (void)fd;
    return trap_step() ? -1 : 0; // the page cache outlives a kill
}

enum { RANKS = 2 };

typedef struct faults {
    char out[64];
    status saved[RANKS]; // how the second save ended
    char text[RANKS][ERR_TEXT_BYTES];
} faults;

static status save_twice(worker_group *all, int rank, golden *g, trainer *t, err *e)
{
    status result = OK;
    faults *x = all->given;
    const trainer_save_options o = {.out = x->out, .config_json = "{}", .keep = 1};
    trainer_step_result r;
    err why = {.code = OK};
    (void)g;
    TRY(trainer_step(t, false, &r, e));
    TRY(trainer_save(t, &o, NULL, e));
    TRY(trainer_step(t, false, &r, e));
    own_rank = rank;
    x->saved[rank] = trainer_save(t, &o, NULL, &why);
    own_rank = -1;
    if (x->saved[rank] != OK) comm_abort(t->o.comm, &why);
    snprintf(x->text[rank], sizeof x->text[rank], "%s", why.text);
done:
    return result;
}

static const scenario ZERO3 = {.shard = RANKS, .inner = "zero3", .precision = BF16};

static void begin(faults *x, int rank, int full_at, int kill_at)
{
    *x = (faults){.out = "/tmp/trireme-faults.XXXXXX"};
    assert_non_null(mkdtemp(x->out));
    trap.rank = rank, trap.calls = 0, trap.full_at = full_at, trap.kill_at = kill_at;
}

// Returns the step of the newest checkpoint, and fails where any is not complete or the save has left a
// temporary folder.
static int newest(const faults *x, bool may_leave)
{
    char *folder = NULL, *path = NULL;
    text warnings = {0};
    int step = 0;
    CHECK(ckpt_newest(x->out, &folder, &warnings, e));
    assert_null(warnings.chars);
    assert_non_null(folder);
    CHECK(ckpt_verify(folder, e));
    step = atoi(strrchr(folder, '-') + 1);
    CHECK(file_join(x->out, "checkpoints", &path, e));
    DIR *dir = opendir(path);
    for (struct dirent *d; (d = readdir(dir));)
        if (strncmp(d->d_name, ".tmp-", 5) == 0 && !may_leave) fail_msg("%s is left", d->d_name);
    closedir(dir);
    free(path);
    free(folder);
    return step;
}

// The calls of rank 1 in a save in which none fails.
static int count_calls(void)
{
    faults x;
    begin(&x, 1, 0, 0);
    workers_run("no fault", &ZERO3, false, save_twice, &x);
    assert_int_equal(newest(&x, false), 2);
    assert_int_equal(file_remove_tree(x.out, NULL), OK);
    assert_true(trap.calls > 20);
    return trap.calls;
}

// The call after call n that is tried: all of the first and last ones, some between them.
static int next_call(int n, int calls)
{
    const int stride = n < 3 || n >= calls - 4 ? 1 : calls / 8;
    return n + stride < calls - 4 || stride == 1 ? n + stride : calls - 4;
}

static void full_disk(int n)
{
    faults x;
    begin(&x, 1, n, 0);
    workers_run("a full disk", &ZERO3, false, save_twice, &x);
    const char *own = x.text[1], *other = x.text[0];
    assert_int_equal(newest(&x, false), 1);
    assert_int_equal(file_remove_tree(x.out, NULL), OK);
    assert_int_equal(x.saved[1], E_IO);
    assert_int_equal(x.saved[0], E_PEER);
    assert_null(strchr(own, '\n'));
    if (!strstr(own, "the checkpoint of step 2 is not saved, older ones stay: ") ||
        !strstr(own, "/checkpoints/.tmp-step-00000002-") || !strstr(own, ".safetensors") ||
        !strstr(own, ": No space left"))
        fail_msg("call %d: \"%s\"", n, own);
    if (!strstr(other, "rank 1: ") || !strstr(other, "No space left"))
        fail_msg("call %d: rank 0: \"%s\"", n, other);
}

static void test_a_full_disk_of_rank_1_leaves_the_old_checkpoint(void **state)
{
    (void)state;
    const int calls = count_calls();
    for (int n = 1; n <= calls; n = next_call(n, calls)) full_disk(n);
}

static void test_a_kill_at_a_write_of_rank_1_leaves_the_old_checkpoint(void **state)
{
    (void)state;
    const int calls = count_calls();
    for (int n = 1; n <= calls; n = next_call(n, calls)) {
        faults x;
        begin(&x, 1, 0, n);
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            workers_run("a kill", &ZERO3, false, save_twice, &x);
            _exit(0);
        }
        int how;
        assert_int_equal(waitpid(pid, &how, 0), pid);
        assert_true(WIFSIGNALED(how));
        assert_int_equal(newest(&x, true), 1);
        assert_int_equal(file_remove_tree(x.out, NULL), OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_full_disk_of_rank_1_leaves_the_old_checkpoint),
        cmocka_unit_test(test_a_kill_at_a_write_of_rank_1_leaves_the_old_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
