// test_late.c -- the late device runs nothing before it must, keeps the order that events demand,
// and turns a missing wait for an event into a wrong result. It is the negative control of every
// test that passes on the late device.
#include "late/late_device.h"
#include "unit/device/harness.h"

#include <pthread.h>

enum { COUNT = 8 };

typedef struct rig {
    device *d;
    device_stream *compute, *copy;
    device_event *ready;
    float *x, *y;
} rig;

static rig rig_open(late_order order)
{
    rig r = {0};
    err e = {0};
    if (late_device_open(order, &(device_options){.threads = 1}, &r.d, &e) != OK)
        fail_msg("%s", e.text);
    assert_int_equal(r.d->ops->stream_open(r.d, STREAM_COMPUTE, false, &r.compute, &e), OK);
    assert_int_equal(r.d->ops->stream_open(r.d, STREAM_COPY, false, &r.copy, &e), OK);
    assert_int_equal(r.d->ops->event_open(r.d, &r.ready, &e), OK);
    assert_int_equal(device_alloc(r.d, MEMORY_DEVICE, sizeof(float) * COUNT, (void **)&r.x, &e),
                     OK);
    assert_int_equal(device_alloc(r.d, MEMORY_DEVICE, sizeof(float) * COUNT, (void **)&r.y, &e),
                     OK);
    return r;
}

static void rig_close(rig *r)
{
    r->d->ops->event_close(r->ready);
    r->d->ops->stream_close(r->compute);
    r->d->ops->stream_close(r->copy);
    device_release(r->d, MEMORY_DEVICE, r->x, sizeof(float) * COUNT);
    device_release(r->d, MEMORY_DEVICE, r->y, sizeof(float) * COUNT);
    device_close(r->d);
}

static kernel_call twice(const float *a, float *y)
{
    return (kernel_call){.kind = K_ADD, .u.add = {.count = COUNT, .a = a, .y = y, .alpha = 2}};
}

static const float ones[COUNT] = {1, 1, 1, 1, 1, 1, 1, 1};
static const float fives[COUNT] = {5, 5, 5, 5, 5, 5, 5, 5};

// The copy stream brings x, and the compute stream doubles it. Returns the result, with or without
// the wait.
static float read_after_copy(late_order order, bool with_wait)
{
    rig r = rig_open(order);
    r.d->ops->copy(r.copy, r.x, ones, sizeof ones);
    r.d->ops->record(r.ready, r.copy);
    if (with_wait) r.d->ops->wait(r.compute, r.ready);
    kernel_call call = twice(r.x, r.y);
    device_launch(r.compute, &call);
    assert_int_equal(r.d->ops->sync(r.compute, NULL), OK);
    float y = r.y[3];
    rig_close(&r);
    return y;
}

static void reading_too_early_gives_a_wrong_result(void **state)
{
    (void)state;
    assert_true(read_after_copy(LATE_OTHERS_LAST, true) == 2);
    assert_true(read_after_copy(LATE_OTHERS_FIRST, true) == 2);
    assert_true(isnan(read_after_copy(LATE_OTHERS_LAST, false)));
}

// The compute stream doubles x. Then the copy stream overwrites x.
static float overwrite_after_read(late_order order, bool with_wait)
{
    rig r = rig_open(order);
    kernel_call call = twice(r.x, r.y);
    r.d->ops->copy(r.compute, r.x, ones, sizeof ones);
    r.d->ops->record(r.ready, r.compute);
    r.d->ops->wait(r.copy, r.ready); // after the first copy
    device_launch(r.compute, &call);
    r.d->ops->record(r.ready, r.compute);
    if (with_wait) r.d->ops->wait(r.copy, r.ready);
    r.d->ops->copy(r.copy, r.x, fives, sizeof fives);
    assert_int_equal(r.d->ops->sync(r.compute, NULL), OK);
    float y = r.y[3];
    assert_int_equal(r.d->ops->sync(r.copy, NULL), OK);
    assert_true(r.x[0] == 5);
    rig_close(&r);
    return y;
}

static void overwriting_too_early_gives_a_wrong_result(void **state)
{
    (void)state;
    assert_true(overwrite_after_read(LATE_OTHERS_FIRST, true) == 2);
    assert_true(overwrite_after_read(LATE_OTHERS_LAST, true) == 2);
    assert_true(overwrite_after_read(LATE_OTHERS_FIRST, false) == 10);
}

static void nothing_runs_before_the_host_waits_and_arguments_are_copies(void **state)
{
    (void)state;
    rig r = rig_open(LATE_OTHERS_FIRST);
    kernel_call call = twice(ones, r.y);
    device_launch(r.compute, &call);
    memset(&call, 0, sizeof call);
    struct timespec moment = {.tv_nsec = 20000000};
    nanosleep(&moment, NULL);
    assert_true(isnan(r.y[0]));
    r.d->ops->record(r.ready, r.compute);
    kernel_call more = twice(r.y, r.x);
    device_launch(r.compute, &more);
    r.d->ops->event_sync(r.ready);
    assert_true(r.y[0] == 2);
    assert_true(isnan(r.x[0])); // issued after the record, so it has not run
    assert_int_equal(r.d->ops->sync(r.compute, NULL), OK);
    assert_true(r.x[0] == 4);
    rig_close(&r);
}

static status refuse(void *arg, err *e)
{
    return err_set(e, E_PEER, "rank %d is lost", *(int *)arg);
}

static void a_failure_is_returned_by_the_next_sync_of_its_stream(void **state)
{
    (void)state;
    rig r = rig_open(LATE_OTHERS_LAST);
    int rank = 7;
    err e = {0};
    r.d->ops->call(r.copy, refuse, &rank, sizeof rank);
    rank = 8;
    assert_int_equal(r.d->ops->sync(r.compute, &e), OK);
    assert_int_equal(r.d->ops->sync(r.copy, &e), E_PEER);
    assert_string_equal(e.text, "rank 7 is lost");
    assert_int_equal(r.d->ops->sync(r.copy, &e), OK);
    rig_close(&r);
}

// A rank whose copy stream waits for its peer in a barrier while its compute stream goes on.
static status meet(void *arg, err *e)
{
    (void)e;
    pthread_barrier_t *barrier;
    memcpy(&barrier, arg, sizeof barrier);
    pthread_barrier_wait(barrier);
    return OK;
}

static pthread_barrier_t crossing[2];

static void *rank_main(void *arg)
{
    int rank = *(int *)arg;
    rig r = rig_open(LATE_OTHERS_FIRST);
    pthread_barrier_t *first = &crossing[rank], *second = &crossing[!rank];
    // The compute stream of each rank has the call that the other rank's copy stream waits for.
    r.d->ops->call(r.copy, meet, &first, sizeof first);
    r.d->ops->call(r.compute, meet, &second, sizeof second);
    status code = r.d->ops->sync(r.compute, NULL);
    rig_close(&r);
    return code == OK ? arg : NULL;
}

static void a_blocked_call_does_not_delay_other_streams(void **state)
{
    (void)state;
    pthread_t threads[2];
    int ranks[2] = {0, 1};
    for (int i = 0; i < 2; i++) pthread_barrier_init(&crossing[i], NULL, 2);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, rank_main, &ranks[i]);
    for (int i = 0; i < 2; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        assert_non_null(result);
    }
    for (int i = 0; i < 2; i++) pthread_barrier_destroy(&crossing[i]);
}

// Many kernels over three streams, ordered by events alone, give what the cpu device gives.
static float long_chain(device *d)
{
    device_stream *s[STREAMS];
    device_event *v;
    float *x;
    for (device_stream_kind k = 0; k < STREAMS; k++)
        assert_int_equal(d->ops->stream_open(d, k, false, &s[k], NULL), OK);
    assert_int_equal(d->ops->event_open(d, &v, NULL), OK);
    assert_int_equal(device_alloc(d, MEMORY_DEVICE, sizeof ones, (void **)&x, NULL), OK);
    d->ops->copy(s[0], x, ones, sizeof ones);
    for (int i = 0; i < 200; i++) {
        kernel_call call = {
            .kind = K_ADD,
            .u.add = {
                .count = COUNT, .a = x, .b = fives, .y = x, .alpha = 0.5f, .beta = (float)(i % 7)}};
        d->ops->record(v, s[i % STREAMS]);
        d->ops->wait(s[(i + 1) % STREAMS], v);
        device_launch(s[(i + 1) % STREAMS], &call);
    }
    assert_int_equal(d->ops->sync(s[200 % STREAMS], NULL), OK);
    float result = x[5];
    for (device_stream_kind k = 0; k < STREAMS; k++) d->ops->stream_close(s[k]);
    d->ops->event_close(v);
    device_release(d, MEMORY_DEVICE, x, sizeof ones);
    device_close(d);
    return result;
}

static void a_long_chain_of_events_gives_the_same_bits(void **state)
{
    (void)state;
    device *d[3];
    device_options one = {.threads = 1};
    assert_int_equal(device_open("cpu", &one, &d[0], NULL), OK);
    assert_int_equal(late_device_open(LATE_OTHERS_FIRST, &one, &d[1], NULL), OK);
    assert_int_equal(late_device_open(LATE_OTHERS_LAST, &one, &d[2], NULL), OK);
    float expected = long_chain(d[0]);
    assert_true(long_chain(d[1]) == expected);
    assert_true(long_chain(d[2]) == expected);
}

// Where host and device are two memories, each kind of memory is counted by itself, and only the
// device's is limited.
static void two_memories_are_counted_apart(void **state)
{
    (void)state;
    device *d = NULL;
    void *here = NULL, *there = NULL, *more = NULL;
    err e = {0};
    assert_int_equal(late_device_open(LATE_OTHERS_FIRST, NULL, &d, &e), OK);
    assert_true(d->is_host_memory);
    late_device_separate(d, 1000);
    assert_false(d->is_host_memory);
    assert_int_equal(device_alloc(d, MEMORY_ZEROED, 600, &there, &e), OK);
    assert_int_equal(device_alloc(d, MEMORY_HOST, 5000, &here, &e), OK);
    assert_int_equal(d->bytes_now, 600);
    assert_int_equal(d->host_bytes_now, 5000);
    assert_int_equal(device_alloc(d, MEMORY_DEVICE, 401, &more, &e), E_FIT);
    assert_non_null(strstr(e.text, "600 of 1000"));
    assert_int_equal(device_alloc(d, MEMORY_DEVICE, 400, &more, &e), OK);
    device_release(d, MEMORY_DEVICE, more, 400);
    device_release(d, MEMORY_ZEROED, there, 600);
    device_release(d, MEMORY_HOST, here, 5000);
    assert_true(d->bytes_now == 0 && d->host_bytes_now == 0);
    assert_true(d->bytes_peak == 1000 && d->host_bytes_peak == 5000);
    device_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_too_early_gives_a_wrong_result),
        cmocka_unit_test(overwriting_too_early_gives_a_wrong_result),
        cmocka_unit_test(nothing_runs_before_the_host_waits_and_arguments_are_copies),
        cmocka_unit_test(a_failure_is_returned_by_the_next_sync_of_its_stream),
        cmocka_unit_test(a_blocked_call_does_not_delay_other_streams),
        cmocka_unit_test(a_long_chain_of_events_gives_the_same_bits),
        cmocka_unit_test(two_memories_are_counted_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
