// readings.h -- what the checks of memory, of the processor and of containers read: /proc/self/limits, /proc/meminfo, numbers
// behind words, lists of cores, and how many ranks would run. It judges nothing. Paths lie below the context's root.
#ifndef TRIREME_DOCTOR_MEMORY_READINGS_H
#define TRIREME_DOCTOR_MEMORY_READINGS_H

#include "doctor/check.h"

// The number behind `key` at the start of a line of `content`: "MemTotal:" of /proc/meminfo, "oom_kill" of memory.events.
// False where no line has it.
bool reading_number(const char *content, const char *key, uint64_t *out);
// The number of cores or nodes in a list such as "0-3,8"; 0 where it is empty. It ends at the first character that
// belongs to no list.
int reading_listed(const char *list);
// Copies the words behind `key` at the start of a line, without spaces before them, cut to `bytes`.
bool reading_words(const char *content, const char *key, char *out, size_t bytes);

// A limit of this process. UINT64_MAX is "unlimited".
typedef struct resource_limit {
    uint64_t soft, hard;
    bool known; // false: doctor_blind has been called
} resource_limit;
// `name` as /proc/self/limits has it: "Max open files".
status reading_limit_of(const doctor_context *c, doctor_findings *out, const char *name,
                        resource_limit *limit, err *e);
// "64.00 KiB", or "unlimited".
void reading_bytes(char out[24], uint64_t bytes);
// "1 rank", "2 ranks". A longer text is cut.
void reading_counted(char out[48], uint64_t count, const char *noun);

// Figures of /proc/meminfo in bytes; 0 where a line lacks.
typedef struct memory_figures {
    bool known; // false: doctor_blind has been called
    uint64_t total, available, swap_total, swap_free, commit_limit, committed;
    uint64_t huge_free, huge_page; // unused huge pages (a number), and the bytes of one
    uint64_t corrupted;
} memory_figures;
status reading_memory_of(const doctor_context *c, doctor_findings *out, memory_figures *m, err *e);

// Reads a file whole, and calls doctor_blind or doctor_skip ("/proc/pressure/memory: it does not exist") where that
// cannot be done; *content is then NULL. The caller frees it.
status reading_need(const doctor_context *c, doctor_findings *out, const char *path, char **content,
                    err *e);

// GPUs that have a file /dev/nvidiaN.
status reading_gpus(const doctor_context *c, int *count, err *e);
// Ranks that would run: those of the context, else one for each GPU, else one.
status reading_ranks(const doctor_context *c, int *count, err *e);
// Cores that this process may use, from /proc/self/status, or 0 where it does not say.
status reading_cores(const doctor_context *c, int *count, err *e);
// Whether a set of capabilities has one, by its number in linux/capability.h: "CapEff:" are those that count now,
// "CapBnd:" those that the container lets anyone have. True where /proc/self/status does not say.
status reading_capability(const doctor_context *c, const char *set, int number, bool *has, err *e);
// Whether a folder below the root has at least one entry.
status reading_has_entries(const doctor_context *c, const char *folder, bool *has, err *e);

#endif
