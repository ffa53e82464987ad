// late_queue.c -- streams and events that run late. See late_queue.h. One lock guards all queues of a
// device, and work runs outside it. Called through device_ops. It does not know the purpose of the
// work.
#include "late/late_queue.h"

#include "base/clock.h"
#include "late/late_capture.h"

#include <stdlib.h>
#include <string.h>

enum { PATIENCE_NS = 5000000, IDLE_NS = 20000000 };

struct late_stream {
    device_stream base;
    pthread_t thread;
    pthread_cond_t go; // the thread may run an item, or is to end
    cpu_context context;
    late_item *items; // of positions first … issued-1
    size_t room;
    uint64_t first, issued, done, wanted; // counts of items since the stream was opened
    bool running, closing, joined;
    int64_t call_since_ns; // of a running call; 0 when none
    err failure;           // the first since the last sync; code OK when none
    late_stream *reports;  // the stream whose sync returns the failures; NULL: this one
    late_stream *next;     // of the device
};

typedef struct late_event {
    device_event base;
    late_stream *stream; // NULL before the first record
    uint64_t position;
    uint64_t capture; // the number of the recording in which it was recorded; 0: in none
} late_event;

static late_queues *queues_of(const device_stream *s)
{
    return (late_queues *)s->device;
}

// ---- the choice of the next item; all under the lock ----

static bool is_blocked(const late_stream *s)
{
    const late_item *head = &s->items[s->done - s->first];
    return head->kind == LATE_WAIT && head->u.wait.stream->done < head->u.wait.position;
}

// True if the stream runs a host function that blocks.
static bool is_stuck(const late_stream *s)
{
    return s->call_since_ns && clock_ns() - s->call_since_ns > PATIENCE_NS;
}

// True if a stream other than `s` must run an item first.
static bool others_have_work(const late_queues *q, const late_stream *s)
{
    for (const late_stream *t = q->streams; t; t = t->next) {
        if (t == s || t->done == t->issued) continue;
        if (t->running ? !is_stuck(t) : !is_blocked(t)) return true;
    }
    return false;
}

static bool any_is_stuck(const late_queues *q)
{
    for (const late_stream *t = q->streams; t; t = t->next)
        if (is_stuck(t)) return true;
    return false;
}

// True if the host does other things than issue work and wait for it.
static bool host_is_away(const late_queues *q)
{
    return q->moves_on && !q->awaited && clock_ns() - q->active_ns > IDLE_NS;
}

static bool may_run(late_queues *q, late_stream *s)
{
    if (s->done == s->issued) return false;
    if (host_is_away(q)) return !is_blocked(s);
    if (q->order == LATE_OTHERS_FIRST) {
        if (!q->awaited || is_blocked(s)) return false;
        return s != q->awaited || (s->done < s->wanted && !others_have_work(q, s));
    }
    if (s->done >= s->wanted) return q->moves_on && any_is_stuck(q) && !is_blocked(s);
    if (!is_blocked(s)) return true;
    const late_item *head = &s->items[s->done - s->first];
    late_stream *other = head->u.wait.stream;
    if (other->wanted < head->u.wait.position) {
        other->wanted = head->u.wait.position;
        pthread_cond_signal(&other->go);
    }
    return false;
}

// Wakes the streams that may run now, and no others: with many ranks on few cores, wakeups take most of the time.
static void wake_ready(late_queues *q)
{
    for (late_stream *t = q->streams; t; t = t->next)
        if (!t->running && may_run(q, t)) pthread_cond_signal(&t->go);
}

// True if time alone may let the stream run: another one gets stuck, or the host goes away.
static bool may_run_later(const late_queues *q, const late_stream *s)
{
    return s->done < s->issued && (q->moves_on || q->awaited == s);
}

static void pause_stream(late_queues *q, late_stream *s)
{
    struct timespec until;
    if (!may_run_later(q, s)) {
        pthread_cond_wait(&s->go, &q->lock);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PATIENCE_NS;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&s->go, &q->lock, &until);
}

// ---- a stream's thread ----

static void keep_failure(late_queues *q, late_stream *s, status code, const err *e)
{
    if (code == OK) return;
    pthread_mutex_lock(&q->lock);
    if (s->reports) s = s->reports;
    if (s->failure.code == OK) {
        s->failure = *e;
        s->failure.code = code;
    }
    pthread_mutex_unlock(&q->lock);
}

static void run_work(late_queues *q, late_stream *s, late_item *i)
{
    err e = {0};
    switch (i->kind) {
    case LATE_KERNEL:
        cpu_kernels_run(&q->kernels, &s->context, &i->u.kernel);
        keep_failure(q, s, cpu_context_failure(&s->context, &e), &e);
        break;
    case LATE_COPY:
        if (i->u.copy.bytes) memmove(i->u.copy.dst, i->u.copy.src, i->u.copy.bytes);
        break;
    case LATE_CALL:
        keep_failure(q, s, i->u.call.fn(i->u.call.arg, &e), &e);
        break;
    case LATE_STAMP:
        *i->u.stamp = clock_ns();
        break;
    case LATE_WAIT:
        break;
    }
}

static void run_item(late_queues *q, late_stream *s, const late_item *issued)
{
    late_item i = *issued;
    err e = {0};
    const status allowed = q->rules ? q->rules->start(q, &i, &e) : OK;
    keep_failure(q, s, allowed, &e);
    if (allowed == OK) run_work(q, s, &i);
    if (q->rules) q->rules->end(q, issued);
}

static void *stream_main(void *arg)
{
    late_stream *s = arg;
    late_queues *q = queues_of(&s->base);
    pthread_mutex_lock(&q->lock);
    while (!s->closing) {
        if (!may_run(q, s)) {
            pause_stream(q, s);
            continue;
        }
        late_item head = s->items[s->done - s->first];
        s->running = true;
        s->call_since_ns = head.kind == LATE_CALL ? clock_ns() : 0;
        pthread_mutex_unlock(&q->lock);
        run_item(q, s, &head);
        pthread_mutex_lock(&q->lock);
        s->running = false;
        s->call_since_ns = 0;
        s->done++;
        if (q->awaited == s && s->done == q->awaited_position) pthread_cond_signal(&q->arrived);
        wake_ready(q);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

// ---- calls of the host ----

void late_issue(device_stream *base, late_item *i)
{
    late_stream *s = (late_stream *)base;
    late_queues *q = queues_of(base);
    if (late_capture_add(q->capture, s, i)) return;
    err e = {0};
    const status allowed = q->rules ? q->rules->issue(q, i, &e) : OK;
    keep_failure(q, s, allowed, &e);
    // Nothing takes the place of what was refused, because replays count positions.
    late_item nothing = {.kind = LATE_WAIT, .u.wait = {s, 0}};
    if (allowed != OK) i = &nothing;
    pthread_mutex_lock(&q->lock);
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
    if (q->moves_on && queued == 0)
        pthread_cond_signal(&s->go); // it waits with a limit from now on
    q->active_ns = clock_ns();
    pthread_mutex_unlock(&q->lock);
}

static void await(late_stream *s, uint64_t position)
{
    late_queues *q = queues_of(&s->base);
    pthread_mutex_lock(&q->lock);
    if (s->wanted < position) s->wanted = position;
    q->awaited = s;
    q->awaited_position = position;
    wake_ready(q);
    pthread_cond_signal(&s->go);
    while (s->done < position) pthread_cond_wait(&q->arrived, &q->lock);
    q->awaited = NULL;
    q->active_ns = clock_ns();
    pthread_mutex_unlock(&q->lock);
}

void late_launch(device_stream *s, const kernel_call *call)
{
    late_issue(s, &(late_item){.kind = LATE_KERNEL, .u.kernel = *call});
}

void late_copy(device_stream *s, void *dst, const void *src, size_t bytes)
{
    late_issue(s, &(late_item){.kind = LATE_COPY, .u.copy = {dst, src, bytes}});
}

void late_call(device_stream *s, device_stream_fn fn, const void *arg, size_t arg_bytes)
{
    late_item i = {.kind = LATE_CALL, .u.call.fn = fn};
    if (arg_bytes) memcpy(i.u.call.arg, arg, arg_bytes);
    late_issue(s, &i);
}

void late_stamp(device_stream *s, int64_t *slot)
{
    late_issue(s, &(late_item){.kind = LATE_STAMP, .u.stamp = slot});
}

uint64_t late_issued(const device_stream *s)
{
    return ((const late_stream *)s)->issued; // only the issuing thread writes it
}

void late_follow(device_stream *s, device_stream *on)
{
    late_stream *other = (late_stream *)on;
    late_issue(s, &(late_item){.kind = LATE_WAIT, .u.wait = {other, other->issued}});
}

void late_report(device_stream *s, device_stream *to)
{
    late_queues *q = queues_of(s);
    pthread_mutex_lock(&q->lock);
    ((late_stream *)s)->reports = (late_stream *)to;
    pthread_mutex_unlock(&q->lock);
}

void late_record(device_event *v, device_stream *s)
{
    late_event *own = (late_event *)v;
    const late_queues *q = queues_of(s);
    own->stream = (late_stream *)s;
    const int64_t position = late_capture_position(q->capture, own->stream);
    own->capture = position < 0 ? 0 : q->captures;
    own->position = position < 0 ? late_issued(s) : (uint64_t)position;
}

// A rule that was broken when the host issued work.
static void keep_refusal(late_queues *q, device_stream *s, const char *what)
{
    err e = {0};
    keep_failure(q, (late_stream *)s, err_set(&e, E_INTERNAL, "%s", what), &e);
}

void late_wait(device_stream *s, device_event *v)
{
    late_event *own = (late_event *)v;
    late_queues *q = queues_of(s);
    if (!own->stream) return;
    if (q->capture && late_capture_wait(q->capture, (late_stream *)s, own->stream, own->position,
                                        own->capture == q->captures))
        return;
    if (own->capture) {
        keep_refusal(q, s, "a wait for an event that was recorded in a recording");
        return;
    }
    late_issue(s, &(late_item){.kind = LATE_WAIT, .u.wait = {own->stream, own->position}});
}

void late_event_sync(device_event *v)
{
    late_event *own = (late_event *)v;
    late_capture_refuse(((late_queues *)v->device)->capture, "a wait of the host");
    if (own->stream && !own->capture) await(own->stream, own->position);
}

status late_sync(device_stream *s, err *e)
{
    late_stream *own = (late_stream *)s;
    late_queues *q = queues_of(s);
    late_capture_refuse(q->capture, "a wait of the host");
    await(own, own->issued);
    pthread_mutex_lock(&q->lock);
    status result = own->failure.code;
    if (result != OK && e) *e = own->failure;
    own->failure.code = OK;
    pthread_mutex_unlock(&q->lock);
    if (result == OK) result = device_failure_of_peers(s->device, e);
    return result;
}

// ---- opening and closing ----

status late_stream_open(device *base, device_stream_kind kind, bool own_thread, device_stream **out,
                        err *e)
{
    status result = OK;
    (void)own_thread;
    late_queues *q = (late_queues *)base;
    late_stream *s = calloc(1, sizeof *s);
    if (!s) FAIL(E_FIT, "out of memory for a stream");
    s->base = (device_stream){.device = base, .kind = kind};
    TRY(cpu_context_open(&q->options, &s->context, e));
    pthread_cond_init(&s->go, NULL);
    pthread_mutex_lock(&q->lock);
    s->next = q->streams;
    q->streams = s;
    if (pthread_create(&s->thread, NULL, stream_main, s) != 0) abort();
    pthread_mutex_unlock(&q->lock);
    *out = &s->base;
done:
    if (result != OK) free(s);
    return result;
}

// The struct stays until the device is closed, because other streams may still wait for its
// positions.
void late_stream_close(device_stream *s)
{
    late_stream *own = (late_stream *)s;
    if (!own || own->joined) return;
    late_queues *q = queues_of(s);
    await(own, own->issued);
    pthread_mutex_lock(&q->lock);
    own->closing = true;
    pthread_cond_signal(&own->go);
    pthread_mutex_unlock(&q->lock);
    pthread_join(own->thread, NULL);
    own->joined = true;
    cpu_context_close(&own->context);
}

status late_event_open(device *d, device_event **out, err *e)
{
    status result = OK;
    late_event *v = calloc(1, sizeof *v);
    if (!v) FAIL(E_FIT, "out of memory for an event");
    v->base.device = d;
    *out = &v->base;
done:
    return result;
}

void late_event_close(device_event *v)
{
    free(v);
}

status late_queues_open(late_queues *q, const device_ops *ops, late_order order,
                        const device_options *options, const late_rules *rules, err *e)
{
    status result = OK;
    cpu_level level;
    q->base.ops = ops;
    q->order = order;
    q->rules = rules;
    if (options) q->options = *options;
    TRY(cpu_level_choose(q->options.isa, &level, e));
    cpu_kernels_fill(&q->kernels, level);
    q->base.needs = cpu_kernel_needs(level);
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->arrived, NULL);
done:
    return result;
}

void late_queues_close(late_queues *q)
{
    for (late_stream *s = q->streams; s; s = s->next) late_stream_close(&s->base);
    while (q->streams) {
        late_stream *s = q->streams;
        q->streams = s->next;
        pthread_cond_destroy(&s->go);
        free(s->items);
        free(s);
    }
    pthread_cond_destroy(&q->arrived);
    pthread_mutex_destroy(&q->lock);
}
