// unkind_device.c -- the rules of unkind_device.h. It checks work when the host issues it, and again
// when the stream's thread runs it, and translates its pointers. Called by tests and their
// communicators. Order is the queues' matter (late_queue.h), and allocations are the pools'.
#include "unkind/unkind_device.h"

#include "late/late_capture.h"
#include "unkind/unkind_pointers.h"
#include "unkind/unkind_sharing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unkind_device *device_of(late_queues *q)
{
    return (unkind_device *)q;
}

static status keep(unkind_device *d, status result, const err *e)
{
    if (result == OK || result == E_FIT || d->broken.code != OK) return result;
    d->broken = *e;
    d->broken.code = result;
    return result;
}

static unkind_pool *pool_of(unkind_device *d, const void *p)
{
    return unkind_pool_holds(&d->own, p)    ? &d->own
           : unkind_pool_holds(&d->host, p) ? &d->host
                                            : unkind_imported_pool(d, p);
}

// ---- Pending work with a block

typedef enum use { USE_READ, USE_WRITE } use;

static void count(unkind_block *b, use u, int by)
{
    if (u == USE_READ)
        b->reads += by;
    else
        b->writes += by;
}

// ---- Copies

static unkind_block *find_side(unkind_device *d, const void *p, size_t bytes, const char *what,
                               err *e)
{
    unkind_pool *pool = pool_of(d, p);
    if (pool) return unkind_pool_find(pool, p, bytes, what, e);
    err_set(e, E_INTERNAL,
            "%s: %p is neither memory of this device nor its host memory (a copy from or to memory "
            "of malloc)",
            what, p);
    return NULL;
}

static uint64_t digest_of(const unsigned char *x, size_t bytes)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes; i++) sum = (sum ^ x[i]) * 0x100000001b3u;
    return sum;
}

static const char SOURCE[] = "copy: its source", TARGET[] = "copy: its target";

static status find_sides(unkind_device *d, const late_item *i, unkind_block **src,
                         unkind_block **dst, err *e)
{
    status result = OK;
    *src = find_side(d, i->u.copy.src, i->u.copy.bytes, SOURCE, e);
    if (!*src) return E_INTERNAL;
    *dst = find_side(d, i->u.copy.dst, i->u.copy.bytes, TARGET, e);
    if (!*dst) result = E_INTERNAL;
    return result;
}

// The host must not write what a pending copy reads. A digest shows it, unless the device may write
// it first. And the host must not read what a pending copy will write.
static status issue_copy(unkind_device *d, late_item *i, err *e)
{
    status result = OK;
    unkind_block *src, *dst;
    if (i->u.copy.bytes == 0) return OK;
    TRY(find_sides(d, i, &src, &dst, e));
    if (unkind_pool_holds(&d->host, i->u.copy.src) && src->writes == 0) {
        i->u.copy.digest = digest_of(i->u.copy.src, i->u.copy.bytes);
        i->u.copy.is_checked = true;
    }
    count(src, USE_READ, 1);
    if (unkind_pool_holds(&d->host, i->u.copy.dst) && dst->reads + dst->writes == 0)
        memset(i->u.copy.dst, 0xff, i->u.copy.bytes);
    count(dst, USE_WRITE, 1);
done:
    return result;
}

static void *translate(unkind_device *d, const void *p)
{
    return unkind_pool_translate(pool_of(d, p), p);
}

static status start_copy(unkind_device *d, late_item *i, err *e)
{
    status result = OK;
    unkind_block *src, *dst;
    if (i->u.copy.bytes == 0) return OK;
    TRY(find_sides(d, i, &src, &dst, e));
    if (i->u.copy.is_checked && digest_of(i->u.copy.src, i->u.copy.bytes) != i->u.copy.digest)
        FAIL(E_INTERNAL,
             "%s: the host wrote these %zu bytes of host memory while the copy was "
             "pending",
             SOURCE, i->u.copy.bytes);
    i->u.copy.src = translate(d, i->u.copy.src);
    i->u.copy.dst = translate(d, i->u.copy.dst);
done:
    return result;
}

static void end_copy(unkind_device *d, const late_item *i)
{
    err e = {0};
    unkind_block *src, *dst;
    if (i->u.copy.bytes == 0 || find_sides(d, i, &src, &dst, &e) != OK) return;
    count(src, USE_READ, -1);
    count(dst, USE_WRITE, -1);
}

// ---- Kernels

static void **pointer_at(kernel_call *c, size_t offset)
{
    return (void **)(void *)((char *)c + offset);
}

// Sets *block to that of the pointer at `offset`; NULL for a pointer that is NULL.
static status find_pointer(unkind_device *d, const kernel_call *c, size_t offset,
                           unkind_block **block, err *e)
{
    const void *p = *pointer_at((kernel_call *)(uintptr_t)c, offset);
    unkind_pool *pool = pool_of(d, p);
    char what[64];
    *block = p && pool ? unkind_pool_find(pool, p, 0, "", e) : NULL;
    if (!p || *block) return OK;
    snprintf(what, sizeof what, "%s: the pointer at byte %zu of its arguments",
             kernel_name(c->kind), offset - offsetof(kernel_call, u));
    if (pool) return unkind_pool_find(pool, p, 0, what, e) ? OK : E_INTERNAL; // with its name
    return err_set(e, E_INTERNAL,
                   "%s: %p is neither memory of this device nor its host memory (a kernel with a "
                   "pointer to memory of malloc)",
                   what, p);
}

static void count_kernel(unkind_device *d, const kernel_call *c, int by)
{
    err e = {0};
    unkind_block *b;
    for (const size_t *o = unkind_pointers(c->kind); *o; o++)
        if (find_pointer(d, c, *o, &b, &e) == OK && b) count(b, USE_WRITE, by);
}

static status issue_kernel(unkind_device *d, const kernel_call *c, err *e)
{
    status result = OK;
    unkind_block *b;
    for (const size_t *o = unkind_pointers(c->kind); *o; o++) TRY(find_pointer(d, c, *o, &b, e));
    count_kernel(d, c, 1);
done:
    return result;
}

static status start_kernel(unkind_device *d, kernel_call *c, err *e)
{
    status result = OK;
    unkind_block *b;
    for (const size_t *o = unkind_pointers(c->kind); *o; o++) {
        TRY(find_pointer(d, c, *o, &b, e));
        if (b) *pointer_at(c, *o) = translate(d, *pointer_at(c, *o));
    }
done:
    return result;
}

// ---- Stamps

static status check_stamp(unkind_device *d, int64_t **slot, bool runs, err *e)
{
    if (!unkind_pool_holds(&d->host, *slot))
        return err_set(e, E_INTERNAL, "stamp: %p is no host memory of this device", (void *)*slot);
    if (!unkind_pool_find(&d->host, *slot, sizeof **slot, "stamp", e)) return E_INTERNAL;
    if (runs) *slot = unkind_pool_translate(&d->host, *slot);
    return OK;
}

// ---- The rules of the queues

static status rule_issue(late_queues *q, late_item *i, err *e)
{
    status result = OK;
    unkind_device *d = device_of(q);
    unkind_lock();
    if (i->kind == LATE_COPY) result = issue_copy(d, i, e);
    if (i->kind == LATE_KERNEL) result = issue_kernel(d, &i->u.kernel, e);
    if (i->kind == LATE_STAMP) result = check_stamp(d, &i->u.stamp, false, e);
    keep(d, result, e);
    unkind_unlock();
    return result;
}

static status rule_start(late_queues *q, late_item *i, err *e)
{
    status result = OK;
    unkind_device *d = device_of(q);
    unkind_lock();
    if (i->kind == LATE_COPY) result = start_copy(d, i, e);
    if (i->kind == LATE_KERNEL) result = start_kernel(d, &i->u.kernel, e);
    if (i->kind == LATE_STAMP) result = check_stamp(d, &i->u.stamp, true, e);
    keep(d, result, e);
    unkind_unlock();
    return result;
}

static void rule_end(late_queues *q, const late_item *i)
{
    unkind_device *d = device_of(q);
    unkind_lock();
    if (i->kind == LATE_COPY) end_copy(d, i);
    if (i->kind == LATE_KERNEL) count_kernel(d, &i->u.kernel, -1);
    unkind_unlock();
}

static const late_rules RULES = {.issue = rule_issue, .start = rule_start, .end = rule_end};

// ---- Memory

static status unkind_alloc(device *base, device_memory_kind kind, size_t bytes, void **out, err *e)
{
    unkind_device *d = (unkind_device *)base;
    unkind_pool *pool = kind == MEMORY_HOST ? &d->host : &d->own;
    late_capture_refuse(d->queues.capture, "an allocation");
    unkind_lock();
    const status result = unkind_pool_alloc(pool, bytes, kind == MEMORY_ZEROED, out, e);
    unkind_unlock();
    return result;
}

static void unkind_release(device *base, device_memory_kind kind, void *p)
{
    unkind_device *d = (unkind_device *)base;
    unkind_pool *pool = kind == MEMORY_HOST ? &d->host : &d->own;
    err e = {0};
    if (!p) return;
    unkind_lock();
    keep(d, unkind_pool_release(pool, p, &e), &e);
    unkind_unlock();
}

// ---- The device

static void close_pools(unkind_device *d)
{
    unkind_forget(d);
    unkind_pool_close(&d->own);
    unkind_pool_close(&d->host);
    free(d);
}

static void unkind_close(device *base)
{
    late_queues_close((late_queues *)base);
    close_pools((unkind_device *)base);
}

static const device_ops unkind_ops = {
    .name = "unkind",
    .close = unkind_close,
    .alloc = unkind_alloc,
    .release = unkind_release,
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
    .stamp = late_stamp,
    .capture_begin = late_capture_begin,
    .capture_end = late_capture_end,
    .replay = late_replay,
    .recording_close = late_recording_close,
    .sharing = &UNKIND_SHARING,
};

status unkind_device_open(const unkind_options *o, device **out, err *e)
{
    status result = OK;
    const device_options one = {.threads = 1};
    unkind_device *d = calloc(1, sizeof *d);
    if (!d) FAIL(E_FIT, "out of memory for a device");
    TRY(unkind_pool_open(&d->own, "device", false, o->device_bytes, e));
    TRY(unkind_pool_open(&d->host, "host", true, o->host_bytes, e));
    TRY(late_queues_open(&d->queues, &unkind_ops, o->order, &one, &RULES, e));
    d->queues.moves_on = !o->stays_late;
    *out = &d->queues.base;
done:
    if (result != OK && d) close_pools(d);
    return result;
}

const char *unkind_broken(const device *base)
{
    const unkind_device *d = (const unkind_device *)base;
    return d->broken.code == OK ? NULL : d->broken.text;
}

size_t unkind_peak(const device *base, device_memory_kind kind)
{
    const unkind_device *d = (const unkind_device *)base;
    return kind == MEMORY_HOST ? d->host.peak : d->own.peak;
}

void unkind_enqueue(device_stream *s, device_stream_fn fn, const void *arg, size_t bytes)
{
    late_call(s, fn, arg, bytes);
}

void *unkind_ptr(device *base, const void *p)
{
    unkind_device *d = (unkind_device *)base;
    err e = {0};
    void *found = NULL;
    unkind_lock();
    const unkind_block *b =
        unkind_pool_holds(&d->own, p) ? unkind_pool_find(&d->own, p, 0, "unkind_ptr", &e) : NULL;
    if (b)
        found = unkind_pool_translate(&d->own, p);
    else if (e.code == OK)
        err_set(&e, E_INTERNAL, "unkind_ptr: %p is no memory of this device", p);
    keep(d, b ? OK : E_INTERNAL, &e);
    unkind_unlock();
    return found;
}
