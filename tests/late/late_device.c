// late_device.c -- the late device of late_device.h. A stream is a queue and a thread. An event is
// a position in a queue. One lock guards all queues of a device, and work runs outside it. Called
// by tests through device_ops. It does not know the purpose of the work.
#include "late/late_device.h"

#include "base/clock.h"
#include "base/size.h"
#include "device/cpu/cpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { POISON = 0xff, PATIENCE_NS = 5000000 };

typedef enum late_item_kind { ITEM_KERNEL, ITEM_COPY, ITEM_CALL, ITEM_WAIT } late_item_kind;

typedef struct late_stream late_stream;
typedef struct late_device late_device;

// One piece of work, with copies of all arguments.
typedef struct late_item {
    late_item_kind kind;
    union {
        kernel_call kernel;
        struct {
            void *dst;
            const void *src;
            size_t bytes;
        } copy;
        struct {
            device_stream_fn fn;
            _Alignas(16) unsigned char arg[STREAM_ARG_BYTES];
        } call;
        struct {
            late_stream *stream;
            uint64_t position; // `stream` must have done so many items
        } wait;
    } u;
} late_item;

struct late_stream {
    device_stream base;
    pthread_t thread;
    cpu_context context;
    late_item *items; // of positions first … issued-1
    size_t room;
    uint64_t first, issued, done, wanted; // counts of items since the stream was opened
    bool running, closing, joined;
    int64_t call_since_ns; // of a running call; 0 when none
    err failure;           // the first since the last sync; code OK when none
    late_stream *next;     // of the device
};

typedef struct late_event {
    device_event base;
    late_stream *stream; // NULL before the first record
    uint64_t position;
} late_event;

struct late_device {
    device base;
    late_order order;
    device_options options;
    cpu_kernels kernels;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    late_stream *streams; // closed ones too, because others may wait for their positions
    late_stream *awaited; // the stream that the host waits for; NULL: none
};

static late_device *device_of(const device_stream *s)
{
    return (late_device *)s->device;
}

// ---- the choice of the next item; all under the lock ----

static bool is_blocked(const late_stream *s)
{
    const late_item *head = &s->items[s->done - s->first];
    return head->kind == ITEM_WAIT && head->u.wait.stream->done < head->u.wait.position;
}

// True if a stream other than `s` must run an item first.
static bool others_have_work(const late_device *d, const late_stream *s)
{
    for (const late_stream *t = d->streams; t; t = t->next) {
        if (t == s || t->done == t->issued) continue;
        bool stuck = t->call_since_ns && clock_ns() - t->call_since_ns > PATIENCE_NS;
        if (t->running ? !stuck : !is_blocked(t)) return true;
    }
    return false;
}

static bool may_run(late_device *d, late_stream *s)
{
    if (s->done == s->issued) return false;
    if (d->order == LATE_OTHERS_FIRST) {
        if (!d->awaited || is_blocked(s)) return false;
        return s != d->awaited || (s->done < s->wanted && !others_have_work(d, s));
    }
    if (s->done >= s->wanted) return false;
    if (!is_blocked(s)) return true;
    const late_item *head = &s->items[s->done - s->first];
    late_stream *other = head->u.wait.stream;
    if (other->wanted < head->u.wait.position) {
        other->wanted = head->u.wait.position;
        pthread_cond_broadcast(&d->changed);
    }
    return false;
}

static void pause_for_change(late_device *d)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PATIENCE_NS;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&d->changed, &d->lock, &until);
}

// ---- a stream's thread ----

static void keep_failure(late_device *d, late_stream *s, status code, const err *e)
{
    if (code == OK) return;
    pthread_mutex_lock(&d->lock);
    if (s->failure.code == OK) {
        s->failure = *e;
        s->failure.code = code;
    }
    pthread_mutex_unlock(&d->lock);
}

static void run_item(late_device *d, late_stream *s, late_item *i)
{
    err e = {0};
    switch (i->kind) {
    case ITEM_KERNEL:
        d->kernels.run[i->u.kernel.kind](&s->context, &i->u.kernel.u);
        keep_failure(d, s, cpu_context_failure(&s->context, &e), &e);
        break;
    case ITEM_COPY:
        if (i->u.copy.bytes) memmove(i->u.copy.dst, i->u.copy.src, i->u.copy.bytes);
        break;
    case ITEM_CALL:
        keep_failure(d, s, i->u.call.fn(i->u.call.arg, &e), &e);
        break;
    case ITEM_WAIT:
        break;
    }
}

static void *stream_main(void *arg)
{
    late_stream *s = arg;
    late_device *d = device_of(&s->base);
    pthread_mutex_lock(&d->lock);
    while (!s->closing) {
        if (!may_run(d, s)) {
            pause_for_change(d);
            continue;
        }
        late_item head = s->items[s->done - s->first];
        s->running = true;
        s->call_since_ns = head.kind == ITEM_CALL ? clock_ns() : 0;
        pthread_mutex_unlock(&d->lock);
        run_item(d, s, &head);
        pthread_mutex_lock(&d->lock);
        s->running = false;
        s->call_since_ns = 0;
        s->done++;
        pthread_cond_broadcast(&d->changed);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

// ---- calls of the host ----

static void issue(device_stream *base, const late_item *i)
{
    late_stream *s = (late_stream *)base;
    late_device *d = device_of(base);
    pthread_mutex_lock(&d->lock);
    if (s->done == s->issued) s->first = s->done; // all items are free again
    size_t queued = s->issued - s->first;
    if (queued == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        late_item *more = realloc(s->items, s->room * sizeof *more);
        if (!more) abort(); // a device for tests has no way to report it
        s->items = more;
    }
    s->items[queued] = *i;
    s->issued++;
    pthread_mutex_unlock(&d->lock);
}

static void await(late_stream *s, uint64_t position)
{
    late_device *d = device_of(&s->base);
    pthread_mutex_lock(&d->lock);
    if (s->wanted < position) s->wanted = position;
    d->awaited = s;
    pthread_cond_broadcast(&d->changed);
    while (s->done < position) pthread_cond_wait(&d->changed, &d->lock);
    d->awaited = NULL;
    pthread_mutex_unlock(&d->lock);
}

static void late_launch(device_stream *s, const kernel_call *call)
{
    issue(s, &(late_item){.kind = ITEM_KERNEL, .u.kernel = *call});
}

static void late_copy(device_stream *s, void *dst, const void *src, size_t bytes)
{
    issue(s, &(late_item){.kind = ITEM_COPY, .u.copy = {dst, src, bytes}});
}

static void late_call(device_stream *s, device_stream_fn fn, const void *arg, size_t arg_bytes)
{
    late_item i = {.kind = ITEM_CALL, .u.call.fn = fn};
    if (arg_bytes) memcpy(i.u.call.arg, arg, arg_bytes);
    issue(s, &i);
}

static void late_record(device_event *v, device_stream *s)
{
    late_event *own = (late_event *)v;
    own->stream = (late_stream *)s;
    own->position = own->stream->issued; // only the issuing thread writes it
}

static void late_wait(device_stream *s, device_event *v)
{
    late_event *own = (late_event *)v;
    if (own->stream)
        issue(s, &(late_item){.kind = ITEM_WAIT, .u.wait = {own->stream, own->position}});
}

static void late_event_sync(device_event *v)
{
    late_event *own = (late_event *)v;
    if (own->stream) await(own->stream, own->position);
}

static status late_sync(device_stream *s, err *e)
{
    late_stream *own = (late_stream *)s;
    await(own, own->issued);
    late_device *d = device_of(s);
    pthread_mutex_lock(&d->lock);
    status result = own->failure.code;
    if (result != OK && e) *e = own->failure;
    own->failure.code = OK;
    pthread_mutex_unlock(&d->lock);
    return result;
}

// ---- opening and closing ----

static status late_stream_open(device *base, device_stream_kind kind, device_stream **out, err *e)
{
    status result = OK;
    late_device *d = (late_device *)base;
    late_stream *s = calloc(1, sizeof *s);
    if (!s) FAIL(E_FIT, "out of memory for a stream");
    s->base = (device_stream){.device = base, .kind = kind};
    TRY(cpu_context_open(&d->options, &s->context, e));
    pthread_mutex_lock(&d->lock);
    s->next = d->streams;
    d->streams = s;
    if (pthread_create(&s->thread, NULL, stream_main, s) != 0) abort();
    pthread_mutex_unlock(&d->lock);
    *out = &s->base;
done:
    if (result != OK) free(s);
    return result;
}

// The struct stays until the device is closed, because other streams may still wait for its
// positions.
static void late_stream_close(device_stream *s)
{
    late_stream *own = (late_stream *)s;
    if (!own || own->joined) return;
    late_device *d = device_of(s);
    await(own, own->issued);
    pthread_mutex_lock(&d->lock);
    own->closing = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    pthread_join(own->thread, NULL);
    own->joined = true;
    cpu_context_close(&own->context);
}

static void late_close(device *base)
{
    late_device *d = (late_device *)base;
    for (late_stream *s = d->streams; s; s = s->next) late_stream_close(&s->base);
    while (d->streams) {
        late_stream *s = d->streams;
        d->streams = s->next;
        free(s->items);
        free(s);
    }
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static status late_event_open(device *d, device_event **out, err *e)
{
    status result = OK;
    late_event *v = calloc(1, sizeof *v);
    if (!v) FAIL(E_FIT, "out of memory for an event");
    v->base.device = d;
    *out = &v->base;
done:
    return result;
}

static void late_event_close(device_event *v)
{
    free(v);
}

// The size is stored in front of the block, so that late_release can fill it.
static status late_alloc(device *d, device_memory_kind kind, size_t bytes, void **out, err *e)
{
    (void)d;
    status result = OK;
    unsigned char *block =
        bytes < SIZE_MAX / 2
            ? aligned_alloc(DEVICE_ALIGN, DEVICE_ALIGN + size_align(bytes, DEVICE_ALIGN))
            : NULL;
    if (!block) FAIL(E_FIT, "out of memory: %zu bytes asked for", bytes);
    memcpy(block, &bytes, sizeof bytes);
    memset(block + DEVICE_ALIGN, kind == MEMORY_ZEROED ? 0 : POISON, bytes);
    *out = block + DEVICE_ALIGN;
done:
    return result;
}

static void late_release(device *d, device_memory_kind kind, void *p)
{
    (void)d, (void)kind;
    if (!p) return;
    size_t bytes;
    memcpy(&bytes, (unsigned char *)p - DEVICE_ALIGN, sizeof bytes);
    memset(p, POISON, bytes);
    free((unsigned char *)p - DEVICE_ALIGN);
}

static const device_ops late_ops = {
    .name = "late",
    .close = late_close,
    .alloc = late_alloc,
    .release = late_release,
    .stream_open = late_stream_open,
    .stream_close = late_stream_close,
    .event_open = late_event_open,
    .event_close = late_event_close,
    .record = late_record,
    .wait = late_wait,
    .event_sync = late_event_sync,
    .sync = late_sync,
    .copy = late_copy,
    .launch = late_launch,
    .call = late_call,
};

status late_device_open(late_order order, const device_options *options, device **out, err *e)
{
    status result = OK;
    late_device *d = calloc(1, sizeof *d);
    if (!d) FAIL(E_FIT, "out of memory for a device");
    d->base.ops = &late_ops;
    d->order = order;
    if (options) d->options = *options;
    cpu_level level;
    TRY(cpu_level_choose(d->options.isa, &level, e));
    cpu_kernels_fill(&d->kernels, level);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    *out = &d->base;
done:
    if (result != OK) free(d);
    return result;
}
