// worker_env.c -- see worker_env.h.
#include "launch/worker_env.h"

#include "base/alloc.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static status append(worker_env *v, const char *entry, err *e)
{
    status result = OK;
    TRY(alloc_grow(&v->names, &v->room, v->count + 2, sizeof *v->names, "an environment", e));
    TRY(text_copy(entry, &v->names[v->count], e));
    v->names[++v->count] = NULL;
done:
    return result;
}

status worker_env_open(char *const *from, worker_env *out, err *e)
{
    status result = OK;
    *out = (worker_env){0};
    for (; *from; from++) TRY(append(out, *from, e));
done:
    if (result != OK) worker_env_close(out);
    return result;
}

status worker_env_set(worker_env *v, err *e, const char *name, const char *format, ...)
{
    status result = OK;
    text entry = {0};
    va_list args;
    text_addf(&entry, "%s=", name);
    const size_t length = entry.bytes;
    va_start(args, format);
    text_addv(&entry, format, args);
    va_end(args);
    TRY(text_check(&entry, e));
    for (size_t i = 0; i < v->count; i++)
        if (strncmp(v->names[i], entry.chars, length) == 0) {
            free(v->names[i]);
            v->names[i] = v->names[--v->count];
            v->names[v->count] = NULL;
            break;
        }
    TRY(append(v, entry.chars, e));
done:
    text_clear(&entry);
    return result;
}

void worker_env_close(worker_env *v)
{
    for (size_t i = 0; i < v->count; i++) free(v->names[i]);
    free(v->names);
    *v = (worker_env){0};
}
