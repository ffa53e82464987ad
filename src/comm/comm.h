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
#ifndef TRIREME_COMM_COMM_H
#define TRIREME_COMM_COMM_H

#include "comm/call.h"
#include "comm/capabilities.h"
#include "device/device.h"

#include <stdint.h>

typedef struct comm comm;
struct comm_packing;
struct text;

// A message that starts together with others (comm_issue_group).
typedef struct comm_message {
    comm *comm;
    comm_call call; // CALL_SEND or CALL_RECV
} comm_message;

typedef struct comm_ops {
    const char *name;
    void (*close)(comm *c);
    status (*alloc)(comm *c, device *d, size_t bytes, void **out, err *e);
    void (*release)(comm *c, device *d, void *p, size_t bytes);
    // Issues a call that comm_issue has checked. `on` NULL: carries it out before it returns, beside the calls of
    // streams. It gets CALL_BARRIER and CALL_SHARE; the collectives that no row composes, over segments where
    // shards are not packed (packed.h); messages where `group` is NULL; and CALL_COMPARE where ranks are on several
    // machines. Where call->visit is set, it adds to it.
    status (*issue)(comm *c, const comm_call *call, device_stream *on, err *e);
    // Issues messages that start together. Their communicators were split from the same one. NULL: sends do not
    // wait, so messages need no groups.
    status (*group)(const comm_message *m, int count, device_stream *on, err *e);
    status (*send_wait)(comm *c, int peer, uint64_t messages, device_stream *on, err *e);
    void (*abort)(comm *c, const err *why);
    status (*split)(comm *c, int color, int key, comm **out, err *e);
    // The rank of the run that is a member. NULL: it is not known.
    int (*rank_of)(const comm *c, int member);
    // NULL: setting the member of `comm` is enough.
    void (*set_label)(comm *c, const char *label);
    // Appends by what this rank reaches another one; nothing where it is not known. NULL: never.
    void (*add_route)(comm *c, int peer, struct text *out);
} comm_ops;

// Calls and their traffic (comm_call_traffic), by kind.
typedef struct comm_counts {
    struct {
        uint64_t calls;
        double bytes;
    } kind[CALL_KINDS];
} comm_counts;

// Calls that are timed one after the other, as those of a pass: a program that does not issue them itself asks for them.
typedef struct comm_timed {
    int64_t *stamp;    // [2 * calls] the begin and the end of each call, by its stream (device.h)
    comm_visit *visit; // [calls]
    int calls, next;   // calls that come after the last one count as parts of it
} comm_timed;

struct comm {
    const comm_ops *ops;
    int rank, size;
    comm_capabilities can;
    const char *label; // names the process group in messages, such as "dp_shard"; NULL: no name
    uint64_t *sent; // [size] messages that were issued to each rank, also as parts of collectives
    const struct comm_packing *packing; // borrowed; NULL: shards are not packed
    struct comm_recording *recording;   // of the flight recorder (recorder.h); NULL: none
    comm_counts *counts;                // NULL: calls are not counted
    comm_timed
        *timed; // of calls on streams without a visit of their own, borrowed; NULL: nobody asks
};

// Not collective, and safe after a failure. c may be NULL.
void comm_close(comm *c);

// Gives memory for collectives, zeroed and aligned as device_alloc's. After comm_share, other ranks may
// read and write it directly, without a copy. It counts in d->bytes_now. Every communicator that was
// split from the same one can use it. Not collective: each rank allocates what it uses, in any order.
// The caller releases it.
status comm_alloc(comm *c, device *d, size_t bytes, void **out, err *e);
void comm_release(comm *c, device *d, void *p, size_t bytes);
// Issues a call to `on`. Every rank of the group issues the same collectives; a message has a call on both of its
// ranks. CALL_BARRIER and CALL_SHARE block the host, and `on` is NULL. *call may change after the return, but the
// stream borrows its segments and its arrays. E_INTERNAL where the call is not one of this group. E_PEER, at
// the stream's sync, when a rank was lost or aborted; the output is then undefined.
//
//   all_reduce       in == out [count] becomes the reduction over all ranks, on every rank. The types of sums are F32,
//                    BF16, F16, F64 and I64.
//   reduce_scatter   out [count] receives this rank's shard of the reduction of in [size * count]. out may
//                    be in + rank*count.
//   all_gather       out [size * count] receives in [count] of rank r as shard r, for every r. in may be
//                    out + rank*count.
//   broadcast        in == out [count] of rank `peer` is copied to every rank.
//   all_to_all       out [size * count] receives from each rank the shard of its in [size * count] that is
//                    this rank's. With counts, in_counts[r] elements go to rank r, and out_counts[r] come from it.
//   gather           out [size * count] of rank `peer` receives in [count] of rank r as shard r.
//   scatter          out [count] receives shard `rank` of in [size * count] of rank `peer`.
//
// Over segments a call redistributes many segments at once, of any sizes. With the capability zero_copy nothing is
// copied in between, and the arrays that other ranks read must be memory of comm_alloc, from any communicator
// of this world: else E_INTERNAL. With needs_workspace shards are packed, and comm_set_packing must have given a
// table for the list: else E_INTERNAL.
//   all_gather       Every rank receives the shards of all ranks in `out`, the full array. Other ranks read `in`: the
//                    shards, or, in place, the full array.
//   reduce_scatter   Every rank receives its shards of the reduction of `in`, the full array, in `out`. In place they
//                    lie at their offsets in the full array, of which the rest stays unchanged. Other ranks read
//                    `in`. This call and then all_gather of the same list give the bits of an all-reduce.
//
// The messages of one pair of ranks arrive in the order of issue. A send from
// memory of comm_alloc copies nothing and does not wait for its receiver. Its buffer must stay
// unchanged until comm_send_wait has passed. At most 64 such messages of one pair are under way;
// the next send waits. From other memory, up to 1 MiB per direction is buffered, and a longer send
// waits for its receiver. Collectives that are made of messages (compose.h) wait for their ends.
status comm_issue(comm *c, const comm_call *call, device_stream *on, err *e);
// Issues messages that start together, as between ncclGroupStart and ncclGroupEnd. Their communicators may be all
// that were split from the same one. Without a group a send that waits for its receive keeps back the
// messages behind it, so two ranks that send to each other would wait for ever. Not collective, but the
// other ends of the messages must be issued, too. E_INTERNAL for more than COMM_GROUP_MESSAGES.
enum { COMM_GROUP_MESSAGES = 64 };
status comm_issue_group(const comm_message *m, int count, device_stream *on, err *e);
// Waits, in stream order, until `peer` has received the first `messages` messages that this
// communicator ever sent to it. Their buffers may then be written or released. E_INTERNAL when
// fewer were sent. Not collective.
status comm_send_wait(comm *c, int peer, uint64_t messages, device_stream *on, err *e);
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

// Counts the calls of c, and of what is split from it, from now on. A call is counted when it has been issued without an
// error; messages that a collective is made of, and calls without arrays, are not. Not collective.
status comm_count_calls(comm *c, err *e);

// Opens the communicator of a run with one rank.
status comm_solo_open(comm **out, err *e);

// ---- Calls with the words of their kind

// Blocks the host until every rank has called it. Collective over c.
static inline status comm_barrier(comm *c, err *e)
{
    return comm_issue(c, &(comm_call){.kind = CALL_BARRIER}, NULL, e);
}

// Makes all memory that comm_alloc has given to this rank known to the other ranks. Every rank calls it,
// after its last comm_alloc and before the first collective that uses the memory, also where it has
// allocated nothing. c is the communicator that the memory came from. Collective over c.
static inline status comm_share(comm *c, err *e)
{
    return comm_issue(c, &(comm_call){.kind = CALL_SHARE}, NULL, e);
}

static inline status comm_all_reduce(comm *c, void *inout, size_t count, dtype t, comm_reduce_op op,
                                     device_stream *on, err *e)
{
    const comm_call x = {CALL_ALL_REDUCE, .type = t,   .op = op,
                         .count = count,  .in = inout, .out = inout};
    return comm_issue(c, &x, on, e);
}

static inline status comm_reduce_scatter(comm *c, const void *in, void *out, size_t shard_count,
                                         dtype t, comm_reduce_op op, device_stream *on, err *e)
{
    const comm_call x = {CALL_REDUCE_SCATTER,  .type = t, .op = op,
                         .count = shard_count, .in = in,  .out = out};
    return comm_issue(c, &x, on, e);
}

static inline status comm_all_gather(comm *c, const void *in, void *out, size_t shard_count,
                                     dtype t, device_stream *on, err *e)
{
    const comm_call x = {CALL_ALL_GATHER, .type = t, .count = shard_count, .in = in, .out = out};
    return comm_issue(c, &x, on, e);
}

static inline status comm_broadcast(comm *c, void *inout, size_t bytes, int root, device_stream *on,
                                    err *e)
{
    const comm_call x = {CALL_BROADCAST, .type = U8,  .peer = root,
                         .count = bytes, .in = inout, .out = inout};
    return comm_issue(c, &x, on, e);
}

static inline comm_message comm_message_to(comm *c, const void *buf, size_t bytes, int peer)
{
    return (comm_message){c, {CALL_SEND, .type = U8, .peer = peer, .count = bytes, .in = buf}};
}

static inline comm_message comm_message_from(comm *c, void *buf, size_t bytes, int peer)
{
    return (comm_message){c, {CALL_RECV, .type = U8, .peer = peer, .count = bytes, .out = buf}};
}

static inline status comm_send(comm *c, const void *buf, size_t bytes, int peer, device_stream *on,
                               err *e)
{
    const comm_message m = comm_message_to(c, buf, bytes, peer);
    return comm_issue(c, &m.call, on, e);
}

static inline status comm_recv(comm *c, void *buf, size_t bytes, int peer, device_stream *on,
                               err *e)
{
    const comm_message m = comm_message_from(c, buf, bytes, peer);
    return comm_issue(c, &m.call, on, e);
}

// `shard` NULL: in place.
static inline status comm_all_gather_segments(comm *c, const comm_segment *s, int segments,
                                              const void *shard, void *full, dtype t,
                                              device_stream *on, err *e)
{
    const comm_call x = {CALL_ALL_GATHER,      .type = t,          .segment = s,
                         .segments = segments, .in_place = !shard, .in = shard ? shard : full,
                         .out = full};
    return comm_issue(c, &x, on, e);
}

static inline status comm_reduce_scatter_segments(comm *c, const comm_segment *s, int segments,
                                                  const void *full, void *shard, dtype t,
                                                  comm_reduce_op op, device_stream *on, err *e)
{
    const comm_call x = {CALL_REDUCE_SCATTER,
                         .type = t,
                         .op = op,
                         .segment = s,
                         .segments = segments,
                         .in_place = !shard,
                         .in = full,
                         .out = shard ? shard : (void *)(uintptr_t)full};
    return comm_issue(c, &x, on, e);
}

#endif
