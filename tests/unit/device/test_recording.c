// test_recording.c -- recordings of the unkind device: recorded work does not run until it is replayed, it
// reads memory when it is replayed, and only the stream that replays it waits for it. Each rule of
// device.h has its negative control: what breaks it is refused.
#include "unit/device/unkind_rig.h"

static void begin(const rig *r)
{
    err e = {0};
    if (r->d->ops->capture_begin(r->compute, &e) != OK) fail_msg("%s", e.text);
}

static device_recording *end(const rig *r)
{
    device_recording *out = NULL;
    err e = {0};
    if (r->d->ops->capture_end(r->compute, &out, &e) != OK) fail_msg("%s", e.text);
    assert_non_null(out);
    return out;
}

static void replay(const rig *r, device_recording *x)
{
    err e = {0};
    if (r->d->ops->replay(x, r->compute, &e) != OK) fail_msg("%s", e.text);
}

static void sync(const rig *r, device_stream *s)
{
    err e = {0};
    if (r->d->ops->sync(s, &e) != OK) fail_msg("%s", e.text);
}

// `later` waits for what `s` has so far.
static void order(const rig *r, device_stream *s, device_stream *later)
{
    r->d->ops->record(r->event, s);
    r->d->ops->wait(later, r->event);
}

static void add(const rig *r, float *y, const float *a, float alpha)
{
    const kernel_call call = {
        .kind = K_ADD,
        .u.add = {.count = COUNT, .a = a, .b = y, .y = y, .alpha = alpha, .beta = 1}};
    device_launch(r->compute, &call);
}

static void fill(float *host, float value)
{
    for (int i = 0; i < COUNT; i++) host[i] = value;
}

// y = 1 * x, as it is now.
static float result(const rig *r)
{
    r->d->ops->copy(r->compute, r->back, r->y, BYTES);
    sync(r, r->compute);
    assert_null(unkind_broken(r->d));
    return r->back[0];
}

// ---- What a recording does

// The copy stream takes part, and brings what the host has written before each replay.
static void test_replays_read_memory_as_it_is_then(void **state)
{
    (void)state;
    for (int o = 0; o < 2; o++) {
        rig r = rig_open((late_order)o);
        fill(r.host, 0);
        r.d->ops->copy(r.compute, r.y, r.host, BYTES);
        sync(&r, r.compute);
        begin(&r);
        order(&r, r.compute, r.copy);
        r.d->ops->copy(r.copy, r.x, r.host, BYTES);
        order(&r, r.copy, r.compute);
        add(&r, r.y, r.x, 1);
        device_recording *x = end(&r);
        assert_true(result(&r) == 0); // nothing has run
        float sum = 0;
        for (int i = 1; i <= 10; i++) {
            fill(r.host, (float)i);
            replay(&r, x);
            sum += (float)i;
            assert_true(result(&r) == sum);
        }
        r.d->ops->recording_close(x);
        rig_close(&r);
    }
}

// A number in the arguments of a kernel is that of the recording, whatever the host has then.
static void test_a_number_in_arguments_stays_as_it_was_recorded(void **state)
{
    (void)state;
    rig r = rig_open(LATE_OTHERS_FIRST);
    float lr = 0.5f;
    fill(r.host, 1);
    r.d->ops->copy(r.compute, r.x, r.host, BYTES);
    r.d->ops->copy(r.compute, r.y, r.host, BYTES);
    sync(&r, r.compute);
    begin(&r);
    add(&r, r.y, r.x, lr);
    device_recording *x = end(&r);
    lr = 100;
    replay(&r, x);
    const float first = result(&r);
    replay(&r, x);
    assert_true(result(&r) - first == first - 1 && first < lr);
    r.d->ops->recording_close(x);
    rig_close(&r);
}

// ---- What is refused

static void expect_refused(rig *r, const char *what)
{
    device_recording *out = NULL;
    err e = {0};
    assert_int_equal(r->d->ops->capture_end(r->compute, &out, &e), E_INTERNAL);
    if (!strstr(e.text, what)) fail_msg("%s", e.text);
    assert_null(out);
    rig_close(r);
}

static void test_an_event_of_before_is_not_waited_for(void **state)
{
    (void)state;
    rig r = rig_open(LATE_OTHERS_LAST);
    r.d->ops->record(r.event, r.copy);
    begin(&r);
    r.d->ops->wait(r.compute, r.event);
    expect_refused(&r, "a wait for an event that was recorded before it began");
}

static void test_nothing_is_allocated(void **state)
{
    (void)state;
    for (int host = 0; host < 2; host++) {
        rig r = rig_open(LATE_OTHERS_LAST);
        begin(&r);
        take(r.d, host ? MEMORY_HOST : MEMORY_DEVICE, BYTES);
        expect_refused(&r, "an allocation");
    }
}

static void test_the_host_waits_for_nothing(void **state)
{
    (void)state;
    rig r = rig_open(LATE_OTHERS_LAST);
    begin(&r);
    sync(&r, r.copy);
    expect_refused(&r, "a wait of the host");
    r = rig_open(LATE_OTHERS_LAST);
    r.d->ops->record(r.event, r.copy);
    begin(&r);
    r.d->ops->event_sync(r.event);
    expect_refused(&r, "a wait of the host");
}

static void test_all_streams_come_back(void **state)
{
    (void)state;
    rig r = rig_open(LATE_OTHERS_LAST);
    begin(&r);
    order(&r, r.compute, r.copy);
    r.d->ops->copy(r.copy, r.x, r.host, BYTES);
    expect_refused(&r, "work that the stream which began it does not wait for");
}

static void test_an_event_of_a_recording_ends_with_it(void **state)
{
    (void)state;
    err e = {0};
    rig r = rig_open(LATE_OTHERS_LAST);
    begin(&r);
    r.d->ops->record(r.other, r.compute);
    device_recording *x = end(&r);
    replay(&r, x);
    r.d->ops->wait(r.copy, r.other);
    assert_int_equal(r.d->ops->sync(r.copy, &e), E_INTERNAL);
    assert_non_null(strstr(e.text, "an event that was recorded in a recording"));
    sync(&r, r.compute);
    r.d->ops->recording_close(x);
    rig_close(&r);
}

// Another stream that waits for nothing runs before the replay, or beside it. Here it runs before: the replay
// follows a kernel of the compute stream, which runs when no other stream has work.
static void test_only_the_replaying_stream_waits(void **state)
{
    (void)state;
    rig r = rig_open(LATE_OTHERS_FIRST);
    fill(r.host, 3);
    r.d->ops->copy(r.compute, r.x, r.back, BYTES);
    r.d->ops->copy(r.compute, r.y, r.back, BYTES);
    sync(&r, r.compute);
    begin(&r);
    order(&r, r.compute, r.copy);
    r.d->ops->copy(r.copy, r.x, r.host, BYTES);
    order(&r, r.copy, r.compute);
    device_recording *x = end(&r);
    add(&r, r.y, r.y, 1);
    replay(&r, x);
    r.d->ops->copy(r.copy, r.back, r.x, BYTES); // does not wait for the recorded copy
    r.d->ops->record(r.event, r.copy);
    r.d->ops->wait(r.compute, r.event);
    sync(&r, r.compute);
    assert_true(r.back[0] != 3);
    r.d->ops->recording_close(x);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replays_read_memory_as_it_is_then),
        cmocka_unit_test(test_a_number_in_arguments_stays_as_it_was_recorded),
        cmocka_unit_test(test_an_event_of_before_is_not_waited_for),
        cmocka_unit_test(test_nothing_is_allocated),
        cmocka_unit_test(test_the_host_waits_for_nothing),
        cmocka_unit_test(test_all_streams_come_back),
        cmocka_unit_test(test_an_event_of_a_recording_ends_with_it),
        cmocka_unit_test(test_only_the_replaying_stream_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
