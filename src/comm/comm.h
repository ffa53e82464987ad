// comm.h -- a process group and its collectives, as a table of functions.
//
// Called by the code that executes a step, by clipping, and by the checks of replicas. It knows
// ranks and arrays. It does not know parameters, buckets or strategies.
//
// A collective is issued to a stream and returns at once. It is complete when that stream is
// synchronised, or when an event that was recorded after it is complete. A failure while it runs is
// returned by the stream's next sync, and later calls may then fail at once. Every rank of the
// group issues the same collectives, with the same counts, types and operations, in the same order.
// Where they differ, E_INTERNAL names both calls. A rank that closes its communicator while another
// waits for it is named in the same way.
//
// Arrays are device memory, of comm_alloc or device_alloc. Where the device's memory is the host's, they
// may be any memory.
//
// Sums have one fixed order, a binary tree over the ranks:
//   sum(lo, hi) = sum(lo, mid) + sum(mid, hi), where mid - lo is the largest power of two < hi - lo
// So a sum has the same bits on every rank and does not depend on timing. A sum over groups of s
// adjacent ranks, followed by a sum over the groups, has the bits of one sum over all ranks when s
// is a power of two (F32, F64, I64; each call rounds 16-bit types once). BF16 and F16 are summed in
// F32, F64 in F64.
//
// Communicators:
//   solo    one rank
//   local   ranks of one machine, which are processes or threads. They share memory, and buffers of
//           comm_alloc are not copied.
//   p2p     ranks of one machine, which are processes or threads. Their devices read each other's
//           memory (p2p.h).
//   nccl    GPUs of any hosts, one for each rank, by NCCL (nccl.h)
//   ucx     ranks that are processes on any hosts (ucx.h)
//   mpi     ranks that MPI's launcher has started (mpi.h)
//   hier    ranks of several hosts: local in each, ucx between them (hier.h)
//   trace   wraps another one and counts its calls and bytes (trace.h)
#ifndef TRIREME_COMM_COMM_H
#define TRIREME_COMM_COMM_H

#include "base/dtype.h"
#include "base/err.h"
#include "base/reduce.h"
#include "comm/capabilities.h"
#include "comm/segment.h"
#include "device/device.h"

#include <stdint.h>

typedef struct comm comm;
struct comm_packing;
struct text;
typedef reduce_op comm_reduce_op;

typedef struct comm_ops {
    const char *name;
    void (*close)(comm *c);
    status (*alloc)(comm *c, device *d, size_t bytes, void **out, err *e);
    void (*release)(comm *c, device *d, void *p, size_t bytes);
    status (*all_reduce)(comm *c, void *inout, size_t count, dtype t, comm_reduce_op op,
                         device_stream *on, err *e);
    status (*reduce_scatter)(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                             comm_reduce_op op, device_stream *on, err *e);
    status (*all_gather)(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                         device_stream *on, err *e);
    status (*broadcast)(comm *c, void *inout, size_t bytes, int root, device_stream *on, err *e);
    status (*send)(comm *c, const void *buf, size_t bytes, int peer, device_stream *on, err *e);
    status (*recv)(comm *c, void *buf, size_t bytes, int peer, device_stream *on, err *e);
    status (*send_wait)(comm *c, int peer, uint64_t messages, device_stream *on, err *e);
    // NULL: sends do not wait, so messages need no groups.
    status (*group_begin)(comm *c, err *e);
    status (*group_end)(comm *c, err *e);
    // The next two are NULL where shards are packed (packed.h).
    status (*all_gather_segments)(comm *c, const comm_segment *s, int segments, const void *shard,
                                  void *full, dtype t, device_stream *on, err *e);
    status (*reduce_scatter_segments)(comm *c, const comm_segment *s, int segments,
                                      const void *full, void *shard, dtype t, comm_reduce_op op,
                                      device_stream *on, err *e);
    status (*barrier)(comm *c, err *e);
    // Gathers `bytes` (a few) of host memory of each rank in out [size * bytes] before it returns, beside the
    // calls of streams. NULL: all ranks are of one machine.
    status (*gather_now)(comm *c, const void *in, void *out, size_t bytes, err *e);
    void (*abort)(comm *c, const err *why);
    status (*split)(comm *c, int color, int key, comm **out, err *e);
    status (*share)(comm *c, err *e);
    // The rank of the run that is a member. NULL: it is not known.
    int (*rank_of)(const comm *c, int member);
    // NULL: setting the member of `comm` is enough.
    void (*set_label)(comm *c, const char *label);
    // Appends by what this rank reaches another one; nothing where it is not known. NULL: never.
    void (*add_route)(comm *c, int peer, struct text *out);
    void (*set_packing)(comm *c, const struct comm_packing *packing);
} comm_ops;

struct comm {
    const comm_ops *ops;
    int rank, size;
    comm_capabilities can;
    const char *label; // names the process group in messages, such as "dp_shard"; NULL: no name
    const struct comm_packing *packing; // borrowed; NULL: shards are not packed
    struct comm_recording *recording;   // of the flight recorder (recorder.h); NULL: none
};

// Not collective, and safe after a failure. c may be NULL.
void comm_close(comm *c);

// Gives memory for collectives, zeroed and aligned as device_alloc's. After comm_share, other ranks may
// read and write it directly, without a copy. It counts in d->bytes_now. Every communicator that was
// split from the same one can use it. Not collective: each rank allocates what it uses, in any order.
// The caller releases it.
status comm_alloc(comm *c, device *d, size_t bytes, void **out, err *e);
void comm_release(comm *c, device *d, void *p, size_t bytes);
// Makes all memory that comm_alloc has given to this rank known to the other ranks. Every rank calls it,
// after its last comm_alloc and before the first collective that uses the memory, also where it has
// allocated nothing. c is the communicator that the memory came from. Collective over c.
status comm_share(comm *c, err *e);

// inout [count] becomes the reduction over all ranks, on every rank. t is F32, BF16, F16, F64 or
// I64. E_PEER, at the stream's sync, when a rank was lost or aborted; inout is then undefined.
// Collective over c.
status comm_all_reduce(comm *c, void *inout, size_t count, dtype t, comm_reduce_op op,
                       device_stream *on, err *e);
// out [shard_count] receives this rank's shard of the reduction of in [size * shard_count]. out may
// be in + rank*shard_count. Collective over c.
status comm_reduce_scatter(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                           comm_reduce_op op, device_stream *on, err *e);
// out [size * shard_count] receives in [shard_count] of rank r as shard r, for every r. in may be
// out + rank*shard_count. Collective over c.
status comm_all_gather(comm *c, const void *in, void *out, size_t shard_count, dtype t,
                       device_stream *on, err *e);
// inout [bytes] of rank `root` is copied to every rank. Collective over c.
status comm_broadcast(comm *c, void *inout, size_t bytes, int root, device_stream *on, err *e);

// The next two calls redistribute many segments at once, of any sizes. Every rank passes the same list
// of segments, and either all pass `shard` or none does. The stream borrows `s`, and the arrays that
// other ranks read, until it has passed the call. With the capability zero_copy nothing is copied in
// between, and those arrays must be memory of comm_alloc, from any communicator of this world: else
// E_INTERNAL. With needs_workspace shards are packed, and comm_set_packing must have given a table for
// the list: else E_INTERNAL.
//
// Every rank receives the shards of all ranks in `full`. Other ranks read `shard`. When `shard` is
// NULL, the shard lies at its offset in `full`, and other ranks read `full`. Collective over c.
status comm_all_gather_segments(comm *c, const comm_segment *s, int segments, const void *shard,
                                void *full, dtype t, device_stream *on, err *e);
// Every rank receives its shards of the reduction of `full` over all ranks: in `shard`, or, when
// `shard` is NULL, at their offsets in `full`, of which the rest stays unchanged. Other ranks read
// `full`. This call and then comm_all_gather_segments of the same list give the bits of an
// all-reduce. Collective over c.
status comm_reduce_scatter_segments(comm *c, const comm_segment *s, int segments, const void *full,
                                    void *shard, dtype t, comm_reduce_op op, device_stream *on,
                                    err *e);

// Point to point: the messages of one pair of ranks arrive in the order of issue. A send from
// memory of comm_alloc copies nothing and does not wait for its receiver. Its buffer must stay
// unchanged until comm_send_wait has passed. At most 64 such messages of one pair are under way;
// the next send waits. From other memory, up to 1 MiB per direction is buffered, and a longer send
// waits for its receiver. Both ranks issue a matching call.
status comm_send(comm *c, const void *buf, size_t bytes, int peer, device_stream *on, err *e);
status comm_recv(comm *c, void *buf, size_t bytes, int peer, device_stream *on, err *e);
// Waits, in stream order, until `peer` has received the first `messages` messages that this
// communicator ever sent to it. Their buffers may then be written or released. E_INTERNAL when
// fewer were sent. Not collective.
status comm_send_wait(comm *c, int peer, uint64_t messages, device_stream *on, err *e);
// Sends and receives between these two calls start together, when the second call is made, as between
// ncclGroupStart and ncclGroupEnd. They may be of c and of all communicators that were split from the
// same one, and are issued to one stream. Without a group a send that waits for its receive keeps back the
// messages behind it, so two ranks that send to each other would wait for ever. Not collective, but the
// other ends of the messages must be issued, too.
status comm_group_begin(comm *c, err *e);
status comm_group_end(comm *c, err *e);
// Blocks the host until every rank has called it. Collective over c.
status comm_barrier(comm *c, err *e);
// Makes every pending and later call on every rank fail with E_PEER and the text of `why`. The
// first caller's text wins. Not collective.
void comm_abort(comm *c, const err *why);
// Opens one new communicator for each color: of the ranks that pass this color, ordered by key,
// then by rank. The caller closes it. Collective over c.
status comm_split(comm *c, int color, int key, comm **out, err *e);

// Names the process group in messages ("dp_shard"). `label` is borrowed. c may be NULL. Not
// collective.
void comm_set_label(comm *c, const char *label);

// Appends what the communicator is, for a line to people: "communicator ucx: 4 ranks". `routes`: and by what this rank
// reaches the others, each way once, with the first rank: "; rank 2 by tcp/eth0 (10.0.0.1)". Not collective.
void comm_add_choice(comm *c, bool routes, struct text *out);

// Gives the tables and the workspace of calls over segments (packed.h), which are borrowed. Without the
// capability needs_workspace they are not used. c may be NULL. Not collective.
void comm_set_packing(comm *c, const struct comm_packing *packing);

// Opens the communicator of a run with one rank.
status comm_solo_open(comm **out, err *e);

#endif
