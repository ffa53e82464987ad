// replay_ranks.h -- replays a step of all ranks: computes when each piece of the work begins and ends, from how long
// each takes and what it waits for. Pieces are plain data: measured ones give the measured step, changed ones say what
// the step would be.
//
// A piece is an instruction, or a part of one: what it computes before a call, the call, and so on. A piece begins
// when the one before it in its thread and the pieces that it waits for have ended, and its lag is over. A collective
// ends on no rank before all its members have come. A receive ends after its message was sent. The waits are
// computed, never taken over.
//
// monitor/replay/ makes the pieces of a recorded step, and session/ those of another schedule. It knows no list and no
// file.
#ifndef TRIREME_PARALLEL_REPLAY_RANKS_H
#define TRIREME_PARALLEL_REPLAY_RANKS_H

#include "base/err.h"

#include <stdbool.h>

typedef struct replay_piece {
    int rank, thread; // below REPLAY_THREADS; the pieces of a thread run in the order of the array
    double lag;       // seconds from the end of what it waits for to its begin: the host's
    // It takes so many seconds: a collective from when the last member has come, a receive from when its message was
    // sent or it began.
    double seconds;
    int comm;    // of a collective: the ranks that make it, and their order, from 0; -1: none
    int channel; // of a message: between two ranks, first in, first out; -1: none
    bool sends;  // the message; else it receives it
    bool leaves; // a collective: it does not wait for the members that come later
    int first_wait, waits; // in `wait` of the step: pieces of this rank that it waits for
} replay_piece;

enum { REPLAY_THREADS = 4 };

// How pieces hang together. replay_ranks_link makes it; it stays right when only seconds and lags change.
typedef struct replay_links {
    int *before;  // [pieces] the one before it in its thread; -1: none
    int *meeting; // [pieces] its collective, or its message where sends wait; -1: none
    int *members; // [meetings] pieces
    int *other;   // [pieces] the other end of a message that its receiver alone waits for; -1: none
    int *first,
        *after; // first[p] … first[p + 1] - 1 are the places in `after` of those that wait for piece p
    int meetings;
} replay_links;

typedef struct replay_ranks {
    int ranks, comms, channels;
    bool sends_wait;     // a send is over when its receive is
    replay_piece *piece; // [pieces]
    int pieces;
    int *wait;    // [waits] pieces
    double *lead; // [waits] a piece is waited for until so many seconds before its end
    int waits;
    replay_links links;
} replay_ranks;

typedef struct replay_span {
    double begin, end; // seconds
    double met;        // from when it takes its seconds: `begin` where it waited for nobody
    int cause; // the piece whose end it began after; -1: it is the first one of its thread, and waits for none
    int last; // the piece that it then waited for: of the last member, or the send; -1: none
} replay_span;

// Finds what each piece waits for. E_USAGE where the members of a collective make it a different number of times, or a
// message lacks an end; *piece (NULL allowed) is then one of them, else -1. E_MEMORY.
status replay_ranks_link(replay_ranks *x, int *piece, err *e);
// Frees the links alone.
void replay_ranks_unlink(replay_ranks *x);
// Fills out[pieces]. start[r] is when rank r begins. E_USAGE where pieces wait for each other in a circle: *piece (NULL
// allowed) is one of them.
status replay_ranks_run(const replay_ranks *x, const double *start, replay_span *out, int *piece,
                        err *e);
// The end of each rank's last piece, or its start: end[ranks].
void replay_ranks_ends(const replay_ranks *x, const double *start, const replay_span *time,
                       double *end);
// The seconds from step to step where this step is repeated, each rank beginning gap[r] seconds after its end. They do
// not depend on how the first one began. `time` is [pieces], overwritten.
status replay_ranks_period(const replay_ranks *x, const double *gap, replay_span *time,
                           double *seconds, err *e);

#endif
