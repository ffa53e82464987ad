// late_device.h -- a test-only device whose streams run late, each on its own thread, in the least
// convenient order that device.h allows. Work that lacks an event wait goes wrong here, every time,
// where the cpu device hides it. Kernels are the cpu device's own.
#ifndef TRIREME_TESTS_LATE_LATE_DEVICE_H
#define TRIREME_TESTS_LATE_LATE_DEVICE_H

#include "device/device.h"

// Nothing runs before the host waits for something (sync, event_sync, a close). Then, of what is
// legal:
typedef enum late_order {
    // Every other stream runs as far ahead as it can before the awaited one takes a step. Catches
    // memory that is reused while another stream still needs what is in it. A `call` that blocks
    // for a few milliseconds (a collective whose peer is not there yet) holds nobody up.
    LATE_OTHERS_FIRST,
    // Only what the awaited work waits for runs, at the last moment. Catches results that are read
    // before they are there.
    LATE_OTHERS_LAST,
} late_order;

// New memory is filled with 0xff (NaN), and so is memory that is given back. Errors as device_open.
status late_device_open(late_order order, const device_options *options, device **out, err *e);

#endif
