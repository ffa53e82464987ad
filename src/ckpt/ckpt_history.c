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

bool ckpt_has_any(const char *out)
{
    ckpt_entry *list = NULL;
    size_t count = 0;
    char *checkpoints = file_join(out, "checkpoints");
    bool has = file_is_directory(checkpoints) &&
               ckpt_list(checkpoints, &list, &count, NULL) == OK && count > 0;
    free(list);
    free(checkpoints);
    return has;
}

// The entry of out/checkpoints that `folder` is or leads to. False: it is none of them.
static bool entry_of(const char *out, const char *folder, ckpt_entry *entry)
{
    bool is_of = false;
    struct stat here, there;
    char *checkpoints = file_join(out, "checkpoints"), *whole = realpath(folder, NULL);
    char *slash = whole ? strrchr(whole, '/') : NULL;
    if (slash && slash > whole) {
        *slash = 0;
        is_of = stat(checkpoints, &here) == 0 && stat(whole, &there) == 0 &&
                here.st_dev == there.st_dev && here.st_ino == there.st_ino &&
                ckpt_entry_parse(slash + 1, entry);
    }
    free(checkpoints);
    free(whole);
    return is_of;
}

bool ckpt_is_of(const char *out, const char *folder)
{
    ckpt_entry entry;
    return entry_of(out, folder, &entry);
}

static status move(const char *checkpoints, const char *name, const char *aside, err *e)
{
    char *from = file_join(checkpoints, name), *to = file_join(aside, name);
    status result = file_rename(from, to, e);
    free(from);
    free(to);
    return result;
}

status ckpt_go_on(const char *out, const char *folder, const char *aside, bool *moved, err *e)
{
    status result = OK;
    ckpt_entry *list = NULL, from;
    size_t count = 0, later = 0;
    char *checkpoints = file_join(out, "checkpoints");
    *moved = false;
    if (!entry_of(out, folder, &from))
        FAIL(E_INTERNAL, "%s is not one of the checkpoints in %s", folder, checkpoints);
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
