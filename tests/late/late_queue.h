// late_queue.h -- the streams and events of the test devices: late (late_device.h) and unkind
// (unkind/unkind_device.h). A stream is a queue and a thread, which runs its work in the least
// convenient order that device.h allows. An event is a position in a queue. A device embeds
// late_queues as its first member, and adds memory and rules. The queues do not know what memory is,
// or for what the work is.
#ifndef TRIREME_TESTS_LATE_LATE_QUEUE_H
#define TRIREME_TESTS_LATE_LATE_QUEUE_H

#include "device/cpu/cpu.h"

#include <pthread.h>

// The order of work. Nothing runs before the host waits (in sync, event_sync, or a close).
typedef enum late_order {
    // Every other stream runs as far ahead as it can before the awaited stream takes a step. This
    // finds memory that is reused while another stream still needs its contents. A host function
    // that blocks for a few milliseconds (a collective that waits for a peer) does not delay the
    // others.
    LATE_OTHERS_FIRST,
    // Only the work that the host waits for runs, as late as possible. This finds results that are
    // read before they are computed.
    LATE_OTHERS_LAST,
} late_order;

typedef enum late_item_kind {
    LATE_KERNEL,
    LATE_COPY,
    LATE_CALL,
    LATE_WAIT,
    LATE_STAMP
} late_item_kind;

typedef struct late_stream late_stream;
typedef struct late_queues late_queues;
typedef struct late_capture late_capture; // late_capture.h

// One piece of work, with copies of all arguments.
typedef struct late_item {
    late_item_kind kind;
    union {
        kernel_call kernel;
        struct {
            void *dst;
            const void *src;
            size_t bytes;
            uint64_t digest; // for the rules of a device
            bool is_checked;
        } copy;
        struct {
            device_stream_fn fn;
            _Alignas(16) unsigned char arg[STREAM_ARG_BYTES];
        } call;
        struct {
            late_stream *stream;
            uint64_t position; // `stream` must have done so many items
        } wait;
        int64_t *stamp;
    } u;
} late_item;

// What a device checks or changes of the work on its streams.
typedef struct late_rules {
    // Called by the host before `i` is queued. After a failure `i` does not run, and the stream's next
    // sync returns it.
    status (*issue)(late_queues *q, late_item *i, err *e);
    // Called by the stream's thread before `i` runs. After a failure `i` does not run, and the
    // stream's next sync returns it.
    status (*start)(late_queues *q, late_item *i, err *e);
    // Called by the stream's thread when `i`, as `issue` left it, has run.
    void (*end)(late_queues *q, const late_item *i);
} late_rules;

struct late_queues {
    device base;
    late_order order;
    const late_rules *rules; // NULL: none
    // LATE_OTHERS_LAST: while a host function blocks, streams that nobody waits for run, too. So do all
    // streams when the host has neither issued work nor waited for some milliseconds. On a device they
    // always do in the end, and a peer may wait for them.
    bool moves_on;
    int64_t active_ns; // when the host last issued work, or ended a wait
    device_options options;
    cpu_kernels kernels;
    pthread_mutex_t lock;
    pthread_cond_t arrived;    // the awaited stream is where the host waits for it
    late_stream *streams;      // closed ones too, because others may wait for their positions
    late_stream *awaited;      // the stream that the host waits for; NULL: none
    uint64_t awaited_position; // where the host waits for it
    late_capture *capture;     // that is under way; NULL: none
    uint64_t captures;         // how many have begun
};

// Fills q, whose bytes are zeros. options may be NULL. E_USAGE as cpu_level_choose.
status late_queues_open(late_queues *q, const device_ops *ops, late_order order,
                        const device_options *options, const late_rules *rules, err *e);
// Waits for all work and ends the streams. The caller frees the device.
void late_queues_close(late_queues *q);

// The functions of device_ops. Every stream has its own thread. late_call also serves devices without
// one, for their communicators.
status late_stream_open(device *d, device_stream_kind kind, bool own_thread, device_stream **out,
                        err *e);
void late_stream_close(device_stream *s);
status late_event_open(device *d, device_event **out, err *e);
void late_event_close(device_event *v);
void late_record(device_event *v, device_stream *s);
void late_wait(device_stream *s, device_event *v);
void late_event_sync(device_event *v);
status late_sync(device_stream *s, err *e);
void late_copy(device_stream *s, void *dst, const void *src, size_t bytes);
void late_launch(device_stream *s, const kernel_call *call);
void late_call(device_stream *s, device_stream_fn fn, const void *arg, size_t arg_bytes);
void late_stamp(device_stream *s, int64_t *slot);

// For late_capture.c: queues an item; the number of items that were queued so far; `s` waits for what
// `on` has so far; the sync of `to` returns the failures of `s`.
void late_issue(device_stream *s, late_item *i);
uint64_t late_issued(const device_stream *s);
void late_follow(device_stream *s, device_stream *on);
void late_report(device_stream *s, device_stream *to);

#endif
