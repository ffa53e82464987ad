// tier_file.c -- the file of a tier: it has no name, its space is reserved, and it uses O_DIRECT
// where the file system accepts it. tier_open calls it. It deliberately does not know requests or
// engines.
#define _GNU_SOURCE // O_TMPFILE, O_DIRECT, fallocate, mkostemp
#include "store/tier_private.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { ZEROS = 1 << 20 };

// For file systems without O_TMPFILE: the file has a name for an instant.
static int create_and_unlink(const char *folder)
{
    char *path = NULL;
    if (file_join(folder, ".trireme-tier-XXXXXX", &path, NULL) != OK) {
        errno = ENOMEM;
        return -1;
    }
    const int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) unlink(path);
    const int why = errno;
    free(path);
    errno = why;
    return fd;
}

static status create(const tier_options *o, int *fd, err *e)
{
    if (!(o->avoid & TIER_AVOID_TMPFILE))
        *fd = open(o->folder, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (*fd < 0) *fd = create_and_unlink(o->folder);
    if (*fd >= 0) return OK;
    const bool system = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == EIO ||
                        errno == ENOSPC || errno == EDQUOT;
    if (system) return err_errno(e, "%s: cannot make a file in %s", o->name, o->folder);
    return err_set(e, E_USAGE,
                   "%s: cannot make a file in %s (%m); valid is an existing folder that can be "
                   "written",
                   o->name, o->folder);
}

// Returns 0 or errno. It syncs, because some file systems allocate the space no earlier.
static int write_zeros(int fd, uint64_t bytes)
{
    char *zeros;
    if (alloc_zeroed(&zeros, 1, ZEROS, "zeros", NULL) != OK) return ENOMEM;
    int why = 0;
    for (uint64_t offset = 0; !why && offset < bytes;) {
        const uint64_t left = bytes - offset;
        const ssize_t written = pwrite(fd, zeros, left < ZEROS ? left : ZEROS, (off_t)offset);
        if (written >= 0)
            offset += (uint64_t)written;
        else if (errno != EINTR)
            why = errno;
    }
    if (!why && fdatasync(fd) != 0) why = errno;
    free(zeros);
    return why;
}

// Returns 0 or errno.
static int reserve(const tier_options *o, uint64_t bytes, int fd)
{
    int why = o->avoid & TIER_AVOID_RESERVE ? EOPNOTSUPP : EINTR;
    while (why == EINTR) why = fallocate(fd, 0, 0, (off_t)bytes) == 0 ? 0 : errno;
    return why == EOPNOTSUPP || why == ENOSYS ? write_zeros(fd, bytes) : why;
}

// Asks for the free space first: a size beyond the disk must not fill the disk for a moment, while
// other programs write to it.
static status reserve_checked(const tier_options *o, uint64_t bytes, int fd, err *e)
{
    struct statvfs fs = {0};
    const bool known = fstatvfs(fd, &fs) == 0 && fs.f_blocks > 0;
    const uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize;
    const int why = known && room < bytes ? ENOSPC : reserve(o, bytes, fd);
    if (!why) return OK;
    char want[24], have[24] = "unknown";
    text_bytes(want, (double)bytes);
    if (known) text_bytes(have, (double)room);
    errno = why;
    return err_errno(e, "%s: cannot reserve %s in %s (free: %s)", o->name, want, o->folder, have);
}

// Reads one block as a trial, because some file systems accept the flag and refuse the I/O.
static bool set_direct(int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_DIRECT) != 0) return false;
    void *block = NULL;
    ssize_t got = -1;
    if (alloc_aligned(&block, TIER_ALIGN, 1, TIER_ALIGN, "a block", NULL) == OK) do
            got = pread(fd, block, TIER_ALIGN, 0);
        while (got < 0 && errno == EINTR);
    const int why = errno;
    free(block);
    if (got == TIER_ALIGN) return true;
    fcntl(fd, F_SETFL, flags);
    errno = got < 0 ? why : EINVAL;
    return false;
}

status tier_file_open(const tier_options *o, uint64_t bytes, int *fd, char reason[128],
                      const char **buffered, err *e)
{
    status result = OK;
    *fd = -1;
    *buffered = NULL;
    TRY(create(o, fd, e));
    TRY(reserve_checked(o, bytes, *fd, e));
    if (o->avoid & TIER_AVOID_DIRECT) {
        *buffered = "the caller avoids it";
    } else if (!set_direct(*fd)) {
        snprintf(reason, 128, "the file system refuses it: %m");
        *buffered = reason;
    }
done:
    if (result != OK && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return result;
}
