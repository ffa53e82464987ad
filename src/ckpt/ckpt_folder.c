// ckpt_folder.c -- lists the checkpoints of a run, publishes finished ones and removes old ones. Each
// change of a visible name is one rename of a complete folder, so that after a kill at any moment
// every visible checkpoint is complete.
//
// The other files of ckpt/ call it. It does not look into checkpoints.
#include "base/alloc.h"
#include "base/file.h"
#include "ckpt/ckpt_files.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define REPLACED  ".replaced"
#define TEMPORARY ".tmp-"

void ckpt_entry_name(char out[CKPT_NAME_BYTES], int64_t step)
{
    snprintf(out, CKPT_NAME_BYTES, "step-%08" PRId64, step);
}

bool ckpt_entry_parse(const char *name, ckpt_entry *out)
{
    if (strncmp(name, "step-", 5) || !isdigit((unsigned char)name[5])) return false;
    if (strlen(name) >= CKPT_NAME_BYTES) return false;
    char *end;
    errno = 0;
    out->step = strtoll(name + 5, &end, 10);
    out->replaced = strcmp(end, REPLACED) == 0;
    snprintf(out->name, sizeof out->name, "%s", name);
    return errno == 0 && (*end == 0 || out->replaced);
}

static int newest_first(const void *a, const void *b)
{
    const ckpt_entry *x = a, *y = b;
    if (x->step != y->step) return x->step > y->step ? -1 : 1;
    return (int)x->replaced - (int)y->replaced;
}

status ckpt_list(const char *checkpoints, ckpt_entry **out, size_t *count, err *e)
{
    status result = OK;
    ckpt_entry *list = NULL, one;
    size_t n = 0, room = 0;
    struct dirent *d;
    DIR *dir = opendir(checkpoints);
    if (!dir) {
        result = err_errno(e, "cannot list the folder %s", checkpoints);
        goto done;
    }
    while ((d = readdir(dir))) {
        if (!ckpt_entry_parse(d->d_name, &one)) continue;
        TRY(alloc_grow(&list, &room, n + 1, sizeof *list, "a list of checkpoints", e));
        list[n++] = one;
    }
    if (n) qsort(list, n, sizeof *list, newest_first);
    *out = list;
    *count = n;
    list = NULL;
done:
    free(list);
    if (dir) closedir(dir);
    return result;
}

// Removes a checkpoint. It gets a hidden name first, because removing files is not atomic.
static status discard(const char *checkpoints, const char *name, err *e)
{
    status result = OK;
    char hidden[2 * CKPT_NAME_BYTES];
    snprintf(hidden, sizeof hidden, TEMPORARY "old-%s-%ld", name, (long)getpid());
    char *from = NULL, *to = NULL;
    TRY(file_join(checkpoints, name, &from, e));
    TRY(file_join(checkpoints, hidden, &to, e));
    TRY(file_remove_tree(to, e));
    TRY(file_rename(from, to, e));
    TRY(file_remove_tree(to, e));
done:
    free(from);
    free(to);
    return result;
}

status ckpt_point(const char *checkpoints, const char *link, const char *name, err *e)
{
    status result = OK;
    char hidden[CKPT_NAME_BYTES], now[CKPT_NAME_BYTES] = "";
    snprintf(hidden, sizeof hidden, TEMPORARY "%s-%ld", link, (long)getpid());
    char *from = NULL, *to = NULL;
    TRY(file_join(checkpoints, hidden, &from, e));
    TRY(file_join(checkpoints, link, &to, e));
    if (readlink(to, now, sizeof now - 1) > 0 && strcmp(now, name) == 0) goto done;
    TRY(file_remove_tree(from, e));
    if (symlink(name, from) != 0) {
        result = err_errno(e, "cannot make the link %s", from);
        goto done;
    }
    TRY(file_rename(from, to, e));
done:
    free(from);
    free(to);
    return result;
}

status ckpt_publish(const char *checkpoints, const char *temporary, int64_t step, err *e)
{
    status result = OK;
    char name[CKPT_NAME_BYTES], aside[CKPT_NAME_BYTES + sizeof REPLACED];
    ckpt_entry_name(name, step);
    snprintf(aside, sizeof aside, "%s" REPLACED, name);
    char *final = NULL, *replaced = NULL;
    TRY(file_join(checkpoints, name, &final, e));
    TRY(file_join(checkpoints, aside, &replaced, e));
    if (file_exists(final)) {
        // A rename cannot replace a folder that is not empty.
        if (file_exists(replaced)) TRY(discard(checkpoints, aside, e));
        TRY(file_rename(final, replaced, e));
    }
    TRY(file_rename(temporary, final, e));
done:
    free(final);
    free(replaced);
    return result;
}

status ckpt_prune(const char *checkpoints, int64_t step, int64_t keep, int64_t best, err *e)
{
    status result = OK;
    ckpt_entry *list = NULL;
    size_t count = 0;
    TRY(ckpt_list(checkpoints, &list, &count, e));
    int64_t kept = 1; // the one of `step`
    for (size_t i = 0; i < count; i++) {
        bool has_successor = i > 0 && list[i - 1].step == list[i].step;
        if (list[i].step == step && !has_successor) continue;
        if (!has_successor && (keep == 0 || kept < keep))
            kept++;
        else if (has_successor || list[i].step != best)
            TRY(discard(checkpoints, list[i].name, e));
    }
done:
    free(list);
    return result;
}

// Returns a descriptor that holds the folder's lock, or -1 with errno, which is EWOULDBLOCK when
// another process holds it.
static int lock_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    // Any other error of flock means that the file system has no locks; the folder counts as locked.
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return fd;
    close(fd);
    errno = EWOULDBLOCK;
    return -1;
}

status ckpt_lock(const char *folder, int *lock, err *e)
{
    *lock = lock_folder(folder);
    return *lock < 0 ? err_errno(e, "cannot lock the folder %s", folder) : OK;
}

// Returns whether this is a temporary folder whose process has ended. The kernel releases the lock of a dead process.
// The process number in the name would not do: a zombie or another process may have it.
static bool is_left_over(const char *path, const char *name)
{
    if (strncmp(name, TEMPORARY, strlen(TEMPORARY)) != 0) return false;
    int lock = lock_folder(path);
    if (lock < 0) return errno != EWOULDBLOCK;
    close(lock);
    return true;
}

status ckpt_sweep(const char *checkpoints, err *e)
{
    status result = OK;
    struct dirent *d;
    DIR *dir = opendir(checkpoints);
    if (!dir) {
        result = err_errno(e, "cannot list the folder %s", checkpoints);
        goto done;
    }
    while ((d = readdir(dir))) {
        char *path = NULL;
        TRY(file_join(checkpoints, d->d_name, &path, e));
        if (is_left_over(path, d->d_name)) result = file_remove_tree(path, e);
        free(path);
        if (result != OK) goto done;
    }
done:
    if (dir) closedir(dir);
    return result;
}
