// cgroup.c -- see cgroup.h. Version 2: memory.max, and memory.high, above which the kernel slows a group down.
// Version 1: memory.limit_in_bytes. A container may not see the path of its own group; its limits are then in the
// files at the root.
#include "base/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct memory_files {
    const char *mount, *marker;
    const char *limits[2]; // NULL: no second one
    const char *used;
    const char *cached[2]; // lines of memory.stat
} memory_files;

static const memory_files HIERARCHIES[] = {
    {"/sys/fs/cgroup",
     "0::",
     {"memory.max", "memory.high"},
     "memory.current",
     {"inactive_file", "active_file"}},
    {"/sys/fs/cgroup/memory",
     ":memory:",
     {"memory.limit_in_bytes", NULL},
     "memory.usage_in_bytes",
     {"total_inactive_file", "total_active_file"}},
};

void cgroup_add_path(text *path, const char *root, const char *marker)
{
    char line[1024];
    text list = {0};
    text_addf(&list, "%s/proc/self/cgroup", root);
    FILE *f = fopen(list.chars, "re");
    text_clear(&list);
    if (!f) return;
    while (fgets(line, sizeof line, f)) {
        const char *found = strstr(line, marker);
        if (!found) continue;
        line[strcspn(line, "\n")] = 0;
        text_add(path, found + strlen(marker));
        break;
    }
    fclose(f);
}

// The number in FOLDER/NAME behind `key` at the start of a line, or at the start of the file where key is "".
// UINT64_MAX: there is none ("max").
static uint64_t read_number(const char *folder, const char *name, const char *key)
{
    char line[256];
    uint64_t number = UINT64_MAX;
    text path = {0};
    text_addf(&path, "%s/%s", folder, name);
    FILE *f = fopen(path.chars, "re");
    text_clear(&path);
    const size_t length = strlen(key);
    while (f && number == UINT64_MAX && fgets(line, sizeof line, f)) {
        const char *digits = line + length + (length > 0);
        if (strncmp(line, key, length) != 0 || (length && line[length] != ' ')) continue;
        if (*digits >= '0' && *digits <= '9') number = strtoull(digits, NULL, 10);
    }
    if (f) fclose(f);
    return number;
}

static uint64_t less(uint64_t from, uint64_t bytes)
{
    return from > bytes ? from - bytes : 0;
}

// The bytes that the limits of the group in `folder` leave.
static uint64_t group_left(const memory_files *m, const char *folder)
{
    uint64_t limit = UINT64_MAX;
    for (int i = 0; i < 2 && m->limits[i]; i++) {
        const uint64_t one = read_number(folder, m->limits[i], "");
        if (one < limit) limit = one;
    }
    uint64_t used = read_number(folder, m->used, "");
    if (limit == UINT64_MAX || used == UINT64_MAX) return limit;
    for (int i = 0; i < 2; i++) {
        const uint64_t cached = read_number(folder, "memory.stat", m->cached[i]);
        if (cached != UINT64_MAX) used = less(used, cached);
    }
    return less(limit, used);
}

static uint64_t hierarchy_left(const memory_files *m, const char *root)
{
    uint64_t left = UINT64_MAX;
    text folder = {0};
    text_addf(&folder, "%s%s", root, m->mount);
    const size_t top = strlen(root) + strlen(m->mount);
    cgroup_add_path(&folder, root, m->marker);
    while (folder.bytes >= top) { // a text that failed is empty
        const uint64_t group_bytes = group_left(m, folder.chars);
        if (group_bytes < left) left = group_bytes;
        char *last = strrchr(folder.chars + top, '/');
        if (!last) break;
        *last = 0;
    }
    text_clear(&folder);
    return left;
}

uint64_t cgroup_memory_left(const char *root)
{
    uint64_t left = UINT64_MAX;
    for (size_t i = 0; i < sizeof HIERARCHIES / sizeof *HIERARCHIES; i++) {
        const uint64_t one = hierarchy_left(&HIERARCHIES[i], root);
        if (one < left) left = one;
    }
    return left;
}
