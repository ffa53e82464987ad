// tier.c -- the file tier: opens it, queues requests and waits for them. The trainer calls it for
// state that is offloaded to a file. It deliberately does not know what the bytes mean, nor how they
// are transferred: a thread serves the queue (tier_service.c).
#include "store/tier.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/size.h"
#include "base/text.h"
#include "store/tier_private.h"

#include <stdlib.h>
#include <unistd.h>

enum {
    DEFAULT_BLOCK = 1 << 20,
    DEFAULT_DEPTH = 8,
    DEFAULT_REQUESTS = 64,
    DEPTH_MOST = 1024,
    BLOCK_MOST = 1 << 30, // the kernel transfers at most 2 GiB in one call
};

// Returns the failure that ended the tier.
static status earlier_failure(const tier *t, err *e)
{
    if (e) *e = t->failure;
    return t->failure.code;
}

// Returns whether this request is unfinished. A newer request may have taken its entry of the queue; then it has
// finished.
static bool is_unfinished(const tier *t, const tier_request *r, tier_ticket ticket)
{
    return r->ticket == ticket && (r->unfinished || t->queue.splitting <= ticket);
}

static void wait_for(tier *t, const tier_request *r, tier_ticket ticket)
{
    const int64_t began = clock_ns();
    while (is_unfinished(t, r, ticket) && t->failure.code == OK) {
        t->waiting = true;
        pthread_cond_wait(&t->finished, &t->lock);
    }
    t->counters.seconds_waited += (double)(clock_ns() - began) * 1e-9;
}

static status submit(tier *t, bool write, uint64_t offset, void *ptr, size_t bytes,
                     tier_ticket *out, err *e)
{
    if ((offset | bytes | (uintptr_t)ptr) % TIER_ALIGN)
        return err_set(e, E_INTERNAL,
                       "%s: %s of %zu bytes at offset %llu, memory %p: all must be multiples of %d",
                       t->what, write ? "write" : "read", bytes, (unsigned long long)offset, ptr,
                       TIER_ALIGN);
    if (offset > t->bytes || bytes > t->bytes - offset)
        return err_set(e, E_INTERNAL, "%s: %zu bytes at offset %llu are outside of the file's %llu",
                       t->what, bytes, (unsigned long long)offset, (unsigned long long)t->bytes);
    status result = OK;
    pthread_mutex_lock(&t->lock);
    tier_request *r = &t->queue.entries[(t->queue.last + 1) % t->queue.room];
    if (is_unfinished(t, r, r->ticket)) wait_for(t, r, r->ticket);
    if (t->failure.code != OK) {
        result = earlier_failure(t, e);
        goto done;
    }
    *r = (tier_request){.ticket = ++t->queue.last,
                        .ptr = ptr,
                        .offset = offset,
                        .unsplit = bytes,
                        .unfinished = bytes,
                        .write = write};
    *out = t->queue.last;
    pthread_cond_signal(&t->submitted);
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
    if (ticket == 0 || ticket > t->queue.last)
        FAIL(E_INTERNAL, "%s: no request has ticket %llu; the newest is %llu", t->what,
             (unsigned long long)ticket, (unsigned long long)t->queue.last);
    const tier_request *r = &t->queue.entries[ticket % t->queue.room];
    if (is_unfinished(t, r, ticket)) wait_for(t, r, ticket);
    if (t->failure.code != OK) result = earlier_failure(t, e);
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
    return sizeof *t + t->queue.room * sizeof *t->queue.entries + t->engine->bytes +
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
    t->bytes = o->bytes ? size_align(o->bytes, TIER_ALIGN) : TIER_ALIGN;
    t->block_bytes = o->block_bytes ? o->block_bytes : DEFAULT_BLOCK;
    t->depth = o->depth ? (unsigned)o->depth : DEFAULT_DEPTH;
    t->queue.room = o->requests ? (unsigned)o->requests : DEFAULT_REQUESTS;
    t->queue.splitting = 1;
    TRY(alloc_zeroed(&t->queue.entries, t->queue.room, sizeof *t->queue.entries, t->what, e));
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
    err no_uring = {0};
    char reason[128];
    const char *buffered = NULL;
    text note = {0};
    status result = OK;
    TRY(tier_file_open(o, t->bytes, &t->fd, reason, &buffered, e));
    if (o->avoid & TIER_AVOID_URING)
        err_set(&no_uring, E_IO, "the caller avoids it");
    else
        tier_uring_open(t->fd, t->depth, &t->engine, &no_uring);
    if (!t->engine) TRY(tier_threads_open(t->fd, t->depth, &t->engine, e));
    if (buffered) text_addf(&note, "%s: buffered I/O instead of O_DIRECT (%s)", t->what, buffered);
    if (no_uring.code != OK)
        text_addf(&note, "%s%s threads instead of io_uring (%s)", buffered ? "" : t->what,
                  buffered ? ", and" : ":", no_uring.text);
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
    pthread_cond_init(&t->submitted, NULL);
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
    pthread_cond_destroy(&t->submitted);
    pthread_mutex_destroy(&t->lock);
    free(t->done);
    free(t->free);
    free(t->slots);
    free(t->queue.entries);
    free(t->what);
    free(t->note);
    free(t);
}
