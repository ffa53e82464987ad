// err.c -- fills and extends the error record of err.h. Every function that can fail calls it, and
// cmd/ calls it for the exit code. It deliberately does not know where errors are shown.
#define _GNU_SOURCE // strerror_r that returns the text
#include "base/err.h"

#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// Shortens a line of `length` bytes that does not fit, at the end of a character, and marks it as
// truncated.
static void mark_truncated(char line[ERR_TEXT_BYTES], size_t length)
{
    static const char MORE[] = "...";
    if (length < ERR_TEXT_BYTES) return;
    line[ERR_TEXT_BYTES - sizeof MORE] = 0;
    text_trim(line);
    strcat(line, MORE);
}

// Formats into a separate buffer first, because the arguments may point into e->text.
static void set_text(err *e, status code, const char *line)
{
    e->code = code;
    e->depth = 0;
    snprintf(e->text, sizeof e->text, "%s", line);
}

status err_set(err *e, status code, const char *format, ...)
{
    if (!e) return code;
    char line[ERR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (length > 0) mark_truncated(line, (size_t)length);
    set_text(e, code, line);
    return code;
}

status err_errno(err *e, const char *format, ...)
{
    if (!e) return E_IO;
    int number = errno;
    char line[ERR_TEXT_BYTES], reason[128];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    size_t used = length < 0 ? 0 : (size_t)length;
    if (used < sizeof line)
        used += (size_t)snprintf(line + used, sizeof line - used, ": %s",
                                 strerror_r(number, reason, sizeof reason));
    mark_truncated(line, used);
    set_text(e, E_IO, line);
    return E_IO;
}

void err_prefix(err *e, const char *format, ...)
{
    if (!e) return;
    char line[ERR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    size_t used = length < 0 ? 0 : (size_t)length;
    if (used < sizeof line)
        used += (size_t)snprintf(line + used, sizeof line - used, "%s", e->text);
    mark_truncated(line, used);
    memcpy(e->text, line, sizeof line);
}

void err_note(err *e, const char *file, int line, const char *call)
{
    if (!e || e->depth >= ERR_TRAIL) return;
    e->trail[e->depth].file = file;
    e->trail[e->depth].line = line;
    e->trail[e->depth].call = call;
    e->depth++;
}

int status_exit_code(status s)
{
    switch (s) {
    case OK:
        return 0;
    case E_USAGE:
        return 2;
    case E_FIT:
        return 3;
    case E_INTERRUPTED:
        return 130;
    case E_IO:
    case E_MEMORY:
    case E_PEER:
    case E_NUMERIC:
    case E_INTERNAL:
        break;
    }
    return 1;
}
