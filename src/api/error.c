// error.c -- the version, and the conversion of errors. Inside the library an error is a status and
// a text; programs get a trm_status, which is the exit code of the same failure, and one line.
#include "api/api.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof((trm_error){.code = TRM_OK}.text) == ERR_TEXT_BYTES,
               "an error's line has the same room on both sides");

const char *trm_version(void)
{
    return TRIREME_VERSION;
}

trm_status trm_fail(trm_error *error, trm_status code, const char *format, ...)
{
    if (!error) return code;
    error->code = code;
    va_list list;
    va_start(list, format);
    vsnprintf(error->text, sizeof error->text, format, list);
    va_end(list);
    return code;
}

trm_status api_give(status s, const err *e, trm_error *out)
{
    trm_status code = (trm_status)status_exit_code(s);
    if (s == OK) return TRM_OK;
    return trm_fail(out, code, "%s", e->text);
}

status api_take(trm_status s, const trm_error *from, err *e)
{
    // There are fewer exit codes than statuses, so several become E_IO.
    status inside = s == TRM_USAGE         ? E_USAGE
                    : s == TRM_TOO_LARGE   ? E_FIT
                    : s == TRM_INTERRUPTED ? E_INTERRUPTED
                                           : E_IO;
    if (s == TRM_OK) return OK;
    bool has_text = from->code != TRM_OK && from->text[0];
    return err_set(e, inside, "%s", has_text ? from->text : "failed and gave no reason");
}
