// spans.h -- what the instructions of a training step took, for the record of this rank (base/spans.h). Around each
// instruction, and around each call that it makes, its stream writes the device's clock (device.h: stamp). After the
// step spans_fold.c makes spans of them. It owns the stamps, what the calls have met, and the times at which the host
// waited. Called by step.c and by the instructions that wait or make calls. It knows neither the record's file nor who
// reads it.
#ifndef TRIREME_TRAIN_SPANS_H
#define TRIREME_TRAIN_SPANS_H

#include "base/spans.h"
#include "comm/call.h"
#include "parallel/schedule.h"
#include "train/trainer.h"

typedef struct trainer_spans trainer_spans;

// Counts memory, or allocates it.
status trainer_spans_allocate(trainer *t, err *e);
void trainer_spans_close(trainer *t);

// A step of the training list begins.
void trainer_spans_begin_step(trainer *t);
// The step has ended as `done` says, and all streams are idle. A step without data is not recorded.
void trainer_spans_end_step(trainer *t, const trainer_step_result *done);

// Stand around the work of an instruction. From trainer_span_arrive to trainer_span_begin its stream waits for other
// streams or ranks; an instruction that does not wait leaves out the latter.
void trainer_span_arrive(trainer *t, const schedule_instr *x);
void trainer_span_begin(trainer *t, const schedule_instr *x);
void trainer_span_end(trainer *t, const schedule_instr *x);

// The calls of the instruction that runs: two stamps for each, and what each one meets. NULL: the step is not timed.
typedef struct trainer_call_spans {
    int64_t *stamp;    // [2 * calls] the begin and the end of each call
    comm_visit *visit; // [calls]
} trainer_call_spans;
trainer_call_spans trainer_spans_of_calls(trainer *t);

// The host has waited since begin_ns: for the loader (PHASE_INPUT), or for files (PHASE_COPY).
void trainer_spans_add_wait(trainer *t, spans_phase phase, int64_t begin_ns);

#endif
