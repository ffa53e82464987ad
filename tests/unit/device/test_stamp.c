// test_stamp.c -- stamps: each device writes its clock when the stream comes to it, also in a recording, and the time lies
// between those that the host has taken before and after.
#include "base/clock.h"
#include "late/late_device.h"
#include "unit/device/harness.h"
#include "unkind/unkind_device.h"

enum { SLOTS = 3 };

typedef struct rig {
    device *d;
    device_stream *compute, *copy;
    device_event *event;
    int64_t *slot; // [SLOTS]
} rig;

static rig rig_open(device *d)
{
    rig r = {.d = d};
    err e = {0};
    assert_int_equal(d->ops->stream_open(d, STREAM_COMPUTE, false, &r.compute, &e), OK);
    assert_int_equal(d->ops->stream_open(d, STREAM_COPY, true, &r.copy, &e), OK);
    assert_int_equal(d->ops->event_open(d, &r.event, &e), OK);
    assert_int_equal(device_alloc(d, MEMORY_HOST, SLOTS * sizeof *r.slot, (void **)&r.slot, &e),
                     OK);
    for (int i = 0; i < SLOTS; i++) r.slot[i] = 0;
    return r;
}

static void rig_close(rig *r)
{
    r->d->ops->event_close(r->event);
    r->d->ops->stream_close(r->compute);
    r->d->ops->stream_close(r->copy);
    device_release(r->d, MEMORY_HOST, r->slot, SLOTS * sizeof *r->slot);
    device_close(r->d);
}

static void order(const rig *r, device_stream *before, device_stream *later)
{
    r->d->ops->record(r->event, before);
    r->d->ops->wait(later, r->event);
}

// The copy stream stamps between two stamps of the compute stream.
static void stamp_in_turn(const rig *r)
{
    r->d->ops->stamp(r->compute, &r->slot[0]);
    order(r, r->compute, r->copy);
    r->d->ops->stamp(r->copy, &r->slot[1]);
    order(r, r->copy, r->compute);
    r->d->ops->stamp(r->compute, &r->slot[2]);
}

static void expect_turn(const rig *r, int64_t begin_ns)
{
    err e = {0};
    if (r->d->ops->sync(r->compute, &e) != OK) fail_msg("%s", e.text);
    const int64_t end_ns = clock_ns();
    assert_true(begin_ns <= r->slot[0]);
    assert_true(r->slot[0] <= r->slot[1]);
    assert_true(r->slot[1] <= r->slot[2]);
    assert_true(r->slot[2] <= end_ns);
}

static void check(rig r, bool is_late)
{
    const int64_t begin_ns = clock_ns();
    stamp_in_turn(&r);
    if (is_late) assert_int_equal(r.slot[0], 0);
    expect_turn(&r, begin_ns);
    rig_close(&r);
}

static device *unkind(bool stays_late)
{
    device *d;
    const unkind_options o = {.order = LATE_OTHERS_LAST, .stays_late = stays_late};
    assert_int_equal(unkind_device_open(&o, &d, NULL), OK);
    return d;
}

static void streams_stamp_in_their_order(void **state)
{
    (void)state;
    device *d;
    assert_int_equal(device_open("cpu", &(device_options){.threads = 1}, &d, NULL), OK);
    check(rig_open(d), false);
    for (late_order o = LATE_OTHERS_FIRST; o <= LATE_OTHERS_LAST; o++) {
        assert_int_equal(late_device_open(o, &(device_options){.threads = 1}, &d, NULL), OK);
        check(rig_open(d), true);
    }
    check(rig_open(unkind(true)), true);
}

static void each_replay_stamps_again(void **state)
{
    (void)state;
    rig r = rig_open(unkind(true));
    device_recording *x = NULL;
    err e = {0};
    assert_int_equal(r.d->ops->capture_begin(r.compute, &e), OK);
    stamp_in_turn(&r);
    assert_int_equal(r.d->ops->capture_end(r.compute, &x, &e), OK);
    for (int i = 0; i < 2; i++) {
        const int64_t begin_ns = clock_ns();
        assert_int_equal(r.d->ops->replay(x, r.compute, &e), OK);
        expect_turn(&r, begin_ns);
    }
    r.d->ops->recording_close(x);
    rig_close(&r);
}

static void a_stamp_needs_host_memory_of_the_device(void **state)
{
    (void)state;
    rig r = rig_open(unkind(true));
    int64_t own = 0;
    r.d->ops->stamp(r.compute, &own);
    assert_int_equal(r.d->ops->sync(r.compute, NULL), E_INTERNAL);
    assert_non_null(strstr(unkind_broken(r.d), "stamp: "));
    assert_int_equal(own, 0);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_stamp_in_their_order),
        cmocka_unit_test(each_replay_stamps_again),
        cmocka_unit_test(a_stamp_needs_host_memory_of_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
