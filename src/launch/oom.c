// oom.c -- see oom.h. Counters: oom_kill of memory.events (control groups, version 2) or memory.oom_control
// (version 1), and oom_kill of /proc/vmstat (Linux 4.13).
#include "launch/oom.h"

#include "base/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Adds the number behind "oom_kill" at the start of a line of a file to *count. Returns whether there is one.
static bool add_count(const char *path, uint64_t *count)
{
    static const char NAME[] = "oom_kill ";
    char line[256];
    bool found = false;
    FILE *f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof line, f)) {
        found = strncmp(line, NAME, strlen(NAME)) == 0;
        if (found) *count += strtoull(line + strlen(NAME), NULL, 10);
    }
    if (f) fclose(f);
    return found;
}

// Adds the count of this process's group in the hierarchy at `mount`.
static void add_group(const char *root, const char *mount, const char *marker, const char *file,
                      oom_count *c)
{
    text path = {0}, top = {0};
    text_addf(&path, "%s%s", root, mount);
    cgroup_add_path(&path, root, marker);
    text_addf(&path, "/%s", file);
    // In a container the group's own path is not visible, but its files are at the root.
    text_addf(&top, "%s%s/%s", root, mount, file);
    if (text_check(&path, NULL) == OK && text_check(&top, NULL) == OK &&
        (add_count(path.chars, &c->group) || add_count(top.chars, &c->group)))
        c->has_group = true;
    text_clear(&path);
    text_clear(&top);
}

oom_count oom_read(const char *root)
{
    oom_count c = {0};
    text machine = {0};
    add_group(root, "/sys/fs/cgroup", "0::", "memory.events", &c);
    add_group(root, "/sys/fs/cgroup/memory", ":memory:", "memory.oom_control", &c);
    text_addf(&machine, "%s/proc/vmstat", root);
    if (text_check(&machine, NULL) == OK) (void)add_count(machine.chars, &c.machine);
    text_clear(&machine);
    return c;
}

const char *oom_explain(oom_count before, const char *root)
{
    const oom_count now = oom_read(root);
    if (now.group > before.group)
        return "the kernel killed it: the memory limit of its control group was reached";
    // The machine's count holds processes of other groups, too. Where the group has a count, these do not matter.
    if (!now.has_group && now.machine > before.machine)
        return "the kernel killed it: the machine had no memory left";
    return NULL;
}
