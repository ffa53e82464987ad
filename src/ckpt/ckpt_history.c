// ckpt_history.c -- a run's checkpoints are one history: which are of it, and what becomes of later
// ones when a run goes on from an earlier one. They are neither removed, because nobody said so,
// nor left in place, because the next run would take them for its own: they move into a folder
// beside.
//
// Called by whoever starts a run, before its first save. Does not look into checkpoints.
#include "base/file.h"
#include "ckpt/ckpt_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

status ckpt_has_any(const char *out, bool *has, err *e)
{
    status result = OK;
    ckpt_entry *list = NULL;
    size_t count = 0;
    char *checkpoints = NULL;
    *has = false;
    TRY(file_join(out, "checkpoints", &checkpoints, e));
    if (!file_is_directory(checkpoints)) goto done;
    // A folder that cannot be listed holds none.
    const status listed = ckpt_list(checkpoints, &list, &count, e);
    if (listed == E_MEMORY) result = listed;
    *has = listed == OK && count > 0;
done:
    free(list);
    free(checkpoints);
    return result;
}

// The entry of out/checkpoints that `folder` is or leads to. *is_of is false when it is none.
static status entry_of(const char *out, const char *folder, ckpt_entry *entry, bool *is_of, err *e)
{
    status result = OK;
    struct stat here, there;
    char *checkpoints = NULL, *whole = NULL;
    *is_of = false;
    TRY(file_join(out, "checkpoints", &checkpoints, e));
    whole = realpath(folder, NULL);
    if (!whole && errno == ENOMEM) FAIL(E_MEMORY, "no memory for the path %s", folder);
    char *slash = whole ? strrchr(whole, '/') : NULL;
    if (slash && slash > whole) {
        *slash = 0;
        *is_of = stat(checkpoints, &here) == 0 && stat(whole, &there) == 0 &&
                 here.st_dev == there.st_dev && here.st_ino == there.st_ino &&
                 ckpt_entry_parse(slash + 1, entry);
    }
done:
    free(checkpoints);
    free(whole);
    return result;
}

status ckpt_is_of(const char *out, const char *folder, bool *is_of, err *e)
{
    ckpt_entry entry;
    return entry_of(out, folder, &entry, is_of, e);
}

static status move(const char *checkpoints, const char *name, const char *aside, err *e)
{
    status result = OK;
    char *from = NULL, *to = NULL;
    TRY(file_join(checkpoints, name, &from, e));
    TRY(file_join(aside, name, &to, e));
    TRY(file_rename(from, to, e));
done:
    free(from);
    free(to);
    return result;
}

status ckpt_go_on(const char *out, const char *folder, const char *aside, bool *moved, err *e)
{
    status result = OK;
    ckpt_entry *list = NULL, from;
    size_t count = 0, later = 0;
    char *checkpoints = NULL;
    bool is_of = false;
    *moved = false;
    TRY(file_join(out, "checkpoints", &checkpoints, e));
    TRY(entry_of(out, folder, &from, &is_of, e));
    if (!is_of) FAIL(E_INTERNAL, "%s is not one of the checkpoints in %s", folder, checkpoints);
    TRY(ckpt_list(checkpoints, &list, &count, e));
    while (later < count && strcmp(list[later].name, from.name) != 0) later++;
    if (later > 0) {
        if (mkdir(aside, 0777) != 0) {
            result = err_errno(e, "cannot make the folder %s", aside);
            goto done;
        }
        *moved = true;
    }
    while (later > 0) TRY(move(checkpoints, list[--later].name, aside, e));
    TRY(ckpt_point_latest(checkpoints, from.name, e));
done:
    free(list);
    free(checkpoints);
    return result;
}
