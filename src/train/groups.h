// groups.h -- the process groups and the device streams of a trainer. It owns one communicator for
// each group of ranks that this rank is in, the three streams, and the events that order one stream
// after another. It knows no schedule and no memory.
#ifndef TRIREME_TRAIN_GROUPS_H
#define TRIREME_TRAIN_GROUPS_H

#include "comm/comm.h"
#include "parallel/plan.h"

typedef struct trainer_groups trainer_groups;

// Beside the axes of the mesh and the groups of parallel/plan.h:
enum {
    GROUP_PP_GRADS = PROCESS_GROUPS, // the ranks of pp, for gradients sent between stages
    GROUP_AGREE,                     // all ranks, in the order of sums over all of them
    TRAINER_GROUPS
};

// `world` has all ranks and is borrowed, as `d` is. Collective over world.
status groups_open(const plan *p, device *d, comm *world, trainer_groups **out, err *e);
// Waits for the work of all streams. NULL allowed. Not collective.
void groups_close(trainer_groups *g);

// NULL where the group has one rank, or this rank is not in it.
comm *groups_comm(const trainer_groups *g, int group);
// All of them, [TRAINER_GROUPS].
comm *const *groups_comms(const trainer_groups *g);
// Adds the bytes that this rank has sent to sent[PROCESS_GROUPS], where communicators count them
// (comm/trace.h).
void groups_add_sent(const trainer_groups *g, double *sent);

device_stream *groups_stream(const trainer_groups *g, device_stream_kind k);
// Work that is issued to stream `later` from now on starts after the present work of `before`.
void groups_order(const trainer_groups *g, device_stream_kind before, device_stream_kind later);
// Waits for the work of all streams.
status groups_sync(const trainer_groups *g, err *e);

#endif
