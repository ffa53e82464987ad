// device.h -- memory, streams and events of a device, as a table of functions.
//
// Code above this folder issues work to streams and orders it by events. It never dereferences
// device memory, and it never takes the return of a call for the end of the work. A stream runs its
// work in the order of issue. Only record and wait of an event order the work of two streams.
//
// Back ends:
//   cpu    runs each piece of work at once, on the calling thread and its team (cpu_team.h)
//   late   for tests only (tests/late/): each stream is a thread that runs its work in the least
//          convenient legal order
//
// device_stream and device_event are structs that a back end embeds as the first member of its own.
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

typedef enum device_memory_kind {
    MEMORY_DEVICE, // contents undefined
    MEMORY_HOST,   // the host can read it, and copies from it are fast (pinned on a GPU)
    // Device memory that starts as zeros. Pages that the system has zeroed are not written again.
    MEMORY_ZEROED,
} device_memory_kind;

// A host function that a stream runs in its order, on a device whose memory the host can address.
// It may block, as a collective does. The stream keeps a failure and returns it from its next sync.
// `arg` points to the stream's copy of the argument.
typedef status (*device_stream_fn)(void *arg, err *e);

typedef struct device_ops {
    const char *name;
    void (*close)(device *d);

    // Gives `bytes` of memory, aligned to DEVICE_ALIGN bytes. E_FIT when there is none left. The caller
    // releases it with the kind that it was allocated with.
    status (*alloc)(device *d, device_memory_kind kind, size_t bytes, void **out, err *e);
    // p may be NULL.
    void (*release)(device *d, device_memory_kind kind, void *p);

    status (*stream_open)(device *d, device_stream_kind kind, device_stream **out, err *e);
    // Waits for the stream's work first. s may be NULL.
    void (*stream_close)(device_stream *s);

    status (*event_open)(device *d, device_event **out, err *e);
    // v may be NULL.
    void (*event_close)(device_event *v);
    // The event is complete when all work issued to s so far is complete. An event may be recorded
    // again.
    void (*record)(device_event *v, device_stream *s);
    // Work issued to s from now on starts after the event's latest record. An event that was never
    // recorded is not waited for.
    void (*wait)(device_stream *s, device_event *v);
    // Blocks the host until the event's latest record is complete.
    void (*event_sync)(device_event *v);
    // Blocks the host until the stream is idle. Returns and clears its first asynchronous failure.
    status (*sync)(device_stream *s, err *e);

    // Copies within and between device and host memory, in stream order.
    void (*copy)(device_stream *s, void *dst, const void *src, size_t bytes);
    // Runs one kernel in stream order. `call` is copied before the return.
    void (*launch)(device_stream *s, const struct kernel_call *call);
    // Runs fn in stream order. arg_bytes <= STREAM_ARG_BYTES, and the bytes are copied. NULL on a
    // device whose memory the host cannot address.
    void (*call)(device_stream *s, device_stream_fn fn, const void *arg, size_t arg_bytes);
} device_ops;

enum { STREAM_ARG_BYTES = 256, DEVICE_ALIGN = 256 };

struct device {
    const device_ops *ops;
    size_t bytes_now;     // of all memory kinds together, with bytes_scratch
    size_t bytes_peak;    // maximum of bytes_now since the device was opened
    size_t bytes_scratch; // scratch memory of its kernels, allocated when the device was opened
    uint64_t allocations; // calls of alloc so far; a test checks that a step makes none
    uint64_t launches;    // of kernels so far
};
struct device_stream {
    device *device;
    device_stream_kind kind;
};
struct device_event {
    device *device;
};

typedef struct device_options {
    int threads;     // that run kernels; 0, or more than the cores that this process may use: all
    const char *isa; // of the cpu device: generic, avx2, avx512 or amx; NULL or "auto": the best
    int index;       // of the device among those of its name on this machine
    int local_rank;  // of the rank that opens it, among the ranks of this machine
    int local_ranks; // ranks of this machine; 0: one
} device_options;

// What is known about a device that nobody has opened.
typedef struct device_description {
    const char *name;    // as device_open takes it
    const char *kind;    // what its kernels are made for: the instruction set of a cpu device
    int index, count;    // the device, and how many of its name this machine has
    uint64_t free_bytes; // of its memory; all ranks that open the device share them
    uint64_t own_bytes;  // that it takes when it is opened: context, libraries, scratch memory
    bool is_host_memory; // the host can address its memory, which is the host's own
} device_description;

// Words for a device in job files and flags, ended by NULL: "auto", the names in the registry, and
// names that a later version will have. The words that this version supports, separated by '|'.
extern const char *const DEVICE_WORDS[];
extern const char DEVICE_WORDS_SUPPORTED[];
// The name of the device that a word means: that of "auto" is the registry's first. NULL where this
// version has no such device.
const char *device_resolve(const char *word);

// Describes the device that device_open would open. It opens nothing, starts no thread and takes no
// memory, so a process that forks later may call it. options may be NULL. E_USAGE for a word, isa, index
// or local rank that is unknown, or that this machine lacks.
status device_describe(const char *word, const device_options *options, device_description *out,
                       err *e);
// Opens a device. Only a process that does not fork afterwards calls it. options may be NULL. E_USAGE
// as device_describe. The thread that calls it must be the one that issues its work. The caller closes
// the device.
status device_open(const char *word, const device_options *options, device **out, err *e);
void device_close(device *d); // NULL allowed

// alloc and release of the table, counted in bytes_now, bytes_peak and allocations. Code above this
// folder calls these.
status device_alloc(device *d, device_memory_kind kind, size_t bytes, void **out, err *e);
void device_release(device *d, device_memory_kind kind, void *p, size_t bytes);

// Measures large matrix products of `type` (F32, BF16 or F16) for about `seconds`, and returns the
// best rate in floating-point operations per second, where a multiply-add counts as two. It runs at
// least one product. Its memory is not counted in bytes_now. Returns 0 when the device fails.
double device_matmul_rate(device *d, dtype type, double seconds);

static inline void device_launch(device_stream *s, const struct kernel_call *c)
{
    s->device->launches++;
    s->device->ops->launch(s, c);
}

#endif
