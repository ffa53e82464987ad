// file.c -- whole reads, maps and what is known about paths. Called by stores, data and
// configuration; writing is in writer.c. A file that cannot be opened for reading is the user's
// mistake (E_USAGE), a failing read is the system's (E_IO).
#define _GNU_SOURCE // nftw
#include "base/file.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static status open_for_reading(const char *path, int *out, struct stat *info, err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        err_errno(e, "cannot open %s", path);
        if (e) e->code = E_USAGE;
        return E_USAGE;
    }
    if (fstat(fd, info) != 0) {
        status result = err_errno(e, "cannot look at %s", path);
        close(fd);
        return result;
    }
    if (S_ISDIR(info->st_mode)) {
        close(fd);
        return err_set(e, E_USAGE, "cannot read %s: it is a folder, not a file", path);
    }
    *out = fd;
    return OK;
}

status file_map_open(const char *path, file_map *out, err *e)
{
    status result = OK;
    int fd = -1;
    struct stat info;
    *out = (file_map){0};
    TRY(open_for_reading(path, &fd, &info, e));
    if (info.st_size > 0) {
        void *at = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED) {
            result = err_errno(e, "cannot map %s", path);
            goto done;
        }
        *out = (file_map){.at = at, .bytes = (size_t)info.st_size, .fd = fd};
        fd = -1;
    }
done:
    if (fd >= 0) close(fd);
    return result;
}

void file_unmap(file_map *m)
{
    if (m->at) munmap((void *)m->at, m->bytes);
    if (m->at) close(m->fd);
    *m = (file_map){0};
}

status file_map_check(const file_map *m, const char *path, err *e)
{
    struct stat info;
    if (!m->at) return OK;
    if (fstat(m->fd, &info) != 0) return err_errno(e, "cannot look at %s", path);
    if ((uint64_t)info.st_size >= m->bytes) return OK;
    return err_set(e, E_IO,
                   "%s: the file was cut off while it was in use: %lld of its %zu bytes are left",
                   path, (long long)info.st_size, m->bytes);
}

status file_read(const char *path, char **out, size_t *bytes, err *e)
{
    status result = OK;
    int fd = -1;
    struct stat info;
    text content = {0};
    char *chunk = NULL;
    TRY(open_for_reading(path, &fd, &info, e));
    chunk = malloc(1 << 16);
    if (!chunk) FAIL(E_IO, "out of memory while reading %s", path);
    text_add(&content, "");
    for (;;) {
        ssize_t got = read(fd, chunk, 1 << 16);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            result = err_errno(e, "cannot read %s", path);
            goto done;
        }
        if (got == 0) break;
        text_add_bytes(&content, chunk, (size_t)got);
    }
    *out = content.at;
    if (bytes) *bytes = content.bytes;
    content = (text){0};
done:
    free(chunk);
    text_clear(&content);
    if (fd >= 0) close(fd);
    return result;
}

bool file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool file_is_directory(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

status file_make_directories(const char *path, err *e)
{
    status result = OK;
    char *copy = text_copy(path);
    for (char *p = copy + 1; copy[0]; p++) {
        char c = *p;
        if (c != '/' && c != 0) continue;
        *p = 0;
        if (mkdir(copy, 0777) != 0 && !file_is_directory(copy)) {
            result = err_errno(e, "cannot make the folder %s", copy);
            break;
        }
        if (c == 0) break;
        *p = c;
    }
    free(copy);
    return result;
}

bool file_could_be_directory(const char *path)
{
    if (file_exists(path)) return file_is_directory(path);
    char *folder = text_copy(path);
    size_t length = strlen(folder);
    while (length > 0 && !file_exists(folder)) {
        while (length > 0 && folder[length - 1] != '/') length--;
        while (length > 1 && folder[length - 1] == '/') length--;
        folder[length] = 0;
    }
    const char *nearest = length ? folder : ".";
    const bool can = file_is_directory(nearest) && access(nearest, W_OK | X_OK) == 0;
    free(folder);
    return can;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info, (void)kind, (void)where;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

status file_remove_tree(const char *path, err *e)
{
    if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT) return OK;
    return err_errno(e, "cannot remove %s", path);
}

char *file_join(const char *folder, const char *name)
{
    text t = {0};
    text_add(&t, folder);
    if (t.bytes && t.at[t.bytes - 1] != '/') text_add(&t, "/");
    text_add(&t, name);
    return t.at;
}
