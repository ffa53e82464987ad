// registry.h -- the communicators that this version has, and how a rank opens one by its name.
//
// Called by session/ and by programs that measure, once for each rank. A new communicator is one row
// of registry.c.
#ifndef TRIREME_COMM_REGISTRY_H
#define TRIREME_COMM_REGISTRY_H

#include "comm/algorithm.h"
#include "comm/comm.h"
#include "rendezvous/world.h"

// The words of users that choose the communicator of several ranks, for comm_open; NULL ends them.
extern const char *const COMM_WORDS[];

// What a rank brings to the communicator of all ranks.
typedef struct comm_options {
    int rank, size;             // among all ranks of the run
    int local_rank, local_size; // among the ranks of this machine
    comm_store *store;          // where the ranks meet; NULL: there is one rank
    device *device;             // whose memory the collectives work on
    int64_t deadline_ms; // how long the rank waits for the others while it opens; 0: for ever
    world *world;        // what the ranks of this machine share; NULL: there is one rank
    bool
        any_order; // sums may have any order, which nccl makes use of: two runs may have other bits
} comm_options;

// Returns what rank `rank` (among all) needs to open a communicator of all ranks (comm_open), which
// works on the memory of `d`. The rank waits deadline_ms for the others (0: for ever).
comm_options comm_world_options(world *w, int rank, device *d, int64_t deadline_ms);

// A communicator as a checking process sees it, before any rank has opened one.
typedef struct comm_description {
    const char *name; // of the communicator that "auto" stands for, too
    comm_capabilities can;
    int least_ranks, most_ranks; // that it can have; most_ranks 0: any number
} comm_description;

// "auto" is the communicator of one rank, or one of the ranks of one machine: local where the host can
// address the devices' memory (host_memory, as device_description.is_host_memory), else p2p. Where ranks are on
// several machines (is_far) it is hier or nccl. E_USAGE when there is no such name, or when it cannot have these ranks.
status comm_describe(const char *name, int size, bool is_far, bool host_memory,
                     comm_description *out, err *e);

// What a communicator says of itself to algorithm.c.
typedef struct comm_flows_row {
    const comm_capabilities *can;
    comm_describe_flows describe;
} comm_flows_row;
// False where there is no communicator of that name.
bool comm_flows_row_of(const char *name, comm_flows_row *out);

// Opens the communicator of all ranks, for example comm_open("auto", comm_world_options(…), …). Each rank
// calls it once, in its own process or thread, with the same name. The caller closes *out. E_USAGE when
// the name is not known, or the communicator cannot have these ranks or this device. E_PEER when
// another rank failed or did not come in time. Collective over all ranks.
status comm_open(const char *name, comm_options o, comm **out, err *e);

#endif
