// tier_service.c -- the thread that serves a file tier's queue. It splits requests into blocks,
// keeps up to `depth` blocks in flight in the engine, and sends the rest of an incomplete transfer
// again. tier_open starts it. It sleeps while the queue is empty, and inside the engine while
// blocks are in flight. It deliberately does not know what the bytes mean, nor how an engine
// transfers them.
#include "store/tier_private.h"

#include "base/clock.h"
#include "base/proc.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

enum { TRIES_MAX = 1000 }; // transfers of one block in a row that moved no byte

static unsigned in_flight(const tier *t)
{
    return t->depth - t->free_count;
}

// Pushes blocks to the engine until none is left, or `depth` are in flight.
static void push_blocks(tier *t)
{
    while (t->free_count && t->queue.splitting <= t->queue.last && t->failure.code == OK &&
           !t->stop) {
        tier_request *r = &t->queue.entries[t->queue.splitting % t->queue.room];
        const size_t bytes = r->unsplit < t->block_bytes ? r->unsplit : t->block_bytes;
        if (bytes) {
            const unsigned i = t->free[--t->free_count];
            const tier_io io = {
                .ptr = r->ptr, .bytes = bytes, .offset = r->offset, .slot = i, .write = r->write};
            t->slots[i] = (tier_slot){.io = io, .request = r};
            t->engine->ops->push(t->engine, &t->slots[i].io);
            r->ptr += bytes;
            r->offset += bytes;
            r->unsplit -= bytes;
        }
        if (r->unsplit) continue;
        t->queue.splitting++;
        t->progress = t->progress || !r->unfinished; // an empty request has finished
    }
}

static void fail_block(tier *t, const tier_slot *s, int why)
{
    if (t->failure.code != OK) return;
    errno = why;
    err_errno(&t->failure, "%s: cannot %s %zu bytes at %llu", t->what,
              s->io.write ? "write" : "read", s->io.bytes, (unsigned long long)s->io.offset);
    t->progress = true;
}

// Handles a finished transfer, which moved all of its block, a part of it, or failed.
static void finish_transfer(tier *t, const tier_done *d)
{
    tier_slot *s = &t->slots[d->slot];
    const bool again = d->moved == -EINTR || d->moved == -EAGAIN || d->moved == -ECANCELED;
    size_t moved = d->moved > 0 ? (size_t)d->moved : 0;
    if (moved < s->io.bytes) moved -= moved % TIER_ALIGN; // O_DIRECT needs an aligned rest
    s->tries = moved ? 0 : s->tries + 1;
    s->request->unfinished -= moved;
    s->io.ptr = (char *)s->io.ptr + moved;
    s->io.offset += moved;
    s->io.bytes -= moved;
    *(s->io.write ? &t->counters.bytes_written : &t->counters.bytes_read) += moved;
    if (d->moved < 0 && !again)
        fail_block(t, s, (int)-d->moved);
    else if (s->tries > TRIES_MAX || (d->moved == 0 && !s->io.write))
        fail_block(t, s, EIO);
    t->progress = t->progress || !s->request->unfinished;
    if (s->io.bytes && t->failure.code == OK)
        t->engine->ops->push(t->engine, &s->io);
    else
        t->free[t->free_count++] = d->slot;
}

static void fail_engine(tier *t, const err *why)
{
    if (t->failure.code == OK) {
        t->failure = *why;
        err_prefix(&t->failure, "%s: ", t->what);
    }
    t->progress = true;
}

// One turn of the engine, which has blocks in flight. The lock is free meanwhile.
static status turn(tier *t)
{
    err why = {0};
    unsigned count = 0;
    if (!t->moving_since) t->moving_since = clock_ns();
    pthread_mutex_unlock(&t->lock);
    const status result = t->engine->ops->submit_and_wait(t->engine, 1, t->done, &count, &why);
    pthread_mutex_lock(&t->lock);
    if (result != OK) fail_engine(t, &why);
    for (unsigned i = 0; result == OK && i < count; i++) finish_transfer(t, &t->done[i]);
    push_blocks(t); // before the caller wakes up, so that the disk never idles
    if (!in_flight(t) || result != OK) {
        t->counters.seconds_moving += (double)(clock_ns() - t->moving_since) * 1e-9;
        t->moving_since = 0;
    }
    return result;
}

static void wake_caller(tier *t)
{
    if (t->progress && t->waiting) {
        t->waiting = false;
        pthread_cond_broadcast(&t->finished);
    }
    t->progress = false;
}

static void *serve(void *arg)
{
    tier *t = arg;
    err why = {0};
    status result = t->engine->ops->begin(t->engine, &why);
    pthread_mutex_lock(&t->lock);
    if (result != OK) fail_engine(t, &why);
    while (result == OK) {
        push_blocks(t);
        wake_caller(t);
        if (in_flight(t))
            result = turn(t);
        else if (t->stop)
            break;
        else if (t->queue.splitting > t->queue.last || t->failure.code != OK)
            pthread_cond_wait(&t->submitted, &t->lock);
    }
    wake_caller(t);
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

int tier_thread_create(pthread_t *out, void *(*body)(void *), void *arg)
{
    sigset_t before;
    proc_block_signals(&before);
    const int why = pthread_create(out, NULL, body, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return why;
}

status tier_serve_start(tier *t, err *e)
{
    const int why = tier_thread_create(&t->thread, serve, t);
    if (why) return err_set(e, E_IO, "%s: cannot start its thread: %s", t->what, strerror(why));
    t->serving = true;
    return OK;
}

void tier_serve_stop(tier *t)
{
    if (!t->serving) return;
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_signal(&t->submitted);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    t->serving = false;
}
