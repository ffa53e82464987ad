// cpu_queue.c -- see cpu_queue.h. Called by cpu_device.c. It knows no kernel and no communicator.
//
// The items are a ring of a fixed length, so that work allocates nothing. A full ring makes the host
// wait until the thread has run an item. This cannot deadlock where running each piece of work at
// once does not: an item waits only for items that were added before it.
#include "device/cpu/cpu_queue.h"

#include "base/clock.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 256 };

typedef struct cpu_queue_item cpu_queue_item;

// Runs one item on the queue's thread.
typedef status (*cpu_queue_run)(cpu_queue *q, const cpu_queue_item *i, err *e);

// One piece of work, with copies of all arguments.
struct cpu_queue_item {
    cpu_queue_run run;
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
            cpu_queue *queue;
            uint64_t position;
        } wait;
        int64_t *stamp;
    } u;
};

struct cpu_queue {
    pthread_t thread;
    bool started, closing;
    const cpu_kernels *kernels;
    cpu_context context;
    pthread_mutex_t lock;           // guards all members below, and `closing`
    pthread_cond_t added, complete; // the thread waits for `added`, all others for `complete`
    cpu_queue_item *items;          // [ITEMS] position p is in items[(p - 1) % ITEMS]
    uint64_t issued, done;          // pieces of work since the queue was opened
    err failure;                    // the first since the last sync; code OK when none
};

size_t cpu_queue_bytes(void)
{
    return cpu_scratch_bytes(1) + ITEMS * sizeof(cpu_queue_item);
}

// ---- The thread

static status run_kernel(cpu_queue *q, const cpu_queue_item *i, err *e)
{
    cpu_kernels_run(q->kernels, &q->context, &i->u.kernel);
    return cpu_context_failure(&q->context, e);
}

static status run_copy(cpu_queue *q, const cpu_queue_item *i, err *e)
{
    (void)q, (void)e;
    if (i->u.copy.bytes) memmove(i->u.copy.dst, i->u.copy.src, i->u.copy.bytes);
    return OK;
}

static status run_call(cpu_queue *q, const cpu_queue_item *i, err *e)
{
    (void)q;
    // The function may change its copy of the argument.
    _Alignas(16) unsigned char arg[STREAM_ARG_BYTES];
    memcpy(arg, i->u.call.arg, sizeof arg);
    return i->u.call.fn(arg, e);
}

static status run_wait(cpu_queue *q, const cpu_queue_item *i, err *e)
{
    (void)q, (void)e;
    cpu_queue_await(i->u.wait.queue, i->u.wait.position);
    return OK;
}

static status run_stamp(cpu_queue *q, const cpu_queue_item *i, err *e)
{
    (void)q, (void)e;
    *i->u.stamp = clock_ns();
    return OK;
}

static void *queue_main(void *arg)
{
    cpu_queue *q = arg;
    pthread_mutex_lock(&q->lock);
    for (;;) {
        while (q->done == q->issued && !q->closing) pthread_cond_wait(&q->added, &q->lock);
        if (q->done == q->issued) break;
        // The item stays where it is until it counts as done.
        const cpu_queue_item *i = &q->items[q->done % ITEMS];
        pthread_mutex_unlock(&q->lock);
        err e = {0};
        const status code = i->run(q, i, &e);
        pthread_mutex_lock(&q->lock);
        if (code != OK && q->failure.code == OK) {
            q->failure = e;
            q->failure.code = code;
        }
        q->done++;
        pthread_cond_broadcast(&q->complete);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

// ---- Calls of the host

// Gives the next item, locked. The caller fills it and calls end_add.
static cpu_queue_item *begin_add(cpu_queue *q, cpu_queue_run run)
{
    pthread_mutex_lock(&q->lock);
    while (q->issued - q->done == ITEMS) pthread_cond_wait(&q->complete, &q->lock);
    cpu_queue_item *i = &q->items[q->issued % ITEMS];
    i->run = run;
    return i;
}

static void end_add(cpu_queue *q)
{
    q->issued++;
    pthread_cond_signal(&q->added);
    pthread_mutex_unlock(&q->lock);
}

void cpu_queue_add_kernel(cpu_queue *q, const kernel_call *call)
{
    begin_add(q, run_kernel)->u.kernel = *call;
    end_add(q);
}

void cpu_queue_add_copy(cpu_queue *q, void *dst, const void *src, size_t bytes)
{
    cpu_queue_item *i = begin_add(q, run_copy);
    i->u.copy.dst = dst;
    i->u.copy.src = src;
    i->u.copy.bytes = bytes;
    end_add(q);
}

void cpu_queue_add_call(cpu_queue *q, device_stream_fn fn, const void *arg, size_t arg_bytes)
{
    cpu_queue_item *i = begin_add(q, run_call);
    i->u.call.fn = fn;
    if (arg_bytes) memcpy(i->u.call.arg, arg, arg_bytes);
    end_add(q);
}

void cpu_queue_add_wait(cpu_queue *q, cpu_queue *other, uint64_t position)
{
    cpu_queue_item *i = begin_add(q, run_wait);
    i->u.wait.queue = other;
    i->u.wait.position = position;
    end_add(q);
}

void cpu_queue_add_stamp(cpu_queue *q, int64_t *slot)
{
    begin_add(q, run_stamp)->u.stamp = slot;
    end_add(q);
}

uint64_t cpu_queue_position(cpu_queue *q)
{
    pthread_mutex_lock(&q->lock);
    const uint64_t position = q->issued;
    pthread_mutex_unlock(&q->lock);
    return position;
}

void cpu_queue_await(cpu_queue *q, uint64_t position)
{
    pthread_mutex_lock(&q->lock);
    while (q->done < position) pthread_cond_wait(&q->complete, &q->lock);
    pthread_mutex_unlock(&q->lock);
}

status cpu_queue_sync(cpu_queue *q, err *e)
{
    pthread_mutex_lock(&q->lock);
    while (q->done < q->issued) pthread_cond_wait(&q->complete, &q->lock);
    const status result = q->failure.code;
    if (result != OK && e) *e = q->failure;
    q->failure.code = OK;
    pthread_mutex_unlock(&q->lock);
    return result;
}

// ---- Opening and closing

static status start_thread(cpu_queue *q, err *e)
{
    status result = OK;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // the program's own threads take signals
    const int code = pthread_create(&q->thread, NULL, queue_main, q);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0) FAIL(E_FIT, "cannot start the thread of a stream: %s", strerror(code));
    q->started = true;
done:
    return result;
}

status cpu_queue_open(const cpu_kernels *kernels, cpu_level level, cpu_queue **out, err *e)
{
    status result = OK;
    const device_options o = {.threads = 1, .isa = cpu_level_name(level)};
    *out = NULL;
    cpu_queue *q = calloc(1, sizeof *q);
    if (!q) FAIL(E_FIT, "out of memory for a stream");
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->added, NULL);
    pthread_cond_init(&q->complete, NULL);
    q->kernels = kernels;
    q->items = calloc(ITEMS, sizeof *q->items);
    if (!q->items) FAIL(E_FIT, "out of memory for the work of a stream");
    TRY(cpu_context_open(&o, &q->context, e));
    TRY(start_thread(q, e));
    *out = q;
    q = NULL;
done:
    cpu_queue_close(q);
    return result;
}

void cpu_queue_stop(cpu_queue *q)
{
    if (q->started) {
        pthread_mutex_lock(&q->lock);
        q->closing = true;
        pthread_cond_signal(&q->added);
        pthread_mutex_unlock(&q->lock);
        pthread_join(q->thread, NULL);
        q->started = false;
    }
    cpu_context_close(&q->context);
    free(q->items);
    q->items = NULL;
}

void cpu_queue_close(cpu_queue *q)
{
    if (!q) return;
    cpu_queue_stop(q);
    pthread_cond_destroy(&q->complete);
    pthread_cond_destroy(&q->added);
    pthread_mutex_destroy(&q->lock);
    free(q);
}
