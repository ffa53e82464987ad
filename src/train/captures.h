// captures.h -- recordings of a training step, on a device that can record issued work and replay it
// (device.h). The plan's segments say what can be recorded (parallel/capture.h). The first step records
// the segment and replays it, later steps only replay it. It owns the recording and the number of the
// run (events.h).
//
// Only a step whose list ends with its one segment is recorded. A step of several segments would need
// what the host notes between them.
#ifndef TRIREME_TRAIN_CAPTURES_H
#define TRIREME_TRAIN_CAPTURES_H

#include "parallel/schedule.h"
#include "train/trainer.h"

typedef struct trainer_captures trainer_captures;

status captures_open(trainer *t, err *e);
void captures_close(trainer *t);
// Begins a run of a list: every stream is idle. Waits for that where the device can record.
status captures_begin_run(trainer *t, err *e);
uint64_t captures_run(const trainer *t);
// Whether the instructions of the list from this one on are the segment.
bool captures_begins_at(const trainer *t, const schedule *s, int number);
// Begins the segment. *records: its instructions must be issued, because they are recorded; else they are
// replayed.
status captures_begin(trainer *t, bool *records, err *e);
// Ends the list: where it is in the segment, ends the recording, and replays it. `issued` is the result
// of the instructions, after a failure of which *e stays. Returns it, or that of the segment.
status captures_end(trainer *t, status issued, err *e);

#endif
