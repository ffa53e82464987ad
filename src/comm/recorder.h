// recorder.h -- the flight recorder: the last calls of comm.h that each rank issued, in memory that the
// ranks of one machine share. So the calls of a rank that was killed or stopped can be read, too.
//
// comm.c records each call; comm_open and comm_split give the communicators. The starting process writes
// the recordings to files after a failure. With `compares`, ranks also compare each collective before it
// runs. A recording takes no memory while calls are issued. It does not know what a call does.
//
// A device whose streams take no calls of the host (cuda) cannot say when a call starts and ends. Its calls stay
// `scheduled`, and so do messages of communicators that start them in groups, until the host has waited for all streams:
// then they are completed (comm_recorder_settle). Calls that a device replays from a recording of its own are not issued
// again; comm_recorder_replay records them.
#ifndef TRIREME_COMM_RECORDER_H
#define TRIREME_COMM_RECORDER_H

#include "comm/call.h"
#include "comm/comm.h"

enum {
    RECORDER_ENTRIES = 2000, // recorded calls of a rank where nothing else is chosen
    RECORDER_MOST_ENTRIES = 1 << 20,
    RECORDER_GROUPS =
        64, // communicators of a rank that are open at once; further ones are not recorded
};

typedef struct comm_recorder comm_recorder;
struct world;

// Opens the flight recorder of w with room for `entries` calls of each rank. `compares`: ranks compare each collective
// before it runs. It does nothing where both are 0. Called before ranks start; of the processes of launch_attach that of
// rank 0 calls it, and the others use its recorder. world_close closes it. E_FIT, E_IO.
status comm_recorder_open(struct world *w, int entries, bool compares, err *e);
// Makes r, which another process has opened and which lies at the same address here, the recorder of w.
void comm_recorder_use(struct world *w, comm_recorder *r);

// Records all calls of c from now on. c is the communicator of all ranks, opened by rank `rank` of this
// machine. comm_split records what is split from it. Collective over c. E_PEER, E_MEMORY.
status comm_recorder_attach(comm_recorder *r, int rank, comm *c, err *e);

// All calls that this rank has issued are done: the host has waited for all of its streams. The next three are for the
// communicator of all ranks, and do nothing where calls are not recorded. None is collective.
void comm_recorder_settle(comm *c);
// What this rank issues between the two calls is in a recording of its device, which replays it from now on. The calls
// are recorded as ever: the caller replays them once. Only the latest recording is known.
void comm_recorder_begin_capture(comm *c);
void comm_recorder_end_capture(comm *c);
// The device replays these calls once more.
void comm_recorder_replay(comm *c);

// Writes the recordings of `count` ranks from `first` on, which this process has started, as PyTorch's Flight Recorder
// does: to the files PREFIX<rank>, pickles that torchfrtrace reads. The same as JSON goes to PREFIXjson/<rank>.json. A rank
// without calls has none. Makes the folders of the files. E_IO, E_MEMORY.
status comm_recorder_dump(const comm_recorder *r, int first, int count, const char *prefix, err *e);

#endif
