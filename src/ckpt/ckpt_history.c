// ckpt_history.c -- keeps the checkpoints of a run one history: it says which checkpoints belong to a
// run, and moves the later ones away when a run resumes from an earlier one. It does not remove them,
// because the user did not ask for that. It does not leave them, because a later run would resume
// from them.
//
// The code that starts a run calls it before the first save. It does not look into checkpoints.
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

// Finds the entry of out/checkpoints that `folder` is or links to. *found is false when it is none.
static status find_entry(const char *out, const char *folder, ckpt_entry *entry, bool *found,
                         err *e)
{
    status result = OK;
    struct stat own, parent;
    char *checkpoints = NULL, *resolved = NULL;
    *found = false;
    TRY(file_join(out, "checkpoints", &checkpoints, e));
    resolved = realpath(folder, NULL);
    if (!resolved && errno == ENOMEM) FAIL(E_MEMORY, "no memory for the path %s", folder);
    char *slash = resolved ? strrchr(resolved, '/') : NULL;
    if (slash && slash > resolved) {
        *slash = 0;
        *found = stat(checkpoints, &own) == 0 && stat(resolved, &parent) == 0 &&
                 own.st_dev == parent.st_dev && own.st_ino == parent.st_ino &&
                 ckpt_entry_parse(slash + 1, entry);
    }
done:
    free(checkpoints);
    free(resolved);
    return result;
}

status ckpt_belongs_to_run(const char *out, const char *folder, bool *found, err *e)
{
    ckpt_entry entry;
    return find_entry(out, folder, &entry, found, e);
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

// The best checkpoint may be among those that moved.
static status drop_lost_best(const char *checkpoints, err *e)
{
    status result = OK;
    char *link = NULL;
    TRY(file_join(checkpoints, "best", &link, e));
    if (!file_exists(link)) TRY(file_remove_tree(link, e));
done:
    free(link);
    return result;
}

status ckpt_resume_from(const char *out, const char *folder, const char *aside, bool *moved, err *e)
{
    status result = OK;
    ckpt_entry *list = NULL, from;
    size_t count = 0, later = 0;
    char *checkpoints = NULL;
    bool found = false;
    *moved = false;
    TRY(file_join(out, "checkpoints", &checkpoints, e));
    TRY(find_entry(out, folder, &from, &found, e));
    if (!found) FAIL(E_INTERNAL, "%s is not one of the checkpoints in %s", folder, checkpoints);
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
    TRY(ckpt_point(checkpoints, "latest", from.name, e));
    TRY(drop_lost_best(checkpoints, e));
done:
    free(list);
    free(checkpoints);
    return result;
}
