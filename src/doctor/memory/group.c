// group.c -- see group.h. A container may not see the path of its own group; its files are then at the root of the
// hierarchy, which every walk ends with.
#include "doctor/memory/group.h"

#include "base/cgroup.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/memory/readings.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Version 1 counts as unlimited from here on: it writes the largest multiple of a page.
#define UNLIMITED_V1 (UINT64_C(1) << 62)

typedef struct group_location {
    group_resource of;
    int version;
    const char *mount, *marker; // see cgroup_add_path
} group_location;

static const group_location HIERARCHIES[] = {
    {GROUP_MEMORY, 2, "/sys/fs/cgroup", "0::"},
    {GROUP_MEMORY, 1, "/sys/fs/cgroup/memory", ":memory:"},
    {GROUP_CPU, 2, "/sys/fs/cgroup", "0::"},
    {GROUP_CPU, 1, "/sys/fs/cgroup/cpu", ":cpu:"},
    {GROUP_CPU, 1, "/sys/fs/cgroup/cpu,cpuacct", ":cpu,cpuacct:"},
    {GROUP_PIDS, 2, "/sys/fs/cgroup", "0::"},
    {GROUP_PIDS, 1, "/sys/fs/cgroup/pids", ":pids:"},
};

static status walk(const doctor_context *c, const group_location *h, group_visit *visit, void *arg,
                   err *e)
{
    status result = OK;
    text folder = {0};
    text_add(&folder, h->mount);
    cgroup_add_path(&folder, c->root, h->marker);
    TRY(text_check(&folder, e));
    const size_t top = strlen(h->mount);
    if (folder.chars[folder.bytes - 1] == '/')
        folder.chars[folder.bytes - 1] = 0; // the topmost group
    while (visit(c, folder.chars, h->version, arg)) {
        char *last = strrchr(folder.chars + top, '/');
        if (!last) break;
        *last = 0;
    }
done:
    text_clear(&folder);
    return result;
}

status group_walk(const doctor_context *c, group_resource of, group_visit *visit, void *arg, err *e)
{
    status result = OK;
    for (size_t i = 0; i < sizeof HIERARCHIES / sizeof *HIERARCHIES; i++)
        if (HIERARCHIES[i].of == of) TRY(walk(c, &HIERARCHIES[i], visit, arg, e));
done:
    return result;
}

typedef struct limit_search {
    const char *name[2]; // of versions 1 and 2
    group_limit *out;
} limit_search;

static bool take_least(const doctor_context *c, const char *folder, int version, void *arg)
{
    limit_search *s = arg;
    char path[320], line[64];
    const char *name = s->name[version - 1];
    if (!name) return true;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!doctor_read_line(c, path, line, sizeof line) || !isdigit((unsigned char)*line))
        return true;
    const uint64_t value = strtoull(line, NULL, 10);
    if (value >= s->out->value || value >= UNLIMITED_V1) return true;
    s->out->value = value;
    snprintf(s->out->folder, sizeof s->out->folder, "%s", folder);
    return true;
}

status group_least(const doctor_context *c, group_resource of, const char *name_v2,
                   const char *name_v1, group_limit *out, err *e)
{
    *out = (group_limit){.value = UINT64_MAX};
    limit_search s = {.name = {name_v1, name_v2}, .out = out};
    return group_walk(c, of, take_least, &s, e);
}

typedef struct count_search {
    const char *name[2], *key;
    uint64_t count;
    bool found;
    status failed;
} count_search;

static bool take_count(const doctor_context *c, const char *folder, int version, void *arg)
{
    count_search *s = arg;
    char path[320], *content = NULL;
    bool denied = false;
    snprintf(path, sizeof path, "%s/%s", folder, s->name[version - 1]);
    s->failed = s->found ? OK : doctor_read(c, path, &content, &denied, NULL);
    if (content) s->found = reading_number(content, s->key, &s->count);
    free(content);
    return !s->found && s->failed == OK;
}

status group_counted(const doctor_context *c, group_resource of, const char *name_v2,
                     const char *name_v1, const char *key, uint64_t *count, bool *found, err *e)
{
    count_search s = {.name = {name_v1, name_v2}, .key = key};
    const status walked = group_walk(c, of, take_count, &s, e);
    *count = s.count;
    *found = s.found;
    return walked != OK     ? walked
           : s.failed == OK ? OK
                            : err_set(e, s.failed, "no memory for the file of a control group");
}
