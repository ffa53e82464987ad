// mounts.c -- see mounts.h. Blanks in a path stand as \040 in /proc/mounts. Such a folder does not match, and the folder
// above it is taken.
#include "doctor/memory/mounts.h"

#include <stdio.h>
#include <string.h>

static bool lies_in(const char *path, const char *point)
{
    const size_t length = strcmp(point, "/") == 0 ? 0 : strlen(point);
    return strncmp(path, point, length) == 0 && (path[length] == '/' || !path[length]);
}

bool mount_of(const char *mounts, const char *path, mount_entry *out)
{
    bool found = false;
    for (const char *line = mounts; line && *line; line = strchr(line, '\n')) {
        mount_entry m;
        line += *line == '\n';
        if (sscanf(line, "%*s %255s %63s %511s", m.point, m.type, m.options) != 3) continue;
        if (!lies_in(path, m.point) || (found && strlen(m.point) < strlen(out->point))) continue;
        *out = m;
        found = true;
    }
    return found;
}
