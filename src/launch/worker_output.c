// worker_output.c -- see worker_output.h.
#define _GNU_SOURCE // pipe2, memrchr
#include "launch/worker_output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 16 };

static status open_file(const char *path, int *out, err *e)
{
    *out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_APPEND, 0644);
    if (*out >= 0) return OK;
    err_errno(e, "cannot write %s", path);
    if (e) e->code = E_USAGE;
    return E_USAGE;
}

status worker_output_open(const worker_output_plan *plan, worker_output *out, int *child, err *e)
{
    status result = OK;
    int ends[2];
    *out = (worker_output){.plan = *plan, .from = -1, .file = -1};
    *child = -1;
    if (plan->file) TRY(open_file(plan->file, &out->file, e));
    const bool only_console = plan->console >= 0 && !plan->file && !plan->prefix[0];
    const bool only_file = plan->console < 0 && plan->file;
    if (!plan->keep_tail && !plan->words && only_console) return OK;
    if (!plan->keep_tail && !plan->words && only_file) {
        *child = out->file;
        out->file = -1;
        return OK;
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        result = err_errno(e, "cannot open a pipe");
        goto done;
    }
    out->from = ends[0];
    *child = ends[1];
    fcntl(out->from, F_SETFL, O_NONBLOCK);
done:
    if (result != OK) worker_output_close(out);
    return result;
}

// Returns the error for which bytes are lost; 0: none are.
static int write_all(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        const ssize_t written = write(fd, bytes, count);
        if (written >= 0) {
            bytes += written;
            count -= (size_t)written;
        } else if (errno == EAGAIN) {
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

// Output to stderr may be lost, as everywhere in Trireme.
static void note_lost(worker_output *o, int error, int console)
{
    if (!error || console == STDERR_FILENO || o->lost) return;
    o->lost = error;
    o->lost_of_file = console < 0;
}

static void keep_tail(worker_output *o, const char *bytes, size_t count)
{
    if (count > TAIL_BYTES) bytes += count - TAIL_BYTES, count = TAIL_BYTES;
    const size_t kept = o->tail_bytes + count > TAIL_BYTES ? TAIL_BYTES - count : o->tail_bytes;
    memmove(o->tail, o->tail + o->tail_bytes - kept, kept);
    memcpy(o->tail + kept, bytes, count);
    o->tail_bytes = kept + count;
}

static bool matches(const worker_output_plan *p, const char *line)
{
    for (const char *const *word = p->words; word && *word; word++)
        if (strstr(line, *word)) return true;
    return false;
}

// Lines leave in one call each, so that those of several workers do not mix.
static void end_line(worker_output *o)
{
    const worker_output_plan *p = &o->plan;
    if (p->console >= 0 && p->prefix[0]) {
        text whole = {0};
        text_add(&whole, p->prefix);
        text_add_bytes(&whole, o->line.chars, o->line.bytes);
        note_lost(o, write_all(p->console, whole.chars, whole.bytes), p->console);
        text_clear(&whole);
    }
    if (p->matches >= 0 && matches(p, o->line.chars))
        note_lost(o, write_all(p->matches, o->line.chars, o->line.bytes), -1);
    text_clear(&o->line);
}

static void take_lines(worker_output *o, const char *bytes, size_t count)
{
    while (count > 0) {
        const char *end = memchr(bytes, '\n', count);
        const size_t part = end ? (size_t)(end - bytes) + 1 : count;
        text_add_bytes(&o->line, bytes, part);
        if (end) end_line(o);
        bytes += part;
        count -= part;
    }
}

bool worker_output_forward(worker_output *o)
{
    char bytes[READ_BYTES];
    const ssize_t got = o->from < 0 ? 0 : read(o->from, bytes, sizeof bytes);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    const size_t count = (size_t)got;
    if (o->file >= 0) note_lost(o, write_all(o->file, bytes, count), -1);
    if (o->plan.keep_tail) keep_tail(o, bytes, count);
    // Without a prefix a line need not be complete: progress bars have no line ends.
    if (o->plan.console >= 0 && !o->plan.prefix[0])
        note_lost(o, write_all(o->plan.console, bytes, count), o->plan.console);
    if (o->plan.prefix[0] || o->plan.words) take_lines(o, bytes, count);
    return true;
}

void worker_output_close(worker_output *o)
{
    struct pollfd ready = {.fd = o->from, .events = POLLIN};
    while (o->from >= 0 && poll(&ready, 1, 0) > 0 && worker_output_forward(o)) continue;
    if (o->line.bytes) end_line(o);
    if (o->from >= 0) close(o->from);
    if (o->file >= 0) close(o->file);
    o->from = o->file = -1;
    text_clear(&o->line);
}
