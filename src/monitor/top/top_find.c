// top_find.c -- finds the runs of this machine: a process whose memory maps the record of a rank for writing is a rank.
// Called by cmd/top.c.
#define _GNU_SOURCE
#include "monitor/top/top.h"

#include "base/alloc.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct top_folders {
    char **items;
    size_t count, room;
} top_folders;

// The folder of the run whose record this is, of "/a/out/spans/rank-00003.spans": its bytes; 0: it is none.
static size_t folder_bytes(const char *path)
{
    const char *name = strstr(path, "/spans/rank-");
    for (const char *next = name; next; next = strstr(next + 1, "/spans/rank-")) name = next;
    int rank = -1, used = 0;
    if (!name || sscanf(name, "/spans/rank-%d.spans%n", &rank, &used) != 1 || !used || name[used])
        return 0;
    return (size_t)(name - path);
}

static status add_folder(top_folders *f, const char *path, size_t bytes, err *e)
{
    status result = OK;
    for (size_t i = 0; i < f->count; i++)
        if (strlen(f->items[i]) == bytes && memcmp(f->items[i], path, bytes) == 0) return OK;
    TRY(alloc_grow(&f->items, &f->room, f->count + 1, sizeof *f->items, "the runs of a machine",
                   e));
    TRY(alloc_zeroed(&f->items[f->count], bytes + 1, 1, "the runs of a machine", e));
    memcpy(f->items[f->count++], path, bytes);
done:
    return result;
}

// A line of maps: "7f…-7f… rw-s 00000000 08:01 123   /path". A record of a run that was removed ends with " (deleted)".
static status read_maps(FILE *maps, top_folders *f, err *e)
{
    status result = OK;
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, maps) > 0) {
        char rights[5] = "";
        line[strcspn(line, "\n")] = 0;
        const char *path = strchr(line, '/');
        if (!path || sscanf(line, "%*s %4s", rights) != 1 || rights[1] != 'w') continue;
        const size_t bytes = folder_bytes(path);
        if (bytes) TRY(add_folder(f, path, bytes, e));
    }
done:
    free(line);
    return result;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

status top_find(const char *proc, char ***out, size_t *count, err *e)
{
    status result = OK;
    top_folders f = {0};
    FILE *maps = NULL;
    DIR *d = opendir(proc);
    for (struct dirent *x; d && (x = readdir(d));) {
        char path[512];
        if (!isdigit((unsigned char)x->d_name[0])) continue;
        (void)snprintf(path, sizeof path, "%s/%s/maps", proc, x->d_name);
        maps = fopen(path, "re");
        if (!maps) continue;
        TRY(read_maps(maps, &f, e));
        fclose(maps);
        maps = NULL;
    }
    if (f.count) qsort(f.items, f.count, sizeof *f.items, by_name);
    *out = f.items;
    *count = f.count;
    f = (top_folders){0};
done:
    if (maps) fclose(maps);
    if (d) closedir(d);
    for (size_t i = 0; i < f.count; i++) free(f.items[i]);
    free(f.items);
    return result;
}
