// late_capture.h -- recordings of the test devices' streams, with the rules of CUDA's stream capture
// (device.h). A recording runs on streams of its own, so only the stream that replays it waits for it.
// late_queue.c calls the functions that take a capture; a device puts late_capture_begin and the next
// three in its table.
#ifndef TRIREME_TESTS_LATE_LATE_CAPTURE_H
#define TRIREME_TESTS_LATE_LATE_CAPTURE_H

#include "late/late_queue.h"

status late_capture_begin(device_stream *s, err *e);
status late_capture_end(device_stream *s, device_recording **out, err *e);
status late_replay(device_recording *r, device_stream *s, err *e);
void late_recording_close(device_recording *r);

// Records an item of the stream. False where the stream is not recorded.
bool late_capture_add(late_capture *c, late_stream *s, const late_item *i);
// The number of items of the stream that are recorded so far, or -1 where it is not recorded.
int64_t late_capture_position(const late_capture *c, const late_stream *s);
// s waits for an event, which was recorded at this position of `on`, in this capture or (not `inside`)
// elsewhere. False where neither is recorded.
bool late_capture_wait(late_capture *c, late_stream *s, late_stream *on, uint64_t position,
                       bool inside);
// Notes that `what` broke a rule: capture_end fails. c may be NULL: nothing is recorded now.
void late_capture_refuse(late_capture *c, const char *what);

#endif
