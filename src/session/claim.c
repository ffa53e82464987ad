// claim.c -- session_run_claim, see run.h: checks the folder of a run and the checkpoint to resume from before any rank
// starts, and only then writes into the folder. The command train calls it; libtrireme leaves the folder to rank 0.
#include "session/run.h"

#include "base/file.h"
#include "ckpt/ckpt.h"
#include "data/tokenizer/tokenizer.h"
#include "session/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

// A folder that cannot be written is an invalid value of train.out, because nothing was started.
static status blame_train_out(status result, err *e)
{
    if (result == OK) return OK;
    err_prefix(e, "train.out: ");
    return e->code = E_USAGE;
}

// Only one run at a time writes into a folder. The ranks of a killed run take a moment to end.
static status lock_folder(session_run *r, err *e)
{
    enum { TRIES = 100, WAIT_US = 20000 };
    const char *out = r->job->train.out;
    struct stat info;
    if (r->lock.held) return OK;
    r->lock.fd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r->lock.fd < 0) return err_errno(e, "cannot open the folder %s", out);
    r->lock.held = true;
    r->lock.counts_links = fstat(r->lock.fd, &info) == 0 && info.st_nlink > 0;
    for (int i = 0; i < TRIES; i++) {
        // On a file system without locks the folder is taken to be free.
        if (flock(r->lock.fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return OK;
        usleep(WAIT_US);
    }
    return err_set(e, E_USAGE, "%s: another run is writing into it", out);
}

// A folder holds the run of one job; job_compare_run knows which keys may differ on resuming. A run
// that starts anew, or resumes from another folder, may not replace another job's run either,
// except with --overwrite.
static status check_folder(const session_run *r, err *e)
{
    status result = OK;
    const job *j = r->job;
    const char *out = j->train.out;
    text different = {0};
    char *old = NULL;
    bool has_checkpoints = false;
    TRY(file_join(out, "job.yaml", &old, e));
    TRY(ckpt_has_any(out, &has_checkpoints, e));
    const char *resume =
        has_checkpoints ? "--resume DIR --train.out NEW to resume from a checkpoint, " : "";
    if (j->overwrite) goto done;
    if (file_exists(old)) {
        TRY(job_compare_run(j, old, &different, e));
        if (different.bytes)
            FAIL(E_USAGE,
                 "%s belongs to another job: %s; valid: the same values, %sanother train.out, or "
                 "--overwrite to remove that run",
                 old, different.chars, resume);
    } else if (has_checkpoints) {
        FAIL(E_USAGE,
             "train.out: %s holds checkpoints, but no job.yaml that names their job; valid: "
             "%sanother train.out, or --overwrite to remove them",
             out, resume);
    }
done:
    text_clear(&different);
    free(old);
    return result;
}

status session_run_find_checkpoint(const session_run *r, const char *folder, bool verifies,
                                   text *warnings, session_checkpoint *out, err *e)
{
    status result = OK;
    const job *j = r->job;
    if (folder)
        TRY(ckpt_locate(folder, &out->folder, warnings, e));
    else
        TRY(ckpt_newest(j->train.out, &out->folder, warnings, e));
    if (!out->folder) goto done;
    if (folder && verifies) TRY(ckpt_verify(out->folder, e));
    TRY(ckpt_belongs_to_run(j->train.out, out->folder, &out->is_own, e));
    TRY(session_check_resume(j, &r->inputs, r->config_json, out->folder, &out->step, e));
done:
    return result;
}

static status choose_checkpoint(session_run *r, err *e)
{
    status result = OK;
    const job *j = r->job;
    const char *named = j->resume == RESUME_FROM ? j->resume_from : NULL;
    if (!named && (j->resume == RESUME_NEVER || j->overwrite)) return OK;
    TRY(session_run_find_checkpoint(r, named, true, &r->warnings, &r->resume, e));
    if (j->overwrite && r->resume.is_own)
        FAIL(E_USAGE,
             "%s belongs to the run that --overwrite removes; valid: --resume or --overwrite",
             r->resume.folder);
    r->is_done = r->resume.folder && r->resume.step >= (uint64_t)j->train.steps;
done:
    if (result != OK && named) err_prefix(e, "--resume: ");
    return result;
}

// The records of an earlier run are replaced.
static status remove_spans(const char *out, err *e)
{
    status result = OK;
    char *path = NULL;
    TRY(file_join(out, SESSION_SPANS, &path, e));
    TRY(file_remove_tree(path, e));
done:
    free(path);
    return result;
}

status session_run_own_folder(const session_run *r, const char *checkpoint, const tokenizer *t,
                              text *kept, err *e)
{
    status result = OK;
    const char *out = r->job->train.out, *folder = r->inputs.tokenizer_folder;
    TRY(checkpoint ? folder_resume(out, checkpoint, kept, e)
                   : folder_begin(out, r->job->overwrite, kept, e));
    TRY(remove_spans(out, e));
    if (t) TRY(file_make_directories(folder, e));
    if (t) TRY(tokenizer_save_folder(t, folder, e));
done:
    return result;
}

static status write_job(const job *j, const char *path, err *e)
{
    status result = OK;
    text yaml = {0};
    job_write_yaml(j, &yaml);
    TRY(text_check(&yaml, e));
    TRY(file_replace(path, yaml.chars, yaml.bytes, e));
done:
    text_clear(&yaml);
    return result;
}

status session_run_write_split(const session_run *r, const int *of, err *e)
{
    status result = OK;
    char *path = NULL;
    mesh m;
    job split = *r->job; // borrows all but the split
    TRY(job_solve_mesh(r->job, r->job->launch.ranks, &m, e));
    job_set_split(&split, of, mesh_data_ranks(&m));
    TRY(file_join(r->job->train.out, "job.yaml", &path, e));
    TRY(write_job(&split, path, e));
done:
    free(path);
    return result;
}

static status write_folder(session_run *r, const tokenizer *t, err *e)
{
    status result = OK;
    const job *j = r->job;
    char *path = NULL;
    TRY(file_join(j->train.out, "job.yaml", &path, e));
    const bool is_new = !r->lock.held;
    TRY(file_make_directories(j->train.out, e));
    TRY(lock_folder(r, e));
    if (is_new && file_exists(path))
        FAIL(E_USAGE, "%s: another run has started in it", j->train.out);
    TRY(session_run_own_folder(r, r->resume.is_own ? r->resume.folder : NULL, t, &r->kept, e));
    TRY(write_job(j, path, e));
    TRY(ckpt_fence_open(j->train.out, &r->inputs.fence, e));
done:
    free(path);
    return result;
}

// A run that resumes and would measure its split keeps the one that it had, and so its bits.
static status keep_split(session_run *r, err *e)
{
    status result = OK;
    char *path = NULL;
    if (!job_measures_split(r->job)) return OK;
    TRY(file_join(r->job->train.out, "job.yaml", &path, e));
    if (file_exists(path)) TRY(job_take_split(r->job, path, e));
done:
    free(path);
    return result;
}

status session_run_claim(session_run *r, err *e)
{
    status result = OK;
    const char *out = r->job->train.out;
    tokenizer *t = NULL;
    if (file_is_directory(out)) TRY(blame_train_out(lock_folder(r, e), e));
    TRY(check_folder(r, e));
    TRY(choose_checkpoint(r, e));
    if (r->is_done) {
        // The link `latest` may be old if the last save was killed.
        if (r->job->resume == RESUME_AUTO)
            TRY(blame_train_out(folder_resume(out, r->resume.folder, NULL, e), e));
        goto done;
    }
    if (r->resume.is_own) TRY(keep_split(r, e));
    if (r->inputs.data_tokenizer) TRY(tokenizer_load(r->inputs.data_tokenizer, &t, e));
    TRY(blame_train_out(write_folder(r, t, e), e));
    r->claimed = true;
done:
    tokenizer_close(t);
    return result;
}

status session_run_check_folder(const session_run *r, err *e)
{
    struct stat info;
    const char *out = r->job->train.out;
    const bool gone = !file_is_directory(out) ||
                      (r->lock.counts_links && fstat(r->lock.fd, &info) == 0 && info.st_nlink == 0);
    if (!gone) return ckpt_fence_check(&r->inputs.fence, e);
    return err_set(e, E_IO, "train.out: %s was removed during the run", out);
}
