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

// Finds the entry of out/checkpoints that `folder` is or links to. False when it is none of them.
static bool find_entry(const char *out, const char *folder, ckpt_entry *entry)
{
    bool found = false;
    struct stat own, parent;
    char *checkpoints = file_join(out, "checkpoints"), *resolved = realpath(folder, NULL);
    char *slash = resolved ? strrchr(resolved, '/') : NULL;
    if (slash && slash > resolved) {
        *slash = 0;
        found = stat(checkpoints, &own) == 0 && stat(resolved, &parent) == 0 &&
                own.st_dev == parent.st_dev && own.st_ino == parent.st_ino &&
                ckpt_entry_parse(slash + 1, entry);
    }
    free(checkpoints);
    free(resolved);
    return found;
}

bool ckpt_belongs_to_run(const char *out, const char *folder)
{
    ckpt_entry entry;
    return find_entry(out, folder, &entry);
}

static status move(const char *checkpoints, const char *name, const char *aside, err *e)
{
    char *from = file_join(checkpoints, name), *to = file_join(aside, name);
    status result = file_rename(from, to, e);
    free(from);
    free(to);
    return result;
}

status ckpt_resume_from(const char *out, const char *folder, const char *aside, bool *moved, err *e)
{
    status result = OK;
    ckpt_entry *list = NULL, from;
    size_t count = 0, later = 0;
    char *checkpoints = file_join(out, "checkpoints");
    *moved = false;
    if (!find_entry(out, folder, &from))
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
