// toy_comm.h -- a communicator for tests, and the example of docs/adding-a-communicator.md. Its ranks are
// threads of one process, and yet it works as one over a network does: it cannot read the memory of
// other ranks, a send waits for its receive, and its calls are work on a device stream. It takes every
// device that can run such work, also one whose memory the host cannot address.
#ifndef TRIREME_TESTS_TOY_TOY_COMM_H
#define TRIREME_TESTS_TOY_TOY_COMM_H

#include "comm/registry.h"

// What the communicator needs of a device. A communicator of a GPU launches kernels of its own here.
typedef struct toy_device {
    // Runs fn in stream order. fn may block. `arg` is copied, at most STREAM_ARG_BYTES.
    void (*enqueue)(device_stream *on, device_stream_fn fn, const void *arg, size_t bytes);
    // The address at which fn finds the device memory or host memory at p.
    void *(*ptr)(device *d, const void *p);
} toy_device;

// A device whose memory the host can address: device_ops.call, and addresses as they are.
extern const toy_device TOY_HOST_DEVICE;

extern const comm_capabilities TOY_CAPABILITIES;

// Opens the communicator of all ranks, as a row of comm/registry.c would. `d` is borrowed. E_USAGE for
// more ranks than the toy can have, and without a world. Collective over all ranks.
status toy_open(const comm_options *o, const toy_device *d, comm **out, err *e);

#endif
