// streams.h -- a device for tests of code that runs on streams. Work runs at once, or late on a
// thread that belongs to the stream.
#ifndef TESTS_COMM_STREAMS_H
#define TESTS_COMM_STREAMS_H

#include "device/device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    QUEUE = 256,
    // An event that happens at once has happened after so many seconds, even on a busy machine. The
    // watchdog of a world, which ends a wait otherwise, waits for minutes.
    SOON_S = 60,
};

typedef struct test_stream {
    device_stream base;
    bool late;
    status failed;
    err why;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int issued, started, ended;
    bool closing;
    struct {
        device_stream_fn fn;
        char arg[STREAM_ARG_BYTES];
    } work[QUEUE];
} test_stream;

static void test_stream_run(test_stream *s, int i)
{
    err why;
    memset(&why, 0, sizeof why);
    const status result = s->work[i].fn(s->work[i].arg, &why);
    if (result == OK || s->failed != OK) return;
    s->failed = result;
    s->why = why;
}

static void *test_stream_main(void *arg)
{
    test_stream *s = arg;
    unsigned random = 12345u + (unsigned)s->base.kind;
    pthread_mutex_lock(&s->lock);
    while (!s->closing || s->started < s->issued) {
        if (s->started == s->issued) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        const int i = s->started++ % QUEUE;
        pthread_mutex_unlock(&s->lock);
        usleep((unsigned)rand_r(&random) % 200);
        test_stream_run(s, i);
        pthread_mutex_lock(&s->lock);
        s->ended++;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static void test_call(device_stream *on, device_stream_fn fn, const void *arg, size_t arg_bytes)
{
    test_stream *s = (test_stream *)on;
    pthread_mutex_lock(&s->lock);
    while (s->issued - s->ended == QUEUE) pthread_cond_wait(&s->changed, &s->lock);
    const int i = s->issued % QUEUE;
    s->work[i].fn = fn;
    memcpy(s->work[i].arg, arg, arg_bytes);
    s->issued++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (!s->late) {
        test_stream_run(s, i);
        s->ended++;
    }
}

static status test_sync(device_stream *on, err *e)
{
    test_stream *s = (test_stream *)on;
    pthread_mutex_lock(&s->lock);
    while (s->ended < s->issued) pthread_cond_wait(&s->changed, &s->lock);
    const status result = s->failed;
    if (result != OK && e) *e = s->why;
    s->failed = OK;
    pthread_mutex_unlock(&s->lock);
    return result;
}

static status test_stream_open(device *d, device_stream_kind kind, bool late, device_stream **out)
{
    test_stream *s = calloc(1, sizeof *s);
    if (!s) return E_FIT;
    s->base = (device_stream){.device = d, .kind = kind};
    s->late = late;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (late) pthread_create(&s->thread, NULL, test_stream_main, s);
    *out = &s->base;
    return OK;
}

static status test_stream_open_now(device *d, device_stream_kind kind, bool own_thread,
                                   device_stream **out, err *e)
{
    (void)own_thread, (void)e;
    return test_stream_open(d, kind, false, out);
}

static status test_stream_open_late(device *d, device_stream_kind kind, bool own_thread,
                                    device_stream **out, err *e)
{
    (void)own_thread, (void)e;
    return test_stream_open(d, kind, true, out);
}

static void test_stream_close(device_stream *on)
{
    test_stream *s = (test_stream *)on;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (s->late) pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    free(s);
}

static void test_copy(device_stream *on, void *dst, const void *src, size_t bytes)
{
    (void)on;
    memmove(dst, src, bytes);
}

static status test_memory(device *d, device_memory_kind kind, size_t bytes, void **out, err *e)
{
    (void)d, (void)kind;
    *out = aligned_alloc(64, (bytes + 64) & ~(size_t)63);
    return *out ? OK : err_set(e, E_FIT, "no memory");
}

static void test_memory_release(device *d, device_memory_kind kind, void *p)
{
    (void)d, (void)kind;
    free(p);
}

static const device_ops test_device_ops = {
    .name = "test",
    .alloc = test_memory,
    .release = test_memory_release,
    .stream_open = test_stream_open_now,
    .stream_close = test_stream_close,
    .sync = test_sync,
    .copy = test_copy,
    .call = test_call,
};

static const device_ops test_late_device_ops = {
    .name = "test-late",
    .alloc = test_memory,
    .release = test_memory_release,
    .stream_open = test_stream_open_late,
    .stream_close = test_stream_close,
    .sync = test_sync,
    .copy = test_copy,
    .call = test_call,
};

#endif
