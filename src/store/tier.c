// tier.c -- the file tier: opens it, takes requests and waits for them. Called by whoever keeps
// state of a rank outside of memory. It deliberately does not know what the bytes are, nor how they
// are moved: a thread of the tier's own serves the queue (tier_service.c).
#include "store/tier.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "store/tier_private.h"

#include <stdlib.h>
#include <unistd.h>

enum {
    DEFAULT_BLOCK = 1 << 20,
    DEFAULT_DEPTH = 8,
    DEFAULT_REQUESTS = 64,
    DEPTH_MOST = 1024,
    BLOCK_MOST = 1 << 30, // the kernel moves no more than 2 GiB at once
};

static status fail_call(const tier *t, err *e)
{
    if (e) *e = t->failure;
    return t->failure.code;
}

// Of a request that may have been forgotten by now.
static bool is_open(const tier *t, const request *r, tier_ticket ticket)
{
    return r->ticket == ticket && (r->left || t->feeding <= ticket);
}

// The thread does not need the caller: it is only waited for.
static void wait_for(tier *t, const request *r, tier_ticket ticket)
{
    const int64_t began = clock_ns();
    while (is_open(t, r, ticket) && t->failure.code == OK) {
        t->waiting = true;
        pthread_cond_wait(&t->finished, &t->lock);
    }
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
    if (is_open(t, r, r->ticket)) wait_for(t, r, r->ticket);
    if (t->failure.code != OK) {
        result = fail_call(t, e);
        goto done;
    }
    *r = (request){++t->last, at, offset, bytes, bytes, write};
    *out = t->last;
    pthread_cond_signal(&t->work);
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
    if (is_open(t, r, ticket)) wait_for(t, r, ticket);
    if (t->failure.code != OK) result = fail_call(t, e);
done:
    pthread_mutex_unlock(&t->lock);
    return result;
}

void tier_count(tier *t, tier_counters *out)
{
    pthread_mutex_lock(&t->lock);
    *out = t->counters;
    if (t->moving_since) out->seconds_moving += (double)(clock_ns() - t->moving_since) * 1e-9;
    clockid_t clock;
    struct timespec used = {0};
    if (pthread_getcpuclockid(t->thread, &clock) == 0) clock_gettime(clock, &used);
    out->seconds_cpu = (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
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
    status result = OK;
    text what = {0};
    text_addf(&what, "%s in %s", o->name, o->folder);
    TRY(text_take(&what, &t->what, e));
    t->bytes = o->bytes ? (o->bytes + TIER_ALIGN - 1) & ~(uint64_t)(TIER_ALIGN - 1) : TIER_ALIGN;
    t->block_bytes = o->block_bytes ? o->block_bytes : DEFAULT_BLOCK;
    t->depth = o->depth ? (unsigned)o->depth : DEFAULT_DEPTH;
    t->requests = o->requests ? (unsigned)o->requests : DEFAULT_REQUESTS;
    t->feeding = 1;
    TRY(alloc_zeroed(&t->queue, t->requests, sizeof *t->queue, t->what, e));
    TRY(alloc_zeroed(&t->slots, t->depth, sizeof *t->slots, t->what, e));
    TRY(alloc_zeroed(&t->free, t->depth, sizeof *t->free, t->what, e));
    TRY(alloc_zeroed(&t->done, t->depth, sizeof *t->done, t->what, e));
    while (t->free_count < t->depth) {
        t->free[t->free_count] = t->free_count;
        t->free_count++;
    }
done:
    return result;
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
    TRY(text_check(&note, e));
    if (note.bytes) TRY(text_take(&note, &t->note, e));
done:
    text_clear(&note);
    return result;
}

status tier_open(const tier_options *o, tier **out, err *e)
{
    status result = OK;
    tier *t = NULL;
    TRY(check_options(o, e));
    TRY(alloc_zeroed(&t, 1, sizeof *t, o->name, e));
    t->fd = -1;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->work, NULL);
    pthread_cond_init(&t->finished, NULL);
    TRY(allocate(t, o, e));
    TRY(open_engine(t, o, e));
    TRY(tier_serve_start(t, e));
    *out = t;
done:
    if (result != OK) tier_close(t);
    return result;
}

void tier_close(tier *t)
{
    if (!t) return;
    tier_serve_stop(t);
    if (t->engine) t->engine->ops->close(t->engine);
    if (t->fd >= 0) close(t->fd);
    pthread_cond_destroy(&t->finished);
    pthread_cond_destroy(&t->work);
    pthread_mutex_destroy(&t->lock);
    free(t->done);
    free(t->free);
    free(t->slots);
    free(t->queue);
    free(t->what);
    free(t->note);
    free(t);
}
