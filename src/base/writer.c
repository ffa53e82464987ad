// writer.c -- writes files: it buffers and hashes the bytes, makes the file durable and can replace
// a file by one rename. Checkpoints, data preparation and logs call it. It does not know formats.
#define _GNU_SOURCE // fallocate
#include "base/file.h"

#include "base/alloc.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum { BUFFER_BYTES = 1 << 20 };

struct file_writer {
    int fd;
    char *path;
    XXH3_state_t *hash;
    uint64_t bytes;
    size_t buffered;
    uint8_t *buffer;
};

static void writer_free(file_writer *w)
{
    if (!w) return;
    if (w->fd >= 0) close(w->fd);
    if (w->hash) XXH3_freeState(w->hash);
    free(w->buffer);
    free(w->path);
    free(w);
}

status file_create(const char *path, file_writer **out, err *e)
{
    status result = OK;
    file_writer *w = NULL;
    TRY(alloc_zeroed(&w, 1, sizeof *w, path, e));
    w->fd = -1;
    TRY(text_copy(path, &w->path, e));
    TRY(alloc_array(&w->buffer, BUFFER_BYTES, 1, path, e));
    w->hash = XXH3_createState();
    if (!w->hash) FAIL(E_MEMORY, "no memory for the hash of %s", path);
    XXH3_64bits_reset(w->hash);
    w->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (w->fd < 0) {
        result = err_errno(e, "cannot create %s", path);
        goto done;
    }
    *out = w;
    w = NULL;
done:
    writer_free(w);
    return result;
}

static status write_all(file_writer *w, const uint8_t *data, size_t bytes, err *e)
{
    while (bytes) {
        ssize_t put = write(w->fd, data, bytes);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return err_errno(e, "cannot write %s", w->path);
        data += put;
        bytes -= (size_t)put;
    }
    return OK;
}

static status writer_flush(file_writer *w, err *e)
{
    size_t buffered = w->buffered;
    w->buffered = 0;
    return write_all(w, w->buffer, buffered, e);
}

status file_write(file_writer *w, const void *data, size_t bytes, err *e)
{
    status result = OK;
    if (!bytes) return OK;
    XXH3_64bits_update(w->hash, data, bytes);
    w->bytes += bytes;
    if (w->buffered + bytes > BUFFER_BYTES) TRY(writer_flush(w, e));
    if (bytes >= BUFFER_BYTES) {
        TRY(write_all(w, data, bytes, e));
    } else {
        memcpy(w->buffer + w->buffered, data, bytes);
        w->buffered += bytes;
    }
done:
    return result;
}

uint64_t file_writer_hash(const file_writer *w)
{
    return XXH3_64bits_digest(w->hash);
}

uint64_t file_writer_bytes(const file_writer *w)
{
    return w->bytes;
}

// fsync fails on a pipe or a terminal, which need no fsync.
static status sync_file(int fd, const char *path, err *e)
{
    if (fsync(fd) == 0 || errno == EINVAL || errno == EROFS) return OK;
    return err_errno(e, "cannot make %s durable", path);
}

status file_close_durable(int fd, const char *path, err *e)
{
    status result = sync_file(fd, path, e);
    if (close(fd) != 0 && result == OK) result = err_errno(e, "cannot close %s", path);
    return result;
}

status file_finish(file_writer *w, err *e)
{
    status result = OK;
    TRY(writer_flush(w, e));
    int fd = w->fd;
    w->fd = -1;
    TRY(file_close_durable(fd, w->path, e));
done:
    writer_free(w);
    return result;
}

void file_abandon(file_writer *w)
{
    writer_free(w);
}

// ---- Files that several processes write

status file_write_at(int fd, const char *path, const void *data, size_t bytes, uint64_t offset,
                     err *e)
{
    const uint8_t *from = data;
    while (bytes) {
        ssize_t put = pwrite(fd, from, bytes, (off_t)offset);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return err_errno(e, "cannot write %s", path);
        from += put;
        offset += (uint64_t)put;
        bytes -= (size_t)put;
    }
    return OK;
}

status file_create_zeros(const char *path, uint64_t bytes, int *out, err *e)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return err_errno(e, "cannot create %s", path);
    // Not posix_fallocate, which writes zeros where the file system cannot reserve room.
    int how = fallocate(fd, 0, 0, (off_t)bytes);
    while (how != 0 && errno == EINTR) how = fallocate(fd, 0, 0, (off_t)bytes);
    if (how == 0 || (errno != ENOSPC && errno != EDQUOT && errno != EFBIG))
        how = ftruncate(fd, (off_t)bytes);
    if (how == 0) {
        *out = fd;
        return OK;
    }
    err_errno(e, "cannot write %s", path);
    close(fd);
    return E_IO;
}

status file_hash(const char *path, uint64_t *hash, err *e)
{
    status result = OK;
    int fd = -1;
    uint8_t *buffer = NULL;
    XXH3_state_t *state = XXH3_createState();
    if (!state) FAIL(E_MEMORY, "no memory for the hash of %s", path);
    XXH3_64bits_reset(state);
    TRY(alloc_array(&buffer, BUFFER_BYTES, 1, path, e));
    TRY(file_open_input(path, &fd, NULL, e));
    for (;;) {
        ssize_t got = read(fd, buffer, BUFFER_BYTES);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            result = err_errno(e, "cannot read %s", path);
            goto done;
        }
        if (got == 0) break;
        XXH3_64bits_update(state, buffer, (size_t)got);
    }
    *hash = XXH3_64bits_digest(state);
done:
    if (state) XXH3_freeState(state);
    free(buffer);
    if (fd >= 0) close(fd);
    return result;
}

status file_replace(const char *path, const void *data, size_t bytes, err *e)
{
    status result = OK;
    file_writer *w = NULL;
    text beside = {0};
    text_addf(&beside, "%s.tmp-%ld", path, (long)getpid());
    TRY(text_check(&beside, e));
    TRY(file_create(beside.chars, &w, e));
    TRY(file_write(w, data, bytes, e));
    file_writer *full = w;
    w = NULL;
    TRY(file_finish(full, e));
    TRY(file_rename(beside.chars, path, e));
done:
    file_abandon(w);
    if (result != OK && !beside.failed) unlink(beside.chars);
    text_clear(&beside);
    return result;
}

status file_sync_directory(const char *path, err *e)
{
    status result = OK;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return err_errno(e, "cannot open the folder %s", path);
    if (fsync(fd) != 0 && errno != EINVAL && errno != EROFS)
        result = err_errno(e, "cannot make the folder %s durable", path);
    close(fd);
    return result;
}

// Returns the parent folder of a path. The caller frees it.
static status parent_of(const char *path, char **out, err *e)
{
    status result = OK;
    char *copy = NULL;
    TRY(text_copy(path, &copy, e));
    size_t n = strlen(copy);
    while (n > 1 && copy[n - 1] == '/') copy[--n] = 0;
    char *slash = strrchr(copy, '/');
    if (!slash) TRY(text_copy(".", out, e));
    if (!slash) goto done;
    slash[slash == copy ? 1 : 0] = 0;
    *out = copy;
    copy = NULL;
done:
    free(copy);
    return result;
}

status file_rename(const char *from, const char *to, err *e)
{
    status result = OK;
    char *from_parent = NULL, *to_parent = NULL;
    TRY(parent_of(from, &from_parent, e));
    TRY(parent_of(to, &to_parent, e));
    if (rename(from, to) != 0) {
        result = err_errno(e, "cannot rename %s to %s", from, to);
        goto done;
    }
    TRY(file_sync_directory(to_parent, e));
    if (strcmp(from_parent, to_parent) != 0) TRY(file_sync_directory(from_parent, e));
done:
    free(from_parent);
    free(to_parent);
    return result;
}
