// cpu_queue.h -- the work of a stream that has a thread of its own: a queue of a fixed length, and
// the thread that runs it. Called by the streams and events of cpu_device.c. It knows neither: work
// has a position in its queue, and to wait for work is to wait for a position.
//
// The thread runs kernels in a context of its own with one thread, so it never disturbs the team on
// which the device's other work runs. No result of a kernel depends on the number of threads.
#ifndef TRIREME_DEVICE_CPU_CPU_QUEUE_H
#define TRIREME_DEVICE_CPU_CPU_QUEUE_H

#include "device/cpu/cpu.h"

typedef struct cpu_queue cpu_queue;

// Bytes of a queue: its items, and the scratch memory of its context.
size_t cpu_queue_bytes(void);

// Opens a queue that runs `kernels`, which are those of `level`. The caller closes it. E_FIT when
// there is no memory or no thread.
status cpu_queue_open(const cpu_kernels *kernels, cpu_level level, cpu_queue **out, err *e);
// Waits for the work, ends the thread, and releases everything except the queue's positions: other
// queues, and events, may still wait for them. Calling it again does nothing.
void cpu_queue_stop(cpu_queue *q);
// Stops the queue and releases the rest. NULL allowed.
void cpu_queue_close(cpu_queue *q);

// The next calls add work, which the thread runs in the order of the calls. They copy their
// arguments as the calls of device_ops do. They block while the queue is full. One thread at a
// time may call them.
void cpu_queue_add_kernel(cpu_queue *q, const kernel_call *call);
void cpu_queue_add_copy(cpu_queue *q, void *dst, const void *src, size_t bytes);
void cpu_queue_add_call(cpu_queue *q, device_stream_fn fn, const void *arg, size_t arg_bytes);
void cpu_queue_add_stamp(cpu_queue *q, int64_t *slot);
// Later work of q starts after the work of `other` up to `position`.
void cpu_queue_add_wait(cpu_queue *q, cpu_queue *other, uint64_t position);

// The position of the work that was added last: the number of pieces of work so far.
uint64_t cpu_queue_position(cpu_queue *q);
// Blocks the calling thread until the work up to `position` is complete.
void cpu_queue_await(cpu_queue *q, uint64_t position);
// Blocks until all work is complete. Returns and clears the first failure.
status cpu_queue_sync(cpu_queue *q, err *e);

#endif
