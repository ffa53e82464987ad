// agent_folder.c -- see agent_folder.h. An agent holds a lock of its temporary folder, which the kernel takes back however
// the agent ends.
#define _GNU_SOURCE // O_DIRECTORY, O_NOFOLLOW
#include "launch/agent_folder.h"

#include "base/file.h"
#include "base/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char NAME[] = "trireme_run_XXXXXX";
enum { PREFIX = sizeof NAME - 1 - 6, TRIES = 100 };

static int open_own(const char *path)
{
    struct stat info;
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || (fstat(fd, &info) == 0 && info.st_uid == geteuid())) return fd;
    close(fd);
    return -1;
}

// Removes the folder of an agent that is gone: nobody holds its lock.
static void remove_left(const char *where, const char *name)
{
    char *path = NULL;
    if (strncmp(name, NAME, PREFIX) != 0 || strlen(name) != sizeof NAME - 1) return;
    if (file_join(where, name, &path, NULL) != OK) return;
    const int fd = open_own(path);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) (void)file_remove_tree(path, NULL);
    if (fd >= 0) close(fd);
    free(path);
}

static void remove_all_left(const char *where)
{
    DIR *d = opendir(where);
    for (struct dirent *entry = d ? readdir(d) : NULL; entry; entry = readdir(d))
        remove_left(where, entry->d_name);
    if (d) closedir(d);
}

// Locks the new folder. Returns whether it is still there: before it was locked, another agent may have removed it.
static bool lock(agent_folder *f)
{
    struct stat own, current;
    f->lock = open_own(f->path);
    if (f->lock < 0) return false;
    // On a file system without locks the folders of killed agents stay.
    if (flock(f->lock, LOCK_EX) == 0 && fstat(f->lock, &own) == 0 && stat(f->path, &current) == 0 &&
        own.st_ino == current.st_ino)
        return true;
    close(f->lock);
    f->lock = -1;
    return false;
}

static status make_temporary(const char *where, agent_folder *f, err *e)
{
    status result = OK;
    remove_all_left(where);
    for (int i = 0; i < TRIES; i++) {
        TRY(file_join(where, NAME, &f->path, e));
        if (!mkdtemp(f->path)) {
            result = err_errno(e, "cannot make a folder for the workers' files (%s)", f->path);
            goto done;
        }
        if (lock(f)) goto done;
        free(f->path);
        f->path = NULL;
    }
    FAIL(E_IO, "cannot keep a folder for the workers' files in %s", where);
done:
    return result;
}

status agent_folder_open(const char *given, agent_folder *out, err *e)
{
    status result = OK;
    const char *where = getenv("TMPDIR");
    *out = (agent_folder){.lock = -1};
    if (!given) return make_temporary(where && *where ? where : "/tmp", out, e);
    TRY(text_copy(given, &out->path, e));
    TRY(file_make_directories(given, e));
done:
    return result;
}

void agent_folder_close(agent_folder *f)
{
    if (f->lock >= 0) {
        (void)file_remove_tree(f->path, NULL);
        close(f->lock);
    }
    free(f->path);
    *f = (agent_folder){.lock = -1};
}
