// unkind_rig.h -- an unkind device with two streams, two events and a few small arrays, for tests of what
// the device refuses. The device gives the arrays back when it is closed.
#ifndef TRIREME_TESTS_UNIT_DEVICE_UNKIND_RIG_H
#define TRIREME_TESTS_UNIT_DEVICE_UNKIND_RIG_H

#include "unit/device/harness.h"
#include "unkind/unkind_device.h"

enum { COUNT = 8, BYTES = COUNT * sizeof(float) };

typedef struct rig {
    device *d;
    device_stream *compute, *copy;
    device_event *event, *other;
    float *x, *y;       // [COUNT] device memory
    float *host, *back; // [COUNT] host memory of the device; host[i] is i
} rig;

static inline void *take(device *d, device_memory_kind kind, size_t bytes)
{
    void *p = NULL;
    err e = {0};
    if (device_alloc(d, kind, bytes, &p, &e) != OK) fail_msg("%s", e.text);
    return p;
}

static inline rig rig_open(late_order order)
{
    rig r = {0};
    err e = {0};
    if (unkind_device_open(&(unkind_options){.order = order, .stays_late = true}, &r.d, &e) != OK)
        fail_msg("%s", e.text);
    assert_int_equal(r.d->ops->stream_open(r.d, STREAM_COMPUTE, false, &r.compute, &e), OK);
    assert_int_equal(r.d->ops->stream_open(r.d, STREAM_COPY, false, &r.copy, &e), OK);
    assert_int_equal(r.d->ops->event_open(r.d, &r.event, &e), OK);
    assert_int_equal(r.d->ops->event_open(r.d, &r.other, &e), OK);
    r.x = take(r.d, MEMORY_DEVICE, BYTES);
    r.y = take(r.d, MEMORY_DEVICE, BYTES);
    r.host = take(r.d, MEMORY_HOST, BYTES);
    r.back = take(r.d, MEMORY_HOST, BYTES);
    for (int i = 0; i < COUNT; i++) r.host[i] = (float)i;
    return r;
}

static inline void rig_close(rig *r)
{
    r->d->ops->event_close(r->event);
    r->d->ops->event_close(r->other);
    r->d->ops->stream_close(r->compute);
    r->d->ops->stream_close(r->copy);
    device_close(r->d);
}

#endif
