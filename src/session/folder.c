// folder.c -- keeps an earlier run beside the one that begins in its folder. See folder.h. Called
// by the command train and by the library, before a run writes anything. Does not know what is in
// the files.
#include "session/folder.h"

#include "base/file.h"
#include "ckpt/ckpt.h"

#include <stdlib.h>

// In this order: a run that has lost its checkpoints begins anew and keeps its log, one that has
// lost its log would go on from them without it.
enum { CHECKPOINTS, LOG, JOB, PARTS };
static const struct {
    const char *name, *stem, *extension;
} PART[PARTS] = {{"checkpoints", "checkpoints", ""},
                 {"log.jsonl", "log", ".jsonl"},
                 {"job.yaml", "job", ".yaml"}};

// OUT/log-3.jsonl; owned by the caller.
static char *beside(const char *out, int part, int number)
{
    text name = {0};
    text_addf(&name, "%s-%d%s", PART[part].stem, number, PART[part].extension);
    char *path = file_join(out, name.chars);
    text_clear(&name);
    return path;
}

static bool is_taken(const char *out, int number)
{
    bool taken = false;
    for (int part = 0; part < PARTS; part++) {
        char *path = beside(out, part, number);
        taken = taken || file_exists(path);
        free(path);
    }
    return taken;
}

static int free_number(const char *out)
{
    int number = 1;
    while (is_taken(out, number)) number++;
    return number;
}

static bool is_there(const char *out, int part)
{
    char *path = file_join(out, PART[part].name);
    // A folder of this name that holds no checkpoints is not a run's.
    bool there = part == CHECKPOINTS ? ckpt_has_any(out) : file_exists(path);
    free(path);
    return there;
}

static void tell(text *kept, int part, int number)
{
    if (kept)
        text_addf(kept, "%s%s-%d%s", kept->bytes ? ", " : "", PART[part].stem, number,
                  PART[part].extension);
}

status folder_begin(const char *out, bool overwrite, text *kept, err *e)
{
    status result = OK;
    char *from = NULL, *to = NULL;
    TRY(file_make_directories(out, e));
    const int number = free_number(out);
    // A job.yaml alone tells of no run.
    const int parts = is_there(out, CHECKPOINTS) || is_there(out, LOG) ? PARTS : JOB;
    for (int part = 0; part < parts; part++) {
        if (!is_there(out, part)) continue;
        from = file_join(out, PART[part].name);
        to = beside(out, part, number);
        // Also before a removal, which may be interrupted: half a run must not look like one.
        TRY(file_rename(from, to, e));
        if (overwrite)
            TRY(file_remove_tree(to, e));
        else
            tell(kept, part, number);
        free(from);
        free(to);
        from = to = NULL;
    }
done:
    free(from);
    free(to);
    return result;
}

status folder_go_on(const char *out, const char *checkpoint, text *kept, err *e)
{
    status result = OK;
    bool moved;
    const int number = free_number(out);
    char *aside = beside(out, CHECKPOINTS, number);
    TRY(ckpt_resume_from(out, checkpoint, aside, &moved, e));
    if (moved) tell(kept, CHECKPOINTS, number);
done:
    free(aside);
    return result;
}
