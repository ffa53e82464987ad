// The file tier when the system fails: no folder, no space, no io_uring, a disk that fails or
// transfers fewer bytes than requested, a killed process. Also: a tier allocates nothing after open.
//
// The linker wraps malloc, calloc, realloc, aligned_alloc, mmap, pread and pwrite (--wrap).
#include "tier_fixture.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

static long allocations; // of all threads
// 0: pread and pwrite work as usual. Else it counts their calls, which move one page or fail.
static long faulty_calls;

static void count(void)
{
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
}

#define WRAP(type, name, params, args)                                                             \
    type __real_##name params;                                                                     \
    type __wrap_##name params;                                                                     \
    type __wrap_##name params                                                                      \
    {                                                                                              \
        count();                                                                                   \
        return __real_##name args;                                                                 \
    }
WRAP(void *, malloc, (size_t n), (n))
WRAP(void *, calloc, (size_t n, size_t m), (n, m))
WRAP(void *, realloc, (void *p, size_t n), (p, n))
WRAP(void *, aligned_alloc, (size_t a, size_t n), (a, n))
WRAP(void *, mmap, (void *address, size_t n, int how, int flags, int fd, off_t o),
     (address, n, how, flags, fd, o))

ssize_t __real_pread(int fd, void *to, size_t bytes, off_t offset);
ssize_t __real_pwrite(int fd, const void *from, size_t bytes, off_t offset);
ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *from, size_t bytes, off_t offset);

// How many bytes a call moves, or -1 with errno.
static ssize_t allowed(size_t bytes)
{
    const long k = __atomic_load_n(&faulty_calls, __ATOMIC_RELAXED)
                       ? __atomic_fetch_add(&faulty_calls, 1, __ATOMIC_RELAXED)
                       : 0;
    if (k && k % 3 == 0) {
        errno = k % 2 ? EINTR : ECANCELED;
        return -1;
    }
    return k && bytes > TIER_ALIGN ? TIER_ALIGN + k % 2 : (ssize_t)bytes;
}

ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t offset)
{
    const ssize_t n = allowed(bytes);
    return n < 0 ? n : __real_pread(fd, to, (size_t)n - (size_t)n % TIER_ALIGN, offset);
}

ssize_t __wrap_pwrite(int fd, const void *from, size_t bytes, off_t offset)
{
    const ssize_t n = allowed(bytes);
    return n < 0 ? n : __real_pwrite(fd, from, (size_t)n - (size_t)n % TIER_ALIGN, offset);
}

static void partial_transfers_are_continued(void **state)
{
    (void)state;
    enum { BYTES = 40 * TIER_ALIGN };
    tier *t = open_tier((tier_options){
        .bytes = BYTES, .block_bytes = 5 * TIER_ALIGN, .depth = 3, .avoid = TIER_AVOID_URING});
    char *memory = aligned(BYTES);
    tier_ticket x;
    fill(memory, 0, BYTES, 3);
    __atomic_store_n(&faulty_calls, 1, __ATOMIC_RELAXED);
    CHECK(tier_write(t, 0, memory, BYTES, &x, why));
    CHECK(tier_wait(t, x, why));
    memset(memory, 0, BYTES);
    CHECK(tier_read(t, 0, memory, BYTES, &x, why));
    CHECK(tier_wait(t, x, why));
    assert_true(__atomic_load_n(&faulty_calls, __ATOMIC_RELAXED) > 2 * 40);
    __atomic_store_n(&faulty_calls, 0, __ATOMIC_RELAXED);
    check(memory, 0, BYTES, 3);
    tier_close(t);
    free(memory);
}

static void nothing_is_allocated_after_open(void **state)
{
    (void)state;
    enum { BYTES = 64 * TIER_ALIGN };
    for (int way = 0; way < WAY_COUNT; way++) {
        tier *t = open_tier((tier_options){.bytes = BYTES,
                                           .block_bytes = TIER_ALIGN,
                                           .depth = 4,
                                           .requests = 4,
                                           .avoid = WAYS[way]});
        char *memory = aligned(BYTES);
        const long before = __atomic_load_n(&allocations, __ATOMIC_RELAXED);
        assert_true(before > 0); // the wrapping works
        tier_ticket x = 0;
        memset(memory, 1, BYTES);
        for (int i = 0; i < 64; i++)
            CHECK(tier_write(t, (uint64_t)i * TIER_ALIGN, memory + i * TIER_ALIGN, TIER_ALIGN, &x,
                             why));
        CHECK(tier_wait(t, x, why));
        CHECK(tier_read(t, 0, memory, BYTES, &x, why));
        CHECK(tier_wait(t, x, why));
        assert_int_equal(__atomic_load_n(&allocations, __ATOMIC_RELAXED), before);
        assert_true(tier_bytes_buffers(t) < 65536);
        tier_close(t);
        free(memory);
    }
}

// ---- No space

static void a_full_disk_is_found_at_open(void **state)
{
    (void)state;
    struct statvfs fs;
    assert_int_equal(statvfs(folder, &fs), 0);
    tier_options o = {.folder = folder, .name = "gradients"};
    o.bytes = 4 * (uint64_t)fs.f_blocks * fs.f_frsize;
    tier *t = NULL;
    err e = {0};
    assert_int_equal(tier_open(&o, &t, &e), E_IO);
    assert_null(t);
    assert_non_null(strstr(e.text, "gradients: cannot reserve "));
    assert_non_null(strstr(e.text, folder));
    assert_non_null(strstr(e.text, "free: "));
    assert_non_null(strstr(e.text, "No space left on device"));
    assert_int_equal(files_in_folder(), 0);
}

static void limit_files(rlim_t bytes)
{
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){bytes, RLIM_INFINITY});
}

static int open_over_the_limit(void)
{
    limit_files(1 << 20);
    for (int i = 0; i < 2; i++) {
        tier_options o = {.folder = folder, .name = "x", .bytes = 2 << 20};
        o.avoid = i ? TIER_AVOID_RESERVE : 0;
        tier *t = NULL;
        err e = {0};
        if (tier_open(&o, &t, &e) != E_IO || !strstr(e.text, "File too large")) return 1;
    }
    return 0;
}

static void a_reservation_that_fails_is_found_at_open(void **state)
{
    (void)state;
    assert_int_equal(in_child(open_over_the_limit), 0);
    assert_int_equal(files_in_folder(), 0);
}

// The limit lies inside a block: the system writes the first bytes of the block and refuses the rest.
static int write_over_the_limit(void)
{
    enum { BYTES = 2 << 20 };
    for (int way = 0; way < WAY_COUNT; way++) {
        limit_files(RLIM_INFINITY);
        tier *t = open_tier((tier_options){
            .bytes = BYTES, .block_bytes = 256 << 10, .depth = 2, .avoid = WAYS[way]});
        char *memory = aligned(BYTES);
        tier_ticket first, second;
        err e = {0};
        memset(memory, 1, BYTES);
        limit_files((1 << 20) + 65536);
        if (tier_write(t, 0, memory, BYTES, &first, &e) != OK) return 1;
        if (tier_wait(t, first, &e) != E_IO) return 2;
        if (!strstr(e.text, "cannot write") || !strstr(e.text, folder) ||
            !strstr(e.text, "File too large"))
            return 3;
        e = (err){0};
        if (tier_read(t, 0, memory, BYTES, &second, &e) != E_IO) return 4;
        if (!strstr(e.text, "cannot write")) return 5; // the first failure, still
        if (tier_wait(t, first, &e) != E_IO) return 6;
        tier_close(t);
        free(memory);
    }
    return 0;
}

static void a_write_that_fails_is_named_and_remembered(void **state)
{
    (void)state;
    assert_int_equal(in_child(write_over_the_limit), 0);
}

static int find_own_file(void)
{
    for (int fd = 3; fd < 64; fd++) {
        char link[64], path[256] = "";
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (readlink(link, path, sizeof path - 1) > 0 && strstr(path, folder)) return fd;
    }
    return -1;
}

static void a_file_that_has_shrunk_is_named(void **state)
{
    (void)state;
    for (int way = 0; way < WAY_COUNT; way++) {
        tier *t = open_tier((tier_options){.bytes = 65536, .avoid = WAYS[way]});
        char *memory = aligned(65536);
        tier_ticket r;
        err e = {0};
        assert_int_equal(ftruncate(find_own_file(), 32768), 0);
        CHECK(tier_read(t, 0, memory, 65536, &r, why));
        assert_int_equal(tier_wait(t, r, &e), E_IO);
        assert_non_null(strstr(e.text, "cannot read 32768 bytes at 32768"));
        tier_close(t);
        free(memory);
    }
}

// ---- No folder

static void a_folder_that_does_not_exist_is_named(void **state)
{
    (void)state;
    tier_options o = {.folder = "/nonexistent/deep", .name = "weights", .bytes = 4096};
    tier *t = NULL;
    err e = {0};
    assert_int_equal(tier_open(&o, &t, &e), E_USAGE);
    assert_string_equal(e.text, "weights: cannot make a file in /nonexistent/deep (No such file or "
                                "directory); valid is an existing folder that can be written");
    assert_int_equal(e.code, E_USAGE);
    o.folder = "/dev/null";
    assert_int_equal(tier_open(&o, &t, &e), E_USAGE);
    assert_non_null(strstr(e.text, "Not a directory"));
}

static int open_in_a_read_only_folder(void)
{
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 10;
    tier_options o = {.folder = folder, .name = "x", .bytes = 4096};
    tier *t = NULL;
    err e = {0};
    if (tier_open(&o, &t, &e) != E_USAGE) return 1;
    return strstr(e.text, folder) && strstr(e.text, "Permission denied") ? 0 : 2;
}

static void a_folder_that_cannot_be_written_is_named(void **state)
{
    (void)state;
    chmod(folder, 0555);
    const int found = in_child(open_in_a_read_only_folder);
    chmod(folder, 0700);
    assert_int_equal(found, 0);
}

// ---- No io_uring

static int open_where_io_uring_is_forbidden(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return 10;
    tier *t = open_tier((tier_options){.bytes = 65536});
    char *memory = aligned(65536);
    tier_ticket x;
    const char *note = tier_note(t);
    if (!note || !strstr(note, "threads instead of io_uring (Operation not permitted)")) return 1;
    fill(memory, 0, 65536, 1);
    if (tier_write(t, 0, memory, 65536, &x, NULL) != OK || tier_wait(t, x, NULL) != OK) return 2;
    memset(memory, 0, 65536);
    if (tier_read(t, 0, memory, 65536, &x, NULL) != OK || tier_wait(t, x, NULL) != OK) return 3;
    check(memory, 0, 65536, 1);
    tier_close(t);
    free(memory);
    return 0;
}

static void threads_replace_io_uring_where_it_is_forbidden(void **state)
{
    (void)state;
    const int found = in_child(open_where_io_uring_is_forbidden);
    if (found == 10) skip();
    assert_int_equal(found, 0);
}

// ---- kill -9

static void a_killed_process_leaves_nothing_behind(void **state)
{
    (void)state;
    for (unsigned avoid = 0; avoid <= TIER_AVOID_TMPFILE; avoid += TIER_AVOID_TMPFILE) {
        int ready[2], how = 0;
        char byte = 0;
        assert_int_equal(pipe(ready), 0);
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            tier *t = open_tier((tier_options){.bytes = 8 << 20, .avoid = avoid});
            char *memory = aligned(8 << 20);
            tier_ticket w;
            memset(memory, 1, 8 << 20);
            tier_write(t, 0, memory, 8 << 20, &w, NULL);
            if (write(ready[1], "x", 1) == 1) tier_wait(t, w, NULL);
            pause();
        }
        assert_int_equal(read(ready[0], &byte, 1), 1);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &how, 0), pid);
        assert_true(WIFSIGNALED(how));
        assert_int_equal(files_in_folder(), 0);
        close(ready[0]);
        close(ready[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partial_transfers_are_continued),
        cmocka_unit_test(nothing_is_allocated_after_open),
        cmocka_unit_test(a_full_disk_is_found_at_open),
        cmocka_unit_test(a_reservation_that_fails_is_found_at_open),
        cmocka_unit_test(a_write_that_fails_is_named_and_remembered),
        cmocka_unit_test(a_file_that_has_shrunk_is_named),
        cmocka_unit_test(a_folder_that_does_not_exist_is_named),
        cmocka_unit_test(a_folder_that_cannot_be_written_is_named),
        cmocka_unit_test(threads_replace_io_uring_where_it_is_forbidden),
        cmocka_unit_test(a_killed_process_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
