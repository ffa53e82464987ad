// doctor_rig.h -- a made-up machine for the checks of `trireme doctor`: a folder with the files of /proc, /sys, /dev and
// /etc that a healthy machine has, in which a test plants a fault. A test includes it after cmocka's headers.
#ifndef TRIREME_TESTS_DOCTOR_RIG_H
#define TRIREME_TESTS_DOCTOR_RIG_H

#include "base/file.h"
#include "base/text.h"
#include "doctor/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RIG_VARIABLES = 32 };

typedef struct rig {
    char root[64];
    char *variable[RIG_VARIABLES + 1]; // ends with NULL
    int variables;
    doctor_context context; // a test may change it before it runs a check
} rig;

static inline void rig_must(status s, const err *e)
{
    if (s != OK) fail_msg("%s", e->text);
}

static inline char *rig_full(const rig *r, const char *path)
{
    const size_t bytes = strlen(r->root) + strlen(path) + 1;
    char *full = malloc(bytes);
    assert_non_null(full);
    (void)snprintf(full, bytes, "%s%s", r->root, path);
    return full;
}

static inline void rig_make_parent(const char *full)
{
    err e = {.code = OK};
    char folder[512];
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(full, '/') - full), full);
    rig_must(file_make_directories(folder, &e), &e);
}

static inline void rig_folder(rig *r, const char *path)
{
    err e = {.code = OK};
    char *full = rig_full(r, path);
    rig_must(file_make_directories(full, &e), &e);
    free(full);
}

// Removes a file, a link, or a folder with all that it holds.
static inline void rig_remove(rig *r, const char *path)
{
    err e = {.code = OK};
    char *full = rig_full(r, path);
    rig_must(file_remove_tree(full, &e), &e);
    free(full);
}

static inline void rig_write_bytes(rig *r, const char *path, const void *content, size_t bytes)
{
    char *full = rig_full(r, path);
    rig_make_parent(full);
    FILE *f = fopen(full, "w");
    if (!f) fail_msg("cannot write %s", full);
    assert_int_equal(fwrite(content, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
    free(full);
}

static inline void rig_write(rig *r, const char *path, const char *content)
{
    rig_write_bytes(r, path, content, strlen(content));
}

// A symbolic link. The target stands as it is, so a relative one stays below the root.
static inline void rig_link(rig *r, const char *path, const char *target)
{
    rig_remove(r, path);
    char *full = rig_full(r, path);
    rig_make_parent(full);
    assert_int_equal(symlink(target, full), 0);
    free(full);
}

// "NAME=VALUE"; replaces an earlier value.
static inline void rig_variable(rig *r, const char *pair)
{
    const size_t name = strcspn(pair, "=") + 1;
    char *copy = strdup(pair);
    assert_non_null(copy);
    for (int i = 0; i < r->variables; i++)
        if (strncmp(r->variable[i], pair, name) == 0) {
            free(r->variable[i]);
            r->variable[i] = copy;
            return;
        }
    assert_true(r->variables < RIG_VARIABLES);
    r->variable[r->variables++] = copy;
}

// The files that most checks read. A room's test adds what its checks need.
static inline void rig_write_base(rig *r)
{
    rig_write(r, "/proc/mounts",
              "/dev/nvme0n1p2 / ext4 rw,relatime 0 0\n"
              "proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0\n"
              "sysfs /sys sysfs rw,nosuid,nodev,noexec,relatime 0 0\n"
              "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime 0 0\n"
              "tmpfs /dev/shm tmpfs rw,nosuid,nodev,size=33554432k 0 0\n"
              "tmpfs /tmp tmpfs rw,nosuid,nodev,size=33554432k 0 0\n");
    rig_write(
        r, "/proc/meminfo",
        "MemTotal:       67108864 kB\nMemFree:        50331648 kB\n"
        "MemAvailable:   58720256 kB\nSwapTotal:             0 kB\nSwapFree:              0 kB\n"
        "HugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\n");
    rig_write(r, "/proc/sys/kernel/hostname", "healthy\n");
    rig_write(r, "/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
    rig_write(r, "/proc/self/cgroup", "0::/job\n");
    rig_write(r, "/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n10.0.0.1 healthy\n");
    rig_write(r, "/etc/os-release", "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
    rig_folder(r, "/dev/shm");
    rig_folder(r, "/tmp");
    rig_variable(r, "PATH=/usr/bin:/bin");
    rig_variable(r, "HOME=/root");
    rig_variable(r, "LANG=C.UTF-8");
}

static inline void rig_open(rig *r)
{
    *r = (rig){0};
    (void)snprintf(r->root, sizeof r->root, "/tmp/doctor_rig.XXXXXX");
    assert_non_null(mkdtemp(r->root));
    r->context = (doctor_context){
        .root = r->root,
        .environment = r->variable,
        .nvml = "", // no driver; a test that has a stand-in for it gives its path
        .port = 29500,
    };
    rig_write_base(r);
}

static inline void rig_close(rig *r)
{
    err e = {.code = OK};
    rig_must(file_remove_tree(r->root, &e), &e);
    for (int i = 0; i < r->variables; i++) free(r->variable[i]);
    *r = (rig){0};
}

// ---- Running one check. The caller clears the report with doctor_report_clear.

static inline void rig_run(rig *r, const char *code, doctor_report *out)
{
    const char *const codes[] = {code, NULL};
    err e = {.code = OK};
    rig_must(doctor_run(&r->context, DOCTOR_PASSIVE, codes, out, &e), &e);
    assert_int_equal(out->count, 1);
}

// Every text of the row takes the finding's values.
static inline void rig_expand_all(const doctor_check *c, const doctor_finding *f)
{
    err e = {.code = OK};
    char *s = NULL;
    rig_must(doctor_expand(c->why, f, &s, &e), &e);
    free(s);
    for (int i = 0; i < DOCTOR_REMEDIES && c->remedy[i]; i++) {
        rig_must(doctor_expand(c->remedy[i], f, &s, &e), &e);
        free(s);
    }
}

static inline char *rig_issue(const doctor_findings *f, size_t i)
{
    err e = {.code = OK};
    char *s = NULL;
    rig_must(doctor_expand(f->check->issue, &f->finding[i], &s, &e), &e);
    rig_expand_all(f->check, &f->finding[i]);
    return s;
}

// Tells tests/lint/check_doctor.sh what was expected of a check: "found CODE" or "passed CODE".
static inline void rig_note(const char *what, const char *code)
{
    const char *path = getenv("TRIREME_DOCTOR_SEEN");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (!f) return;
    (void)fprintf(f, "%s %s\n", what, code);
    (void)fclose(f);
}

static inline void rig_expect_state(rig *r, const char *code, doctor_state state, const char *why)
{
    doctor_report report;
    rig_run(r, code, &report);
    const doctor_findings *f = &report.of[0];
    if (f->count) fail_msg("%s found: %s", code, rig_issue(f, 0));
    if (f->state != state)
        fail_msg("%s has state %d instead of %d: %s", code, (int)f->state, (int)state,
                 f->why ? f->why : "no reason");
    if (why) assert_string_equal(f->why, why);
    doctor_report_clear(&report);
}

static inline void rig_expect_passed(rig *r, const char *code)
{
    rig_expect_state(r, code, DOCTOR_PASSED, NULL);
    rig_note("passed", code);
}

static inline void rig_expect_skipped(rig *r, const char *code, const char *why)
{
    rig_expect_state(r, code, DOCTOR_SKIPPED, why);
}

static inline void rig_expect_blind(rig *r, const char *code, const char *why)
{
    rig_expect_state(r, code, DOCTOR_BLIND, why);
}

// Exactly one finding, with this issue and severity.
static inline void rig_expect_found_as(rig *r, const char *code, doctor_severity severity,
                                       const char *issue)
{
    doctor_report report;
    rig_run(r, code, &report);
    const doctor_findings *f = &report.of[0];
    if (f->count == 0)
        fail_msg("%s found nothing (%s) instead of: %s", code, f->why ? f->why : "passed", issue);
    char *found = rig_issue(f, 0);
    assert_string_equal(found, issue);
    free(found);
    if (f->count > 1) fail_msg("%s found more than one: %s", code, rig_issue(f, 1));
    assert_int_equal(f->state, DOCTOR_FOUND);
    assert_int_equal(f->finding[0].severity, severity);
    doctor_report_clear(&report);
    rig_note("found", code);
}

// Exactly one finding, with this issue and the row's severity.
static inline void rig_expect_found(rig *r, const char *code, const char *issue)
{
    const doctor_check *c = doctor_check_find(code);
    if (!c) fail_msg("no check has the code %s", code);
    rig_expect_found_as(r, code, c->severity, issue);
}

// One more finding of the check, among several: the i-th one, from 0.
static inline void rig_expect_found_among(rig *r, const char *code, size_t i, size_t count,
                                          const char *issue)
{
    doctor_report report;
    rig_run(r, code, &report);
    const doctor_findings *f = &report.of[0];
    assert_int_equal(f->count, count);
    char *found = rig_issue(f, i);
    assert_string_equal(found, issue);
    free(found);
    doctor_report_clear(&report);
    rig_note("found", code);
}

#endif
