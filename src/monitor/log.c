// log.c -- writes log.jsonl. Rank 0 of a run calls it once per event. This file alone shows what a line contains.
#define _GNU_SOURCE // memrchr
#include "monitor/log.h"
#include "base/alloc.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct log_file {
    int fd, copy; // copy < 0: none
    char *path;
};

// --- pieces of a line ------------------------------------------------------------------------

// Omits a NULL value.
static void add_string(text *t, const char *key, const char *value)
{
    if (!value) return;
    text_addf(t, ",\"%s\":", key);
    text_add_json(t, value);
}

// Omits a negative value.
static void add_count(text *t, const char *key, int64_t value)
{
    if (value >= 0) text_addf(t, ",\"%s\":%lld", key, (long long)value);
}

static void add_real(text *t, const char *key, double value, int digits)
{
    if (!isfinite(value)) {
        const char *word = isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
        text_addf(t, ",\"%s\":null,\"%s_text\":\"%s\"", key, key, word);
        return;
    }
    text_addf(t, ",\"%s\":%.*g", key, digits, value);
}

static void add_double(text *t, const char *key, double value)
{
    add_real(t, key, value, 17);
}

static void add_float(text *t, const char *key, float value)
{
    add_real(t, key, (double)value, 9);
}

static bool write_all(int fd, const char *bytes, size_t left)
{
    while (left > 0) {
        ssize_t n = write(fd, bytes, left);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        bytes += n;
        left -= (size_t)n;
    }
    return true;
}

static status end_line(log_file *l, text *t, err *e)
{
    status result = OK;
    off_t before = l->path ? lseek(l->fd, 0, SEEK_END) : -1;

    text_add(t, "}\n");
    TRY(text_check(t, e));
    if (l->path && !write_all(l->fd, t->chars, t->bytes)) {
        result = err_errno(e, "%s: cannot write", l->path);
        // On a full disk a part of the line would make the next line unreadable.
        if (before >= 0 && ftruncate(l->fd, before) != 0)
            err_prefix(e, "an unfinished line stays: ");
    }
    // A reader that has gone does not end a run.
    if (l->copy >= 0 && !write_all(l->copy, t->chars, t->bytes)) l->copy = -1;
done:
    text_clear(t);
    return result;
}

// --- the file ----------------------------------------------------------------------------------

// Truncates the file after its last newline.
static status remove_unfinished_line(int fd, const char *path, err *e)
{
    status result = OK;
    char piece[4096];
    struct stat st;
    off_t end, keep = 0;

    if (fstat(fd, &st) != 0) return err_errno(e, "%s: cannot read", path);
    for (end = st.st_size; end > 0 && keep == 0;) {
        off_t from = end > (off_t)sizeof piece ? end - (off_t)sizeof piece : 0;
        ssize_t n = pread(fd, piece, (size_t)(end - from), from);
        if (n != end - from) return err_errno(e, "%s: cannot read", path);
        const char *newline = memrchr(piece, '\n', (size_t)n);
        if (newline) keep = from + (newline - piece) + 1;
        end = from;
    }
    if (keep != st.st_size && ftruncate(fd, keep) != 0)
        result = err_errno(e, "%s: cannot remove its unfinished last line", path);
    return result;
}

static status open_file(log_file *l, const char *path, err *e)
{
    status result = OK;
    TRY(text_copy(path, &l->path, e));
    l->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (l->fd < 0) return err_errno(e, "%s: cannot open", path);
    TRY(remove_unfinished_line(l->fd, path, e));
done:
    return result;
}

status log_open(const char *path, log_file **out, err *e)
{
    status result = OK;
    log_file *l = NULL;

    *out = NULL;
    TRY(alloc_zeroed(&l, 1, sizeof *l, path ? path : "the log", e));
    l->fd = l->copy = -1;
    if (path) TRY(open_file(l, path, e));
    *out = l;
    l = NULL;
done:
    log_close(l);
    return result;
}

void log_copy_to(log_file *l, int fd)
{
    l->copy = fd;
}

void log_close(void *log)
{
    log_file *l = log;
    if (!l) return;
    if (l->fd >= 0) close(l->fd);
    free(l->path);
    free(l);
}

// --- events ------------------------------------------------------------------------------------

static void add_start(text *t, const event_start *s)
{
    add_string(t, "version", s->version);
    add_count(t, "ranks", s->ranks);
    add_count(t, "threads_per_rank", s->threads_per_rank);
    add_string(t, "as", s->launched_as);
    add_string(t, "program", s->program);
    for (int i = 0; i < s->axes; i++)
        text_addf(t, "%s\"%s\":%d", i ? "," : ",\"mesh\":{", s->mesh[i].name, s->mesh[i].size);
    text_add(t, s->axes ? "}" : "");
    add_string(t, "model", s->model);
    add_string(t, "policy", s->policy);
    add_string(t, "precision", s->precision);
    add_string(t, "device", s->device);
    add_count(t, "params", s->params);
    add_count(t, "plan_bytes_per_rank", s->plan_bytes_per_rank);
    add_count(t, "steps", s->steps);
    add_count(t, "tokens_per_step", s->tokens_per_step);
    add_count(t, "resumed_from", s->resumed_from);
    add_string(t, "note", s->note);
}

static void add_preferences(text *t, const event_preferences *p)
{
    if (p->pairs == 0) return;
    // TRL's names.
    text_addf(t,
              ",\"rewards/chosen\":%.17g,\"rewards/rejected\":%.17g,\"rewards/accuracies\":%.17g,"
              "\"rewards/margins\":%.17g",
              p->chosen, p->rejected, p->accuracy, p->chosen - p->rejected);
}

// JSON has no infinity and no NaN: they become null.
static void add_group_norms(text *t, const event_step *s)
{
    if (s->group_norms) text_add(t, ",\"grad_norm_by_group\":{");
    for (int i = 0; i < s->group_norms; i++) {
        const double norm = s->group_norm[i].norm;
        text_add(t, i ? "," : "");
        text_add_json(t, s->group_norm[i].name);
        text_addf(t, isfinite(norm) ? ":%.17g" : ":null", norm);
    }
    text_add(t, s->group_norms ? "}" : "");
}

static void add_step(text *t, const event_step *s)
{
    add_count(t, "step", s->step);
    add_double(t, "loss", s->loss);
    add_double(t, "grad_norm", s->grad_norm);
    add_double(t, "lr", s->lr);
    add_count(t, "tokens", s->tokens);
    add_float(t, "seconds", s->seconds);
    add_float(t, "tokens_per_s", s->tokens_per_s);
    if (!isnan(s->mfu)) add_float(t, "matmul_share", s->mfu);
    text_addf(t, ",\"skipped\":%s", s->skipped ? "true" : "false");
    if (s->loss_scale > 0) text_addf(t, ",\"loss_scale\":%.17g", s->loss_scale);
    add_group_norms(t, s);
    add_preferences(t, &s->preferences);
}

static void add_straggler(text *t, const event *ev)
{
    add_count(t, "step", ev->straggler.step);
    add_count(t, "rank", ev->straggler.rank);
    add_string(t, "host", ev->straggler.host);
    add_string(t, "cause", ev->straggler.cause);
    add_float(t, "share", (float)ev->straggler.share);
    text_addf(t, ",\"chronic\":%s", ev->straggler.chronic ? "true" : "false");
}

static void add_members(text *t, const event *ev)
{
    switch (ev->kind) {
    case EVENT_START:
        add_start(t, &ev->start);
        break;
    case EVENT_STEP:
        add_step(t, &ev->step);
        break;
    case EVENT_EVAL:
        add_count(t, "step", ev->eval.step);
        add_double(t, "loss", ev->eval.loss);
        if (ev->eval.has_perplexity && !isnan(ev->eval.loss))
            add_double(t, "perplexity", exp(ev->eval.loss));
        add_preferences(t, &ev->eval.preferences);
        break;
    case EVENT_SAVE:
        add_count(t, "step", ev->save.step);
        add_string(t, "path", ev->save.path);
        add_count(t, "bytes", ev->save.bytes);
        add_float(t, "seconds", ev->save.seconds);
        break;
    case EVENT_ERROR:
        add_count(t, "rank", ev->error.rank);
        add_string(t, "text", ev->error.text);
        break;
    case EVENT_END:
        add_count(t, "step", ev->end.step);
        add_string(t, "reason", ev->end.reason);
        add_float(t, "seconds", ev->end.seconds);
        break;
    case EVENT_STRAGGLER:
        add_straggler(t, ev);
        break;
    case EVENT_VERDICT:
        add_string(t, "verdict", ev->verdict.word);
        add_count(t, "rank", ev->verdict.rank);
        add_string(t, "host", ev->verdict.host);
        add_string(t, "line", ev->verdict.line);
        add_string(t, "next", ev->verdict.next);
        break;
    case EVENT_NOTE:
        break;
    }
}

status log_event(void *log, const event *ev, err *e)
{
    static const char *const names[] = {
        [EVENT_START] = "start",         [EVENT_STEP] = "step",      [EVENT_EVAL] = "eval",
        [EVENT_SAVE] = "save",           [EVENT_ERROR] = "error",    [EVENT_END] = "end",
        [EVENT_STRAGGLER] = "straggler", [EVENT_VERDICT] = "verdict"};
    status result = OK;
    log_file *l = log;
    text t = {0};
    if (ev->kind == EVENT_NOTE) return OK;
    text_addf(&t, "{\"event\":\"%s\"", names[ev->kind]);
    add_members(&t, ev);
    TRY(end_line(l, &t, e));
    if (ev->kind == EVENT_END && l->path && fsync(l->fd) != 0)
        result = err_errno(e, "%s: cannot make it durable", l->path);
done:
    return result;
}
