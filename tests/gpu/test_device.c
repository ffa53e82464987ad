// test_device.c -- the cuda device on the stand-in: memory, streams, events, failures and recordings, as
// device.h promises them. test_describe.c has what is known before a device is opened, and test_lives.c
// what a trainer does on it. The stand-in runs streams late and ends the process where a rule of CUDA is
// broken, so a test that ends has broken none.
#include "base/clock.h"
#include "device/device.h"
#include "device/kernel_needs.h"
#include "nvtx3/nvToolsExt.h"
#include "runtime.h"
#include "unit/device/harness.h"

#include <pthread.h>
#include <stdlib.h>

enum { COUNT = 1000, BYTES = COUNT * sizeof(float) };

typedef struct rig {
    device *d;
    device_stream *compute, *copy;
    device_event *event;
    float *x, *y;       // [COUNT] device memory; y starts as zeros
    float *host, *back; // [COUNT] host memory of the device
} rig;

static void *take(device *d, device_memory_kind kind, size_t bytes)
{
    void *p = NULL;
    err e = {0};
    if (device_alloc(d, kind, bytes, &p, &e) != OK) fail_msg("%s", e.text);
    return p;
}

static rig rig_open(int index)
{
    rig r = {0};
    err e = {0};
    if (device_open("cuda", &(device_options){.index = index}, &r.d, &e) != OK)
        fail_msg("%s", e.text);
    assert_int_equal(r.d->ops->stream_open(r.d, STREAM_COMPUTE, false, &r.compute, &e), OK);
    assert_int_equal(r.d->ops->stream_open(r.d, STREAM_COPY, true, &r.copy, &e), OK);
    assert_int_equal(r.d->ops->event_open(r.d, &r.event, &e), OK);
    r.x = take(r.d, MEMORY_DEVICE, BYTES);
    r.y = take(r.d, MEMORY_ZEROED, BYTES);
    r.host = take(r.d, MEMORY_HOST, BYTES);
    r.back = take(r.d, MEMORY_HOST, BYTES);
    for (int i = 0; i < COUNT; i++) r.host[i] = (float)i;
    return r;
}

static void rig_close(rig *r)
{
    r->d->ops->stream_close(r->compute);
    r->d->ops->stream_close(r->copy);
    r->d->ops->event_close(r->event);
    device_release(r->d, MEMORY_DEVICE, r->x, BYTES);
    device_release(r->d, MEMORY_ZEROED, r->y, BYTES);
    device_release(r->d, MEMORY_HOST, r->host, BYTES);
    device_release(r->d, MEMORY_HOST, r->back, BYTES);
    assert_int_equal(r->d->bytes_now, r->d->bytes_scratch);
    assert_int_equal(r->d->host_bytes_now, 0);
    device_close(r->d);
}

static void sync(device_stream *s)
{
    err e = {0};
    if (s->device->ops->sync(s, &e) != OK) fail_msg("%s", e.text);
}

// y = x + y
static void add(const rig *r, device_stream *s, const float *x, float *y)
{
    (void)r;
    device_launch(s, &(kernel_call){
                         .kind = K_ADD,
                         .u.add = {.count = COUNT, .a = x, .b = y, .y = y, .alpha = 1, .beta = 1}});
}

// `later` waits for what `s` has so far.
static void order(const rig *r, device_stream *s, device_stream *later)
{
    r->d->ops->record(r->event, s);
    r->d->ops->wait(later, r->event);
}

static void expect_multiple(const rig *r, float factor)
{
    r->d->ops->copy(r->compute, r->back, r->y, BYTES);
    sync(r->compute);
    for (int i = 0; i < COUNT; i++) assert_true(r->back[i] == factor * (float)i);
}

static void test_streams_keep_their_order_and_events_order_two(void **state)
{
    (void)state;
    rig r = rig_open(0);
    assert_false(r.d->is_host_memory);
    assert_null(r.d->ops->call);
    r.d->ops->wait(r.compute, r.event); // never recorded: nothing to wait for
    r.d->ops->copy(r.copy, r.x, r.host, BYTES);
    order(&r, r.copy, r.compute);
    add(&r, r.compute, r.x, r.y);
    add(&r, r.compute, r.x, r.y);
    expect_multiple(&r, 2);
    r.d->ops->record(r.event, r.compute);
    r.d->ops->event_sync(r.event);
    rig_close(&r);
}

static void test_memory_beyond_the_device_is_refused(void **state)
{
    (void)state;
    rig r = rig_open(1);
    void *p = &r;
    err e = {0};
    const size_t before = r.d->bytes_now;
    assert_int_equal(device_alloc(r.d, MEMORY_DEVICE, (size_t)1 << 40, &p, &e), E_FIT);
    assert_null(p);
    if (!strstr(e.text, "device cuda 1 (") ||
        !strstr(e.text, "CUDA out of memory: 1099511627776 bytes asked for, ") ||
        !strstr(e.text, " free of "))
        fail_msg("%s", e.text);
    assert_int_equal(r.d->bytes_now, before);
    add(&r, r.compute, r.x, r.y); // the device goes on
    sync(r.compute);
    assert_int_equal(device_alloc(r.d, MEMORY_ZEROED, 0, &p, &e), OK);
    device_release(r.d, MEMORY_ZEROED, p, 0);
    rig_close(&r);
}

static void test_a_failure_is_kept_until_sync(void **state)
{
    (void)state;
    rig r = rig_open(0);
    err e = {0};
    kernel_call sum = {
        .kind = K_SUM_SQUARES,
        .u.sum_squares = {.count = 1 << 20, .x = r.x, .sum = (double *)r.y, .type = F32}};
    const size_t needed = kernel_workspace_bytes(r.d->needs, &sum);
    assert_true(needed > 0);
    sum.workspace_bytes = needed - 1;
    device_launch(r.compute, &sum);
    sum.workspace_bytes = 0;
    device_launch(r.compute, &sum);
    assert_int_equal(r.d->ops->sync(r.compute, &e), E_INTERNAL);
    char want[128];
    snprintf(want, sizeof want, "sum_squares: a workspace of %zu bytes; needed are %zu", needed - 1,
             needed);
    if (!strstr(e.text, want) || !strstr(e.text, "device cuda 0 (")) fail_msg("%s", e.text);
    sync(r.compute); // it was cleared
    sync(r.copy);
    rig_close(&r);
}

static void test_one_thread_uses_two_devices(void **state)
{
    (void)state;
    rig a = rig_open(0), b = rig_open(1);
    a.d->ops->copy(a.compute, a.x, a.host, BYTES);
    b.d->ops->copy(b.compute, b.x, b.host, BYTES);
    add(&b, b.compute, b.x, b.y);
    add(&a, a.compute, a.x, a.y);
    expect_multiple(&a, 1);
    expect_multiple(&b, 1);
    rig_close(&a);
    rig_close(&b);
}

// ---- Stamps

// The stand-in's clock of a GPU begins at another time than that of the host.
static void test_stamps_become_times_of_the_host(void **state)
{
    (void)state;
    rig r = rig_open(0);
    int64_t *slot = take(r.d, MEMORY_HOST, 2 * sizeof *slot);
    const int64_t begin_ns = clock_ns();
    r.d->ops->stamp(r.compute, &slot[0]);
    add(&r, r.compute, r.x, r.y);
    r.d->ops->stamp(r.compute, &slot[1]);
    sync(r.compute);
    const int64_t end_ns = clock_ns(), offset = r.d->ops->clock_offset(r.d);
    const int64_t seconds = 1000000000; // a busy machine makes the comparison of the clocks coarse
    assert_true(slot[0] <= slot[1]);
    assert_true(slot[0] + offset > begin_ns - 100 * seconds);
    assert_true(slot[1] + offset < end_ns + 100 * seconds);
    device_release(r.d, MEMORY_HOST, slot, 2 * sizeof *slot);
    rig_close(&r);
}

// ---- Ranges

static void test_ranges_have_names_and_nest(void **state)
{
    (void)state;
    rig r = rig_open(0);
    int64_t number = 0;
    const uint64_t before = stand_in_nvtx_ranges();
    r.d->ops->range_begin(r.d, "FORWARD", 3);
    assert_string_equal(stand_in_nvtx_name(&number), "FORWARD");
    assert_int_equal(number, 3);
    r.d->ops->range_begin(r.d, "REDUCE_GRAD", 0);
    assert_int_equal(stand_in_nvtx_depth(), 2);
    r.d->ops->range_end(r.d);
    assert_string_equal(stand_in_nvtx_name(&number), "FORWARD");
    r.d->ops->range_end(r.d);
    assert_int_equal(stand_in_nvtx_depth(), 0);
    assert_int_equal(stand_in_nvtx_ranges() - before, 2);
    rig_close(&r);
}

// ---- Recordings

static void *allocate(void *arg)
{
    const rig *r = arg;
    void *p = take(r->d, MEMORY_ZEROED, BYTES);
    device_release(r->d, MEMORY_ZEROED, p, BYTES);
    return NULL;
}

// Another rank of the process allocates meanwhile.
static void test_a_recording_runs_when_it_is_replayed(void **state)
{
    (void)state;
    rig r = rig_open(0), other = rig_open(1);
    device_recording *x = NULL;
    pthread_t thread;
    err e = {0};
    assert_int_equal(r.d->ops->capture_begin(r.compute, &e), OK);
    assert_int_equal(pthread_create(&thread, NULL, allocate, &other), 0);
    order(&r, r.compute, r.copy);
    r.d->ops->copy(r.copy, r.x, r.host, BYTES);
    order(&r, r.copy, r.compute);
    add(&r, r.compute, r.x, r.y);
    pthread_join(thread, NULL);
    if (r.d->ops->capture_end(r.compute, &x, &e) != OK) fail_msg("%s", e.text);
    expect_multiple(&r, 0); // nothing has run
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(r.d->ops->replay(x, r.compute, &e), OK);
        expect_multiple(&r, (float)i);
    }
    r.d->ops->recording_close(x);
    rig_close(&other);
    rig_close(&r);
}

// The priorities of the two pieces of work that were observed last.
static int observed[2], observations;
static void observe(const char *name, int priority)
{
    (void)name;
    observed[observations++ % 2] = priority;
}

// Work of a recording has the priority of the stream that it was recorded on, not of the one that replays it.
static void test_recorded_work_keeps_its_priority(void **state)
{
    (void)state;
    rig r = rig_open(0);
    device_recording *x = NULL;
    err e = {0};
    assert_int_equal(r.d->ops->capture_begin(r.compute, &e), OK);
    add(&r, r.compute, r.x, r.y);
    order(&r, r.compute, r.copy);
    add(&r, r.copy, r.x, r.y);
    order(&r, r.copy, r.compute);
    if (r.d->ops->capture_end(r.compute, &x, &e) != OK) fail_msg("%s", e.text);
    observations = 0;
    stand_in_set_observer(observe);
    assert_int_equal(r.d->ops->replay(x, r.compute, &e), OK);
    sync(r.compute);
    assert_int_equal(observations, 2);
    const int compute = observed[0], copy = observed[1];
    assert_true(copy < compute); // the smaller number comes first
    add(&r, r.compute, r.x, r.y);
    sync(r.compute);
    add(&r, r.copy, r.x, r.y);
    sync(r.copy);
    stand_in_set_observer(NULL);
    assert_int_equal(observed[0], compute);
    assert_int_equal(observed[1], copy);
    r.d->ops->recording_close(x);
    rig_close(&r);
}

typedef void (*breach)(rig *r);

static void allocates(rig *r)
{
    void *p = NULL;
    err e = {0};
    assert_int_not_equal(device_alloc(r->d, MEMORY_DEVICE, BYTES, &p, &e), OK);
}
static void waits(rig *r)
{
    err e = {0};
    assert_int_not_equal(r->d->ops->sync(r->compute, &e), OK);
}
static void forgets_a_stream(rig *r)
{
    order(r, r->compute, r->copy);
    r->d->ops->copy(r->copy, r->x, r->host, BYTES);
}

static void test_what_a_recording_may_not_hold_is_refused(void **state)
{
    (void)state;
    static const breach all[] = {allocates, waits, forgets_a_stream};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        rig r = rig_open(0);
        device_recording *x = (device_recording *)&r;
        err e = {0};
        assert_int_equal(r.d->ops->capture_begin(r.compute, &e), OK);
        add(&r, r.compute, r.x, r.y);
        all[i](&r);
        assert_int_equal(r.d->ops->capture_end(r.compute, &x, &e), E_INTERNAL);
        assert_null(x);
        if (!strstr(e.text, "captur")) fail_msg("breach %zu: %s", i, e.text);
        r.d->ops->copy(r.compute, r.x, r.host, BYTES); // the stream goes on
        add(&r, r.compute, r.x, r.y);
        expect_multiple(&r, 1);
        rig_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_keep_their_order_and_events_order_two),
        cmocka_unit_test(test_memory_beyond_the_device_is_refused),
        cmocka_unit_test(test_a_failure_is_kept_until_sync),
        cmocka_unit_test(test_one_thread_uses_two_devices),
        cmocka_unit_test(test_stamps_become_times_of_the_host),
        cmocka_unit_test(test_ranges_have_names_and_nest),
        cmocka_unit_test(test_a_recording_runs_when_it_is_replayed),
        cmocka_unit_test(test_recorded_work_keeps_its_priority),
        cmocka_unit_test(test_what_a_recording_may_not_hold_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
