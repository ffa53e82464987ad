// tier_service.c -- the thread that serves a file tier's queue: requests cut into blocks, of which
// `depth` are with the engine at a time; what comes back short goes out again. Started by
// tier_open. It sleeps while nothing is asked for, and in the engine while blocks are on their way.
// It deliberately does not know what the bytes are, nor how an engine moves them.
#include "store/tier_private.h"

#include "base/clock.h"
#include "base/proc.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

enum { TRIES = 1000 }; // in a row that moved nothing

static unsigned moving(const tier *t)
{
    return t->depth - t->free_count;
}

// Hands blocks out until there are no more, or `depth` are on their way.
static void feed(tier *t)
{
    while (t->free_count && t->feeding <= t->last && t->failure.code == OK && !t->stop) {
        request *r = &t->queue[t->feeding % t->requests];
        const size_t bytes = r->uncut < t->block_bytes ? r->uncut : t->block_bytes;
        if (bytes) {
            const unsigned i = t->free[--t->free_count];
            t->slots[i] = (slot){{r->at, bytes, r->offset, i, r->write}, r, 0};
            t->engine->ops->push(t->engine, &t->slots[i].io);
            r->at += bytes;
            r->offset += bytes;
            r->uncut -= bytes;
        }
        if (r->uncut) continue;
        t->feeding++;
        t->news = t->news || !r->left; // it was empty
    }
}

static void fail_block(tier *t, const slot *s, int why)
{
    if (t->failure.code != OK) return;
    errno = why;
    err_errno(&t->failure, "%s: cannot %s %zu bytes at %llu", t->what,
              s->io.write ? "write" : "read", s->io.bytes, (unsigned long long)s->io.offset);
    t->news = true;
}

// A block came back: whole, in part, or failed.
static void take_back(tier *t, const tier_done *d)
{
    slot *s = &t->slots[d->slot];
    const bool again = d->moved == -EINTR || d->moved == -EAGAIN || d->moved == -ECANCELED;
    size_t moved = d->moved > 0 ? (size_t)d->moved : 0;
    if (moved < s->io.bytes) moved -= moved % TIER_ALIGN; // O_DIRECT can go on from there
    s->tries = moved ? 0 : s->tries + 1;
    s->of->left -= moved;
    s->io.at = (char *)s->io.at + moved;
    s->io.offset += moved;
    s->io.bytes -= moved;
    *(s->io.write ? &t->counters.bytes_written : &t->counters.bytes_read) += moved;
    if (d->moved < 0 && !again)
        fail_block(t, s, (int)-d->moved);
    else if (s->tries > TRIES || (d->moved == 0 && !s->io.write))
        fail_block(t, s, EIO);
    t->news = t->news || !s->of->left;
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
    t->news = true;
}

// One round with the engine, which has something to do. The lock is free while it does it.
static status turn(tier *t)
{
    err why = {0};
    unsigned count = 0;
    if (!t->moving_since) t->moving_since = clock_ns();
    pthread_mutex_unlock(&t->lock);
    const status result = t->engine->ops->turn(t->engine, 1, t->done, &count, &why);
    pthread_mutex_lock(&t->lock);
    if (result != OK) fail_engine(t, &why);
    for (unsigned i = 0; result == OK && i < count; i++) take_back(t, &t->done[i]);
    feed(t); // before the caller hears of it: the disk waits for no one
    if (!moving(t) || result != OK) {
        t->counters.seconds_moving += (double)(clock_ns() - t->moving_since) * 1e-9;
        t->moving_since = 0;
    }
    return result;
}

static void tell(tier *t)
{
    if (t->news && t->waiting) {
        t->waiting = false;
        pthread_cond_broadcast(&t->finished);
    }
    t->news = false;
}

static void *serve(void *arg)
{
    tier *t = arg;
    err why = {0};
    status result = t->engine->ops->begin(t->engine, &why);
    pthread_mutex_lock(&t->lock);
    if (result != OK) fail_engine(t, &why);
    while (result == OK) {
        feed(t);
        tell(t);
        if (moving(t))
            result = turn(t);
        else if (t->stop)
            break;
        else if (t->feeding > t->last || t->failure.code != OK)
            pthread_cond_wait(&t->work, &t->lock);
    }
    tell(t);
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
    if (why) return err_set(e, E_IO, "%s: no thread for it: %s", t->what, strerror(why));
    t->serving = true;
    return OK;
}

void tier_serve_stop(tier *t)
{
    if (!t->serving) return;
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_signal(&t->work);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    t->serving = false;
}
