// comm.h -- a group of ranks and its collectives, as a table of functions.
//
// Every collective is issued to a stream and returns at once; its end is known when that stream is
// synchronised, or by an event. A failure while it runs is returned by that sync; after a failure
// later calls may fail at once. Every rank of the group issues the same collectives with the same
// counts, types and operations in the same order; where they differ, E_INTERNAL names both calls.
// A rank that closes its communicator while another waits for it is named in the same way.
//
// Sums have one fixed order, a binary tree over the ranks: sum(lo, hi) = sum(lo, mid) + sum(mid,
// hi) where mid - lo is the largest power of two below hi - lo. Hence they are bit-identical on
// every rank, do not depend on timing, and a sum over groups of s neighbouring ranks followed by a
// sum over the groups is bit-identical to one sum over all whenever s is a power of two (F32, F64,
// I64; 16-bit types are rounded once by each call). BF16 and F16 are summed in F32, F64 in F64.
//
//   solo    one rank
//   local   ranks of one machine: processes or threads, shared memory, zero-copy for comm_alloc'ed
//   buffers
#ifndef TRIREME_COMM_COMM_H
#define TRIREME_COMM_COMM_H

#include "base/dtype.h"
#include "base/err.h"
#include "comm/segment.h"
#include "device/device.h"

#include <stdint.h>

typedef struct comm comm;
typedef enum reduce_op { REDUCE_SUM, REDUCE_MAX, REDUCE_MIN } reduce_op;

typedef struct comm_ops {
    const char *name;
    void (*close)(comm *c);
    status (*alloc)(comm *c, device *d, size_t bytes, void **out, err *e);
    void (*release)(comm *c, device *d, void *p, size_t bytes);
    status (*all_reduce)(comm *c, void *inout, size_t count, dtype t, reduce_op op,
                         device_stream *on, err *e);
    status (*reduce_scatter)(comm *c, const void *in, void *out, size_t own_count, dtype t,
                             reduce_op op, device_stream *on, err *e);
    status (*all_gather)(comm *c, const void *in, void *out, size_t own_count, dtype t,
                         device_stream *on, err *e);
    status (*broadcast)(comm *c, void *inout, size_t bytes, int root, device_stream *on, err *e);
    status (*send)(comm *c, const void *buf, size_t bytes, int peer, device_stream *on, err *e);
    status (*recv)(comm *c, void *buf, size_t bytes, int peer, device_stream *on, err *e);
    status (*send_wait)(comm *c, int peer, uint64_t messages, device_stream *on, err *e);
    status (*all_gather_segments)(comm *c, const comm_segment *s, int segments, const void *own,
                                  void *whole, dtype t, device_stream *on, err *e);
    status (*reduce_scatter_segments)(comm *c, const comm_segment *s, int segments,
                                      const void *whole, void *own, dtype t, reduce_op op,
                                      device_stream *on, err *e);
    status (*barrier)(comm *c, err *e);
    void (*abort)(comm *c, const err *why);
    status (*split)(comm *c, int color, int key, comm **out, err *e);
    void (*set_label)(comm *c, const char *label); // NULL: the label of the base is all there is
} comm_ops;

struct comm {
    const comm_ops *ops;
    int rank, size;
    const char *label; // which ranks these are, for messages; NULL: not said
};

void comm_close(comm *c); // NULL allowed. Not collective: safe after a failure.

// Memory for collectives, 64-byte aligned and zeroed. Other ranks may read and write it directly
// (zero-copy). Counted in d->bytes_now. Not collective: each rank asks for what it needs, in any
// order. It serves every communicator that was split from the same one.
status comm_alloc(comm *c, device *d, size_t bytes, void **out, err *e);
void comm_release(comm *c, device *d, void *p, size_t bytes);

// inout[count] becomes the reduction over all ranks, on every rank. F32, BF16, F16, F64, I64 (I64:
// all ops). Collective over c. E_PEER, at the stream's sync, when a rank was lost or aborted; inout
// is then undefined.
status comm_all_reduce(comm *c, void *inout, size_t count, dtype t, reduce_op op, device_stream *on,
                       err *e);
// in[size * own_count] is reduced; rank r keeps part r in out[own_count] (may be in + r*own_count).
// Collective over c.
status comm_reduce_scatter(comm *c, const void *in, void *out, size_t own_count, dtype t,
                           reduce_op op, device_stream *on, err *e);
// out[size * own_count] receives rank r's in[own_count] as part r (in may be out + rank*own_count).
// Collective over c.
status comm_all_gather(comm *c, const void *in, void *out, size_t own_count, dtype t,
                       device_stream *on, err *e);
// inout of `root` is copied to every rank. Collective over c.
status comm_broadcast(comm *c, void *inout, size_t bytes, int root, device_stream *on, err *e);

// Both calls move the parts of many runs at once, whatever their sizes and without a copy between.
// All ranks give the same list, and all give `own` or none does; `s` is borrowed until the stream
// has passed the call, and so are the arrays that other ranks read. Those must be memory of
// comm_alloc, of any communicator of this world: else E_INTERNAL. Collective over c.
//
// Every rank's parts become whole on every rank. Others read `own`. NULL: each rank's parts already
// lie at their places in `whole`, and others read that.
status comm_all_gather_segments(comm *c, const comm_segment *s, int segments, const void *own,
                                void *whole, dtype t, device_stream *on, err *e);
// The reductions of all ranks' wholes: each rank keeps its parts in `own`, or at their places in
// `whole` (own NULL; the rest of `whole` is unchanged). Others read `whole`. A reduce_scatter and
// an all_gather of the same list give the bits of an all_reduce.
status comm_reduce_scatter_segments(comm *c, const comm_segment *s, int segments, const void *whole,
                                    void *own, dtype t, reduce_op op, device_stream *on, err *e);

// Point to point, matched in order per pair. A send from memory of comm_alloc copies nothing and
// does not wait for its receiver: it announces where the bytes lie, and the buffer must stay as it
// is until comm_send_wait says so (up to 64 of one pair may be under way; the next send waits).
// From other memory up to 1 MiB per direction is buffered; larger sends wait for their receiver.
status comm_send(comm *c, const void *buf, size_t bytes, int peer, device_stream *on, err *e);
status comm_recv(comm *c, void *buf, size_t bytes, int peer, device_stream *on, err *e);
// In stream order: waits until the first `messages` messages that were ever sent to `peer` on this
// communicator have been received; their buffers may be written or released then. E_INTERNAL when
// fewer were sent.
status comm_send_wait(comm *c, int peer, uint64_t messages, device_stream *on, err *e);
// Blocks the host until every rank is here. Collective over c.
status comm_barrier(comm *c, err *e);
// Makes every pending and later call on every rank fail with E_PEER and the text of `why`. First
// caller wins. Not collective.
void comm_abort(comm *c, const err *why);
// New groups of the ranks with equal color, ordered by key then rank. Collective over c.
status comm_split(comm *c, int color, int key, comm **out, err *e);

// Says which ranks c joins ("dp_shard"), for messages. Borrowed. Not collective; c NULL is allowed.
void comm_set_label(comm *c, const char *label);

status solo_comm_open(comm **out, err *e);

#endif
