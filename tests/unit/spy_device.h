// spy_device.h -- for tests: a cpu device whose kernels need more workspace than they do. Each launch must
// bring as many bytes as its call needs. The spy fills them before the kernel runs, and again after it,
// so that a workspace that is any other memory spoils results. It counts what it sees.
#ifndef TRIREME_TESTS_SPY_DEVICE_H
#define TRIREME_TESTS_SPY_DEVICE_H

#include "device/device.h"
#include "device/kernel_needs.h"

#include <stdlib.h>
#include <string.h>

// Of the one spy of a thread.
typedef struct spy {
    device_ops ops;            // of the cpu device, with the spy's launch
    const device_ops *own;     // of the cpu device
    const kernel_needs *needs; // of the cpu device
    int64_t launches[KERNELS], prepared[KERNELS];
    int64_t too_small; // launches with less than they need
    int64_t unaligned; // workspaces that are not aligned
} spy;

static _Thread_local spy the_spy;

// More for more rows; of a product, more for a larger result.
static size_t spy_shape(const kernel_call *c)
{
    switch (c->kind) {
    case K_MATMUL:
        return (size_t)(c->u.matmul.m * c->u.matmul.n) + (size_t)c->u.matmul.k;
    case K_BIAS_GRAD:
        return (size_t)c->u.bias_grad.rows * 3 + 1;
    case K_NORM_GRAD:
        return (size_t)(c->u.norm_grad.rows * c->u.norm_grad.cols);
    case K_ATTENTION:
        return (size_t)c->u.attention.tk * 5;
    case K_SUM_SQUARES:
        return (size_t)c->u.sum_squares.count / 2 + 16 * (size_t)c->u.sum_squares.segments;
    case K_CROSS_ENTROPY:
        return (size_t)c->u.cross_entropy.rows * 9;
    default:
        return 77;
    }
}

static size_t spy_need(const kernel_call *c)
{
    return spy_shape(c) + kernel_workspace_bytes(the_spy.needs, c);
}

static const kernel_needs SPY_NEEDS = {.workspace_bytes = spy_need};

static void spy_launch(device_stream *s, const kernel_call *c)
{
    const size_t need = kernel_workspace_bytes(&SPY_NEEDS, c);
    the_spy.launches[c->kind]++;
    if (c->workspace_bytes < need) {
        the_spy.too_small++;
        return;
    }
    if ((uintptr_t)c->workspace % KERNEL_WORKSPACE_ALIGN) the_spy.unaligned++;
    if (need > 0) memset(c->workspace, 0xa5, need);
    the_spy.own->launch(s, c);
    if (need > 0) memset(c->workspace, 0xa5, need);
}

static status spy_prepare(device *d, const kernel_call *c, err *e)
{
    (void)d, (void)e;
    the_spy.prepared[c->kind]++;
    return OK;
}

// Makes d, a cpu device, the spy. Its streams must run inline.
static inline void spy_watch(device *d)
{
    the_spy = (spy){.ops = *d->ops, .own = d->ops, .needs = d->needs};
    the_spy.ops.launch = spy_launch;
    the_spy.ops.prepare = spy_prepare;
    d->ops = &the_spy.ops;
    d->needs = &SPY_NEEDS;
}

#endif
