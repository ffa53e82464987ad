// file.c -- complete reads, maps and properties of paths. Stores, data and configuration call it;
// writer.c writes files. A failure to open an input is the user's mistake (E_USAGE). A failure to
// read it is the system's (E_IO).
#define _GNU_SOURCE // nftw
#include "base/file.h"

#include "base/alloc.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *kind_of(mode_t mode)
{
    return S_ISDIR(mode)    ? "a folder"
           : S_ISFIFO(mode) ? "a pipe"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

static status check_regular(const char *path, const struct stat *info, err *e)
{
    if (S_ISREG(info->st_mode)) return OK;
    return err_set(e, E_USAGE, "cannot read %s: it is %s, not a file", path,
                   kind_of(info->st_mode));
}

static status refuse_path(const char *path, err *e)
{
    err_errno(e, "cannot open %s", path);
    if (e) e->code = E_USAGE;
    return E_USAGE;
}

// Checks the kind of file before it opens the file, because opening a device may have an effect. It
// opens with O_NONBLOCK, because a pipe may have replaced the file after the check.
status file_open_input(const char *path, int *out, uint64_t *bytes, err *e)
{
    status result = OK;
    struct stat info;
    int fd = -1;
    if (stat(path, &info) != 0) return refuse_path(path, e);
    TRY(check_regular(path, &info, e));
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return refuse_path(path, e);
    if (fstat(fd, &info) != 0) {
        result = err_errno(e, "cannot look at %s", path);
        goto done;
    }
    TRY(check_regular(path, &info, e));
    *out = fd;
    if (bytes) *bytes = (uint64_t)info.st_size;
    fd = -1;
done:
    if (fd >= 0) close(fd);
    return result;
}

status file_map_open(const char *path, file_map *out, err *e)
{
    status result = OK;
    int fd = -1;
    uint64_t bytes = 0;
    *out = (file_map){0};
    TRY(file_open_input(path, &fd, &bytes, e));
    if (bytes > 0) {
        void *ptr = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
        if (ptr == MAP_FAILED) {
            result = err_errno(e, "cannot map %s", path);
            goto done;
        }
        *out = (file_map){.ptr = ptr, .bytes = bytes, .fd = fd};
        fd = -1;
    }
done:
    if (fd >= 0) close(fd);
    return result;
}

void file_unmap(file_map *m)
{
    if (m->ptr) munmap((void *)m->ptr, m->bytes);
    if (m->ptr) close(m->fd);
    *m = (file_map){0};
}

void file_map_release(const file_map *m, const void *ptr, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)ptr / page * page,
                    end = ((uintptr_t)ptr + bytes) / page * page;
    // Only advice: a refusal costs memory and no correctness. The page of the end may be in use.
    if (m->ptr && begin < end) madvise((void *)begin, end - begin, MADV_DONTNEED);
}

status file_map_check(const file_map *m, const char *path, err *e)
{
    struct stat info;
    if (!m->ptr) return OK;
    if (fstat(m->fd, &info) != 0) return err_errno(e, "cannot look at %s", path);
    if ((uint64_t)info.st_size >= m->bytes) return OK;
    return err_set(e, E_IO,
                   "%s: the file was cut off while it was in use: %lld of its %zu bytes are left",
                   path, (long long)info.st_size, m->bytes);
}

static status check_limit(const char *path, uint64_t has, uint64_t most, err *e)
{
    char found[24], valid[24];
    if (has <= most) return OK;
    text_bytes(found, (double)has);
    text_bytes(valid, (double)most);
    return err_set(e, E_USAGE, "cannot read %s: it has %s; valid: at most %s", path, found, valid);
}

status file_read(const char *path, char **out, size_t *bytes, err *e)
{
    return file_read_small(path, FILE_MOST, out, bytes, e);
}

status file_read_small(const char *path, uint64_t most, char **out, size_t *bytes, err *e)
{
    enum { CHUNK_BYTES = 1 << 16 };
    status result = OK;
    int fd = -1;
    uint64_t size;
    text content = {0};
    char *chunk = NULL;
    TRY(file_open_input(path, &fd, &size, e));
    TRY(check_limit(path, size, most, e));
    TRY(alloc_array(&chunk, CHUNK_BYTES, 1, path, e));
    for (;;) {
        ssize_t got = read(fd, chunk, CHUNK_BYTES);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            result = err_errno(e, "cannot read %s", path);
            goto done;
        }
        if (got == 0) break;
        text_add_bytes(&content, chunk, (size_t)got);
        TRY(text_check(&content, e));
        TRY(check_limit(path, content.bytes, most, e)); // a file may grow or have no known size
    }
    size = content.bytes;
    TRY(text_take(&content, out, e));
    if (bytes) *bytes = size;
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
    char *copy = NULL;
    TRY(text_copy(path, &copy, e));
    for (char *p = copy + 1; copy[0]; p++) {
        char c = *p;
        if (c != '/' && c != 0) continue;
        *p = 0;
        const bool made = mkdir(copy, 0777) == 0;
        const int why = errno; // file_is_directory may set another
        if (!made && !file_is_directory(copy)) {
            errno = why;
            result = err_errno(e, "cannot make the folder %s", copy);
            break;
        }
        if (c == 0) break;
        *p = c;
    }
done:
    free(copy);
    return result;
}

status file_could_be_directory(const char *path, bool *can, err *e)
{
    status result = OK;
    char *folder = NULL;
    *can = file_exists(path) && file_is_directory(path);
    if (file_exists(path)) return OK;
    TRY(text_copy(path, &folder, e));
    size_t length = strlen(folder);
    while (length > 0 && !file_exists(folder)) {
        while (length > 0 && folder[length - 1] != '/') length--;
        while (length > 1 && folder[length - 1] == '/') length--;
        folder[length] = 0;
    }
    const char *nearest = length ? folder : ".";
    *can = file_is_directory(nearest) && access(nearest, W_OK | X_OK) == 0;
done:
    free(folder);
    return result;
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

status file_join(const char *folder, const char *name, char **out, err *e)
{
    text t = {0};
    text_add(&t, folder);
    if (t.bytes && t.chars[t.bytes - 1] != '/') text_add(&t, "/");
    text_add(&t, name);
    return text_take(&t, out, e);
}

const char *file_shown(const char *path)
{
    char *current = getcwd(NULL, 0);
    const size_t bytes = current ? strlen(current) : 0;
    const bool below = bytes > 1 && strncmp(path, current, bytes) == 0 && path[bytes] == '/';
    free(current);
    return below ? path + bytes + 1 : path;
}
