// copy_rate.c -- the rate at which a device copies its memory. Called by programs that measure. It knows no back end.
#include "base/clock.h"
#include "device/device.h"
#include "device/kernels.h"

#include <math.h>

// The least seconds of one copy, or of one kernel where there is a call, among those of `seconds`.
static status time_best(device_stream *s, const kernel_call *call, void *dst, const void *src,
                        size_t bytes, double seconds, double *out, err *e)
{
    status result = OK;
    double end = 0;
    for (int i = 0; i < 2 || clock_seconds() < end; i++) {
        const double start = clock_seconds();
        if (call)
            device_launch(s, call);
        else
            s->device->ops->copy(s, dst, src, bytes);
        TRY(s->device->ops->sync(s, e));
        if (i == 0)
            end = clock_seconds() + seconds; // the first use of a kernel and of memory is slow
        else
            *out = fmin(*out, clock_seconds() - start);
    }
done:
    return result;
}

status device_copy_rate(device *d, size_t bytes, double seconds, double *out, err *e)
{
    status result = OK;
    void *memory = NULL;
    device_stream *s = NULL;
    double least = INFINITY;
    bytes = (bytes + DEVICE_ALIGN - 1) / DEVICE_ALIGN * DEVICE_ALIGN;
    TRY(d->ops->stream_open(d, STREAM_COMPUTE, false, &s, e));
    TRY(device_alloc(d, MEMORY_DEVICE, 2 * bytes, &memory, e));
    char *dst = (char *)memory + bytes;
    const kernel_call fill = {.kind = K_FILL, .u.fill = {memory, (int64_t)(2 * bytes)}};
    const kernel_call convert = {.kind = K_CONVERT,
                                 .u.convert = {.count = (int64_t)(bytes / sizeof(float)),
                                               .src = memory,
                                               .dst = dst,
                                               .src_type = F32,
                                               .dst_type = F32}};
    device_launch(s, &fill);
    TRY(time_best(s, NULL, dst, memory, bytes, seconds / 2, &least, e));
    TRY(time_best(s, &convert, NULL, NULL, 0, seconds / 2, &least, e));
    *out = 2 * (double)bytes / least;
done:
    device_release(d, MEMORY_DEVICE, memory, 2 * bytes);
    if (s) d->ops->stream_close(s);
    return result;
}
