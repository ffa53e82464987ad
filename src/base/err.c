// err.c -- fills and extends the error record of err.h. Called by everyone who can fail, and by
// cmd/ for the exit code. Deliberately does not know where errors are shown.
#define _GNU_SOURCE // strerror_r that returns the text
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// Formats into a buffer of its own first: the arguments may point into e->text.
static void set_text(err *e, status code, const char *text)
{
    e->code = code;
    e->depth = 0;
    snprintf(e->text, sizeof e->text, "%s", text);
}

status err_set(err *e, status code, const char *format, ...)
{
    if (!e) return code;
    char line[ERR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
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
        snprintf(line + used, sizeof line - used, ": %s",
                 strerror_r(number, reason, sizeof reason));
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
    if (used < sizeof line) snprintf(line + used, sizeof line - used, "%s", e->text);
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
    case E_PEER:
    case E_NUMERIC:
    case E_INTERNAL:
        break;
    }
    return 1;
}
