// worker_failure.c -- see worker_failure.h.
#define _GNU_SOURCE // sigabbrev_np, memmem
#include "launch/worker_failure.h"

#include "base/alloc.h"
#include "base/file.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPORT_WIDTH = 60 };

status worker_failure_pack(const worker_failure *f, char out[STORE_VALUE_BYTES], size_t *bytes,
                           err *e)
{
    json_t *o = json_pack("{s:i,s:i,s:i,s:s,s:i,s:i,s:i,s:I,s:s,s:s}", "rank", f->rank,
                          "local_rank", f->local_rank, "node", f->node, "host", f->host, "pid",
                          f->pid, "exit_code", f->exit_code, "told_by", f->reported_by, "time",
                          (json_int_t)f->time_s, "what", f->what, "error_file", f->error_file);
    if (!o) return alloc_failed(STORE_VALUE_BYTES, "the record of a failure", e);
    *bytes = json_dumpb(o, out, STORE_VALUE_BYTES, JSON_COMPACT);
    if (*bytes > STORE_VALUE_BYTES) { // escapes made it long
        json_object_set_new(o, "what", json_string(""));
        *bytes = json_dumpb(o, out, STORE_VALUE_BYTES, JSON_COMPACT);
    }
    json_decref(o);
    if (*bytes > 0 && *bytes <= STORE_VALUE_BYTES) return OK;
    return err_set(e, E_INTERNAL, "the record of a failure has %zu bytes", *bytes);
}

static void copy_text(char *out, size_t room, const char *from)
{
    snprintf(out, room, "%.*s", TEXT_CUT(from, room - 1));
}

static bool is_possible(const worker_failure *f, const char *host)
{
    const bool is_agent = f->rank == -1 && f->node >= 0;
    const bool is_worker = f->rank >= 0 && f->local_rank >= 0 && f->local_rank <= f->rank;
    // The process of a rank that another one has blamed may be gone, or be another node's.
    const bool has_pid = f->pid > 0 || (f->pid == 0 && is_worker && f->reported_by > 0);
    return host[0] && (is_agent || is_worker) && has_pid && f->reported_by >= 0 &&
           f->exit_code > -NSIG && f->exit_code <= 255;
}

status worker_failure_unpack(const char *packed, size_t bytes, worker_failure *out, err *e)
{
    const char *host = "", *what = "", *file = "";
    json_int_t time_s = 0;
    *out = (worker_failure){0};
    json_t *o = json_loadb(packed, bytes, 0, NULL);
    if (!o ||
        json_unpack(o, "{s:i,s:i,s:i,s:s,s:i,s:i,s:i,s:I,s:s,s:s}", "rank", &out->rank,
                    "local_rank", &out->local_rank, "node", &out->node, "host", &host, "pid",
                    &out->pid, "exit_code", &out->exit_code, "told_by", &out->reported_by, "time",
                    &time_s, "what", &what, "error_file", &file) != 0 ||
        !is_possible(out, host)) {
        json_decref(o);
        return err_set(e, E_IO, "a failure on another host, whose record is damaged");
    }
    out->time_s = time_s;
    copy_text(out->host, sizeof out->host, host);
    copy_text(out->what, sizeof out->what, what);
    copy_text(out->error_file, sizeof out->error_file, file);
    json_decref(o);
    return OK;
}

int worker_failure_read_file(const char *path, worker_failure *f)
{
    char *chars = NULL;
    size_t bytes = 0;
    if (!file_exists(path) || file_read_small(path, FILE_MOST_CONFIG, &chars, &bytes, NULL) != OK)
        return -1;
    json_t *root = json_loadb(chars, bytes, 0, NULL), *message = json_object_get(root, "message");
    if (json_is_object(message)) message = json_object_get(message, "message");
    if (json_is_string(message)) {
        copy_text(f->what, sizeof f->what, json_string_value(message));
        copy_text(f->error_file, sizeof f->error_file, path);
    }
    const json_t *rank = json_object_get(root, "rank");
    const json_int_t blamed = json_is_integer(rank) ? json_integer_value(rank) : -1;
    json_decref(root);
    free(chars);
    return blamed >= 0 && blamed <= INT32_MAX ? (int)blamed : -1;
}

// Returns whether a line is one of a progress bar, which a terminal writes over, or of the progress of `trireme train`.
static bool is_progress(const char *line, size_t bytes)
{
    size_t digits = strlen("step ");
    for (size_t i = 0; i + 1 < bytes; i++)
        if (line[i] == '\r' && line[i + 1] != '\n') return true;
    if (bytes <= digits || memcmp(line, "step ", digits) != 0) return false;
    while (digits < bytes && line[digits] >= '0' && line[digits] <= '9') digits++;
    return digits < bytes && line[digits] == '/';
}

// A bar without a line end may stand before the traceback in its line.
static void add_line(text *out, const char *line, size_t bytes)
{
    static const char TRACEBACK[] = "Traceback (most recent call last):";
    const char *begin = memmem(line, bytes, TRACEBACK, strlen(TRACEBACK));
    if (begin) {
        text_clear(out);
        text_add_printable(out, begin, bytes - (size_t)(begin - line), "\n\t");
    } else if (!is_progress(line, bytes)) {
        text_add_printable(out, line, bytes, "\n\t");
    }
}

void worker_failure_take_output(worker_failure *f, const char *output, size_t bytes, bool is_cut)
{
    text kept = {0};
    const char *end = output + bytes, *line = output;
    if (f->what[0]) return;
    const char *first = is_cut ? memchr(line, '\n', bytes) : NULL;
    if (first) line = first + 1;
    while (line < end) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        next = next ? next + 1 : end;
        add_line(&kept, line, (size_t)(next - line));
        line = next;
    }
    const char *last = kept.chars ? kept.chars : "";
    while (strlen(last) >= sizeof f->what && strchr(last, '\n') && strchr(last, '\n')[1])
        last = strchr(last, '\n') + 1;
    copy_text(f->what, sizeof f->what, last);
    text_clear(&kept);
}

static void add_end(const worker_failure *f, text *out)
{
    if (f->exit_code < 0)
        text_addf(out, " was killed by signal %d (%s)", -f->exit_code, strsignal(-f->exit_code));
    else
        text_addf(out, " ended with exit code %d", f->exit_code);
}

void worker_failure_line(const worker_failure *f, text *out)
{
    if (f->rank < 0) {
        text_addf(out, "node %d (host %s): %s", f->node, f->host, f->what);
        return;
    }
    text_addf(out, "rank %d (host %s, local rank %d", f->rank, f->host, f->local_rank);
    if (f->pid) text_addf(out, ", pid %d", f->pid);
    text_add(out, ")");
    if (f->reported_by > 0)
        text_addf(out, ", says rank %d", f->reported_by - 1);
    else
        add_end(f, out);
    // The message of a worker may have many lines, of which the last says most.
    const char *last = f->what + strlen(f->what);
    while (last > f->what && last[-1] == '\n') last--;
    const char *end = last;
    while (last > f->what && last[-1] != '\n') last--;
    if (end > last) text_addf(out, ": %.*s", (int)(end - last), last);
}

static void add_rule(char mark, text *out)
{
    for (int i = 0; i < REPORT_WIDTH; i++) text_add_bytes(out, &mark, 1);
    text_add(out, "\n");
}

static void add_failure(const worker_failure *f, int index, text *out)
{
    char when[32];
    struct tm broken;
    const time_t time_s = (time_t)f->time_s;
    localtime_r(&time_s, &broken);
    strftime(when, sizeof when, "%Y-%m-%d_%H:%M:%S", &broken);
    text_addf(out, "[%d]:\n  time      : %s\n  host      : %s\n  rank      : %d (local_rank: %d)\n",
              index, when, f->host, f->rank, f->local_rank);
    if (f->reported_by > 0)
        text_addf(out, "  exitcode  : <N/A> (pid: %d), says rank %d\n", f->pid, f->reported_by - 1);
    else
        text_addf(out, "  exitcode  : %d (pid: %d)\n", f->exit_code, f->pid);
    text_addf(out, "  error_file: %s\n  traceback : ", f->error_file[0] ? f->error_file : "<N/A>");
    if (f->exit_code < 0 && f->reported_by == 0)
        text_addf(out, "Signal %d (SIG%s) received by PID %d%s", -f->exit_code,
                  sigabbrev_np(-f->exit_code), f->pid, f->what[0] ? "\n" : "");
    text_addf(out, "%s\n",
              f->what[0] || f->exit_code < 0 ? f->what : "the worker wrote no error file");
}

void worker_failure_report(const char *program, const worker_failure *f, int count, text *out)
{
    add_rule('=', out);
    text_addf(out, "%s FAILED\n", program);
    add_rule('-', out);
    text_add(out, "Failures:\n");
    for (int i = 1; i < count; i++) add_failure(&f[i], i, out);
    if (count < 2) text_add(out, "  <NO_OTHER_FAILURES>\n");
    add_rule('-', out);
    text_add(out, "Root Cause (first observed failure):\n");
    add_failure(&f[0], 0, out);
    add_rule('=', out);
}
