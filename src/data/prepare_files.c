// prepare_files.c -- lists the files of folders, and reads plain and gzipped files. prepare_source.c
// calls it. It deliberately does not know documents or formats.
#include "data/prepare_files.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "data/paths.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static status usage_errno(const char *path, err *e)
{
    return err_set(e, E_USAGE, "cannot read %s: %s", path, strerror(errno));
}

static status list_append(prepare_file_list *l, const char *path, uint64_t size, err *e)
{
    status result = OK;
    const size_t need = l->count + 1;
    TRY(alloc_grow(&l->path, &l->path_room, need, sizeof *l->path, "a list of files", e));
    TRY(alloc_grow(&l->size, &l->size_room, need, sizeof *l->size, "a list of files", e));
    TRY(text_copy(path, &l->path[l->count], e));
    l->size[l->count++] = size;
    l->bytes += size;
done:
    return result;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

// `relative` is the path below the folder that the user named.
static bool matches(const char *const *patterns, size_t count, const char *relative)
{
    const char *slash = strrchr(relative, '/'), *name = slash ? slash + 1 : relative;
    for (size_t i = 0; i < count; i++)
        if (fnmatch(patterns[i], strchr(patterns[i], '/') ? relative : name, 0) == 0) return true;
    return false;
}

// `root` is the length of the path of the folder that the user named, with its slash.
static status folder_add(prepare_file_list *l, const char *folder, size_t root,
                         const prepare_filter *f, err *e)
{
    status result = OK;
    struct dirent **entries = NULL;
    char *path = NULL;
    int count = scandir(folder, &entries, NULL, by_bytes);
    if (count < 0) return usage_errno(folder, e);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
        TRY(file_join(folder, name, &path, e));
        struct stat s;
        if (lstat(path, &s) != 0) {
            result = usage_errno(path, e);
            goto done;
        }
        const char *relative = path + root;
        bool excluded = matches(f->exclude, f->excludes, relative);
        bool included = f->includes == 0 || matches(f->include, f->includes, relative);
        if (S_ISDIR(s.st_mode) && !excluded) TRY(folder_add(l, path, root, f, e));
        if (S_ISREG(s.st_mode) && included && !excluded)
            TRY(list_append(l, path, (uint64_t)s.st_size, e));
        free(path);
        path = NULL;
    }
done:
    free(path);
    for (int i = 0; i < count; i++) free(entries[i]);
    free(entries);
    return result;
}

status prepare_file_list_add(prepare_file_list *l, const char *path, const prepare_filter *filter,
                             err *e)
{
    status result = OK;
    struct stat s;
    if (stat(path, &s) != 0) return usage_errno(path, e);
    if (!S_ISDIR(s.st_mode)) {
        int fd;
        TRY(file_open_input(path, &fd, NULL, e)); // finds an unreadable file before the first write
        close(fd);
        return list_append(l, path, (uint64_t)s.st_size, e);
    }
    size_t before = l->count;
    size_t root = strlen(path) + (path[strlen(path) - 1] != '/');
    TRY(folder_add(l, path, root, filter, e));
    if (l->count == before)
        FAIL(E_USAGE, "%s: no regular file in this folder%s", path,
             filter->includes + filter->excludes ? " passes --include and --exclude" : "");
done:
    return result;
}

void prepare_file_list_clear(prepare_file_list *l)
{
    for (size_t i = 0; i < l->count; i++) free(l->path[i]);
    free(l->path);
    free(l->size);
    *l = (prepare_file_list){0};
}

struct prepare_input {
    char *path;
    gzFile gz; // NULL for a plain file
    int fd;    // of a plain file, else -1
    uint64_t position;
};

status prepare_input_open(const char *path, prepare_input **out, err *e)
{
    status result = OK;
    prepare_input *f = NULL;
    TRY(alloc_zeroed(&f, 1, sizeof *f, path, e));
    f->fd = -1;
    TRY(text_copy(path, &f->path, e));
    TRY(file_open_input(path, &f->fd, NULL, e));
    if (data_path_has_suffix(path, ".gz")) {
        f->gz = gzdopen(f->fd, "rb");
        if (!f->gz) FAIL(E_MEMORY, "%s: out of memory", path);
        f->fd = -1;
        gzbuffer(f->gz, 1 << 17);
    }
    *out = f;
    f = NULL;
done:
    prepare_input_close(f);
    return result;
}

static status gzip_read(prepare_input *f, char *out, size_t bytes, size_t *got, err *e)
{
    int code = Z_OK;
    int n = gzread(f->gz, out, (unsigned)bytes);
    const char *why = gzerror(f->gz, &code);
    if (code == Z_ERRNO) return err_errno(e, "cannot read %s", f->path);
    if (n < 0 || code < 0)
        return err_set(e, E_USAGE, "%s: broken gzip data after byte %lld (%s)", f->path,
                       (long long)gzoffset(f->gz), code == Z_BUF_ERROR ? "truncated" : why);
    if (gzdirect(f->gz))
        return err_set(e, E_USAGE, "%s: is not gzip data, though its name ends in .gz", f->path);
    f->position = (uint64_t)gzoffset(f->gz);
    *got = (size_t)n;
    return OK;
}

status prepare_input_read(prepare_input *f, void *out, size_t bytes, size_t *got, err *e)
{
    *got = 0;
    if (f->gz) return gzip_read(f, out, bytes, got, e);
    while (*got < bytes) {
        ssize_t n = read(f->fd, (char *)out + *got, bytes - *got);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return err_errno(e, "cannot read %s", f->path);
        if (n == 0) break;
        *got += (size_t)n;
        f->position += (uint64_t)n;
    }
    return OK;
}

uint64_t prepare_input_position(const prepare_input *f)
{
    return f->position;
}

void prepare_input_close(prepare_input *f)
{
    if (!f) return;
    if (f->gz) gzclose(f->gz);
    if (f->fd >= 0) close(f->fd);
    free(f->path);
    free(f);
}
