// test_queue.c -- streams of the cpu device that have a thread of their own: order, events, failures,
// a full queue, closing, and that work which blocks does not delay the other streams. Inline streams
// stand beside them, as in a trainer.
#include "unit/device/harness.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 8 };

typedef struct rig {
    device *d;
    device_stream *inline_stream, *comm, *copy; // the last two have their own threads
    device_event *event;
    float *x, *y;
} rig;

static rig rig_open(void)
{
    rig r = {0};
    err e = {0};
    alarm(200); // a stream that waits for ever ends the test
    if (device_open("cpu", &(device_options){.threads = 1}, &r.d, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(r.d->ops->stream_open(r.d, STREAM_COMPUTE, false, &r.inline_stream, &e), OK);
    assert_int_equal(r.d->ops->stream_open(r.d, STREAM_COMM, true, &r.comm, &e), OK);
    assert_int_equal(r.d->ops->stream_open(r.d, STREAM_COPY, true, &r.copy, &e), OK);
    assert_int_equal(r.d->ops->event_open(r.d, &r.event, &e), OK);
    const size_t bytes = sizeof(float) * COUNT;
    assert_int_equal(device_alloc(r.d, MEMORY_ZEROED, bytes, (void **)&r.x, &e), OK);
    assert_int_equal(device_alloc(r.d, MEMORY_ZEROED, bytes, (void **)&r.y, &e), OK);
    return r;
}

static void rig_close(rig *r)
{
    r->d->ops->event_close(r->event);
    r->d->ops->stream_close(r->inline_stream);
    r->d->ops->stream_close(r->comm);
    r->d->ops->stream_close(r->copy);
    device_release(r->d, MEMORY_ZEROED, r->x, sizeof(float) * COUNT);
    device_release(r->d, MEMORY_ZEROED, r->y, sizeof(float) * COUNT);
    device_close(r->d);
}

// A door that the test opens. Work that is called at the door blocks until then.
static atomic_bool door;

static status wait_at_door(void *arg, err *e)
{
    (void)arg, (void)e;
    while (!atomic_load(&door)) sched_yield();
    return OK;
}

static void close_door(const rig *r, device_stream *s)
{
    atomic_store(&door, false);
    r->d->ops->call(s, wait_at_door, NULL, 0);
}

// y = y + 1, as a kernel of stream s.
static void add_one(device_stream *s, float *y)
{
    static const float ones[COUNT] = {1, 1, 1, 1, 1, 1, 1, 1};
    const kernel_call c = {
        .kind = K_ADD,
        .u = {.add = {.count = COUNT, .a = y, .b = ones, .y = y, .alpha = 1, .beta = 1}}};
    device_launch(s, &c);
}

static void blocked_work_does_not_delay_the_host_or_the_other_streams(void **state)
{
    (void)state;
    rig r = rig_open();
    close_door(&r, r.comm);
    add_one(r.comm, r.x);
    add_one(r.inline_stream, r.y);
    assert_true(r.y[0] == 1);
    add_one(r.copy, r.y);
    assert_int_equal(r.d->ops->sync(r.copy, NULL), OK);
    assert_true(r.y[0] == 2);
    assert_true(r.x[0] == 0);
    atomic_store(&door, true);
    assert_int_equal(r.d->ops->sync(r.comm, NULL), OK);
    assert_true(r.x[0] == 1);
    rig_close(&r);
}

static void arguments_are_copies(void **state)
{
    (void)state;
    rig r = rig_open();
    float from[COUNT] = {3, 3, 3, 3, 3, 3, 3, 3};
    close_door(&r, r.comm);
    kernel_call c = {.kind = K_ADD, .u.add = {.count = COUNT, .a = from, .y = r.x, .alpha = 2}};
    device_launch(r.comm, &c);
    memset(&c, 0, sizeof c);
    r.d->ops->copy(r.comm, r.y, from, sizeof from);
    atomic_store(&door, true);
    assert_int_equal(r.d->ops->sync(r.comm, NULL), OK);
    assert_true(r.x[COUNT - 1] == 6 && r.y[COUNT - 1] == 3);
    rig_close(&r);
}

static status refuse(void *arg, err *e)
{
    return err_set(e, E_PEER, "rank %d is lost", *(int *)arg);
}

static void a_failure_is_kept_for_the_next_sync_of_its_stream(void **state)
{
    (void)state;
    rig r = rig_open();
    err e = {0};
    int rank = 3;
    r.d->ops->call(r.comm, refuse, &rank, sizeof rank);
    rank = 4;
    r.d->ops->call(r.comm, refuse, &rank, sizeof rank);
    add_one(r.comm, r.x);
    r.d->ops->record(r.event, r.comm);
    r.d->ops->event_sync(r.event); // complete, in spite of the failure
    assert_true(r.x[0] == 1);
    assert_int_equal(r.d->ops->sync(r.copy, &e), OK);
    assert_int_equal(r.d->ops->sync(r.inline_stream, &e), OK);
    assert_int_equal(r.d->ops->sync(r.comm, &e), E_PEER);
    assert_string_equal(e.text, "rank 3 is lost");
    assert_int_equal(r.d->ops->sync(r.comm, &e), OK);
    rig_close(&r);
}

// ---- Events

typedef struct reader {
    const rig *r;
    device_stream *on;
    float seen; // x when the stream came to the call
} reader;

static status read_x(void *arg, err *e)
{
    (void)e;
    reader *to;
    memcpy(&to, arg, sizeof to);
    to->seen = to->r->x[0];
    return OK;
}

static void *open_door_later(void *arg)
{
    (void)arg;
    const struct timespec moment = {.tv_nsec = 20000000};
    nanosleep(&moment, NULL);
    atomic_store(&door, true);
    return NULL;
}

// Stream `before` adds one to x behind the door, and stream `later` reads x. Without the wait, a
// stream with its own thread reads it before the door opens. An inline stream needs a thread that
// opens the door, because its wait blocks the host.
static float read_after(bool later_is_inline, bool with_wait)
{
    rig r = rig_open();
    pthread_t opener;
    reader x = {.r = &r, .on = later_is_inline ? r.inline_stream : r.copy};
    const reader *arg = &x;
    close_door(&r, r.comm);
    add_one(r.comm, r.x);
    r.d->ops->record(r.event, r.comm);
    if (with_wait) pthread_create(&opener, NULL, open_door_later, NULL);
    if (with_wait) r.d->ops->wait(x.on, r.event);
    r.d->ops->call(x.on, read_x, &arg, sizeof arg);
    assert_int_equal(r.d->ops->sync(x.on, NULL), OK);
    if (with_wait)
        pthread_join(opener, NULL);
    else
        atomic_store(&door, true);
    rig_close(&r);
    return x.seen;
}

static void a_stream_waits_for_an_event_of_another(void **state)
{
    (void)state;
    assert_true(read_after(true, true) == 1);
    assert_true(read_after(false, true) == 1);
    assert_true(read_after(true, false) == 0); // the wait is what orders them
    assert_true(read_after(false, false) == 0);
}

static void an_event_is_of_its_latest_record(void **state)
{
    (void)state;
    rig r = rig_open();
    r.d->ops->wait(r.comm, r.event); // never recorded: nothing is waited for
    r.d->ops->event_sync(r.event);
    add_one(r.comm, r.x);
    r.d->ops->record(r.event, r.comm);
    close_door(&r, r.comm);
    add_one(r.comm, r.x);
    r.d->ops->event_sync(r.event); // work that was added after the record is not waited for
    assert_true(r.x[0] == 1);
    r.d->ops->record(r.event, r.comm);
    r.d->ops->record(r.event, r.inline_stream); // complete at once
    r.d->ops->event_sync(r.event);
    r.d->ops->wait(r.copy, r.event);
    assert_int_equal(r.d->ops->sync(r.copy, NULL), OK);
    r.d->ops->record(r.event, r.comm);
    r.d->ops->wait(r.comm, r.event); // a stream keeps its order and does not wait for itself
    atomic_store(&door, true);
    r.d->ops->event_sync(r.event);
    assert_true(r.x[0] == 2);
    rig_close(&r);
}

// ---- Closing, and a full queue

static void close_waits_for_the_work_and_events_stay_complete(void **state)
{
    (void)state;
    rig r = rig_open();
    pthread_t opener;
    close_door(&r, r.comm);
    add_one(r.comm, r.x);
    r.d->ops->record(r.event, r.comm);
    pthread_create(&opener, NULL, open_door_later, NULL);
    r.d->ops->stream_close(r.comm);
    assert_true(r.x[0] == 1);
    pthread_join(opener, NULL);
    r.d->ops->event_sync(r.event);
    r.d->ops->wait(r.copy, r.event);
    r.d->ops->wait(r.inline_stream, r.event);
    assert_int_equal(r.d->ops->sync(r.copy, NULL), OK);
    r.comm = NULL;
    rig_close(&r);
}

// x becomes x / 2 + number.
static void halve_and_add(device_stream *s, float *x, int number)
{
    static const float ones[COUNT] = {1, 1, 1, 1, 1, 1, 1, 1};
    const kernel_call c = {
        .kind = K_ADD,
        .u = {
            .add = {
                .count = COUNT, .a = x, .b = ones, .y = x, .alpha = 0.5f, .beta = (float)number}}};
    device_launch(s, &c);
}

static void a_full_queue_makes_the_host_wait_and_keeps_the_order(void **state)
{
    (void)state;
    enum { MANY = 5000 };
    rig r = rig_open();
    pthread_t opener;
    close_door(&r, r.comm);
    pthread_create(&opener, NULL, open_door_later, NULL);
    for (int i = 0; i < MANY; i++) halve_and_add(r.comm, r.x, i % 7);
    pthread_join(opener, NULL);
    for (int i = 0; i < MANY; i++) halve_and_add(r.inline_stream, r.y, i % 7);
    assert_int_equal(r.d->ops->sync(r.comm, NULL), OK);
    assert_memory_equal(r.x, r.y, sizeof(float) * COUNT);
    assert_int_equal(r.d->launches, 2 * MANY);
    rig_close(&r);
}

static void the_memory_of_a_thread_is_counted_while_its_stream_is_open(void **state)
{
    (void)state;
    device *d = NULL;
    device_description about;
    device_stream *s[2];
    assert_int_equal(device_describe("cpu", &(device_options){.threads = 1}, &about, NULL), OK);
    assert_int_equal(device_open("cpu", &(device_options){.threads = 1}, &d, NULL), OK);
    const size_t own = d->bytes_now;
    assert_true(about.own_bytes == own && about.own_thread_bytes == d->own_thread_bytes);
    assert_true(d->own_thread_bytes > 0);
    assert_int_equal(d->ops->stream_open(d, STREAM_COMM, true, &s[0], NULL), OK);
    assert_int_equal(d->ops->stream_open(d, STREAM_COPY, true, &s[1], NULL), OK);
    assert_int_equal(d->bytes_now, own + 2 * d->own_thread_bytes);
    assert_int_equal(d->bytes_scratch, d->bytes_now);
    assert_int_equal(d->bytes_peak, d->bytes_now);
    d->ops->stream_close(s[0]);
    d->ops->stream_close(s[1]);
    assert_int_equal(d->bytes_now, own);
    assert_int_equal(d->allocations, 0);
    device_close(d);
}

// ---- Many streams at once

// A chain of kernels over three streams, ordered by events alone. Stream 0 has a thread when
// threads & 1, and so on.
static float chain(int threads)
{
    enum { LENGTH = 3000 };
    static const float fives[COUNT] = {5, 5, 5, 5, 5, 5, 5, 5};
    device *d = NULL;
    device_stream *s[STREAMS];
    device_event *v[STREAMS];
    float *x;
    assert_int_equal(device_open("cpu", &(device_options){.threads = 2}, &d, NULL), OK);
    for (device_stream_kind k = 0; k < STREAMS; k++) {
        assert_int_equal(d->ops->stream_open(d, k, threads >> k & 1, &s[k], NULL), OK);
        assert_int_equal(d->ops->event_open(d, &v[k], NULL), OK);
    }
    assert_int_equal(device_alloc(d, MEMORY_DEVICE, sizeof fives, (void **)&x, NULL), OK);
    d->ops->copy(s[0], x, fives, sizeof fives);
    for (int i = 0; i < LENGTH; i++) {
        const kernel_call call = {
            .kind = K_ADD,
            .u.add = {
                .count = COUNT, .a = x, .b = fives, .y = x, .alpha = 0.5f, .beta = (float)(i % 7)}};
        d->ops->record(v[i % STREAMS], s[i % STREAMS]);
        d->ops->wait(s[(i + 1) % STREAMS], v[i % STREAMS]);
        device_launch(s[(i + 1) % STREAMS], &call);
    }
    assert_int_equal(d->ops->sync(s[LENGTH % STREAMS], NULL), OK);
    const float result = x[5];
    for (device_stream_kind k = 0; k < STREAMS; k++) {
        d->ops->stream_close(s[k]);
        d->ops->event_close(v[k]);
    }
    device_release(d, MEMORY_DEVICE, x, sizeof fives);
    device_close(d);
    return result;
}

static void a_long_chain_of_events_gives_the_same_bits(void **state)
{
    (void)state;
    const float expected = chain(0);
    for (int threads = 1; threads < 1 << STREAMS; threads++)
        assert_true(chain(threads) == expected);
}

static void *chain_main(void *arg)
{
    *(float *)arg = chain(6);
    return NULL;
}

// Ranks that are threads of one process each have a device.
static void many_devices_work_at_once(void **state)
{
    (void)state;
    enum { RANKS = 4 };
    pthread_t thread[RANKS];
    float result[RANKS];
    const float expected = chain(0);
    for (int i = 0; i < RANKS; i++) pthread_create(&thread[i], NULL, chain_main, &result[i]);
    for (int i = 0; i < RANKS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < RANKS; i++) assert_true(result[i] == expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocked_work_does_not_delay_the_host_or_the_other_streams),
        cmocka_unit_test(arguments_are_copies),
        cmocka_unit_test(a_failure_is_kept_for_the_next_sync_of_its_stream),
        cmocka_unit_test(a_stream_waits_for_an_event_of_another),
        cmocka_unit_test(an_event_is_of_its_latest_record),
        cmocka_unit_test(close_waits_for_the_work_and_events_stay_complete),
        cmocka_unit_test(a_full_queue_makes_the_host_wait_and_keeps_the_order),
        cmocka_unit_test(the_memory_of_a_thread_is_counted_while_its_stream_is_open),
        cmocka_unit_test(a_long_chain_of_events_gives_the_same_bits),
        cmocka_unit_test(many_devices_work_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
