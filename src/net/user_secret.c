// user_secret.c -- see user_secret.h.
#include "net/user_secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 64 };
#define PRIVATE_NAME "secret"

static status check_owner(int fd, const char *path, const char *what, mode_t type, err *e)
{
    struct stat info;
    if (fstat(fd, &info) != 0) return err_errno(e, "%s%s", path, what);
    if (info.st_uid == geteuid() && (info.st_mode & S_IFMT) == type &&
        !(info.st_mode & (S_IRWXG | S_IRWXO)))
        return OK;
    return err_set(
        e, E_IO,
        "%s%s belongs to user %u and has mode %03o; valid: this user's (%u), for itself only", path,
        what, (unsigned)info.st_uid, (unsigned)info.st_mode & 0777, (unsigned)geteuid());
}

// The first process fills the file; the others wait for it, and read.
static status take_key(int fd, const char *folder, net_secret *out, err *e)
{
    status result = OK;
    int code;
    do code = flock(fd, LOCK_EX);
    while (code != 0 && errno == EINTR);
    if (code != 0) return err_errno(e, "%s/" PRIVATE_NAME, folder);
    if (pread(fd, out->key, sizeof out->key, 0) == (ssize_t)sizeof out->key) return OK;
    TRY(net_secret_draw(out, e));
    if (pwrite(fd, out->key, sizeof out->key, 0) != (ssize_t)sizeof out->key)
        result = err_errno(e, "%s/" PRIVATE_NAME, folder);
done:
    return result;
}

status net_secret_in_folder(const char *folder, net_secret *out, err *e)
{
    status result = OK;
    int fd = -1, dir = -1;
    if (mkdir(folder, S_IRWXU) != 0 && errno != EEXIST) return err_errno(e, "%s", folder);
    dir = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0) return err_errno(e, "%s", folder);
    TRY(check_owner(dir, folder, "", S_IFDIR, e));
    fd = openat(dir, PRIVATE_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0) {
        result = err_errno(e, "%s/" PRIVATE_NAME, folder);
        goto done;
    }
    TRY(check_owner(fd, folder, "/" PRIVATE_NAME, S_IFREG, e));
    TRY(take_key(fd, folder, out, e));
done:
    if (fd >= 0) close(fd);
    close(dir);
    return result;
}

status net_secret_of_user(net_secret *out, err *e)
{
    static const char *const FOLDERS[] = {"/run/user/%u/trireme", "/dev/shm/trireme-%u",
                                          "/tmp/trireme-%u"};
    char path[PATH_BYTES];
    err why = {0};
    for (size_t i = 0; i < sizeof FOLDERS / sizeof *FOLDERS; i++) {
        snprintf(path, sizeof path, FOLDERS[i], (unsigned)geteuid());
        if (net_secret_in_folder(path, out, &why) == OK) return OK;
    }
    return err_set(e, E_IO,
                   "no folder for the secret of this user's processes: %s; valid: --secret-file "
                   "FILE or TRIREME_SECRET_FILE",
                   why.text);
}

status net_secret_find(const char *given, const net_address *a, const char *what, net_secret *out,
                       err *e)
{
    char text[NET_ADDRESS_TEXT];
    const char *file = given && *given ? given : getenv("TRIREME_SECRET_FILE");
    if (file && *file) return net_secret_read(file, out, e);
    if (net_address_is_loopback(a)) return net_secret_of_user(out, e);
    net_address_print(a, text);
    return err_set(
        e, E_USAGE,
        "%s on %s, which other hosts reach, needs a secret; valid: --secret-file FILE or "
        "TRIREME_SECRET_FILE, the same on every host",
        what, text);
}
