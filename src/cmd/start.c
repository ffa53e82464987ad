// start.c -- from the command line to a run that may begin: everything is checked before the run's
// directory is touched. Called by cmd_train in the starting process.
#include "cmd/run.h"

#include "base/clock.h"
#include "base/file.h"
#include "ckpt/ckpt.h"
#include "cmd/cmd.h"
#include "cmd/console.h"
#include "data/tokenizer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

// A folder that cannot be written in is a bad value of its key: nothing was started.
static status of_out(status result, err *e)
{
    if (result == OK) return OK;
    err_prefix(e, "train.out: ");
    return e->code = E_USAGE;
}

// One run writes into a folder at a time. The ranks of a run that was killed need a moment to go.
static status lock_directory(start *s, err *e)
{
    enum { TRIES = 100, WAIT_US = 20000 };
    const char *out = s->job->train.out;
    if (s->lock >= 0) return OK;
    s->lock = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->lock < 0) return err_errno(e, "cannot open the folder %s", out);
    for (int i = 0; i < TRIES; i++) {
        // A file system without locks cannot tell.
        if (flock(s->lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return OK;
        usleep(WAIT_US);
    }
    return err_set(e, E_USAGE, "%s: another run is writing into it", out);
}

// A run's directory holds one job. What may differ when it goes on is the job file's own business.
static status check_directory(const start *s, bool *goes_on, err *e)
{
    status result = OK;
    const job *j = s->job;
    char *old = file_join(j->train.out, "job.yaml");
    *goes_on = false;
    if (!file_exists(old)) goto done;
    TRY(job_check_same_run(j, old, e));
    *goes_on = j->resume != RESUME_NEVER;
done:
    free(old);
    return result;
}

static void print_warnings(const char *lines)
{
    while (lines && *lines) {
        size_t length = strcspn(lines, "\n");
        console_say("%.*s", (int)length, lines);
        lines += length + (lines[length] == '\n');
    }
}

static status find_checkpoint(start *s, bool goes_on, err *e)
{
    status result = OK;
    text warnings = {0};
    const job *j = s->job;
    ckpt *c = NULL;
    if (j->resume == RESUME_FROM) {
        result = ckpt_verify(j->resume_from, e);
        if (result != OK) {
            err_prefix(e, "--resume: ");
            goto done;
        }
        s->resume = text_copy(j->resume_from);
    } else if (goes_on) {
        TRY(ckpt_newest(j->train.out, &s->resume, &warnings, e));
        print_warnings(warnings.at);
    }
    if (s->resume) {
        int64_t step;
        TRY(ckpt_open(s->resume, &c, e));
        TRY(ckpt_int(c, "step", &step, e));
        s->resume_step = (uint64_t)step;
    }
done:
    ckpt_close(c);
    text_clear(&warnings);
    return result;
}

// Checkpoints carry the tokenizer: that of the model's folder, or the one that the data was made
// with, which *made is then, to be written into the run's directory.
static status find_tokenizer(start *s, tokenizer **made, err *e)
{
    status result = OK;
    const job *j = s->job;
    char *own = j->model.path ? file_join(j->model.path, "tokenizer.json") : NULL;
    *made = NULL;
    if (own && file_exists(own)) {
        s->inputs.tokenizer_folder = text_copy(j->model.path);
        goto done;
    }
    if (!s->inputs.data_tokenizer) goto done;
    TRY(tokenizer_load(s->inputs.data_tokenizer, made, e));
    s->inputs.tokenizer_folder = file_join(j->train.out, "tokenizer");
done:
    free(own);
    return result;
}

static status write_directory(start *s, const tokenizer *t, err *e)
{
    status result = OK;
    text yaml = {0};
    char *path = file_join(s->job->train.out, "job.yaml");
    TRY(file_make_directories(s->job->train.out, e));
    TRY(lock_directory(s, e));
    if (t) TRY(file_make_directories(s->inputs.tokenizer_folder, e));
    if (t) TRY(tokenizer_save_folder(t, s->inputs.tokenizer_folder, e));
    job_write_yaml(s->job, &yaml);
    TRY(file_replace(path, yaml.at, yaml.bytes, e));
done:
    text_clear(&yaml);
    free(path);
    return result;
}

static status claim_directory(start *s, err *e)
{
    status result = OK;
    tokenizer *t = NULL;
    TRY(find_tokenizer(s, &t, e));
    TRY(of_out(write_directory(s, t, e), e));
    s->log_path = file_join(s->job->train.out, "log.jsonl");
    s->opened = true;
done:
    tokenizer_close(t);
    return result;
}

status start_open(start *s, int argc, char **argv, err *e)
{
    status result = OK;
    bool goes_on;
    TRY(cmd_open_job(argc, argv, &s->job, e));
    TRY(inputs_open(s->job, &s->inputs, e));
    cmd_warn(s->inputs.warnings.at);
    if (file_is_directory(s->job->train.out)) TRY(of_out(lock_directory(s, e), e));
    TRY(check_directory(s, &goes_on, e));
    TRY(find_checkpoint(s, goes_on, e));
    TRY(claim_directory(s, e));
done:
    return result;
}

void start_log_error(const start *s, int rank, const err *why)
{
    log_file *l = NULL;
    if (!s->opened || why->code == E_INTERRUPTED || why->code == E_USAGE) return;
    // A log that cannot be written must not hide the error that is about to be printed.
    if (log_open(s->log_path, true, &l, NULL) == OK &&
        log_error(l, -1, rank, why->text, NULL) == OK)
        (void)log_end(l, -1, "failed", (float)(clock_seconds() - s->began), NULL);
    log_close(l);
}

void start_close(start *s)
{
    if (s->lock >= 0) close(s->lock);
    inputs_close(&s->inputs);
    free(s->resume);
    free(s->log_path);
    job_close(s->job);
}
