// device.h -- the device seam: memory, streams and events, as a table of functions.
//
// Everything above this folder issues work to streams and orders it by events; nothing above it
// dereferences device memory, or takes the return of a call for the end of the work. A stream runs
// its work in the order of issue; two streams are ordered only by event_record / event_wait.
//
//   cpu    runs each piece of work at once, on the calling thread and its OpenMP team
//   late   test-only (tests/late/): each stream on its own thread, in the least convenient legal
//   order cuda   to come
//
// Handles are structs that a back end embeds as the first member of its own.
#ifndef TRIREME_DEVICE_DEVICE_H
#define TRIREME_DEVICE_DEVICE_H

#include "base/dtype.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kernel_call;
typedef struct device device;
typedef struct device_stream device_stream;
typedef struct device_event device_event;

typedef enum device_stream_kind {
    STREAM_COMPUTE,
    STREAM_COMM,
    STREAM_COPY,
    STREAMS
} device_stream_kind;

// Where memory lives. HOST is readable by the host and fast to copy from (pinned on a GPU).
// MEMORY_ZEROED is device memory that starts as zeros. Where the system hands out such pages,
// nobody has to write them before they are used.
typedef enum device_memory_kind { MEMORY_DEVICE, MEMORY_HOST, MEMORY_ZEROED } device_memory_kind;

// A host function run in stream order on a device whose memory the host can address. It may block
// (a collective does). A failure is kept by the stream and returned by its next sync. `arg` is a
// copy.
typedef status (*stream_fn)(void *arg, err *e);

typedef struct device_ops {
    const char *name;
    void (*close)(device *d);

    // `bytes` of memory, 64-byte aligned, contents undefined but for MEMORY_ZEROED. E_FIT when
    // there is none left. It is released as the kind that it was allocated as.
    status (*alloc)(device *d, device_memory_kind kind, size_t bytes, void **out, err *e);
    void (*release)(device *d, device_memory_kind kind, void *p); // NULL allowed

    status (*stream_open)(device *d, device_stream_kind kind, device_stream **out, err *e);
    void (*stream_close)(device_stream *s); // waits for its work first; NULL allowed

    status (*event_open)(device *d, device_event **out, err *e);
    void (*event_close)(device_event *v); // NULL allowed
    // The event is complete when all work issued to `s` so far is. May be recorded again.
    void (*record)(device_event *v, device_stream *s);
    // Work issued to `s` from now on starts after the event's latest record (none: at once).
    void (*wait)(device_stream *s, device_event *v);
    // Blocks the host until the event's latest record is complete.
    void (*event_sync)(device_event *v);
    // Blocks the host until the stream is idle; returns and clears its first asynchronous failure.
    status (*sync)(device_stream *s, err *e);

    // Copies within and between device and host memory, in stream order.
    void (*copy)(device_stream *s, void *dst, const void *src, size_t bytes);
    // Runs one kernel in stream order. `call` is copied before the return.
    void (*launch)(device_stream *s, const struct kernel_call *call);
    // Optional: NULL on a device whose memory the host cannot address. arg_bytes <=
    // STREAM_ARG_BYTES.
    void (*call)(device_stream *s, stream_fn fn, const void *arg, size_t arg_bytes);
} device_ops;

enum { STREAM_ARG_BYTES = 256 };

struct device {
    const device_ops *ops;
    size_t bytes_now; // of MEMORY_DEVICE and MEMORY_HOST together
    size_t bytes_peak;
    size_t bytes_scratch; // of bytes_now, what its kernels work in: since it was opened
    uint64_t allocations; // calls of alloc so far; a test checks that a step makes none
};
struct device_stream {
    device *device;
    device_stream_kind kind;
};
struct device_event {
    device *device;
};

typedef struct device_options {
    int threads; // of the team that runs kernels; 0 = all cores that this process may use, the most
                 // too
    const char *isa; // cpu: NULL or "auto", or generic | avx2 | avx512 | amx
} device_options;

// Opens a device by name ("cpu"). E_USAGE for a name or isa that is unknown or not on this machine.
// Must be called on the thread that will issue its work.
status device_open(const char *name, const device_options *options, device **out, err *e);
// Would device_open take these options on this machine? Starts no thread: for a process that forks.
status device_check(const char *name, const device_options *options, err *e);
void device_close(device *d); // NULL allowed

// Counting wrappers over the table; all code above calls these.
status device_alloc(device *d, device_memory_kind kind, size_t bytes, void **out, err *e);
void device_release(device *d, device_memory_kind kind, void *p, size_t bytes);

// Floating-point operations a second (a multiply-add is two) of large products of `type` (F32,
// BF16 or F16) at the device's threads, measured for about `seconds`: the best of several products,
// at least one. What a step could do at most. Its memory is not counted. 0 when the device fails.
double device_matmul_rate(device *d, dtype type, double seconds);

static inline void device_launch(device_stream *s, const struct kernel_call *c)
{
    s->device->ops->launch(s, c);
}

#endif
