// check.h -- a check of `trireme doctor`: one row of a table, which says what may be wrong with a machine, how that is
// seen and what helps. The rows stand in the rooms below this folder, one table each, and registry.c lists the tables.
// doctor.h runs them. No check changes anything, and none needs root: what cannot be read without it is said.
#ifndef TRIREME_DOCTOR_CHECK_H
#define TRIREME_DOCTOR_CHECK_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct doctor_context doctor_context;
typedef struct doctor_findings doctor_findings;

// What a check costs. A level includes those before it.
typedef enum doctor_level {
    DOCTOR_PASSIVE, // reads files and variables; all of them together take less than 1 s
    DOCTOR_ACTIVE,  // measures for a few seconds
    DOCTOR_STRESS,  // loads the machine for long: only where the user asks for it
} doctor_level;

typedef enum doctor_severity {
    DOCTOR_NOTE,    // worth knowing; the exit code stays 0
    DOCTOR_WARNING, // a run is slower, or may fail later: exit code 1 with --strict
    DOCTOR_ERROR,   // a run fails, hangs or gives wrong numbers: exit code 2
} doctor_severity;

// Whether a run looks before its ranks start, and prints one line: where it takes no time, and the run would not say itself
// what is wrong.
typedef enum doctor_start {
    DOCTOR_START_NEVER,
    DOCTOR_START_ALWAYS,
    DOCTOR_START_ON_GPUS, // NVML is opened for it
} doctor_start;

// Looks for one kind of fault, and calls doctor_find once for each place that has it. Without a call the check has
// passed. A check that does not concern this machine calls doctor_skip with the reason, and one that may not read what it
// needs calls doctor_blind. Returns an error only where it cannot go on for lack of memory.
typedef status doctor_probe(const doctor_context *c, doctor_findings *out, err *e);

enum { DOCTOR_REMEDIES = 4, DOCTOR_RECIPES = 8 };

typedef struct doctor_check {
    const char
        *code; // "shm-size": words joined by '-', unique, fixed for ever: people script against it
    doctor_level level;
    doctor_severity severity;
    const char *title; // what holds where it passes: "/dev/shm has room for the ranks"
    const char *needs; // what it reads or runs: "/proc/mounts, statvfs"
    // One sentence of what is wrong, with the values of a finding: "{mount} has {size}; ranks need {need}".
    const char *issue;
    const char *why; // what happens in a run because of it, one or two sentences
    const char *remedy
        [DOCTOR_REMEDIES]; // sentences or commands (those begin with "$ "), with values, too; ends with NULL
    const char
        *reference; // where it is explained: a page of docs/, a manual with section; NULL: nowhere
    int recipe
        [DOCTOR_RECIPES]; // numbers of the checklist in docs/troubleshooting.md that it answers; ends with 0
    doctor_start at_start;
    doctor_probe *probe;
} doctor_check;

// A table of a room. Its rows have one subject, which is the heading of docs/troubleshooting.md.
typedef struct doctor_table {
    const char *subject; // "Memory and limits"
    const doctor_check *row;
    int count;
} doctor_table;

// ---- What probes call

// Adds a finding with pairs of name and value, which end with NULL: doctor_find(out, "mount", path, "size", size, NULL).
// The values are copied. Each name in braces of the row's texts must be given. The value "where" names the place (a
// GPU, an interface, a path), and is what a finding is compared by between hosts.
void doctor_find(doctor_findings *out, const char *name, ...);
// The same with another severity than the row's.
void doctor_find_as(doctor_findings *out, doctor_severity severity, const char *name, ...);
// The check does not concern this machine: "there is no GPU". printf's format.
void doctor_skip(doctor_findings *out, const char *why, ...) __attribute__((format(printf, 2, 3)));
// What it needs cannot be read: "/dev/kmsg: only root may read it".
void doctor_blind(doctor_findings *out, const char *why, ...) __attribute__((format(printf, 2, 3)));
// A number that was measured or read, whether or not it is a fault: --json has it, and hosts are compared by it. `key` is
// fixed: "matmul_fp32_gflops"; `unit` is its unit; where `compares`, hosts that are 5 % below the median are findings.
void doctor_measure(doctor_findings *out, const char *key, double value, const char *unit,
                    bool compares);
// The same for a word, such as a version: hosts that differ are findings.
void doctor_fact(doctor_findings *out, const char *key, const char *value);

// Reads a file of this machine whole: `path` is absolute, and lies below the context's root. *out is NULL where it does
// not exist (or the kernel refuses to read it for another reason than rights). *denied says that rights are missing. The
// caller frees *out. Files of /proc and /sys have no size: at most 1 MiB is read.
status doctor_read(const doctor_context *c, const char *path, char **out, bool *denied, err *e);
// The first line of such a file, without its end; false where it cannot be read or does not fit.
bool doctor_read_line(const doctor_context *c, const char *path, char *out, size_t bytes);
// A whole number in such a file; false where there is none.
bool doctor_read_number(const doctor_context *c, const char *path, int64_t *out);
// The names in a folder, sorted, without "." and ".."; none where it does not exist. The caller frees with doctor_names_free.
status doctor_names(const doctor_context *c, const char *folder, char ***out, int *count, err *e);
void doctor_names_free(char **names, int count);
// The path below the root, for calls such as statvfs. The caller frees *out.
status doctor_path(const doctor_context *c, const char *path, char **out, err *e);
// A variable of the environment; NULL where it is not set.
const char *doctor_variable(const doctor_context *c, const char *name);
// A threshold of this machine's type (machine.h), by its key; `otherwise` where no file names it.
double doctor_threshold(const doctor_context *c, const char *key, double otherwise);

#endif
