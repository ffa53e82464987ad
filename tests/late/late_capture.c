// late_capture.c -- see late_capture.h. The host's thread calls it. It does not know what the work does.
#include "late/late_capture.h"

#include <stdlib.h>

enum { MOST_STREAMS = 8 };

typedef struct captured_item {
    int stream;     // of late_capture.streams
    late_item item; // a wait has no stream, and a position from the begin of the recording
    int waits_for;  // LATE_WAIT: the other stream
} captured_item;

struct late_capture {
    device_recording base;              // after capture_end
    late_stream *streams[MOST_STREAMS]; // the first is the one that began
    uint64_t issued[MOST_STREAMS];
    uint64_t joined[MOST_STREAMS]; // of the stream's items, those that the first stream waits for
    int count;
    captured_item *items;
    size_t items_count, room;
    err broken;                           // code OK: no rule
    device_stream *replays[MOST_STREAMS]; // on which the items run
};

static int index_of(const late_capture *c, const late_stream *s)
{
    for (int i = 0; c && i < c->count; i++)
        if (c->streams[i] == s) return i;
    return -1;
}

void late_capture_refuse(late_capture *c, const char *what)
{
    if (c && c->broken.code == OK)
        c->broken.code = err_set(&c->broken, E_INTERNAL, "a recording may not hold %s", what);
}

static void add(late_capture *c, int stream, const late_item *i, int waits_for)
{
    if (c->items_count == c->room) {
        c->room = c->room ? 2 * c->room : 64;
        captured_item *more = realloc(c->items, c->room * sizeof *more);
        if (!more) abort(); // a device for tests has no way to report it
        c->items = more;
    }
    c->items[c->items_count++] = (captured_item){stream, *i, waits_for};
    c->issued[stream]++;
}

bool late_capture_add(late_capture *c, late_stream *s, const late_item *i)
{
    const int stream = index_of(c, s);
    if (stream < 0) return false;
    add(c, stream, i, -1);
    return true;
}

int64_t late_capture_position(const late_capture *c, const late_stream *s)
{
    const int stream = index_of(c, s);
    return stream < 0 ? -1 : (int64_t)c->issued[stream];
}

bool late_capture_wait(late_capture *c, late_stream *s, late_stream *on, uint64_t position,
                       bool inside)
{
    int stream = index_of(c, s);
    if (!inside) {
        if (stream >= 0)
            late_capture_refuse(c, "a wait for an event that was recorded before it began");
        return stream >= 0;
    }
    if (stream < 0) {
        if (c->count == MOST_STREAMS) abort();
        stream = c->count++;
        c->streams[stream] = s;
    }
    const int other = index_of(c, on);
    if (stream == 0 && c->joined[other] < position) c->joined[other] = position;
    add(c, stream, &(late_item){.kind = LATE_WAIT, .u.wait.position = position}, other);
    return true;
}

// ---- The functions of device_ops

status late_capture_begin(device_stream *s, err *e)
{
    late_queues *q = (late_queues *)s->device;
    if (q->capture) return err_set(e, E_INTERNAL, "a recording is under way");
    late_capture *c = calloc(1, sizeof *c);
    if (!c) return err_set(e, E_FIT, "out of memory for a recording");
    c->base.device = s->device;
    c->streams[c->count++] = (late_stream *)s;
    q->capture = c;
    q->captures++;
    return OK;
}

status late_capture_end(device_stream *s, device_recording **out, err *e)
{
    status result = OK;
    late_queues *q = (late_queues *)s->device;
    late_capture *c = q->capture;
    *out = NULL;
    q->capture = NULL; // the streams that follow are opened outside of it
    if (!c || c->streams[0] != (late_stream *)s) FAIL(E_INTERNAL, "this stream began no recording");
    for (int i = 1; i < c->count; i++)
        if (c->joined[i] < c->issued[i])
            late_capture_refuse(c, "work that the stream which began it does not wait for");
    if (c->broken.code != OK) {
        *e = c->broken;
        result = c->broken.code;
        goto done;
    }
    for (int i = 0; i < c->count; i++)
        TRY(late_stream_open(s->device, s->kind, true, &c->replays[i], e));
    *out = &c->base;
    c = NULL;
done:
    if (c) late_recording_close(&c->base);
    return result;
}

status late_replay(device_recording *r, device_stream *s, err *e)
{
    (void)e;
    const late_capture *c = (const late_capture *)r;
    uint64_t first[MOST_STREAMS];
    for (int i = 0; i < c->count; i++) {
        late_report(c->replays[i], s);
        late_follow(c->replays[i], s);
        first[i] = late_issued(c->replays[i]);
    }
    for (size_t i = 0; i < c->items_count; i++) {
        const captured_item *x = &c->items[i];
        late_item item = x->item;
        if (x->waits_for >= 0)
            item.u.wait = (__typeof__(item.u.wait)){(late_stream *)c->replays[x->waits_for],
                                                    first[x->waits_for] + item.u.wait.position};
        late_issue(c->replays[x->stream], &item);
    }
    for (int i = 0; i < c->count; i++) late_follow(s, c->replays[i]);
    return OK;
}

void late_recording_close(device_recording *r)
{
    late_capture *c = (late_capture *)r;
    if (!c) return;
    for (int i = 0; i < c->count; i++) late_stream_close(c->replays[i]);
    free(c->items);
    free(c);
}
