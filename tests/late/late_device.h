// late_device.h -- a device for tests, whose streams run late (late_queue.h). Code that lacks a wait
// for an event always fails here, while the cpu device hides the defect. Its memory is the host's and
// it has `call`, so ranks that share memory run on it. The kernels are those of the cpu device.
#ifndef TRIREME_TESTS_LATE_LATE_DEVICE_H
#define TRIREME_TESTS_LATE_LATE_DEVICE_H

#include "late/late_queue.h"

// Opens the device. It fills new and released memory with 0xff (NaN). Errors as device_open.
status late_device_open(late_order order, const device_options *options, device **out, err *e);
// Makes the device's memory and the host's two: is_host_memory becomes false, and more than `bytes` of
// device memory at once are E_FIT (0: no limit). Must be called before memory is allocated.
void late_device_separate(device *d, size_t bytes);

#endif
