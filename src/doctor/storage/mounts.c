// mounts.c -- /proc/mounts, and which mount and disk hold a path. See storage.h. Probes of this room call it. It does not
// know what is wrong with a file system.
#include "doctor/storage/storage.h"

#include "base/alloc.h"
#include "base/text.h"
#include "doctor/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The kernel writes a space as \040, and a tab, a line break and a backslash in the same way.
static void decode(char *s)
{
    char *to = s;
    for (; *s; s++, to++) {
        const bool octal = s[0] == '\\' && strspn(s + 1, "01234567") >= 3;
        *to = octal ? (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + s[3] - '0') : *s;
        if (octal) s += 3;
    }
    *to = 0;
}

static char *next_field(char **rest)
{
    char *field = strsep(rest, " ");
    if (field) decode(field);
    return field ? field : "";
}

status storage_mounts_open(const doctor_context *c, storage_mounts *out, err *e)
{
    status result = OK;
    bool denied = false;
    size_t room = 0;
    *out = (storage_mounts){0};
    TRY(doctor_read(c, "/proc/mounts", &out->chars, &denied, e));
    for (char *rest = out->chars, *line; rest && (line = strsep(&rest, "\n"));) {
        if (!*line) continue;
        TRY(alloc_grow(&out->mount, &room, (size_t)out->count + 1, sizeof *out->mount, "the mounts",
                       e));
        storage_mount *m = &out->mount[out->count++];
        m->source = next_field(&line);
        m->point = next_field(&line);
        m->type = next_field(&line);
        m->options = next_field(&line);
    }
done:
    if (result != OK) storage_mounts_close(out);
    return result;
}

void storage_mounts_close(storage_mounts *m)
{
    free(m->mount);
    free(m->chars);
    *m = (storage_mounts){0};
}

// Of mounts on one point, the last covers the others.
const storage_mount *storage_mount_of(const storage_mounts *m, const char *path)
{
    const storage_mount *found = NULL;
    size_t longest = 0;
    for (int i = 0; i < m->count; i++) {
        const char *point = m->mount[i].point;
        const size_t bytes = strcmp(point, "/") == 0 ? 0 : strlen(point);
        const bool holds = strncmp(path, point, bytes) == 0 && (!path[bytes] || path[bytes] == '/');
        if (!holds || (found && bytes < longest)) continue;
        found = &m->mount[i];
        longest = bytes;
    }
    return found;
}

bool storage_has_option(const storage_mount *m, const char *option)
{
    const size_t bytes = strlen(option);
    for (const char *word = m->options; *word;) {
        const size_t length = strcspn(word, ",");
        if (length == bytes && strncmp(word, option, bytes) == 0) return true;
        word += length + (word[length] == ',');
    }
    return false;
}

// The nearest parent that exists, without links. The caller frees *out.
static status resolve(const char *given, char **out, bool *exists, err *e)
{
    status result = OK;
    char *path = NULL;
    TRY(text_copy(given, &path, e));
    *exists = true;
    while (!(*out = realpath(path, NULL))) {
        char *slash = strrchr(path, '/');
        *exists = false;
        if (slash == path)
            strcpy(path, strlen(path) > 1 ? "/" : ".");
        else if (slash)
            *slash = 0;
        else if (strcmp(path, ".") != 0)
            strcpy(path, ".");
        else
            FAIL(E_IO, "%s: the folder cannot be found", given);
    }
done:
    free(path);
    return result;
}

// "/mnt/x" of "ROOT/mnt/x".
static status without_root(const doctor_context *c, const char *full, char **out, err *e)
{
    char *root = *c->root ? realpath(c->root, NULL) : NULL;
    const size_t bytes = root ? strlen(root) : 0;
    const bool inside = root && strncmp(full, root, bytes) == 0;
    const char *rest = inside ? full + bytes : full;
    free(root);
    return text_copy(*rest ? rest : "/", out, e);
}

// The disk of "/dev/nvme0n1p2" is nvme0n1, whose folder has one of the partition.
static status find_disk(const doctor_context *c, storage_folder *f, err *e)
{
    status result = OK;
    char **names = NULL;
    int count = 0;
    const char *source = f->mount ? f->mount->source : "";
    if (strncmp(source, "/dev/", 5) != 0) return OK;
    const char *device = strrchr(source, '/') + 1;
    TRY(doctor_names(c, "/sys/block", &names, &count, e));
    for (int i = 0; i < count && !*f->disk; i++) {
        char path[300], mapped[128];
        int64_t sectors;
        snprintf(path, sizeof path, "/sys/block/%s/%s/size", names[i], device);
        const bool holds = doctor_read_number(c, path, &sectors);
        snprintf(path, sizeof path, "/sys/block/%s/dm/name", names[i]);
        const bool maps =
            doctor_read_line(c, path, mapped, sizeof mapped) && strcmp(mapped, device) == 0;
        if (holds || maps || strcmp(names[i], device) == 0)
            snprintf(f->disk, sizeof f->disk, "%s", names[i]);
    }
done:
    doctor_names_free(names, count);
    return result;
}

status storage_folder_open(const doctor_context *c, const char *path, storage_folder *out, err *e)
{
    status result = OK;
    char *below = NULL;
    *out = (storage_folder){0};
    const char *given = path ? path : *c->root ? "/" : ".";
    TRY(text_copy(path ? path : ".", &out->shown, e));
    TRY(doctor_path(c, given, &below, e));
    TRY(resolve(below, &out->full, &out->exists, e));
    TRY(without_root(c, out->full, &out->path, e));
    TRY(storage_mounts_open(c, &out->mounts, e));
    out->mount = storage_mount_of(&out->mounts, out->path);
    TRY(find_disk(c, out, e));
done:
    free(below);
    if (result != OK) storage_folder_close(out);
    return result;
}

void storage_folder_close(storage_folder *f)
{
    storage_mounts_close(&f->mounts);
    free(f->shown);
    free(f->full);
    free(f->path);
    *f = (storage_folder){0};
}

status storage_folder_find(const doctor_context *c, doctor_findings *out, storage_folder *f,
                           bool *known, err *e)
{
    status result = storage_folder_open(c, c->folder, f, e);
    *known = result == OK && f->mount;
    if (result == OK && !*known)
        doctor_blind(out, "/proc/mounts does not name the mount of %s", f->shown);
    return result;
}

bool storage_disk_number(const doctor_context *c, const storage_folder *f, const char *file,
                         int64_t *out)
{
    char path[200];
    snprintf(path, sizeof path, "/sys/block/%s/%s", f->disk, file);
    return *f->disk && doctor_read_number(c, path, out);
}
