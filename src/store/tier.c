// tier.c -- the file tier: requests cut into blocks, of which `depth` are with an engine at a time;
// what comes back short goes out again. Called by whoever keeps state of a rank outside of memory.
// It deliberately does not know what the bytes are, nor how an engine moves them.
#include "store/tier.h"

#include "base/clock.h"
#include "base/text.h"
#include "store/tier_private.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    DEFAULT_BLOCK = 1 << 20,
    DEFAULT_DEPTH = 8,
    DEFAULT_REQUESTS = 64,
    DEPTH_MOST = 1024,
    BLOCK_MOST = 1 << 30, // the kernel moves no more than 2 GiB at once
    TRIES = 1000,         // in a row that moved nothing
};

typedef struct request {
    tier_ticket ticket;
    char *at;
    uint64_t offset;
    size_t uncut; // bytes that were in no block yet
    size_t left;  // bytes that are not finished
    bool write;
} request;

typedef struct slot {
    tier_io io; // what is left of the block
    request *of;
    int tries;
} slot;

struct tier {
    pthread_mutex_t lock;
    tier_engine *engine;
    int fd;
    unsigned depth, requests;
    size_t block_bytes;
    uint64_t bytes;
    tier_ticket last, feeding; // the newest; the oldest that is not wholly cut
    request *queue;            // of ticket t: [t % requests]
    slot *slots;
    unsigned *free, free_count; // slots in nobody's hands
    tier_done *done;
    tier_counters counters;
    err failure; // the first; code OK while there is none
    char *what;  // name and folder, for messages
    char *note;  // NULL: there is nothing to say
};

static status fail_call(const tier *t, err *e)
{
    if (e) *e = t->failure;
    return t->failure.code;
}

// Hands blocks out until there are no more, or `depth` are on their way.
static void feed(tier *t)
{
    while (t->free_count && t->feeding <= t->last && t->failure.code == OK) {
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
        if (!r->uncut) t->feeding++;
    }
}

static void fail_block(tier *t, const slot *s, int why)
{
    if (t->failure.code != OK) return;
    errno = why;
    err_errno(&t->failure, "%s: cannot %s %zu bytes at %llu", t->what,
              s->io.write ? "write" : "read", s->io.bytes, (unsigned long long)s->io.offset);
}

// A block came back: whole, in part, or failed.
static void take_back(tier *t, const tier_done *d)
{
    slot *s = &t->slots[d->slot];
    // Cancelled: the thread that started it has ended.
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
    if (s->io.bytes && t->failure.code == OK)
        t->engine->ops->push(t->engine, &s->io);
    else
        t->free[t->free_count++] = d->slot;
}

// One round with the engine; *count blocks came back. With `wait`, at least one is on its way.
static status turn(tier *t, bool wait, unsigned *count)
{
    err why = {0};
    *count = 0;
    const status result = t->engine->ops->turn(t->engine, wait, t->done, count, &why);
    if (result != OK && t->failure.code == OK) {
        t->failure = why;
        err_prefix(&t->failure, "%s: ", t->what);
    }
    for (unsigned i = 0; result == OK && i < *count; i++) take_back(t, &t->done[i]);
    return result;
}

// Gives the engine what it can take, without waiting. Not in a loop: blocks that the page cache has
// come back at once, and a call that starts a request would move all of it.
static void start(tier *t)
{
    unsigned count = 0;
    turn(t, false, &count);
    feed(t);
    turn(t, false, &count);
}

// The lock is held, so that the request's place in the queue is not given away.
static void wait_for(tier *t, const request *r)
{
    const int64_t began = clock_ns();
    unsigned count = 0;
    while (r->left && t->failure.code == OK) {
        feed(t);
        turn(t, true, &count);
    }
    start(t); // what this wait has freed is not idle until the next call
    t->counters.seconds_waited += (double)(clock_ns() - began) * 1e-9;
}

static status submit(tier *t, bool write, uint64_t offset, void *at, size_t bytes, tier_ticket *out,
                     err *e)
{
    if ((offset | bytes | (uintptr_t)at) % TIER_ALIGN)
        return err_set(
            e, E_INTERNAL, "%s: %s of %zu bytes at %llu, memory %p: all must be multiples of %d",
            t->what, write ? "write" : "read", bytes, (unsigned long long)offset, at, TIER_ALIGN);
    if (offset > t->bytes || bytes > t->bytes - offset)
        return err_set(e, E_INTERNAL, "%s: %zu bytes at %llu are outside of the file's %llu",
                       t->what, bytes, (unsigned long long)offset, (unsigned long long)t->bytes);
    status result = OK;
    pthread_mutex_lock(&t->lock);
    request *r = &t->queue[(t->last + 1) % t->requests];
    if (r->left) wait_for(t, r);
    if (t->failure.code != OK) {
        result = fail_call(t, e);
        goto done;
    }
    *r = (request){++t->last, at, offset, bytes, bytes, write};
    *out = t->last;
    start(t);
done:
    pthread_mutex_unlock(&t->lock);
    return result;
}

status tier_read(tier *t, uint64_t offset, void *to, size_t bytes, tier_ticket *out, err *e)
{
    return submit(t, false, offset, to, bytes, out, e);
}

status tier_write(tier *t, uint64_t offset, const void *from, size_t bytes, tier_ticket *out,
                  err *e)
{
    return submit(t, true, offset, (void *)from, bytes, out, e);
}

status tier_wait(tier *t, tier_ticket ticket, err *e)
{
    status result = OK;
    pthread_mutex_lock(&t->lock);
    if (ticket == 0 || ticket > t->last)
        FAIL(E_INTERNAL, "%s: a wait for ticket %llu of %llu", t->what, (unsigned long long)ticket,
             (unsigned long long)t->last);
    const request *r = &t->queue[ticket % t->requests];
    if (r->ticket == ticket && r->left) wait_for(t, r);
    if (t->failure.code != OK) result = fail_call(t, e);
done:
    pthread_mutex_unlock(&t->lock);
    return result;
}

void tier_count(tier *t, tier_counters *out)
{
    pthread_mutex_lock(&t->lock);
    *out = t->counters;
    pthread_mutex_unlock(&t->lock);
}

const char *tier_note(const tier *t)
{
    return t->note;
}

size_t tier_bytes_buffers(const tier *t)
{
    return sizeof *t + t->requests * sizeof *t->queue + t->engine->bytes +
           t->depth * (sizeof *t->slots + sizeof *t->free + sizeof *t->done);
}

static status check_options(const tier_options *o, err *e)
{
    const size_t block = o->block_bytes;
    if (block % TIER_ALIGN || block > BLOCK_MOST)
        return err_set(e, E_USAGE,
                       "%s: found blocks of %zu bytes; valid are multiples of %d up to %d", o->name,
                       block, TIER_ALIGN, BLOCK_MOST);
    if (o->depth < 0 || o->depth > DEPTH_MOST)
        return err_set(e, E_USAGE, "%s: found depth %d; valid are 1 to %d", o->name, o->depth,
                       DEPTH_MOST);
    if (o->requests < 0 || o->bytes > INT64_MAX - TIER_ALIGN)
        return err_set(e, E_INTERNAL, "%s: found %d requests, %llu bytes", o->name, o->requests,
                       (unsigned long long)o->bytes);
    return OK;
}

static status allocate(tier *t, const tier_options *o, err *e)
{
    text what = {0};
    text_addf(&what, "%s in %s", o->name, o->folder);
    t->what = what.at;
    t->bytes = o->bytes ? (o->bytes + TIER_ALIGN - 1) & ~(uint64_t)(TIER_ALIGN - 1) : TIER_ALIGN;
    t->block_bytes = o->block_bytes ? o->block_bytes : DEFAULT_BLOCK;
    t->depth = o->depth ? (unsigned)o->depth : DEFAULT_DEPTH;
    t->requests = o->requests ? (unsigned)o->requests : DEFAULT_REQUESTS;
    t->feeding = 1;
    t->queue = calloc(t->requests, sizeof *t->queue);
    t->slots = calloc(t->depth, sizeof *t->slots);
    t->free = calloc(t->depth, sizeof *t->free);
    t->done = calloc(t->depth, sizeof *t->done);
    if (!t->queue || !t->slots || !t->free || !t->done)
        return err_set(e, E_IO, "%s: no memory for its queue", t->what);
    while (t->free_count < t->depth) {
        t->free[t->free_count] = t->free_count;
        t->free_count++;
    }
    return OK;
}

static status open_engine(tier *t, const tier_options *o, err *e)
{
    err why = {0};
    char reason[128];
    const char *buffered = NULL;
    text note = {0};
    status result = OK;
    TRY(tier_file_open(o, t->bytes, &t->fd, reason, &buffered, e));
    if (o->avoid & TIER_AVOID_URING)
        err_set(&why, E_IO, "it is not wanted");
    else
        tier_uring_open(t->fd, t->depth, &t->engine, &why);
    if (!t->engine) TRY(tier_threads_open(t->fd, t->depth, &t->engine, e));
    if (buffered) text_addf(&note, "%s: buffered I/O instead of O_DIRECT (%s)", t->what, buffered);
    if (why.code != OK)
        text_addf(&note, "%s%s threads instead of io_uring (%s)", buffered ? "" : t->what,
                  buffered ? ", and" : ":", why.text);
done:
    t->note = note.at;
    return result;
}

status tier_open(const tier_options *o, tier **out, err *e)
{
    status result = OK;
    tier *t = NULL;
    TRY(check_options(o, e));
    t = calloc(1, sizeof *t);
    if (!t) FAIL(E_IO, "%s: out of memory", o->name);
    t->fd = -1;
    pthread_mutex_init(&t->lock, NULL);
    TRY(allocate(t, o, e));
    TRY(open_engine(t, o, e));
    *out = t;
done:
    if (result != OK) tier_close(t);
    return result;
}

void tier_close(tier *t)
{
    if (!t) return;
    if (t->engine) {
        pthread_mutex_lock(&t->lock);
        t->feeding = t->last + 1;
        unsigned count = 0;
        while (t->free_count < t->depth && turn(t, true, &count) == OK) {
        }
        pthread_mutex_unlock(&t->lock);
        t->engine->ops->close(t->engine);
    }
    if (t->fd >= 0) close(t->fd);
    pthread_mutex_destroy(&t->lock);
    free(t->done);
    free(t->free);
    free(t->slots);
    free(t->queue);
    free(t->what);
    free(t->note);
    free(t);
}
