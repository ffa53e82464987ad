// late_device.c -- the late device of late_device.h: the memory of the host, and the queues of
// late_queue.h. Called by tests through device_ops. It does not know the order of work.
#include "late/late_device.h"

#include "base/size.h"

#include <stdlib.h>
#include <string.h>

enum { POISON = 0xff };

typedef struct late_device {
    late_queues queues;
    size_t limit; // of device memory in bytes; 0: none
} late_device;

// The size is stored in front of the block, so that late_device_release can fill it.
static status late_device_alloc(device *d, device_memory_kind kind, size_t bytes, void **out,
                                err *e)
{
    status result = OK;
    const size_t limit = ((late_device *)d)->limit;
    if (kind != MEMORY_HOST && limit > 0 && (bytes > limit || d->bytes_now > limit - bytes))
        FAIL(E_FIT, "out of device memory: %zu bytes asked for, %zu of %zu are taken", bytes,
             d->bytes_now, limit);
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

static void late_device_release(device *d, device_memory_kind kind, void *p)
{
    (void)d, (void)kind;
    if (!p) return;
    size_t bytes;
    memcpy(&bytes, (unsigned char *)p - DEVICE_ALIGN, sizeof bytes);
    memset(p, POISON, bytes);
    free((unsigned char *)p - DEVICE_ALIGN);
}

static void late_device_close(device *d)
{
    late_queues_close((late_queues *)d);
    free(d);
}

static const device_ops late_ops = {
    .name = "late",
    .close = late_device_close,
    .alloc = late_device_alloc,
    .release = late_device_release,
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
    .stamp = late_stamp,
};

void late_device_separate(device *d, size_t bytes)
{
    d->is_host_memory = false;
    ((late_device *)d)->limit = bytes;
}

status late_device_open(late_order order, const device_options *options, device **out, err *e)
{
    status result = OK;
    late_device *d = calloc(1, sizeof *d);
    if (!d) FAIL(E_FIT, "out of memory for a device");
    TRY(late_queues_open(&d->queues, &late_ops, order, options, NULL, e));
    d->queues.base.is_host_memory = true;
    *out = &d->queues.base;
done:
    if (result != OK) free(d);
    return result;
}
