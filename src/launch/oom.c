// oom.c -- see oom.h. Counters: oom_kill of memory.events (control groups, version 2) or memory.oom_control
// (version 1), and oom_kill of /proc/vmstat (Linux 4.13).
#include "launch/oom.h"

#include "base/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The number behind `name` at the start of a line of a file; 0 where there is none.
static uint64_t read_count(const char *path, const char *name)
{
    char line[256];
    uint64_t count = 0;
    const size_t length = strlen(name);
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    while (fgets(line, sizeof line, f))
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            count = strtoull(line + length + 1, NULL, 10);
    fclose(f);
    return count;
}

static uint64_t read_group(const char *root, const char *marker, const char *file)
{
    text path = {0};
    text_add(&path, root);
    cgroup_add_path(&path, "", marker);
    text_addf(&path, "/%s", file);
    uint64_t count = read_count(path.chars, "oom_kill");
    text_clear(&path);
    if (count) return count;
    // In a container the group's own path is not visible, but its files are at the root.
    text_addf(&path, "%s/%s", root, file);
    count = read_count(path.chars, "oom_kill");
    text_clear(&path);
    return count;
}

oom_count oom_read(void)
{
    const uint64_t second = read_group("/sys/fs/cgroup", "0::", "memory.events");
    const uint64_t first = read_group("/sys/fs/cgroup/memory", ":memory:", "memory.oom_control");
    return (oom_count){.group = second + first, .machine = read_count("/proc/vmstat", "oom_kill")};
}

const char *oom_explain(oom_count before)
{
    const oom_count now = oom_read();
    if (now.group > before.group)
        return "the kernel killed it: the memory limit of its control group was reached";
    if (now.machine > before.machine) return "the kernel killed it: the machine had no memory left";
    return NULL;
}
