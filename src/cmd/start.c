// start.c -- prepares a run of `trireme train` in the starting process: opens the job, checks all inputs and the run's
// folder, and chooses the checkpoint to resume from. Only then it writes into the folder. Called by cmd_train.
#include "cmd/train_run.h"

#include "base/clock.h"
#include "base/file.h"
#include "ckpt/ckpt.h"
#include "cmd/cmd.h"
#include "cmd/console.h"
#include "config/debug.h"
#include "data/tokenizer.h"
#include "session/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
static status lock_directory(train_start *s, err *e)
{
    enum { TRIES = 100, WAIT_US = 20000 };
    const char *out = s->job->train.out;
    struct stat info;
    if (s->lock >= 0) return OK;
    s->lock = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->lock < 0) return err_errno(e, "cannot open the folder %s", out);
    s->counts_links = fstat(s->lock, &info) == 0 && info.st_nlink > 0;
    for (int i = 0; i < TRIES; i++) {
        // On a file system without locks the folder is taken to be free.
        if (flock(s->lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return OK;
        usleep(WAIT_US);
    }
    return err_set(e, E_USAGE, "%s: another run is writing into it", out);
}

// A folder holds the run of one job; job_compare_run knows which keys may differ on resuming. A run
// that starts anew, or resumes from another folder, may not replace another job's run either,
// except with --overwrite.
static status check_directory(const train_start *s, err *e)
{
    status result = OK;
    const job *j = s->job;
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

// --resume DIR: the folder of a run or of a checkpoint.
static status find_named(train_start *s, text *warnings, err *e)
{
    status result = OK;
    const job *j = s->job;
    TRY(ckpt_locate(j->resume_from, &s->resume, warnings, e));
    TRY(ckpt_verify(s->resume, e));
    TRY(ckpt_belongs_to_run(j->train.out, s->resume, &s->is_own, e));
    if (j->overwrite && s->is_own)
        FAIL(E_USAGE,
             "%s belongs to the run that --overwrite removes; valid: --resume or --overwrite",
             s->resume);
done:
    return result;
}

static status find_checkpoint(train_start *s, err *e)
{
    status result = OK;
    text warnings = {0};
    const job *j = s->job;
    if (j->resume == RESUME_FROM) {
        result = find_named(s, &warnings, e);
    } else if (j->resume == RESUME_AUTO && !j->overwrite) {
        TRY(ckpt_newest(j->train.out, &s->resume, &warnings, e));
        s->is_own = s->resume != NULL;
    }
    cmd_say_lines(warnings.chars);
    if (result == OK && s->resume)
        result = session_check_resume(j, &s->inputs, NULL, s->resume, &s->resume_step, e);
    if (result != OK && j->resume == RESUME_FROM) err_prefix(e, "--resume: ");
done:
    text_clear(&warnings);
    return result;
}

// Chooses the tokenizer that checkpoints get: that of the model's folder, else that of the data.
// *made is the latter, which write_directory writes into the run's folder; NULL otherwise.
static status find_tokenizer(train_start *s, tokenizer **made, err *e)
{
    status result = OK;
    const job *j = s->job;
    char *own = NULL;
    *made = NULL;
    if (j->model.path) TRY(file_join(j->model.path, "tokenizer.json", &own, e));
    if (own && file_exists(own)) {
        TRY(text_copy(j->model.path, &s->inputs.tokenizer_folder, e));
        goto done;
    }
    if (!s->inputs.data_tokenizer) goto done;
    TRY(tokenizer_load(s->inputs.data_tokenizer, made, e));
    TRY(file_join(j->train.out, "tokenizer", &s->inputs.tokenizer_folder, e));
done:
    free(own);
    return result;
}

static status write_directory(train_start *s, const tokenizer *t, err *e)
{
    status result = OK;
    text yaml = {0}, kept = {0};
    const job *j = s->job;
    char *path = NULL;
    TRY(file_join(j->train.out, "job.yaml", &path, e));
    const bool is_new = s->lock < 0;
    TRY(file_make_directories(j->train.out, e));
    TRY(lock_directory(s, e));
    if (is_new && file_exists(path))
        FAIL(E_USAGE, "%s: another run has started in it", j->train.out);
    if (s->is_own)
        TRY(folder_resume(j->train.out, s->resume, &kept, e));
    else
        TRY(folder_begin(j->train.out, j->overwrite, &kept, e));
    if (kept.bytes && !j->quiet) console_say("kept in %s: %s", j->train.out, kept.chars);
    if (t) TRY(file_make_directories(s->inputs.tokenizer_folder, e));
    if (t) TRY(tokenizer_save_folder(t, s->inputs.tokenizer_folder, e));
    job_write_yaml(j, &yaml);
    TRY(text_check(&yaml, e));
    TRY(file_replace(path, yaml.chars, yaml.bytes, e));
    TRY(ckpt_fence_open(j->train.out, &s->inputs.fence, e));
done:
    text_clear(&yaml);
    text_clear(&kept);
    free(path);
    return result;
}

static status claim_directory(train_start *s, err *e)
{
    status result = OK;
    tokenizer *t = NULL;
    TRY(find_tokenizer(s, &t, e));
    TRY(blame_train_out(write_directory(s, t, e), e));
    TRY(file_join(s->job->train.out, "log.jsonl", &s->log_path, e));
    s->opened = true;
done:
    tokenizer_close(t);
    return result;
}

// What rank 0's process tells the others of a run. Behind it stands the folder of the checkpoint; nothing: there is none.
typedef struct told_start {
    uint64_t resume_step;
    bool is_done;
} told_start;

static status tell(const train_start *s, err *e)
{
    status result = OK;
    text data = {0};
    const told_start head = {.resume_step = s->resume_step, .is_done = s->is_done};
    text_add_bytes(&data, (const char *)&head, sizeof head);
    if (s->resume) text_add(&data, s->resume);
    TRY(text_check(&data, e));
    TRY(join_tell(&s->join, s->job, !s->is_done, data.chars, data.bytes, e));
done:
    text_clear(&data);
    return result;
}

// The only process, or that of rank 0.
static status decide(train_start *s, int argc, char **argv, err *e)
{
    status result = OK;
    TRY(cmd_open_job_own(argc, argv, &s->join.own, &s->job, e));
    TRY(session_inputs_open(s->job, &s->inputs, e));
    cmd_warn(s->inputs.warnings.chars);
    cmd_warn(s->inputs.train_warnings.chars);
    if (file_is_directory(s->job->train.out)) TRY(blame_train_out(lock_directory(s, e), e));
    TRY(check_directory(s, e));
    TRY(find_checkpoint(s, e));
    s->is_done = s->resume && s->resume_step >= (uint64_t)s->job->train.steps;
    if (!s->is_done) {
        TRY(claim_directory(s, e));
        if (!s->job->quiet && debug_says(DEBUG_VERSION)) console_say("version %s", TRIREME_VERSION);
        if (!s->job->quiet) cmd_say_lines(s->job->notes.chars);
    } else if (s->job->resume ==
               RESUME_AUTO) // the link `latest` may be old if the last save was killed
        TRY(blame_train_out(folder_resume(s->job->train.out, s->resume, NULL, e), e));
    TRY(tell(s, e));
done:
    return result;
}

// What rank 0's process has decided.
static status open_decided(void *arg, job *j, const text *data, err *e)
{
    status result = OK;
    train_start *s = arg;
    told_start head;
    if (data->bytes < sizeof head) FAIL(E_IO, "what rank 0 tells is damaged");
    memcpy(&head, data->chars, sizeof head);
    s->is_done = head.is_done;
    s->resume_step = head.resume_step;
    if (s->is_done) goto done;
    TRY(session_inputs_open_to_plan(j, &s->inputs, e));
    if (data->bytes > sizeof head) TRY(text_copy(data->chars + sizeof head, &s->resume, e));
done:
    return result;
}

static status follow(train_start *s, err *e)
{
    status result = OK;
    text data = {0};
    TRY(join_hear(&s->join, open_decided, s, &s->job, &data, e));
    if (!s->job) FAIL(E_IO, "what rank 0 tells is damaged");
done:
    text_clear(&data);
    return result;
}

status train_start_open(train_start *s, int argc, char **argv, err *e)
{
    status result = OK;
    TRY(join_open(&s->join, argc, argv, e));
    TRY(join_attach(&s->join, e));
    TRY(join_follows(&s->join) ? follow(s, e) : decide(s, argc, argv, e));
done:
    return result;
}

void train_start_print_done(const train_start *s)
{
    const job *j = s->job;
    const char *length = j->train.epochs > 0 ? "epochs" : j->train.tokens > 0 ? "tokens" : "steps";
    console_say("%s: already at step %llu of %lld; raise train.%s", file_shown(s->resume),
                (unsigned long long)s->resume_step, (long long)j->train.steps, length);
}

status train_start_check_folder(const train_start *s, err *e)
{
    struct stat info;
    bool gone = !file_is_directory(s->job->train.out) ||
                (s->counts_links && fstat(s->lock, &info) == 0 && info.st_nlink == 0);
    if (!gone) return ckpt_fence_check(&s->inputs.fence, e);
    return err_set(e, E_IO, "train.out: %s was removed during the run", s->job->train.out);
}

void train_start_log_error(const train_start *s, const err *why)
{
    log_file *l = NULL;
    if (!s->opened || why->code == E_INTERRUPTED || why->code == E_USAGE) return;
    // The log is then another run's, or gone.
    if (train_start_check_folder(s, NULL) != OK) return;
    // An unwritable log must not hide the error that is about to be printed.
    if (log_open(s->log_path, &l, NULL) == OK && s->job->json) log_copy_to(l, STDOUT_FILENO);
    if (l && log_error(l, -1, s->join.first_rank, why->text, NULL) == OK)
        (void)log_end(l, -1, "failed", (float)(clock_seconds() - s->began), NULL);
    log_close(l);
}

void train_start_close(train_start *s)
{
    if (s->lock >= 0) close(s->lock);
    session_inputs_close(&s->inputs);
    free(s->resume);
    free(s->log_path);
    job_close(s->job);
}
