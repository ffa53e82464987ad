// launch.h -- functions that launch the kernels which several files of this folder use.
#ifndef TRIREME_TRAIN_LAUNCH_H
#define TRIREME_TRAIN_LAUNCH_H

#include "device/device.h"
#include "device/kernels.h"

static inline void launch_zero(device_stream *on, void *ptr, int64_t bytes)
{
    kernel_call c = {.kind = K_FILL};
    c.u.fill = (kernel_fill_args){ptr, bytes};
    device_launch(on, &c);
}

// y[count] = a[count] + beta b[count], all F32. b NULL: y = a.
static inline void launch_add(device_stream *on, float *y, const float *a, const float *b,
                              float beta, int64_t count)
{
    kernel_call c = {.kind = K_ADD};
    c.u.add = (kernel_add_args){
        .count = count, .a = a, .b = b, .y = y, .alpha = 1, .beta = beta, .type = F32};
    device_launch(on, &c);
}

// x[count] *= factor, in F32.
static inline void launch_scale(device_stream *on, float *x, float factor, int64_t count)
{
    kernel_call c = {.kind = K_ADD};
    c.u.add = (kernel_add_args){.count = count, .a = x, .y = x, .alpha = factor, .type = F32};
    device_launch(on, &c);
}

static inline void launch_convert(device_stream *on, void *to, dtype to_type, const void *from,
                                  dtype from_type, int64_t count)
{
    kernel_call c = {.kind = K_CONVERT};
    c.u.convert = (kernel_convert_args){
        .count = count, .src = from, .dst = to, .src_type = from_type, .dst_type = to_type};
    device_launch(on, &c);
}

#endif
