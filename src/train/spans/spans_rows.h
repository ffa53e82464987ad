// spans_rows.h -- the rows of a rank's record (base/spans.h), from its plan, its list and its model alone: so that a step
// which was only predicted gets the rows that a run would have. spans.c and session/plan/simulated_trace.c call it. It
// knows no trainer and no times.
#ifndef TRIREME_TRAIN_SPANS_ROWS_H
#define TRIREME_TRAIN_SPANS_ROWS_H

#include "base/spans.h"
#include "model/model.h"
#include "parallel/instructions.h"

typedef struct spans_list {
    const plan *plan;
    const schedule *schedule;
    const model *model; // its training graphs
} spans_list;

// Where instructions run, one after the other: on the streams, or on the host.
enum { PLACE_HOST = STREAMS, PLACES };

typedef struct spans_instr {
    int place;         // a stream, or PLACE_HOST
    spans_phase phase; // while it runs
    int first_call;    // number of its first call among the calls of all instructions
    uint32_t messages; // that the step sends this way to this peer; 0: it is no message
    uint32_t message;  // its number among them, from 0
    instr_channel way; // the channel of its message
} spans_instr;

// out[instructions + 1]: the last one only ends the calls.
void spans_list_instrs(const spans_list *l, spans_instr *out);
// The number of a message in step `step`, from 1: the same at its other end.
uint32_t spans_message_number(const spans_instr *own, uint64_t step);
// A row for each instruction, then for each call, then those of the host. The caller frees *rows.
status spans_list_rows(const spans_list *l, spans_row **rows, uint32_t *count, err *e);

#endif
