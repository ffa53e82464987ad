// csv.c -- see csv.h.
#include "monitor/metrics/csv.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char HEADER[] = "step,loss,grad_norm,lr,tokens,seconds,tokens_per_s,mfu,skipped,"
                             "loss_scale,eval_loss\n";

enum { DOUBLE = 17, FLOAT = 9 }; // digits

typedef struct csv {
    char *path;
    int fd; // -1: the run has not begun
    uint64_t bytes;
    bool has_step;
    event_step step; // that is not written yet
    bool has_eval;
    double eval_loss;
} csv;

// ---- Lines

// A number reads back to the same bits. An empty field: it is not known.
static void add_number(text *t, bool known, double value, int digits)
{
    text_add(t, ",");
    if (known && isfinite(value))
        text_addf(t, "%.*g", digits, value);
    else if (known)
        text_add(t, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

static void add_line(const csv *c, text *t)
{
    const event_step *s = &c->step;
    text_addf(t, "%lld", (long long)s->step);
    add_number(t, true, s->loss, DOUBLE);
    add_number(t, true, s->grad_norm, DOUBLE);
    add_number(t, true, s->lr, DOUBLE);
    text_addf(t, ",%lld", (long long)s->tokens);
    add_number(t, true, (double)s->seconds, FLOAT);
    add_number(t, true, (double)s->tokens_per_s, FLOAT);
    add_number(t, !isnan(s->mfu), (double)s->mfu, FLOAT);
    text_addf(t, ",%d", s->skipped);
    add_number(t, s->loss_scale > 0, s->loss_scale, DOUBLE);
    add_number(t, c->has_eval, c->eval_loss, DOUBLE);
    text_add(t, "\n");
}

static status append(csv *c, const char *chars, size_t bytes, err *e)
{
    status result = OK;
    TRY(file_write_at(c->fd, c->path, chars, bytes, c->bytes, e));
    c->bytes += bytes;
done:
    return result;
}

static status write_pending(csv *c, err *e)
{
    status result = OK;
    text line = {0};
    if (!c->has_step || c->fd < 0) return OK;
    c->has_step = false;
    add_line(c, &line);
    TRY(text_check(&line, e));
    TRY(append(c, line.chars, line.bytes, e));
done:
    text_clear(&line);
    return result;
}

// ---- The file

// Returns how many bytes of the content are the header and whole lines up to `step`.
static size_t keep_until(const char *chars, size_t bytes, int64_t step)
{
    size_t kept = sizeof HEADER - 1;
    while (kept < bytes) {
        const char *newline = memchr(chars + kept, '\n', bytes - kept);
        if (!newline || strtoll(chars + kept, NULL, 10) > step) break;
        kept = (size_t)(newline - chars) + 1;
    }
    return kept;
}

// Opens the file and removes what is behind `step`; step < 0: all.
static status begin(csv *c, int64_t step, err *e)
{
    status result = OK;
    char *chars = NULL;
    size_t bytes = 0, kept = 0;
    if (file_exists(c->path)) TRY(file_read(c->path, &chars, &bytes, e));
    const bool has_header = bytes >= sizeof HEADER - 1 && !memcmp(chars, HEADER, sizeof HEADER - 1);
    if (bytes && !has_header)
        FAIL(E_USAGE, "%s: not the metrics of a run; its first line is not %.*s", c->path,
             (int)sizeof HEADER - 2, HEADER);
    if (has_header && step >= 0) kept = keep_until(chars, bytes, step);
    if (c->fd < 0) c->fd = open(c->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (c->fd < 0 || ftruncate(c->fd, (off_t)kept) != 0) {
        result = err_errno(e, "%s: cannot write it", c->path);
        goto done;
    }
    c->bytes = kept;
    if (!kept) TRY(append(c, HEADER, sizeof HEADER - 1, e));
done:
    free(chars);
    return result;
}

// ---- The sink

static status take(void *arg, const event *ev, err *e)
{
    status result = OK;
    csv *c = arg;
    if (ev->kind == EVENT_EVAL && c->has_step && ev->eval.step == c->step.step) {
        c->has_eval = true;
        c->eval_loss = ev->eval.loss;
        return OK;
    }
    if (ev->kind == EVENT_NOTE) return OK;
    TRY(write_pending(c, e));
    if (ev->kind == EVENT_START) TRY(begin(c, ev->start.resumed_from, e));
    if (ev->kind != EVENT_STEP) goto done;
    c->step = ev->step;
    c->has_step = true;
    c->has_eval = false;
done:
    return result;
}

static void close_csv(void *arg)
{
    csv *c = arg;
    (void)write_pending(c, NULL); // of a run that failed
    if (c->fd >= 0) close(c->fd);
    free(c->path);
    free(c);
}

status csv_open(const char *path, event_sink *out, err *e)
{
    status result = OK;
    csv *c = NULL;
    TRY(alloc_zeroed(&c, 1, sizeof *c, path, e));
    c->fd = -1;
    TRY(text_copy(path, &c->path, e));
    *out = (event_sink){take, close_csv, c};
    c = NULL;
done:
    if (c) close_csv(c);
    return result;
}
