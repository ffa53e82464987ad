// recorder_private.h -- the memory of the flight recorder, and the functions by which comm.c records a
// call. Only files of comm/ include it.
#ifndef TRIREME_COMM_RECORDER_PRIVATE_H
#define TRIREME_COMM_RECORDER_PRIVATE_H

#include "comm/recorder.h"
#include "rendezvous/doorbell.h"
#include "rendezvous/world.h"

// A call as its rank issued it.
typedef struct comm_record_entry {
    comm_signature call;
    int64_t group; // row of the rank's groups
    uint64_t
        sequence; // place, from 1, among collectives of the group, or messages from this sender to this receiver
    uint64_t what;     // the rank's activity (comm_activity.what)
    int64_t issued_ns; // since 1970
} comm_record_entry;
enum { RECORD_WORDS = sizeof(comm_record_entry) / sizeof(uint64_t) };

// One of two calls that are compared, and the rank that issued it. There is no padding.
typedef struct comm_record_side {
    comm_record_entry entry;
    int64_t rank; // among all
} comm_record_side;

// An entry in shared memory. Its rank writes it while others may read it, so readers check the id twice.
typedef struct comm_record_slot {
    _Atomic uint64_t id; // number of the rank's call, from 1; 0: empty, or being written
    _Atomic uint64_t words[RECORD_WORDS];
    _Atomic int64_t started_ns, completed_ns; // since 1970; 0: not yet
} comm_record_slot;

enum { RECORD_LABEL_WORDS = 4 };

// A communicator of a rank. Its rank writes it.
typedef struct comm_record_group {
    _Atomic uint64_t key;     // equal on all members, and of no other communicator; 0: never used
    _Atomic int rank, size;   // this rank in the group
    _Atomic int left;         // the rank has closed it
    doorbell published;       // collectives that may be compared, modulo 2^32
    comm_record_slot next[2]; // the latest two of them, by sequence & 1
    _Atomic uint64_t collectives; // issued
    _Atomic int has_messages;
    _Atomic uint64_t label[RECORD_LABEL_WORDS]; // of comm_set_label; ends with a zero byte
    const char *_Atomic transport;              // name of the communicator's table, a literal
} comm_record_group;

typedef struct comm_record_rank {
    _Atomic uint64_t calls; // recorded
    comm_record_group groups[RECORDER_GROUPS];
    comm_record_slot slots[]; // [entries]: call n lies in (n - 1) % entries
    // Behind them: the members of each group, as ranks of the run (comm_recorder_members).
} comm_record_rank;

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

struct comm_recorder {
    comm_recorder_options o;
    size_t bytes;      // of all of it
    size_t rank_bytes; // of a comm_record_rank
    doorbell_limits limits;
};

// Appends what rank `rank` did last, such as "all_reduce 12 over dp_shard, completed 3.2 s ago". Appends
// nothing where it has not recorded a call.
void comm_recorder_describe(const comm_recorder *r, int rank, char *out, size_t room);

// A call in a recording of the rank's device.
typedef struct comm_record_captured {
    struct comm_recording *recording;
    comm_signature call;
    uint64_t what;
} comm_record_captured;

// What all recordings of a rank share, in its process.
typedef struct comm_record_process {
    int users; // recordings
    bool captures;
    comm_record_captured *captured; // [room], of which `count` are filled
    size_t count, room;
    uint64_t settled; // calls of the rank that are done
} comm_record_process;

// The recording of one communicator on its rank: comm.recording.
typedef struct comm_recording {
    comm_recorder *recorder;
    comm_record_group *group; // NULL: the rank has too many groups, and this one is not recorded
    int rank;                 // of this machine
    uint64_t *pairs;          // [2 * size] messages so far to each member, and then from each
    int row;                  // of the group
    int size;                 // of the group
    comm_record_process *process;
    uint64_t splits; // of this communicator so far
    comm_record_group *
        *peers; // [size] by rank of the group, where calls are compared; NULL: of another machine
    int *peer_ranks; // [size] their ranks of this machine
    comm_record_side
        *gathered; // [size] room for the calls of all members; NULL: all are of this machine
} comm_recording;

// Where a call's times are written.
typedef struct comm_record_mark {
    comm_record_slot *slot; // NULL: not recorded
    uint64_t id;
    const comm_failure *failure;
} comm_record_mark;

comm_record_rank *comm_recorder_rank(const comm_recorder *r, int rank);
// The ranks of the run that are the members of a group of rank `rank`: [its size].
_Atomic int32_t *comm_recorder_members(const comm_recorder *r, int rank, int group);
// Copies an entry. False when it is empty or just being replaced.
bool comm_record_read(const comm_record_slot *s, comm_record_entry *out, uint64_t *id);
void comm_record_write(comm_record_slot *s, uint64_t id, const comm_record_entry *x);
void comm_record_label(const comm_record_group *g, char out[RECORD_LABEL_WORDS * 8]);

// Records the communicator that comm_split gave, which was split from `parent`. Collective over c.
status comm_recording_split(comm *parent, int color, comm *c, err *e);
void comm_recording_close(comm_recording *x); // NULL allowed
void comm_recording_set_label(comm_recording *x, const char *label);

// Records a call that is about to be issued to `on` (NULL: it blocks the host), and compares it where the
// recorder compares. Without a recording it does nothing. E_INTERNAL where ranks differ.
status comm_record_begin(comm *c, const comm_call *call, device_stream *on, comm_record_mark *m,
                         err *e);
// The call has been issued.
void comm_record_end(const comm_record_mark *m, device_stream *on);

// Waits until all members have come to the same collective, and compares it with theirs.
status comm_record_compare(comm *c, const comm_record_entry *mine, err *e);
// Finds the members of the group, after all have opened it.
status comm_record_find_peers(comm *c, err *e);

#endif
