// tier_fixture.h -- a folder, aligned memory with a pattern in it, and child processes; for the
// tests of the file tier.
#ifndef TIER_FIXTURE_H
#define TIER_FIXTURE_H

#include "base/file.h"
#include "store/tier.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Every combination of engine and file mode.
static const unsigned WAYS[] = {0, TIER_AVOID_DIRECT, TIER_AVOID_URING,
                                TIER_AVOID_DIRECT | TIER_AVOID_URING};
enum { WAY_COUNT = sizeof WAYS / sizeof *WAYS };

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/trireme-tier-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return file_remove_tree(folder, NULL) == OK ? 0 : -1;
}

static int files_in_folder(void)
{
    int count = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *one; (one = readdir(d));)
        count += strcmp(one->d_name, ".") != 0 && strcmp(one->d_name, "..") != 0;
    closedir(d);
    return count;
}

static inline void *aligned(size_t bytes)
{
    void *ptr = aligned_alloc(TIER_ALIGN, bytes ? bytes : TIER_ALIGN);
    assert_non_null(ptr);
    return ptr;
}

// The word at byte `offset` of the file; it depends on the offset and on a key of the writer.
static inline uint64_t tier_pattern(uint64_t offset, uint64_t key)
{
    return offset / 8 * 0x9e3779b97f4a7c15u ^ key;
}

// Fills memory with the pattern of the file's bytes from `offset` on.
static inline void fill(void *memory, uint64_t offset, size_t bytes, uint64_t key)
{
    for (size_t k = 0; k < bytes / 8; k++)
        ((uint64_t *)memory)[k] = tier_pattern(offset + 8 * k, key);
}

static inline void check(const void *memory, uint64_t offset, size_t bytes, uint64_t key)
{
    for (size_t k = 0; k < bytes / 8; k++)
        if (((const uint64_t *)memory)[k] != tier_pattern(offset + 8 * k, key))
            fail_msg("%zu bytes at offset %llu: wrong from byte %zu on", bytes,
                     (unsigned long long)offset, 8 * k);
}

static inline tier *open_tier(tier_options o)
{
    tier *t = NULL;
    err e = {0};
    if (!o.folder) o.folder = folder;
    if (!o.name) o.name = "optimizer state";
    if (tier_open(&o, &t, &e) != OK) fail_msg("%s", e.text);
    return t;
}

#define CHECK(call)                                                                                \
    do {                                                                                           \
        err why_ = {0}, *why = &why_;                                                              \
        if ((call) != OK) fail_msg("%s: %s", #call, why->text);                                    \
    } while (0)

// Runs `body` in a child process. Returns the child's exit code, or -1 when a signal ended it.
static inline int in_child(int (*body)(void))
{
    int how = 0;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(body());
    assert_int_equal(waitpid(pid, &how, 0), pid);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

#endif
