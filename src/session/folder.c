// folder.c -- see folder.h. The command train and the library call it before a run writes anything.
// It does not know what is in the files.
#include "session/folder.h"

#include "base/file.h"
#include "ckpt/ckpt.h"

#include <stdlib.h>

// Files are renamed in this order, which may be interrupted. A run without checkpoints starts again
// and keeps its log; a run with checkpoints and without a log would resume without it.
enum { CHECKPOINTS, LOG, JOB, TRACES, PARTS };
static const struct {
    const char *name, *stem, *extension;
} PART[PARTS] = {{"checkpoints", "checkpoints", ""},
                 {"log.jsonl", "log", ".jsonl"},
                 {"job.yaml", "job", ".yaml"},
                 {"traces", "traces", ""}};

// "OUT/log-3.jsonl"; the caller owns it.
static status beside(const char *out, int part, int number, char **path, err *e)
{
    status result = OK;
    text name = {0};
    text_addf(&name, "%s-%d%s", PART[part].stem, number, PART[part].extension);
    TRY(text_check(&name, e));
    TRY(file_join(out, name.chars, path, e));
done:
    text_clear(&name);
    return result;
}

static status is_taken(const char *out, int number, bool *taken, err *e)
{
    status result = OK;
    *taken = false;
    for (int part = 0; part < PARTS; part++) {
        char *path = NULL;
        TRY(beside(out, part, number, &path, e));
        *taken = *taken || file_exists(path);
        free(path);
    }
done:
    return result;
}

static status free_number(const char *out, int *number, err *e)
{
    status result = OK;
    bool taken = true;
    for (*number = 0; taken;) TRY(is_taken(out, ++*number, &taken, e));
done:
    return result;
}

static status is_there(const char *out, int part, bool *there, err *e)
{
    char *path = NULL;
    // A folder of this name without checkpoints is not a run's.
    if (part == CHECKPOINTS) return ckpt_has_any(out, there, e);
    const status result = file_join(out, PART[part].name, &path, e);
    *there = result == OK && file_exists(path);
    free(path);
    return result;
}

static void add_kept(text *kept, int part, int number)
{
    if (kept)
        text_addf(kept, "%s%s-%d%s", kept->bytes ? ", " : "", PART[part].stem, number,
                  PART[part].extension);
}

status folder_begin(const char *out, bool overwrite, text *kept, err *e)
{
    status result = OK;
    char *from = NULL, *to = NULL;
    bool there[PARTS];
    int number;
    TRY(file_make_directories(out, e));
    TRY(free_number(out, &number, e));
    for (int part = 0; part < PARTS; part++) TRY(is_there(out, part, &there[part], e));
    // job.yaml alone is not a run.
    const int parts = there[CHECKPOINTS] || there[LOG] ? PARTS : JOB;
    for (int part = 0; part < parts; part++) {
        if (!there[part]) continue;
        TRY(file_join(out, PART[part].name, &from, e));
        TRY(beside(out, part, number, &to, e));
        // Renames before it removes: an interrupted removal must not leave something like a run.
        TRY(file_rename(from, to, e));
        if (overwrite)
            TRY(file_remove_tree(to, e));
        else
            add_kept(kept, part, number);
        free(from);
        free(to);
        from = to = NULL;
    }
done:
    free(from);
    free(to);
    return result;
}

status folder_resume(const char *out, const char *checkpoint, text *kept, err *e)
{
    status result = OK;
    bool moved;
    int number;
    char *aside = NULL;
    TRY(free_number(out, &number, e));
    TRY(beside(out, CHECKPOINTS, number, &aside, e));
    TRY(ckpt_resume_from(out, checkpoint, aside, &moved, e));
    if (moved) add_kept(kept, CHECKPOINTS, number);
done:
    free(aside);
    return result;
}
