// bench_attach.c -- see bench_attach.h. Rank 0 tells its command line, and others compare.
#include "cmd/bench_attach.h"

#include "base/text.h"
#include "comm/hosts.h"
#include "comm/peers.h"

#include <stdlib.h>
#include <string.h>

// Tells the other processes of this host.
static status tell_here(world *w, const text *own, err *e)
{
    return w->peers ? comm_peers_tell(w, own->chars, own->bytes, e) : OK;
}

static status compare(const text *own, const void *data, size_t bytes, err *e)
{
    if (bytes == own->bytes && memcmp(own->chars, data, bytes) == 0) return OK;
    return err_set(e, E_USAGE,
                   "bench: this process and that of rank 0 have different arguments; valid: the "
                   "same ones for all");
}

static status hear(world *w, const text *own, err *e)
{
    status result = OK;
    void *far = NULL;
    const void *data;
    size_t bytes;
    if (w->first == 0) {
        TRY(comm_hosts_hear(w, &far, &bytes, e));
        TRY(compare(own, far, bytes, e));
        TRY(tell_here(w, own, e));
    } else {
        TRY(comm_peers_hear(w, &data, &bytes, e));
        TRY(compare(own, data, bytes, e));
    }
done:
    free(far);
    return result;
}

static status meet(world *w, int rank, int argc, char **argv, err *e)
{
    status result = OK;
    text own = {0}; // the arguments, each with its final 0
    for (int i = 0; i < argc; i++) text_add_bytes(&own, argv[i], strlen(argv[i]) + 1);
    TRY(text_check(&own, e));
    if (rank > 0) {
        TRY(hear(w, &own, e));
    } else {
        if (w->hosts) TRY(comm_hosts_tell(w, own.chars, own.bytes, e));
        TRY(tell_here(w, &own, e));
    }
done:
    text_clear(&own);
    return result;
}

status bench_attach(const launcher_place *p, int argc, char **argv, world **out, err *e)
{
    status result = OK;
    TRY(launch_attach(p, TRIREME_VERSION, out, e));
    result = meet(*out, p->rank, argc, argv, e);
    if (result != OK) result = launch_fail(*out, NULL, e);
done:
    return result;
}
