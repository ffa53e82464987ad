// ckpt_fence.c -- see ckpt.h: the run that has begun last in a folder is its writer. Opened by the code that starts a
// run. It needs no locks of the file system: a host that was cut off may hold none, or hold one for ever.
#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "ckpt/ckpt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOST_BYTES = 128 };

status ckpt_fence_open(const char *out, ckpt_fence *f, err *e)
{
    status result = OK;
    char host[HOST_BYTES];
    *f = (ckpt_fence){.path = NULL};
    TRY(file_join(out, ".writer", &f->path, e));
    proc_host_name(host, sizeof host);
    snprintf(f->writer, sizeof f->writer, "host %s, pid %d, %" PRId64 "\n", host, (int)getpid(),
             clock_ns());
    TRY(file_replace(f->path, f->writer, strlen(f->writer), e));
done:
    if (result != OK) ckpt_fence_close(f);
    return result;
}

status ckpt_fence_check(const ckpt_fence *f, err *e)
{
    status result = OK;
    char *found = NULL;
    // Without the file nobody else has begun.
    if (!f || !f->path || file_read_small(f->path, sizeof f->writer, &found, NULL, NULL) != OK)
        goto done;
    if (strcmp(found, f->writer) != 0)
        FAIL(E_IO, "%s: another run has begun to write into this folder (%.*s); this one ends",
             f->path, (int)strcspn(found, "\n"), found);
done:
    free(found);
    return result;
}

void ckpt_fence_close(ckpt_fence *f)
{
    free(f->path);
    *f = (ckpt_fence){.path = NULL};
}
