// transfer.c -- copies between the device and memory of the heap or of a file, for code outside of
// steps. See device.h. A device with memory of its own copies only from and to MEMORY_HOST in stream
// order, so such memory is passed on through a buffer.
#include "device/device.h"

#include <string.h>

static const size_t BUFFER_BYTES = 1 << 20;

// Copies piece by piece through a buffer of host memory.
static status pass_on(device_stream *s, void *to_device, void *to_host, const void *from,
                      size_t bytes, err *e)
{
    status result = OK;
    device *d = s->device;
    const size_t room = bytes < BUFFER_BYTES ? bytes : BUFFER_BYTES;
    void *buffer = NULL;
    TRY(device_alloc(d, MEMORY_HOST, room, &buffer, e));
    for (size_t done_bytes = 0, piece; done_bytes < bytes; done_bytes += piece) {
        const char *source = (const char *)from + done_bytes;
        piece = bytes - done_bytes < room ? bytes - done_bytes : room;
        if (to_device) memcpy(buffer, source, piece);
        if (to_device)
            d->ops->copy(s, (char *)to_device + done_bytes, buffer, piece);
        else
            d->ops->copy(s, buffer, source, piece);
        TRY(d->ops->sync(s, e));
        if (to_host) memcpy((char *)to_host + done_bytes, buffer, piece);
    }
done:
    device_release(d, MEMORY_HOST, buffer, room);
    return result;
}

static status copy_here(device_stream *s, void *dst, const void *src, size_t bytes, err *e)
{
    s->device->ops->copy(s, dst, src, bytes);
    return s->device->ops->sync(s, e);
}

status device_upload(device_stream *s, void *dst, const void *src, size_t bytes, err *e)
{
    return s->device->is_host_memory ? copy_here(s, dst, src, bytes, e)
                                     : pass_on(s, dst, NULL, src, bytes, e);
}

status device_download(device_stream *s, void *dst, const void *src, size_t bytes, err *e)
{
    return s->device->is_host_memory ? copy_here(s, dst, src, bytes, e)
                                     : pass_on(s, NULL, dst, src, bytes, e);
}
