// bench_attach.c -- see bench_attach.h. Rank 0 tells its command line, and others compare. With it go, within a host,
// the addresses that its processes share.
#include "cmd/bench_attach.h"

#include "base/text.h"
#include "comm/hosts.h"
#include "comm/peers.h"

#include <stdlib.h>
#include <string.h>

// Behind it stand the arguments, each with its final 0.
typedef struct told_head {
    const comm_host_table *hosts; // of this host's processes; NULL: there is one host
} told_head;

static status tell_here(world *w, void *data, size_t bytes, err *e)
{
    ((told_head *)data)->hosts = w->hosts ? w->hosts->table : NULL;
    return w->ranks > 1 ? comm_peers_tell(w, data, bytes, e) : OK;
}

static status compare(const text *own, const void *data, size_t bytes, err *e)
{
    const size_t head = sizeof(told_head);
    if (bytes == own->bytes &&
        memcmp(own->chars + head, (const char *)data + head, bytes - head) == 0)
        return OK;
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
        TRY(tell_here(w, far, bytes, e));
    } else {
        TRY(comm_peers_hear(w, &data, &bytes, e));
        TRY(compare(own, data, bytes, e));
        if (w->hosts) w->hosts->table = ((const told_head *)data)->hosts;
    }
done:
    free(far);
    return result;
}

static status meet(world *w, int rank, int argc, char **argv, err *e)
{
    status result = OK;
    text own = {0};
    const told_head head = {NULL};
    text_add_bytes(&own, &head, sizeof head);
    for (int i = 0; i < argc; i++) text_add_bytes(&own, argv[i], strlen(argv[i]) + 1);
    TRY(text_check(&own, e));
    if (rank > 0) {
        TRY(hear(w, &own, e));
    } else {
        if (w->hosts) TRY(comm_hosts_tell(w, own.chars, own.bytes, e));
        TRY(tell_here(w, own.chars, own.bytes, e));
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
