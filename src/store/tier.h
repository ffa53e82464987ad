// tier.h -- the file tier of offload: one file that holds optimizer state, gradients or weights
// that a rank does not keep in memory. Reads and writes are asynchronous and use aligned memory of
// the caller.
//
// The file has no name, so the system frees its space however the process ends. tier_open reserves
// the space: a full disk is found there and never in a step. A tier allocates nothing after open.
// Data moves between the file and the caller's memory without a copy (O_DIRECT, io_uring). Where
// the system refuses one of the two, the tier uses another way and tier_note says which.
//
// tier_open starts a thread that serves the requests, so a request finishes without a call of
// tier_wait. The thread sleeps while no block finishes.
//
// Memory in huge pages (device_alloc from 2 MiB on) moves up to twice as fast as memory in small
// pages, because the kernel pins each page.
//
// Only one thread may call a tier at a time; it need not be the same thread each time. A tier does
// not survive fork, because the child lacks the tier's thread.
#ifndef TRIREME_STORE_TIER_H
#define TRIREME_STORE_TIER_H

#include "base/err.h"

#include <stdint.h>

enum { TIER_ALIGN = 4096 }; // offsets, sizes and addresses are multiples of it

// Ways that a tier does not use although the system may offer them; for tests and measurements.
enum {
    TIER_AVOID_DIRECT = 1,  // O_DIRECT
    TIER_AVOID_URING = 2,   // io_uring
    TIER_AVOID_TMPFILE = 4, // O_TMPFILE
    TIER_AVOID_RESERVE = 8, // fallocate: the tier writes zeros instead
};

typedef struct tier_options {
    const char *folder; // exists and is writable
    const char *name;   // says in messages what the file holds
    uint64_t bytes;     // size of the file; rounded up to TIER_ALIGN, at least TIER_ALIGN
    size_t block_bytes; // size of one transfer, DeepSpeed's aio.block_size; 0 means 1 MiB
    int depth;          // transfers in flight, DeepSpeed's aio.queue_depth; 0 means 8, at most 1024
    int requests;       // limit of unfinished requests; 0 means 64
    unsigned avoid;     // TIER_AVOID_*
} tier_options;

typedef struct tier_counters {
    uint64_t bytes_read, bytes_written; // in finished blocks
    double seconds_waited;              // in tier_wait, and for room in the queue
    double seconds_moving;              // while at least one block was in flight
    double seconds_cpu;                 // CPU time of the tier's thread
} tier_counters;

typedef uint64_t tier_ticket; // number of a request; tickets count up from 1
typedef struct tier tier;

// Makes the file and reserves its space. Parts that were never written read as zeros. The owner
// calls tier_close.
// E_USAGE: the folder does not exist or is not writable, block_bytes is no multiple of TIER_ALIGN,
//          or depth is out of range.
// E_IO:    the disk has no room; the message names the folder, the bytes wanted and the bytes free.
status tier_open(const tier_options *o, tier **out, err *e);

// Waits for the blocks in flight, drops all other blocks, and frees the space. NULL allowed.
void tier_close(tier *t);

// One line for the caller to print when the tier uses buffered I/O or threads instead of O_DIRECT
// or io_uring; else NULL. Borrowed from the tier.
const char *tier_note(const tier *t);

// Starts a request and returns while it runs. Requests start in the order of the calls; each is
// split into blocks. When `requests` of them are unfinished, the call waits for the oldest.
// The memory belongs to the caller, who must not touch it before tier_wait has returned OK or
// tier_close has returned. Ranges of unfinished requests must not overlap when one of the requests
// is a write, because nothing orders them.
// E_INTERNAL: an argument is misaligned, or the range is outside of the file.
status tier_read(tier *t, uint64_t offset, void *to, size_t bytes, tier_ticket *out, err *e);
status tier_write(tier *t, uint64_t offset, const void *from, size_t bytes, tier_ticket *out,
                  err *e);

// Returns when the request has finished. Tickets may be waited for in any order and repeatedly.
// E_IO, naming file and cause: the disk failed. From then on every call on the tier returns this
//             error.
// E_INTERNAL: no request has this ticket.
status tier_wait(tier *t, tier_ticket ticket, err *e);

// Counters since tier_open.
void tier_count(tier *t, tier_counters *out);

// Bytes of memory that the tier itself allocates: its queue. Data needs no memory of the tier.
size_t tier_bytes_buffers(const tier *t);

#endif
