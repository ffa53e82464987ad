// spans_private.h -- the inside of trainer_spans, for spans.c, which lists the rows and takes the stamps, and
// spans_fold.c, which makes spans of them.
#ifndef TRIREME_TRAIN_SPANS_PRIVATE_H
#define TRIREME_TRAIN_SPANS_PRIVATE_H

#include "train/spans/spans_rows.h"
#include "train/trainer_private.h"

// The stamps of an instruction. BEGIN stays 0 where it does not wait, ARRIVE where the step did not run it.
enum { STAMP_ARRIVE, STAMP_BEGIN, STAMP_END, STAMPS };

// A time at which the host waited.
typedef struct spans_wait {
    spans_phase phase;
    int64_t begin_ns, end_ns;
} spans_wait;

struct trainer_spans {
    int calls;          // of all instructions
    spans_instr *instr; // [instructions + 1] the last one only ends the calls
    int *order[PLACES]; // the instructions of each place
    int ordered[PLACES];
    int64_t *stamp;    // [STAMPS * instructions + 2 * calls] of MEMORY_HOST
    comm_visit *visit; // [calls]
    comm_timed pass;   // the calls of the pass that runs
    spans_wait *wait;  // [instructions] the host waits once for each, or twice for few
    int waits;
    int64_t *waited_for; // [ranks] in the step that is folded

    bool times, runs; // steps are timed; one runs now
    bool is_folded;   // the last step lies in the record
    trainer_step_result last;
    int64_t begin_ns, end_ns, gap_ns; // of the last step
    spans *record;                    // NULL: none yet
    int64_t measured_ns;              // when bytes_now was measured
    uint64_t bytes_now;
};

// The rows of the record: instructions, their calls, then these.
static inline uint32_t spans_host_row(const trainer *t, spans_kind kind)
{
    return (uint32_t)(t->schedule.count + t->spans->calls + (kind - SPANS_LOADER));
}

// The stamps of instruction i.
static inline int64_t *spans_stamps(const trainer *t, int i)
{
    return &t->spans->stamp[STAMPS * i];
}

// The two stamps of call number k of all.
static inline int64_t *spans_call_stamps(const trainer *t, int k)
{
    return &t->spans->stamp[STAMPS * t->schedule.count + 2 * k];
}

// Writes the last step into the record.
void trainer_spans_fold(trainer *t);

#endif
