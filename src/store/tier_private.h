// tier_private.h -- the pieces of a file tier: the file, two engines that transfer blocks
// (io_uring, or threads that call pread and pwrite), and the thread that serves requests through
// one engine. Only store/tier*.c includes it.
#ifndef TRIREME_STORE_TIER_PRIVATE_H
#define TRIREME_STORE_TIER_PRIVATE_H

#include "store/tier.h"

#include <pthread.h>
#include <stdbool.h>

// One transfer of a block.
typedef struct tier_io {
    void *ptr; // the caller's memory
    size_t bytes;
    uint64_t offset; // in the file
    unsigned slot;   // the engine returns it in tier_done
    bool write;
} tier_io;

typedef struct tier_done {
    unsigned slot;
    int64_t moved; // bytes transferred, possibly fewer than requested; or -errno
} tier_done;

typedef struct tier_engine tier_engine;

// The thread that calls `begin` also calls `push` and `submit_and_wait`.
typedef struct tier_engine_ops {
    // Called once, before the first push.
    status (*begin)(tier_engine *g, err *e);
    // Queues a transfer, which may start as late as the next submit_and_wait. At most `depth`
    // transfers are unfinished at a time.
    void (*push)(tier_engine *g, const tier_io *io);
    // Starts the queued transfers and sleeps until at least `least` transfers have finished. As
    // many must be unfinished. Writes the finished ones to done[0..*count), which has room for
    // `depth`.
    status (*submit_and_wait)(tier_engine *g, unsigned least, tier_done *done, unsigned *count,
                              err *e);
    // Called from any thread, when no transfer is unfinished.
    void (*close)(tier_engine *g);
} tier_engine_ops;

struct tier_engine {
    const tier_engine_ops *ops;
    size_t bytes; // memory that the engine allocated
};

// E_IO when the system does not permit or does not know io_uring; e->text is the reason alone.
status tier_uring_open(int fd, unsigned depth, tier_engine **out, err *e);
status tier_threads_open(int fd, unsigned depth, tier_engine **out, err *e);

// Makes the tier's file of `bytes` bytes, which has no name in its folder (O_TMPFILE), and reserves
// its space. *buffered is NULL when the file uses O_DIRECT. Otherwise it is the reason for buffered
// transfers: a literal, or the text in `reason`. The errors are those of tier_open.
status tier_file_open(const tier_options *o, uint64_t bytes, int *fd, char reason[128],
                      const char **buffered, err *e);

// ---- Requests, and the thread that serves them

typedef struct tier_request {
    tier_ticket ticket;
    char *ptr;         // memory of the first byte that no block has covered yet
    uint64_t offset;   // file offset of that byte
    size_t unsplit;    // bytes that no block has covered yet
    size_t unfinished; // bytes that are not transferred yet
    bool write;
} tier_request;

typedef struct tier_slot {
    tier_io io; // the bytes of the block that are not transferred yet
    tier_request *request;
    int tries; // transfers in a row that moved no byte
} tier_slot;

typedef struct tier_queue {
    tier_request *entries; // [room]; ticket t is entries[t % room]
    unsigned room;         // tier_options.requests
    tier_ticket last;      // the newest request
    tier_ticket splitting; // the oldest request that is not split into blocks completely
} tier_queue;

struct tier {
    pthread_mutex_t lock;     // protects every member that changes
    pthread_cond_t submitted; // the tier's thread waits on it
    pthread_cond_t finished;  // the caller waits on it
    pthread_t thread;         // serves the queue
    bool serving;             // `thread` runs
    bool stop;                // `thread` ends when no block is in flight
    bool waiting;             // the caller sleeps on `finished`
    bool progress;            // a request has finished or failed since the last signal
    tier_engine *engine;
    int fd;
    unsigned depth; // see tier_options
    size_t block_bytes;
    uint64_t bytes;
    tier_queue queue;
    tier_slot *slots; // [depth] one for each block in flight
    unsigned *free;   // [depth] indices of the unused slots, a stack
    unsigned free_count;
    tier_done *done;      // [depth] used by `thread`
    int64_t moving_since; // clock_ns; 0 when no block is in flight
    tier_counters counters;
    err failure; // the first failure; its code is OK while there is none
    char *what;  // "NAME in FOLDER", for messages
    char *note;  // see tier_note
};

// Starts the thread that serves the queue. tier_serve_stop returns when no block is in flight.
status tier_serve_start(tier *t, err *e);
void tier_serve_stop(tier *t);

// Calls pthread_create for a thread that receives no signals. Returns 0 or an error number.
int tier_thread_create(pthread_t *out, void *(*body)(void *), void *arg);

#endif
