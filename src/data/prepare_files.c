// Input files of prepare: folders become lists of files, gzip becomes bytes. Called by the source.
// It deliberately does not know documents or formats.
#include "data/prepare_files.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

bool path_has_suffix(const char *path, const char *suffix)
{
    size_t n = strlen(path), m = strlen(suffix);
    return n >= m && strcmp(path + n - m, suffix) == 0;
}

static status usage_errno(const char *path, err *e)
{
    return err_set(e, E_USAGE, "cannot read %s: %s", path, strerror(errno));
}

static status list_append(file_list *l, const char *path, uint64_t size, err *e)
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

static bool matches(const char *const *patterns, size_t count, const char *below)
{
    const char *slash = strrchr(below, '/'), *name = slash ? slash + 1 : below;
    for (size_t i = 0; i < count; i++)
        if (fnmatch(patterns[i], strchr(patterns[i], '/') ? below : name, 0) == 0) return true;
    return false;
}

// root: how many bytes of a path are the folder that was named, its slash included.
static status folder_add(file_list *l, const char *folder, size_t root, const prepare_filter *f,
                         err *e)
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
        const char *below = path + root;
        bool excluded = matches(f->exclude, f->excludes, below);
        bool included = f->includes == 0 || matches(f->include, f->includes, below);
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

status file_list_add(file_list *l, const char *path, const prepare_filter *filter, err *e)
{
    status result = OK;
    struct stat s;
    if (stat(path, &s) != 0) return usage_errno(path, e);
    if (!S_ISDIR(s.st_mode)) {
        int fd;
        TRY(file_open_input(path, &fd, NULL, e)); // refused before anything is written
        close(fd);
        return list_append(l, path, (uint64_t)s.st_size, e);
    }
    size_t before = l->count;
    size_t root = strlen(path) + (path[strlen(path) - 1] != '/');
    TRY(folder_add(l, path, root, filter, e));
    if (l->count == before)
        FAIL(E_USAGE, "%s: no regular file in this folder%s", path,
             filter->includes + filter->excludes ? " that --include and --exclude let through"
                                                 : "");
done:
    return result;
}

void file_list_clear(file_list *l)
{
    for (size_t i = 0; i < l->count; i++) free(l->path[i]);
    free(l->path);
    free(l->size);
    *l = (file_list){0};
}

struct input_file {
    char *path;
    gzFile gz; // NULL: plain
    int fd;    // of a plain file
    uint64_t position;
};

status input_file_open(const char *path, input_file **out, err *e)
{
    status result = OK;
    input_file *f = calloc(1, sizeof *f);
    if (!f) return err_set(e, E_IO, "%s: out of memory", path);
    TRY(text_copy(path, &f->path, e));
    f->fd = -1;
    TRY(file_open_input(path, &f->fd, NULL, e));
    if (path_has_suffix(path, ".gz")) {
        f->gz = gzdopen(f->fd, "rb");
        if (!f->gz) FAIL(E_IO, "%s: out of memory", path);
        f->fd = -1;
        gzbuffer(f->gz, 1 << 17);
    }
    *out = f;
    f = NULL;
done:
    input_file_close(f);
    return result;
}

static status gzip_read(input_file *f, char *out, size_t bytes, size_t *got, err *e)
{
    int code = Z_OK;
    int n = gzread(f->gz, out, (unsigned)bytes);
    const char *why = gzerror(f->gz, &code);
    if (code == Z_ERRNO) return err_errno(e, "cannot read %s", f->path);
    if (n < 0 || code < 0)
        return err_set(e, E_USAGE, "%s: broken gzip data after byte %lld (%s)", f->path,
                       (long long)gzoffset(f->gz), code == Z_BUF_ERROR ? "it ends too early" : why);
    if (gzdirect(f->gz))
        return err_set(e, E_USAGE, "%s: is not gzip data, though its name ends in .gz", f->path);
    f->position = (uint64_t)gzoffset(f->gz);
    *got = (size_t)n;
    return OK;
}

status input_file_read(input_file *f, void *out, size_t bytes, size_t *got, err *e)
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

uint64_t input_file_position(const input_file *f)
{
    return f->position;
}

void input_file_close(input_file *f)
{
    if (!f) return;
    if (f->gz) gzclose(f->gz);
    if (f->fd >= 0) close(f->fd);
    free(f->path);
    free(f);
}
