// events.h -- events that later work waits for, of one run of a list. Everything that was issued before
// a run began is over when it begins, so an event of an earlier run is not waited for. Inside of a
// recording it must not be (device.h). captures.c counts the runs.
#ifndef TRIREME_TRAIN_EVENTS_H
#define TRIREME_TRAIN_EVENTS_H

#include "device/device.h"
#include "train/trainer.h"

typedef struct trainer_event {
    device_event *event;
    uint64_t run; // in which it was recorded last; 0: in none
} trainer_event;

status trainer_event_open(trainer *t, trainer_event *out, err *e);
void trainer_event_close(const trainer *t, trainer_event *v);
void trainer_record(const trainer *t, trainer_event *v, device_stream *on);
// Makes the stream wait for the event's last record, if that is of this run.
void trainer_wait(const trainer *t, device_stream *on, const trainer_event *v);

#endif
