// replay_record.h -- a recorded step of a run as pieces that can be replayed (parallel/replay/replay_ranks.h): what every rank
// did, for how long, and what it waited for. An instruction becomes several pieces: what it does before a call, the
// call, what it does then. The time between two pieces is the lag of the second one.
//
// Whether the streams of a rank run side by side is read from the record: spans that overlap do. Which instruction
// then waits for which is known from the lists alone (replay_lists); without them only the order within a stream is.
//
// replay_causes.h, replay_change.h and replay_report.h read it; session/ makes the pieces of another schedule of it.
#ifndef TRIREME_MONITOR_REPLAY_REPLAY_RECORD_H
#define TRIREME_MONITOR_REPLAY_REPLAY_RECORD_H

#include "base/lookup.h"
#include "base/mesh.h"
#include "monitor/run_view.h"
#include "parallel/replay/order.h"
#include "parallel/replay/replay_ranks.h"

typedef enum replay_part_kind {
    PART_WORK,       // of an instruction, beside its calls
    PART_COLLECTIVE, // a call
    PART_SEND,
    PART_RECEIVE,
    PART_LOADER, // the wait for a batch
} replay_part_kind;

// What a piece is.
typedef struct replay_part {
    replay_part_kind kind;
    spans_phase phase; // of the instruction
    int row, instr;    // of its rank's record: of the call, or of the instruction
    int next;          // the next piece of the same row and rank; -1: none
    int peer;          // rank at the other end of a message; -1: none
    double begin, end; // as measured, in seconds from the begin of the step
} replay_part;

// What the lists of a run say. Borrowed.
typedef struct replay_lists {
    const schedule_order *order; // [stages]
    int stages;
    bool sends_wait;
    // Groups that divide the ranks of these axes: ranks of each; 0: there are none.
    mesh_axes shared_over, kept_over;
    int shared_ranks, kept_ranks;
} replay_lists;

// Which communicators and channels there are.
typedef struct replay_keys {
    lookup table;
    uint64_t *key;
    size_t count, room;
} replay_keys;

typedef struct replay_record {
    const run_view *view; // borrowed
    uint64_t step;
    mesh mesh;
    int (*coord)[AXES]; // [ranks]
    replay_lists known; // order NULL: the lists are not known
    bool apart;         // the streams of a rank run side by side
    replay_ranks x;
    replay_part *part; // [x.pieces]
    size_t piece_room, part_room, wait_room, lead_room;
    int **first_of_row;  // [ranks][rows] the first piece of a row; -1: none
    double *start, *end; // [ranks] of the step, in seconds from the first rank's begin
    double *tail;        // [ranks] seconds of the step behind the last piece
    double *gap;         // [ranks] seconds between steps, the median
    replay_keys comms, channels;
    double missed; // seconds by which pieces began before all that they wait for had ended
} replay_record;

// The optimizer step whose duration is the median of those that every rank still has. E_USAGE where there is none.
status replay_record_median_step(const run_view *v, uint64_t *step, err *e);
// Reads a step of all ranks. `known` NULL: the lists are not known. E_USAGE names a rank without a record or without the
// step, and one whose clock cannot be compared. The caller closes *out.
status replay_record_open(const run_view *v, uint64_t step, const replay_lists *known,
                          replay_record **out, err *e);
void replay_record_close(replay_record *r); // NULL allowed

// The row of a piece, and of its instruction.
const spans_row *replay_record_row(const replay_record *r, int piece);
const spans_row *replay_record_instr(const replay_record *r, int piece);
int replay_record_stage(const replay_record *r, int rank);
// The measured time of the step: the mean of its duration over ranks, in seconds.
double replay_record_seconds(const replay_record *r);
// When each rank ends the step in a replay that began at r->start: end[ranks].
void replay_record_ends(const replay_record *r, const replay_span *time, double *end);

// ---- For the files that make pieces

// Sets comm or channel of a call, of the group and the peer of its row.
status replay_record_set_call(replay_record *r, const spans_row *call, const spans_row *instr,
                              int peer, replay_piece *piece, replay_part *part, err *e);
// Adds a piece behind the others.
status replay_record_add(replay_record *r, const replay_piece *piece, const replay_part *part,
                         err *e);
status replay_record_add_wait(replay_record *r, int piece, int wait, err *e);
// Adds what the list of the rank's stage lets its pieces wait for, where streams run side by side. They are the last
// that were added, from `first` on.
status replay_record_add_waits(replay_record *r, int rank, int first, err *e);
// Links all pieces. E_USAGE names a call that does not meet its others.
status replay_record_link(replay_record *r, err *e);
// Frees what these have added to a record that borrows all else.
void replay_record_clear_made(replay_record *r);
// The median of values[count], which it sorts; 0 of none.
double replay_median(double *values, size_t count);

#endif
