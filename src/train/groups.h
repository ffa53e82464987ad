// groups.h -- the process groups and the device streams of a trainer. It owns one communicator for
// each group of ranks that this rank is in, the three streams, and the events that order one stream
// after another. It knows no schedule and no memory.
#ifndef TRIREME_TRAIN_GROUPS_H
#define TRIREME_TRAIN_GROUPS_H

#include "comm/comm.h"
#include "parallel/plan.h"

typedef struct trainer_groups trainer_groups;

// Communicators beside those of the plan's process groups.
enum {
    // GROUP_PASSES + a: the ranks of axis a, for what passes send over it. Gradients and weights use the group of
    // the plan meanwhile, on another stream; those of pp are gradients, which may overtake activations.
    GROUP_PASSES = PROCESS_GROUPS,
    GROUP_AGREE = GROUP_PASSES + AXES, // all ranks, in the order of sums over all of them
    TRAINER_GROUPS
};

// Bytes that the device's streams take for threads of their own: the communication and the copy stream
// have them where `world` asks for it (comm.can.own_thread).
uint64_t groups_thread_bytes(const device *d, const comm *world);
// Bytes that the communicators of a rank take themselves, that of all ranks among them.
uint64_t groups_comm_bytes(const plan *p);
// `world` is the group of all ranks. `world` and `d` are borrowed. Collective over world.
status groups_open(const plan *p, device *d, comm *world, trainer_groups **out, err *e);
// Waits for the work of all streams. NULL allowed. Not collective.
void groups_close(trainer_groups *g);

// NULL when the group has one rank, or this rank is not in it.
comm *groups_comm(const trainer_groups *g, int group);
// All of them, [TRAINER_GROUPS].
comm *const *groups_comms(const trainer_groups *g);
// Gives all communicators that this object owns the tables and the workspace of packed calls, borrowed.
void groups_set_packing(const trainer_groups *g, const struct comm_packing *packing);
// Adds the bytes that this rank has sent to sent[PROCESS_GROUPS]. Communicators that do not count
// (comm_count_calls) add nothing.
void groups_add_sent(const trainer_groups *g, double *sent);

device_stream *groups_stream(const trainer_groups *g, device_stream_kind k);
// Work that is issued to stream `later` from now on starts after the work that
// `before` has so far.
void groups_order(const trainer_groups *g, device_stream_kind before, device_stream_kind later);
// Waits for the work of all streams.
status groups_sync(const trainer_groups *g, err *e);

#endif
