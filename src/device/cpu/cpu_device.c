// cpu_device.c -- the cpu back end of device.h. An inline stream runs every piece of work at once, on
// the calling thread and its team. A stream with its own thread hands its work to a queue. Memory of
// every kind is host memory. Called through device_ops only. It knows no kernel.
//
// Work of an inline stream is complete when its call returns. So nothing waits for it, and an inline
// stream that waits for an event of a queue makes the host wait.
#define _GNU_SOURCE // MADV_HUGEPAGE
#include "base/clock.h"
#include "base/proc.h"
#include "device/cpu/cpu.h"
#include "device/cpu/cpu_queue.h"
#include "device/cpu/cpu_team.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

typedef struct cpu_stream {
    device_stream base;
    cpu_queue *queue; // NULL: the stream is inline
    err failure;      // of an inline stream: the first since the last sync; code OK when none
    struct cpu_stream *next;
} cpu_stream;

typedef struct cpu_device {
    device base;
    cpu_context context; // of inline streams
    cpu_kernels kernels;
    cpu_stream *queued; // streams with a queue, closed ones too: events may still name the queue
} cpu_device;

typedef struct cpu_event {
    device_event base;
    cpu_queue *queue; // of the latest record; NULL: the event is complete
    uint64_t position;
} cpu_event;

static void cpu_close(device *base)
{
    cpu_device *d = (cpu_device *)base;
    while (d->queued) {
        cpu_stream *s = d->queued;
        d->queued = s->next;
        cpu_queue_close(s->queue);
        free(s);
    }
    cpu_context_close(&d->context);
    free(d);
}

// Returns an aligned address within a block of calloc. For a large block, calloc gives pages that
// are zeroed at their first use. The address of the block is stored in front of the aligned
// address.
static void *zeroed_block(size_t alignment, size_t bytes)
{
    char *block = calloc(1, bytes + alignment + sizeof block);
    if (!block) return NULL;
    char *aligned = block + sizeof block;
    aligned += -(uintptr_t)aligned & (alignment - 1);
    memcpy(aligned - sizeof block, &block, sizeof block);
    return aligned;
}

static status cpu_alloc(device *d, device_memory_kind kind, size_t bytes, void **out, err *e)
{
    (void)d;
    status result = OK;
    const bool huge = bytes >= HUGE_PAGE, possible = bytes <= SIZE_MAX / 2;
    const size_t alignment = huge ? HUGE_PAGE : DEVICE_ALIGN;
    *out = NULL;
    if (possible && kind == MEMORY_ZEROED) *out = zeroed_block(alignment, bytes);
    if (possible && kind != MEMORY_ZEROED &&
        posix_memalign(out, alignment, bytes ? bytes : DEVICE_ALIGN) != 0)
        *out = NULL;
    if (!*out) FAIL(E_FIT, "out of memory: %zu bytes asked for", bytes);
    // Full huge pages only, so that the last page costs no more than was asked for. A refusal costs
    // only speed.
    if (huge) madvise(*out, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
done:
    return result;
}

static void cpu_release(device *d, device_memory_kind kind, void *p)
{
    (void)d;
    if (p && kind == MEMORY_ZEROED) memcpy(&p, (char *)p - sizeof p, sizeof p);
    free(p);
}

static void take_scratch(device *d, size_t bytes)
{
    d->bytes_scratch += bytes;
    device_count_taken(d, bytes);
}

static void give_scratch(device *d, size_t bytes)
{
    d->bytes_scratch -= bytes;
    device_count_given(d, bytes);
}

static cpu_queue *queue_of(const device_stream *s)
{
    return ((const cpu_stream *)s)->queue;
}

static status cpu_stream_open(device *base, device_stream_kind kind, bool own_thread,
                              device_stream **out, err *e)
{
    status result = OK;
    cpu_device *d = (cpu_device *)base;
    cpu_stream *s = calloc(1, sizeof *s);
    if (!s) FAIL(E_FIT, "out of memory for a stream");
    s->base = (device_stream){.device = base, .kind = kind};
    if (own_thread) {
        TRY(cpu_queue_open(&d->kernels, d->context.level, &s->queue, e));
        s->next = d->queued;
        d->queued = s;
        take_scratch(base, cpu_queue_bytes());
    }
    *out = &s->base;
    s = NULL;
done:
    free(s);
    return result;
}

static void cpu_stream_close(device_stream *s)
{
    if (!s || !queue_of(s)) {
        free(s);
        return;
    }
    cpu_queue_stop(queue_of(s));
    give_scratch(s->device, cpu_queue_bytes());
}

static status cpu_event_open(device *d, device_event **out, err *e)
{
    status result = OK;
    cpu_event *v = calloc(1, sizeof *v);
    if (!v) FAIL(E_FIT, "out of memory for an event");
    v->base.device = d;
    *out = &v->base;
done:
    return result;
}

static void cpu_event_close(device_event *v)
{
    free(v);
}

static void cpu_record(device_event *v, device_stream *s)
{
    cpu_event *own = (cpu_event *)v;
    own->queue = queue_of(s);
    if (own->queue) own->position = cpu_queue_position(own->queue);
}

static void cpu_event_sync(device_event *v)
{
    const cpu_event *own = (cpu_event *)v;
    if (own->queue) cpu_queue_await(own->queue, own->position);
}

static void cpu_wait(device_stream *s, device_event *v)
{
    const cpu_event *own = (cpu_event *)v;
    if (own->queue && queue_of(s))
        cpu_queue_add_wait(queue_of(s), own->queue, own->position);
    else
        cpu_event_sync(v);
}

static status cpu_sync(device_stream *s, err *e)
{
    cpu_stream *own = (cpu_stream *)s;
    if (own->queue) return cpu_queue_sync(own->queue, e);
    status result = own->failure.code;
    if (result == OK) return cpu_context_failure(&((cpu_device *)s->device)->context, e);
    if (e) *e = own->failure;
    own->failure.code = OK;
    return result;
}

static void cpu_copy(device_stream *s, void *dst, const void *src, size_t bytes)
{
    if (queue_of(s))
        cpu_queue_add_copy(queue_of(s), dst, src, bytes);
    else if (bytes)
        memmove(dst, src, bytes);
}

static void cpu_launch(device_stream *s, const kernel_call *call)
{
    cpu_device *d = (cpu_device *)s->device;
    if (queue_of(s))
        cpu_queue_add_kernel(queue_of(s), call);
    else
        cpu_kernels_run(&d->kernels, &d->context, call);
}

static void run_call(cpu_stream *s, device_stream_fn fn, const void *arg, size_t arg_bytes)
{
    _Alignas(16) unsigned char copy[STREAM_ARG_BYTES];
    if (arg_bytes) memcpy(copy, arg, arg_bytes);
    err *e = s->failure.code == OK ? &s->failure : NULL; // the first failure is kept
    if (e) e->text[0] = 0, e->depth = 0;
    const status code = fn(copy, e);
    if (e) e->code = code;
}

static void cpu_call(device_stream *s, device_stream_fn fn, const void *arg, size_t arg_bytes)
{
    if (queue_of(s))
        cpu_queue_add_call(queue_of(s), fn, arg, arg_bytes);
    else
        run_call((cpu_stream *)s, fn, arg, arg_bytes);
}

static void cpu_stamp(device_stream *s, int64_t *slot)
{
    if (queue_of(s))
        cpu_queue_add_stamp(queue_of(s), slot);
    else
        *slot = clock_ns();
}

static const device_ops cpu_ops = {
    .name = "cpu",
    .close = cpu_close,
    .alloc = cpu_alloc,
    .release = cpu_release,
    .stream_open = cpu_stream_open,
    .stream_close = cpu_stream_close,
    .event_open = cpu_event_open,
    .event_close = cpu_event_close,
    .record = cpu_record,
    .wait = cpu_wait,
    .event_sync = cpu_event_sync,
    .sync = cpu_sync,
    .copy = cpu_copy,
    .launch = cpu_launch,
    .call = cpu_call,
    .stamp = cpu_stamp,
};

// More threads than cores would only wait for each other.
static int threads_of(const device_options *o)
{
    const int cores = proc_usable_cores();
    return o->threads == 0 || o->threads > cores ? cores : o->threads;
}

status cpu_device_describe(const device_options *o, device_description *out, err *e)
{
    status result = OK;
    cpu_level level;
    if (o->threads < 0) FAIL(E_USAGE, "threads=%d: valid are 0 (all cores) and above", o->threads);
    TRY(cpu_level_choose(o->isa, &level, e));
    *out = (device_description){.kind = cpu_level_name(level),
                                .count = 1,
                                .free_bytes = proc_available_bytes(),
                                .utilization = -1,
                                .own_bytes = cpu_scratch_bytes(threads_of(o)),
                                .own_thread_bytes = cpu_queue_bytes(),
                                .is_host_memory = true,
                                .needs = cpu_kernel_needs(level)};
done:
    return result;
}

status cpu_device_open(const device_options *o, device **out, err *e)
{
    status result = OK;
    const device_options context = {.threads = threads_of(o), .isa = o->isa};
    cpu_device *d = calloc(1, sizeof *d);
    if (!d) FAIL(E_FIT, "out of memory for a device");
    d->base.ops = &cpu_ops;
    d->base.is_host_memory = true;
    TRY(cpu_context_open(&context, &d->context, e));
    cpu_kernels_fill(&d->kernels, d->context.level);
    d->base.needs = cpu_kernel_needs(d->context.level);
    take_scratch(&d->base, cpu_scratch_bytes(d->context.threads));
    d->base.own_thread_bytes = cpu_queue_bytes();
    *out = &d->base;
done:
    if (result != OK) free(d);
    return result;
}
