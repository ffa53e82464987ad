// packed.h -- the calls over segments in a form for every communicator: shards are packed into a
// workspace, a plain collective moves them, and they are unpacked. comm.c takes this form where a
// communicator has no calls over segments of its own (capability needs_workspace). Sums have the same
// order as in the plain collective, so the bits are those of a communicator that copies nothing.
//
//   workspace [ranks, block]    block r has the shards of rank r, segment after segment; a segment has
//                               room for its largest shard
//   all_gather       pack this rank's shards into its block; all_gather; unpack the other blocks
//   reduce_scatter   pack the shards of all ranks; reduce_scatter; unpack this rank's block
//
// A kernel packs all segments in one launch, with a segment table in device memory. A call allocates
// nothing: its tables are made before, for each list of segments that will be used, and there is one
// workspace for each stream, because the calls of a stream run one after the other. It knows neither
// parameters nor buckets.
#ifndef TRIREME_COMM_PACKED_H
#define TRIREME_COMM_PACKED_H

#include "comm/comm.h"
#include "device/kernel_segment.h"

// The tables of one rank for any number of communicators.
typedef struct comm_packing comm_packing;

// A call over segments that this rank will issue.
typedef struct comm_packed_call {
    comm_call call; // its arrays may be NULL. Its segments are copied. Its type is F32, BF16 or F16
    int rank, size; // of this rank in the communicator
    device_stream_kind stream; // that it will be issued to
} comm_packed_call;

status comm_packing_open(comm_packing **out, err *e);
void comm_packing_close(comm_packing *x); // NULL allowed

// Adds a call, before comm_packing_start. Equal calls share one table. E_INTERNAL for another type.
status comm_packing_add(comm_packing *x, const comm_packed_call *c, err *e);
// Bytes of all tables, and of the workspace of a stream; 0: nothing needs it.
size_t comm_packing_table_bytes(const comm_packing *x);
size_t comm_packing_workspace_bytes(const comm_packing *x, device_stream_kind k);
// Writes the tables into `table`, device memory of the caller, and takes the workspaces: bytes[k] bytes
// at workspace[k] for each stream k. All of it must stay until the last call has passed. `host` has room
// for the tables in host memory until the return. Waits for stream `on`.
status comm_packing_start(comm_packing *x, kernel_segment *table, kernel_segment *host,
                          void *const workspace[STREAMS], const size_t bytes[STREAMS],
                          device_stream *on, err *e);

// Carries out a call over segments, for comm_issue. c->packing must have the call: else E_INTERNAL.
status packed_issue(comm *c, const comm_call *call, device_stream *on, err *e);

#endif
