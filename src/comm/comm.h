// comm.h -- a group of ranks and its collectives, as a table of functions.
//
// Every collective is issued to a stream and returns at once; its end is known when that stream is
// synchronised, or by an event. A failure while it runs is returned by that sync; after a failure
// later calls may fail at once. Every rank of the group issues the same collectives with the same
// counts, types and operations in the same order; where they differ, E_INTERNAL names both calls.
// Summation runs over ranks 0, 1, 2, … in this order, in F32 for BF16 and F16 data, so that the
// result is bit-identical on every rank and does not depend on timing.
//
//   solo    one rank
//   local   ranks of one machine: processes or threads, shared memory, zero-copy for comm_alloc'ed
//   buffers
#ifndef TRIREME_COMM_COMM_H
#define TRIREME_COMM_COMM_H

#include "base/dtype.h"
#include "base/err.h"
#include "device/device.h"

typedef struct comm comm;
typedef enum reduce_op { REDUCE_SUM, REDUCE_MAX, REDUCE_MIN } reduce_op;

typedef struct comm_ops {
    const char *name;
    void (*close)(comm *c);
    status (*alloc)(comm *c, device *d, size_t bytes, void **out, err *e);
    void (*release)(comm *c, device *d, void *p, size_t bytes);
    status (*all_reduce)(comm *c, void *inout, size_t count, dtype t, reduce_op op, stream *on,
                         err *e);
    status (*reduce_scatter)(comm *c, const void *in, void *out, size_t own_count, dtype t,
                             reduce_op op, stream *on, err *e);
    status (*all_gather)(comm *c, const void *in, void *out, size_t own_count, dtype t, stream *on,
                         err *e);
    status (*broadcast)(comm *c, void *inout, size_t bytes, int root, stream *on, err *e);
    status (*send)(comm *c, const void *buf, size_t bytes, int peer, stream *on, err *e);
    status (*recv)(comm *c, void *buf, size_t bytes, int peer, stream *on, err *e);
    status (*barrier)(comm *c, err *e);
    void (*abort)(comm *c, const err *why);
    status (*split)(comm *c, int color, int key, comm **out, err *e);
} comm_ops;

struct comm {
    const comm_ops *ops;
    int rank, size;
};

void comm_close(comm *c); // NULL allowed. Not collective: safe after a failure.

// Memory for collectives, 64-byte aligned and zeroed. Other ranks may read and write it directly
// (zero-copy). Counted in d->bytes_now. Collective over c: all ranks ask for the same number of
// bytes in the same order.
status comm_alloc(comm *c, device *d, size_t bytes, void **out, err *e);
void comm_release(comm *c, device *d, void *p, size_t bytes);

// inout[count] becomes the reduction over all ranks, on every rank. F32, BF16, F16, F64, I64 (I64:
// all ops). Collective over c. E_PEER, at the stream's sync, when a rank was lost or aborted; inout
// is then undefined.
status comm_all_reduce(comm *c, void *inout, size_t count, dtype t, reduce_op op, stream *on,
                       err *e);
// in[size * own_count] is reduced; rank r keeps part r in out[own_count] (may be in + r*own_count).
// Collective over c.
status comm_reduce_scatter(comm *c, const void *in, void *out, size_t own_count, dtype t,
                           reduce_op op, stream *on, err *e);
// out[size * own_count] receives rank r's in[own_count] as part r (in may be out + rank*own_count).
// Collective over c.
status comm_all_gather(comm *c, const void *in, void *out, size_t own_count, dtype t, stream *on,
                       err *e);
// inout of `root` is copied to every rank. Collective over c.
status comm_broadcast(comm *c, void *inout, size_t bytes, int root, stream *on, err *e);
// Point to point, matched in order per pair. Never deadlocks when both sides send first: up to 1
// MiB per direction is buffered; larger sends wait for their receiver.
status comm_send(comm *c, const void *buf, size_t bytes, int peer, stream *on, err *e);
status comm_recv(comm *c, void *buf, size_t bytes, int peer, stream *on, err *e);
// Blocks the host until every rank is here. Collective over c.
status comm_barrier(comm *c, err *e);
// Makes every pending and later call on every rank fail with E_PEER and the text of `why`. First
// caller wins. Not collective.
void comm_abort(comm *c, const err *why);
// New groups of the ranks with equal color, ordered by key then rank. Collective over c.
status comm_split(comm *c, int color, int key, comm **out, err *e);

status solo_comm_open(comm **out, err *e);

#endif
