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

#include "comm/arena.h"
#include "comm/call.h"
#include "comm/comm.h"
#include "comm/watchdog.h"

enum {
    RECORDER_ENTRIES = 2000, // recorded calls of a rank where nothing else is chosen
    RECORDER_MOST_ENTRIES = 1 << 20,
    RECORDER_GROUPS =
        64, // communicators of a rank that are open at once; further ones are not recorded
};

typedef struct comm_recorder comm_recorder;

typedef struct comm_recorder_options {
    int ranks;             // of this machine
    int first_rank;        // the number of the first of them among all
    int all_ranks;         // of all machines
    int entries;           // of each rank; 0: nothing is recorded
    bool compares;         // each collective is compared before it runs
    bool spin;             // every rank can have a core of its own
    comm_failure *failure; // borrowed, as the watchdog: they outlive the recorder
    comm_watchdog *watchdog;
    comm_arena *arena; // the memory lies there; NULL: the process has one rank
} comm_recorder_options;

// Called before ranks start, by one process that starts some. Every process reaches it at the same address. E_FIT,
// E_IO.
status comm_recorder_open(const comm_recorder_options *o, comm_recorder **out, err *e);
void comm_recorder_close(comm_recorder *r); // NULL allowed

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

// Appends what rank `rank` did last, such as "all_reduce 12 over dp_shard, completed 3.2 s ago". Appends
// nothing where it has not recorded a call.
void comm_recorder_describe(const comm_recorder *r, int rank, char *out, size_t room);

// Writes the recordings of `count` ranks from `first` on, which this process has started, as PyTorch's Flight Recorder
// does: to the files PREFIX<rank>, pickles that torchfrtrace reads. The same as JSON goes to PREFIXjson/<rank>.json. A rank
// without calls has none. Makes the folders of the files. E_IO, E_MEMORY.
status comm_recorder_dump(const comm_recorder *r, int first, int count, const char *prefix, err *e);

#endif
