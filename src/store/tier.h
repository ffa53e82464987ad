// tier.h -- the file tier of offload: one file that holds what a rank does not keep in memory
// (optimizer state, gradients, weights), read and written asynchronously through aligned memory of
// the caller's.
//
// The file has no name: it is gone after any end of the process. Its space is reserved at open, so
// a full disk is found there and never in a step. Nothing is allocated after open. Data moves
// between the file and the caller's memory without a copy (O_DIRECT, io_uring); where the system
// refuses one of them there is another way, and tier_note says so.
//
// A thread of the tier's own, started at open, moves what is asked for: a request that was started
// finishes without any help. It sleeps while nothing finishes.
//
// Memory in huge pages (device_alloc from 2 MiB on) moves up to twice as fast as in small ones,
// because the kernel pins each page.
//
// One thread calls a tier at a time, not always the same one. Not across fork: a child has no such
// thread.
#ifndef TRIREME_STORE_TIER_H
#define TRIREME_STORE_TIER_H

#include "base/err.h"

#include <stdint.h>

enum { TIER_ALIGN = 4096 }; // of offsets, sizes and addresses

// Ways that a tier does not take although the system may offer them; for tests and measurements.
enum {
    TIER_AVOID_DIRECT = 1,  // O_DIRECT
    TIER_AVOID_URING = 2,   // io_uring
    TIER_AVOID_TMPFILE = 4, // O_TMPFILE
    TIER_AVOID_RESERVE = 8, // fallocate: zeros are written instead
};

typedef struct tier_options {
    const char *folder; // an existing one that can be written in
    const char *name;   // what the file holds, for messages
    uint64_t bytes;     // of the file; rounded up to TIER_ALIGN, at least that
    size_t block_bytes; // moved at once, DeepSpeed's aio.block_size; 0: 1 MiB
    int depth;          // blocks moved at the same time, aio.queue_depth; 0: 8, at most 1024
    int requests;       // unfinished ones, at most; 0: 64
    unsigned avoid;     // TIER_AVOID_*
} tier_options;

typedef struct tier_counters {
    uint64_t bytes_read, bytes_written; // of blocks that are finished
    double seconds_waited;              // in tier_wait, and for room in the queue
    double seconds_moving;              // while a block was on its way
    double seconds_cpu;                 // that the tier's thread has worked
} tier_counters;

typedef uint64_t tier_ticket; // of a request; they count up from 1
typedef struct tier tier;

// Makes the file and reserves its space; a read of what was never written gives zeros. E_USAGE:
// no such folder, nothing can be written in it, a block that is no multiple of TIER_ALIGN, a depth
// out of range. E_IO: the space is not there (the line names folder, bytes wanted and free). The
// owner calls tier_close.
status tier_open(const tier_options *o, tier **out, err *e);

// Waits for what the system has in its hands, drops what it has not, and gives the space back.
// NULL allowed.
void tier_close(tier *t);

// One line when the tier does not go the best way (buffered I/O, threads instead of io_uring), for
// the caller to print aloud; NULL when it does. Borrowed from the tier.
const char *tier_note(const tier *t);

// Starts a request and returns; it goes on beside whatever the caller does. Requests are taken up
// in their order, each cut into blocks. Where `requests` of them are unfinished, the call waits for
// the oldest. The memory is the caller's and stays untouched by him until tier_wait has returned
// OK, or tier_close. Ranges of unfinished requests must not overlap where one of them is a write:
// nothing orders them. E_INTERNAL: misaligned, or outside of the file.
status tier_read(tier *t, uint64_t offset, void *to, size_t bytes, tier_ticket *out, err *e);
status tier_write(tier *t, uint64_t offset, const void *from, size_t bytes, tier_ticket *out,
                  err *e);

// Returns when that request is finished, in any order and as often as wanted. E_IO, naming file
// and cause, when the disk failed; from then on every call on the tier returns that error.
// E_INTERNAL: a ticket that was never given.
status tier_wait(tier *t, tier_ticket ticket, err *e);

// Since open.
void tier_count(tier *t, tier_counters *out);

// Bytes of memory that the tier holds for itself: its queue. Data passes through none of its own.
size_t tier_bytes_buffers(const tier *t);

#endif
