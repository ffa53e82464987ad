// transfer.c -- copies between the device and memory of the heap or of a file, for code outside of
// steps. See device.h. A device with memory of its own copies only from and to MEMORY_HOST in stream
// order, so such memory passes through the device's two staging buffers: the host fills or empties one
// while the device copies the other. They stay open until the device closes, because pinning memory
// takes longer than most copies.
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFERS = 2, BUFFER_BYTES = DEVICE_STAGING_BYTES / BUFFERS };

struct device_staging {
    char *buffer[BUFFERS]; // [BUFFER_BYTES] MEMORY_HOST
    device_event *copied[BUFFERS];
    bool pending[BUFFERS]; // a copy from or to the buffer was issued, and nobody has waited for it
    int next;              // the buffer that is used next
};

void device_staging_close(device *d)
{
    struct device_staging *x = d->staging;
    if (!x) return;
    for (int i = 0; i < BUFFERS; i++) {
        if (x->copied[i]) d->ops->event_close(x->copied[i]);
        d->ops->release(d, MEMORY_HOST, x->buffer[i]);
    }
    free(x);
    d->staging = NULL;
}

status device_staging_open(device *d, err *e)
{
    status result = OK;
    if (d->is_host_memory || d->staging) return OK;
    d->staging = calloc(1, sizeof *d->staging);
    if (!d->staging) FAIL(E_FIT, "out of memory for staging buffers");
    for (int i = 0; i < BUFFERS; i++) {
        void *p;
        TRY(d->ops->alloc(d, MEMORY_HOST, BUFFER_BYTES, &p, e));
        d->staging->buffer[i] = p;
        d->allocations++;
        TRY(d->ops->event_open(d, &d->staging->copied[i], e));
    }
done:
    if (result != OK) device_staging_close(d);
    return result;
}

// Waits until no copy uses buffer i.
static void await(device *d, int i)
{
    if (!d->staging->pending[i]) return;
    d->ops->event_sync(d->staging->copied[i]);
    d->staging->pending[i] = false;
}

// Returns the buffer to use, which no copy uses.
static int take_buffer(device *d)
{
    const int i = d->staging->next;
    d->staging->next = (i + 1) % BUFFERS;
    await(d, i);
    return i;
}

static void copy_piece(device_stream *s, int i, void *dst, const void *src, size_t bytes)
{
    struct device_staging *x = s->device->staging;
    s->device->ops->copy(s, dst, src, bytes);
    s->device->ops->record(x->copied[i], s);
    x->pending[i] = true;
}

static size_t piece_of(size_t left)
{
    return left < BUFFER_BYTES ? left : BUFFER_BYTES;
}

static void upload_pieces(device_stream *s, char *dst, const char *src, size_t bytes)
{
    for (size_t done = 0, piece; done < bytes; done += piece) {
        const int i = take_buffer(s->device);
        char *buffer = s->device->staging->buffer[i];
        piece = piece_of(bytes - done);
        memcpy(buffer, src + done, piece);
        copy_piece(s, i, dst + done, buffer, piece);
    }
}

// While the host empties a buffer, the device fills the other one.
static void download_pieces(device_stream *s, char *dst, const char *src, size_t bytes)
{
    device *d = s->device;
    size_t issued = 0, waiting = 0; // `waiting` bytes before `issued` are in buffer `before`
    for (int before = 0; issued < bytes || waiting > 0;) {
        const size_t piece = piece_of(bytes - issued);
        const int now = piece > 0 ? take_buffer(d) : 0;
        if (piece > 0) copy_piece(s, now, d->staging->buffer[now], src + issued, piece);
        if (waiting > 0) {
            await(d, before);
            memcpy(dst + issued - waiting, d->staging->buffer[before], waiting);
        }
        issued += piece, waiting = piece, before = now;
    }
}

static status copy_host(device_stream *s, void *dst, const void *src, size_t bytes, err *e)
{
    s->device->ops->copy(s, dst, src, bytes);
    return s->device->ops->sync(s, e);
}

status device_upload_issue(device_stream *s, void *dst, const void *src, size_t bytes, err *e)
{
    status result = OK;
    if (s->device->is_host_memory) return copy_host(s, dst, src, bytes, e);
    TRY(device_staging_open(s->device, e));
    upload_pieces(s, dst, src, bytes);
done:
    return result;
}

status device_upload(device_stream *s, void *dst, const void *src, size_t bytes, err *e)
{
    status result = OK;
    TRY(device_upload_issue(s, dst, src, bytes, e));
    if (!s->device->is_host_memory) TRY(s->device->ops->sync(s, e));
done:
    return result;
}

status device_download(device_stream *s, void *dst, const void *src, size_t bytes, err *e)
{
    status result = OK;
    if (s->device->is_host_memory) return copy_host(s, dst, src, bytes, e);
    TRY(device_staging_open(s->device, e));
    download_pieces(s, dst, src, bytes);
    TRY(s->device->ops->sync(s, e));
done:
    return result;
}
