// unkind_device.h -- a device for tests that is as unkind as a GPU. Code that passes on it uses
// memory and streams as a GPU demands. The kernels are those of the cpu device.
//
//   addresses   The host cannot dereference device memory. Its addresses lie in a reserved range,
//               and the memory itself is elsewhere. Pointers in the arguments of kernels and copies
//               are translated when the work runs. A host that dereferences one, device work that
//               runs beyond an allocation, and any use of released host memory end the process with a
//               line that names the rule.
//   memory      Device memory and host memory (MEMORY_HOST) are two pools with limits of their own.
//               New memory holds 0xff unless it is MEMORY_ZEROED. Released memory is never handed out
//               again.
//   pointers    Kernels and copies take live device memory, or live host memory of this device, and
//               copies stay within the allocation. Memory of malloc is an error. So are host memory
//               that the host writes while a copy from it is pending, and memory that is released
//               while work with it is pending. Where a pending copy will write, the host reads 0xff.
//   streams     late_queue.h: as late, and as unordered, as is legal. There is no `call`.
//   recordings  late_capture.h: a recording that holds an allocation, a wait of the host, or a wait for an
//               event of before is refused, and so is a later wait for an event of a recording.
//
// A broken rule is an E_INTERNAL that the stream's next sync returns, and the first one stays in the
// device for unkind_broken. unkind_memory.h has the pools, unkind_fault.h the lines for crashes.
#ifndef TRIREME_TESTS_UNKIND_UNKIND_DEVICE_H
#define TRIREME_TESTS_UNKIND_UNKIND_DEVICE_H

#include "late/late_queue.h"

typedef struct unkind_options {
    late_order order;
    size_t device_bytes, host_bytes; // limits; 0: none
    // Streams run only while the host waits for one, however long it does other things. Ranks that wait for each
    // other need false.
    bool stays_late;
} unkind_options;

// Errors as device_open.
status unkind_device_open(const unkind_options *o, device **out, err *e);

// The line of the first rule that was broken; NULL: none. Valid until the device is closed.
const char *unkind_broken(const device *d);
// The most bytes of the device's own memory, and of its host memory (MEMORY_HOST), at any moment.
size_t unkind_peak(const device *d, device_memory_kind kind);

// What a communicator launches on this device, as NCCL launches a kernel: runs fn on the stream's
// thread, in stream order. fn may block. `arg` points to the stream's copy of `bytes` bytes, at most
// STREAM_ARG_BYTES.
void unkind_enqueue(device_stream *s, device_stream_fn fn, const void *arg, size_t bytes);
// The address at which device work finds the device memory at p. Only functions of unkind_enqueue
// call it, also for the memory of a peer's device. NULL, and a broken rule, when p is not live
// device memory of d.
void *unkind_ptr(device *d, const void *p);

#endif
