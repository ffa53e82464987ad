// late_device.h -- a device for tests, whose streams run late, each on its own thread, in the least
// convenient order that device.h allows. Code that lacks a wait for an event always fails here,
// while the cpu device hides the defect. The kernels are those of the cpu device.
#ifndef TRIREME_TESTS_LATE_LATE_DEVICE_H
#define TRIREME_TESTS_LATE_LATE_DEVICE_H

#include "device/device.h"

// The order of work. Nothing runs before the host waits (in sync, event_sync, or a close).
typedef enum late_order {
    // Every other stream runs as far ahead as it can before the awaited stream takes a step. This
    // finds memory that is reused while another stream still needs its contents. A `call` that
    // blocks for a few milliseconds (a collective that waits for a peer) does not delay the others.
    LATE_OTHERS_FIRST,
    // Only the work that the host waits for runs, as late as possible. This finds results that are
    // read before they are computed.
    LATE_OTHERS_LAST,
} late_order;

// Opens the device. It fills new and released memory with 0xff (NaN). Errors as device_open.
status late_device_open(late_order order, const device_options *options, device **out, err *e);

#endif
