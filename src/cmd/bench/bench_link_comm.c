// bench_link_comm.c -- `trireme bench link` over a communicator: one of its two ranks.
#include "cmd/bench/bench_link.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>

static int other(const bench_link *l)
{
    return 1 - l->comm->rank;
}

static status comm_link_send(bench_link *l, const char *p, size_t bytes, err *e)
{
    return comm_send(l->comm, p, bytes, other(l), l->stream, e);
}

static status comm_link_recv(bench_link *l, char *p, size_t bytes, err *e)
{
    return comm_recv(l->comm, p, bytes, other(l), l->stream, e);
}

static status comm_link_sync(bench_link *l, err *e)
{
    status result = OK;
    TRY(comm_send_wait(l->comm, other(l), l->comm->sent[other(l)], l->stream, e));
    TRY(l->device->ops->sync(l->stream, e));
done:
    return result;
}

static status comm_link_write(bench_link *l, char *to, const void *from, size_t bytes, err *e)
{
    return device_upload(l->stream, to, from, bytes, e);
}

static status comm_link_read(bench_link *l, void *to, const char *from, size_t bytes, err *e)
{
    return device_download(l->stream, to, from, bytes, e);
}

static const bench_link_ops comm_link_ops = {
    .send = comm_link_send,
    .recv = comm_link_recv,
    .sync = comm_link_sync,
    .write = comm_link_write,
    .read = comm_link_read,
};

static status open_device(bench_link *l, const char *name, int rank, err *e)
{
    status result = OK;
    device_options o = {.threads = 1, .local_rank = rank, .local_ranks = 2};
    device_description d;
    TRY(device_describe(name, &o, &d, e));
    o.index = rank % d.count;
    TRY(device_open(name, &o, &l->device, e));
    TRY(l->device->ops->stream_open(l->device, STREAM_COMM, false, &l->stream, e));
done:
    return result;
}

status bench_link_over_comm(bench_link *l, world *w, int rank, const char *name,
                            const char *device_name, err *e)
{
    status result = OK;
    void *memory = NULL;
    const size_t each = ((size_t)l->plan.most + DEVICE_ALIGN - 1) / DEVICE_ALIGN * DEVICE_ALIGN,
                 all = 2 * each + DEVICE_ALIGN;
    l->ops = &comm_link_ops;
    l->measures = rank == 0;
    TRY(open_device(l, device_name, rank, e));
    TRY(comm_open(name, comm_world_options(w, rank, l->device, (int64_t)(l->timeout_s * 1000)),
                  &l->comm, e));
    comm_watchdog_set(w->watchdog, (int64_t)(l->timeout_s * 1000));
    TRY(comm_alloc(l->comm, l->device, all, &memory, e));
    TRY(comm_share(l->comm, e));
    TRY(alloc_array(&l->host, each, 1, "a message", e));
    l->out = memory;
    l->in = l->out + each;
    l->word = l->in + each;
    snprintf(l->title, sizeof l->title, "communicator %s between two ranks, device %s",
             l->comm->ops->name, l->device->ops->name);
    TRY(comm_barrier(l->comm, e));
    TRY(bench_link_run(l, e));
done:
    if (result != OK && l->comm) comm_abort(l->comm, e);
    if (l->stream) l->device->ops->stream_close(l->stream);
    if (memory) comm_release(l->comm, l->device, memory, all);
    comm_close(l->comm);
    device_close(l->device);
    free(l->host);
    return result;
}
