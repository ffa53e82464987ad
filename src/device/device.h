// device.h -- memory, streams and events of a device, as a table of functions.
//
// Code above this folder issues work to streams and orders it by events. It never dereferences
// device memory, and it never takes the return of a call for the end of the work. A stream runs its
// work in the order of issue. Only record and wait of an event order the work of two streams.
//
// Back ends:
//   cuda   runs it on a GPU (cuda/), in programs that link that folder
//   cpu    runs each piece of work at once, on the calling thread and its team (cpu_team.h), or on
//          the stream's own thread where the stream was opened with one (cpu_queue.h)
//   late   for tests only (tests/late/): each stream is a thread that runs its work in the least
//          convenient legal order
//   unkind for tests only (tests/unkind/): like late, and the host cannot address its memory
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
struct kernel_needs;
struct device_sharing;
struct device_collectives;
struct device_staging;
typedef struct device device;
typedef struct device_stream device_stream;
typedef struct device_event device_event;
typedef struct device_recording device_recording;

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

    // With own_thread, work that blocks (a collective over a network, say) does not delay the other
    // streams. A device whose streams never delay each other ignores it. Without it, work may run on
    // the calling thread. E_FIT when there is no memory or no thread.
    status (*stream_open)(device *d, device_stream_kind kind, bool own_thread, device_stream **out,
                          err *e);
    // Waits for the stream's work first. Events that were recorded on it are complete. s may be NULL.
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
    // Blocks the host until the stream is idle. Returns and clears its first asynchronous failure, or
    // returns device_failure_of_peers.
    status (*sync)(device_stream *s, err *e);

    // Copies within and between device memory and MEMORY_HOST, in stream order. Other memory of the
    // host may stand here only where the device's memory is the host's (device_upload takes any).
    void (*copy)(device_stream *s, void *dst, const void *src, size_t bytes);
    // Makes ready what calls of this shape need beside memory, such as the choice of an algorithm. The
    // addresses in `call` are not real. The trainer calls it before the first step, once for each call
    // of the model's graphs; equal shapes may come again. It may take long and allocate memory of the
    // library. NULL: nothing to make ready.
    status (*prepare)(device *d, const struct kernel_call *call, err *e);
    // Runs one kernel in stream order. `call` is copied before the return.
    void (*launch)(device_stream *s, const struct kernel_call *call);
    // Runs fn in stream order. arg_bytes <= STREAM_ARG_BYTES, and the bytes are copied. NULL on a
    // device whose memory the host cannot address.
    void (*call)(device_stream *s, device_stream_fn fn, const void *arg, size_t arg_bytes);
    // Writes the device's clock to *slot when the stream comes to it. The slot is MEMORY_HOST. A recording
    // holds stamps, too, and each replay writes them again.
    void (*stamp)(device_stream *s, int64_t *slot);
    // Returns the nanoseconds that make a stamp a time of clock_ns when they are added. All streams are idle; now and
    // then it measures for some microseconds. NULL: stamps are times of clock_ns.
    int64_t (*clock_offset)(device *d);

    // What this thread issues between the two calls has a name, which tools that watch the device show. They nest.
    // `name` is a literal. Both are NULL on a device that no tool watches.
    void (*range_begin)(device *d, const char *name, int64_t number);
    void (*range_end)(device *d);

    // Recordings, as CUDA's stream capture makes graphs. All four are NULL on a device without them.
    //
    // Work that is issued to s after capture_begin is recorded and does not run. A stream that waits
    // for an event of a recorded stream is recorded from then on, too. Such events are valid until
    // capture_end only. Until then the host waits for no stream and no event, allocates nothing, and
    // no recorded stream waits for an event that was recorded before. The arguments of kernels and
    // copies are recorded as they are; what they point to is read when the recording is replayed.
    status (*capture_begin)(device_stream *s, err *e);
    // Every recorded stream must have been waited for by s. *out is NULL after a failure. E_INTERNAL
    // names what a recording may not hold. The caller closes the recording.
    status (*capture_end)(device_stream *s, device_recording **out, err *e);
    // Runs the recorded work, in stream order of s. Only s waits for it.
    status (*replay)(device_recording *r, device_stream *s, err *e);
    // No replay may be pending. r may be NULL.
    void (*recording_close)(device_recording *r);

    // The functions by which devices of several ranks share memory and wait for each other (sharing.h). NULL: they
    // cannot.
    const struct device_sharing *sharing;
    // Collectives of a library of the vendor's (collectives.h). NULL: there is none.
    const struct device_collectives *collectives;
} device_ops;

enum {
    STREAM_ARG_BYTES = 256,
    DEVICE_ALIGN = 256,
    DEVICE_NOTE_BYTES = 1024,
    DEVICE_TITLE_BYTES = 96
};

struct device {
    const device_ops *ops;
    bool is_host_memory; // the next two as in device_description; the back end sets them
    const struct kernel_needs *needs;
    // If the device's memory is the host's, bytes_now counts all kinds of memory, and host_bytes_now
    // is 0. Else host_bytes_now counts MEMORY_HOST, and bytes_now the others.
    size_t bytes_now;  // with bytes_scratch
    size_t bytes_peak; // maximum of bytes_now since the device was opened
    size_t host_bytes_now, host_bytes_peak;
    size_t bytes_scratch;    // scratch memory of its kernels, and of streams with their own threads
    size_t own_thread_bytes; // what each stream with its own thread adds to bytes_scratch
    uint64_t allocations;    // calls of alloc so far; a test checks that a step makes none
    uint64_t launches;       // of kernels so far
    // A failure of another rank, which made the results of this device's work worthless; OK: none. A
    // communicator sets it. NULL: no work of other ranks is waited for.
    status (*failure_of_peers)(const void *arg, err *e);
    const void *failure_arg;
    struct device_staging *staging; // of transfer.c; NULL: none is open
};
struct device_stream {
    device *device;
    device_stream_kind kind;
};
struct device_event {
    device *device;
};
struct device_recording {
    device *device;
};

typedef struct device_options {
    int threads;     // that run kernels; 0, or more than the cores that this process may use: all
    const char *isa; // of the cpu device: generic, avx2, avx512 or amx; NULL or "auto": the best
    int index;       // of the device among those of its name on this machine
    int local_rank;  // of the rank that opens it, among the ranks of this machine
    int local_ranks; // ranks of this machine; 0: one
} device_options;

// The description of a device that nobody has opened.
typedef struct device_description {
    const char *name;    // as device_open takes it
    const char *kind;    // what its kernels are made for: the instruction set of a cpu device
    int index, count;    // the device, and how many of its name this machine has
    uint64_t free_bytes; // of its memory; all ranks that open the device share them
    uint64_t own_bytes;  // that it takes when it is opened: context, libraries, scratch memory
    uint64_t own_thread_bytes; // that each stream with its own thread takes beside them
    bool is_host_memory;       // the host can address its memory, which is the host's own
    bool has_tf32;             // its products of F32 can round their factors to TF32
    // The vendor's name of the device, and the percent of the last second in which it computed, for any program; empty
    // and -1: not known.
    char title[DEVICE_TITLE_BYTES];
    int utilization;
    // Lines: which devices of this machine the environment hides, and what the machine lacks and the device does instead.
    // Empty: nothing is hidden, and nothing lacks.
    char note[DEVICE_NOTE_BYTES];
    const struct kernel_needs *needs; // of its kernels, for plans; NULL: they need nothing
} device_description;

// Words for a device in job files and flags, ended by NULL: "auto", and the names in the registry. The
// same words, separated by '|'.
extern const char *const DEVICE_WORDS[];
extern const char DEVICE_WORDS_SUPPORTED[];
// The name of the device that a word means: "auto" is "cuda" where this machine has a GPU, else "cpu", and
// *why then says in one line why there is none (NULL allowed). NULL for other words.
const char *device_resolve(const char *word, err *why);

// Describes the device that device_open would open. It opens nothing, starts no thread and takes no
// memory, so a process that forks later may call it. options may be NULL. E_USAGE for a word, isa, index
// or local rank that is unknown, or that this machine lacks.
status device_describe(const char *word, const device_options *options, device_description *out,
                       err *e);
// The description of a device that this machine may lack, for plans. Its memory is not known: free_bytes 0. E_USAGE for an
// unknown word.
status device_describe_absent(const char *word, device_description *out, err *e);
// Opens a device. Only a process that does not fork afterwards calls it. options may be NULL. E_USAGE
// as device_describe. The thread that calls it must be the one that issues its work. The caller closes
// the device.
status device_open(const char *word, const device_options *options, device **out, err *e);
void device_close(device *d); // NULL allowed

// alloc and release of the table, counted in the members of the device and in allocations. Code above
// this folder calls these.
status device_alloc(device *d, device_memory_kind kind, size_t bytes, void **out, err *e);
void device_release(device *d, device_memory_kind kind, void *p, size_t bytes);

// Counts memory that did not come from device_alloc: `bytes` of bytes_now are taken, or given back.
void device_count_taken(device *d, size_t bytes);
void device_count_given(device *d, size_t bytes);

// Copy `bytes` bytes to the device and from it, after the work issued to s so far, and wait for s. The
// host's side may be any memory, such as the heap's or a file's. For code outside of steps: where the
// device's memory is not the host's, they pass through the device's staging buffers, which the first
// call opens. E_FIT when there is no memory for them, else as sync.
status device_upload(device_stream *s, void *dst, const void *src, size_t bytes, err *e);
status device_download(device_stream *s, void *dst, const void *src, size_t bytes, err *e);
// As device_upload, but may return before the device has the bytes: they are there for work that is issued
// to s afterwards. src may be overwritten at once. The next sync of s may return a failure of the copy.
status device_upload_issue(device_stream *s, void *dst, const void *src, size_t bytes, err *e);

// Opens the staging buffers, so that no later transfer allocates. Nothing happens where they are open, or
// where the device's memory is the host's. They are memory of the host beside host_bytes_now.
enum { DEVICE_STAGING_BYTES = 8 << 20 };
status device_staging_open(device *d, err *e);
void device_staging_close(device *d); // device_close calls it

// Measures large matrix products of `type` (F32, BF16 or F16) for about `seconds`, and returns the
// best rate in floating-point operations per second, where a multiply-add counts as two. It runs at
// least one product. Its memory is not counted in bytes_now. Returns 0 when the device fails.
double device_matmul_rate(device *d, dtype type, double seconds);
// The same of all products together, so that it includes what other programs take of the device.
double device_matmul_mean(device *d, dtype type, double seconds);
// Measures copies of `bytes` bytes within the device's memory for about `seconds`, and returns the best rate in bytes per
// second, read and written: of a copy, or of a kernel that copies, as a copy may run on one thread. E_FIT where there is
// no memory for two such arrays.
status device_copy_rate(device *d, size_t bytes, double seconds, double *out, err *e);

// Each back end calls it at the end of sync, when nothing else has failed.
static inline status device_failure_of_peers(const device *d, err *e)
{
    return d->failure_of_peers ? d->failure_of_peers(d->failure_arg, e) : OK;
}

static inline void device_launch(device_stream *s, const struct kernel_call *c)
{
    s->device->launches++;
    s->device->ops->launch(s, c);
}

#endif
