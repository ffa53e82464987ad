// captures.c -- see captures.h and events.h. Called by step.c. It knows no kind of instruction.
#include "train/captures.h"

#include "comm/recorder.h"
#include "parallel/capture.h"
#include "train/trainer_private.h"

// How the instructions of the segment run, from captures_begin to captures_end.
typedef enum captures_state { OUTSIDE, RECORDS, REPLAYS } captures_state;

struct trainer_captures {
    captures_state state;
    uint64_t run;
    int first; // the instruction from which the training list is replayed; -1: the device replays nothing
    device_recording *recording; // NULL: not recorded yet
    uint64_t rows;               // batches_labelled_rows of the step that was recorded
};

// ---- Runs and events

uint64_t captures_run(const trainer *t)
{
    return t->captures->run;
}

status captures_begin_run(trainer *t, err *e)
{
    if (!trainer_ops(t)->capture_begin) return OK;
    t->captures->run++;
    return groups_sync(t->groups, e);
}

status trainer_event_open(trainer *t, trainer_event *out, err *e)
{
    return trainer_ops(t)->event_open(t->o.device, &out->event, e);
}

void trainer_event_close(const trainer *t, trainer_event *v)
{
    trainer_ops(t)->event_close(v->event);
}

void trainer_record(const trainer *t, trainer_event *v, device_stream *on)
{
    trainer_ops(t)->record(v->event, on);
    v->run = captures_run(t);
}

void trainer_wait(const trainer *t, device_stream *on, const trainer_event *v)
{
    if (v->run == captures_run(t)) trainer_ops(t)->wait(on, v->event);
}

// ---- Opening

// The first instruction of the list's only segment, if the list ends with it; else -1.
static int only_segment(const capture_segments *c)
{
    return c->count == 1 && !c->items[0].why ? c->items[0].first : -1;
}

status captures_open(trainer *t, err *e)
{
    status result = OK;
    capture_segments segments = {.count = 0};
    TRY(trainer_object(&t->captures, sizeof *t->captures, e));
    t->captures->run = 1;
    t->captures->first = -1;
    if (!trainer_ops(t)->capture_begin || t->o.checks.issues_every_step) goto done;
    TRY(capture_divide(t->plan, &t->schedule, t->o.comm->can.can_be_recorded, &segments, e));
    t->captures->first = only_segment(&segments);
done:
    capture_clear(&segments);
    return result;
}

void captures_close(trainer *t)
{
    if (t->captures && t->captures->recording)
        trainer_ops(t)->recording_close(t->captures->recording);
    free(t->captures);
}

// ---- A step

// A step whose loss has another number of rows, and a repetition that looks for a NaN or Inf, do other work, and a program that takes a step in parts or reduces
// gradients does work between instructions, so these are issued.
bool captures_begins_at(const trainer *t, const schedule *s, int number)
{
    return s == &t->schedule && number == t->captures->first && !t->pass.inspects &&
           !t->parts.open && !t->hook.run &&
           (!t->captures->recording || t->captures->rows == batches_labelled_rows(t));
}

// Between an instruction outside of the segment and one in it, all streams meet. Then no event of before
// is waited for in the segment, and no event of the segment after it. All streams take part in the
// recording, which begins and ends on the compute stream.
status captures_begin(trainer *t, bool *records, err *e)
{
    status result = OK;
    trainer_captures *c = t->captures;
    trainer_order(t, STREAM_COMM, STREAM_COMPUTE);
    trainer_order(t, STREAM_COPY, STREAM_COMPUTE);
    c->run++;
    *records = !c->recording;
    if (*records) c->rows = batches_labelled_rows(t);
    if (*records) {
        TRY(trainer_ops(t)->capture_begin(trainer_stream(t, STREAM_COMPUTE), e));
        comm_recorder_begin_capture(t->o.comm);
        trainer_order(t, STREAM_COMPUTE, STREAM_COMM);
        trainer_order(t, STREAM_COMPUTE, STREAM_COPY);
    } else {
        comm_recorder_replay(t->o.comm);
    }
    c->state = *records ? RECORDS : REPLAYS;
done:
    return result;
}

static status end_recording(trainer *t, err *e)
{
    comm_recorder_end_capture(t->o.comm);
    trainer_order(t, STREAM_COMM, STREAM_COMPUTE);
    trainer_order(t, STREAM_COPY, STREAM_COMPUTE);
    return trainer_ops(t)->capture_end(trainer_stream(t, STREAM_COMPUTE), &t->captures->recording,
                                       e);
}

status captures_end(trainer *t, status issued, err *e)
{
    status result = issued;
    trainer_captures *c = t->captures;
    const bool records = c->state == RECORDS, in_segment = c->state != OUTSIDE;
    c->state = OUTSIDE;
    if (records) {
        err later = {0};
        const status ended = end_recording(t, &later);
        if (issued == OK && ended != OK) *e = later;
        if (issued == OK) result = ended;
    }
    if (!in_segment || result != OK) return result;
    c->run++;
    TRY(trainer_ops(t)->replay(c->recording, trainer_stream(t, STREAM_COMPUTE), e));
    trainer_order(t, STREAM_COMPUTE, STREAM_COMM);
    trainer_order(t, STREAM_COMPUTE, STREAM_COPY);
done:
    return result;
}
