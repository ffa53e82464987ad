// tier_private.h -- the parts of a file tier: the file, two engines that move blocks (io_uring, or
// threads that call pread and pwrite), and the thread that serves requests by one of them. Inside
// store/tier*.c only.
#ifndef TRIREME_STORE_TIER_PRIVATE_H
#define TRIREME_STORE_TIER_PRIVATE_H

#include "store/tier.h"

#include <pthread.h>
#include <stdbool.h>

// One block on its way.
typedef struct tier_io {
    void *at;
    size_t bytes;
    uint64_t offset;
    unsigned slot; // comes back in tier_done
    bool write;
} tier_io;

typedef struct tier_done {
    unsigned slot;
    int64_t moved; // bytes, maybe fewer than asked for; or -errno
} tier_done;

typedef struct tier_engine tier_engine;

// One thread, the one that calls begin, calls push and turn.
typedef struct tier_engine_ops {
    // Before the first push.
    status (*begin)(tier_engine *g, err *e);
    // Takes a block up; at most `depth` are unfinished at a time. It may start as late as turn.
    void (*push)(tier_engine *g, const tier_io *io);
    // Starts what was pushed and sleeps until `want` blocks are finished (as many must be
    // unfinished). done[0…*count) is what is finished; it has room for `depth`.
    status (*turn)(tier_engine *g, unsigned want, tier_done *done, unsigned *count, err *e);
    void (*close)(tier_engine *g); // nothing is unfinished any more; of any thread
} tier_engine_ops;

struct tier_engine {
    const tier_engine_ops *ops;
    size_t bytes; // of memory that the engine holds
};

// E_IO where the system does not permit or not know io_uring; the text is the reason alone.
status tier_uring_open(int fd, unsigned depth, tier_engine **out, err *e);
status tier_threads_open(int fd, unsigned depth, tier_engine **out, err *e);

// The file: nameless, `bytes` long, its space reserved. *buffered is why O_DIRECT is not used, a
// literal or text of `reason`, or NULL when it is. Errors as tier_open.
status tier_file_open(const tier_options *o, uint64_t bytes, int *fd, char reason[128],
                      const char **buffered, err *e);

// ---- Requests, and who serves them

typedef struct request {
    tier_ticket ticket;
    char *at;
    uint64_t offset;
    size_t uncut; // bytes that were in no block yet
    size_t left;  // bytes that are not finished
    bool write;
} request;

typedef struct slot {
    tier_io io; // what is left of the block
    request *of;
    int tries;
} slot;

struct tier {
    pthread_mutex_t lock;          // of all that changes below
    pthread_cond_t work, finished; // for the thread; for who waits
    pthread_t thread;
    bool serving, stop; // there is a thread; it ends when nothing is on its way
    bool waiting, news; // somebody sleeps on `finished`; there is what he may wait for
    tier_engine *engine;
    int fd;
    unsigned depth, requests;
    size_t block_bytes;
    uint64_t bytes;
    tier_ticket last, feeding; // the newest; the oldest that is not wholly cut
    request *queue;            // of ticket t: [t % requests]
    slot *slots;
    unsigned *free, free_count; // slots in nobody's hands
    tier_done *done;            // the thread's
    int64_t moving_since;       // 0: nothing is on its way
    tier_counters counters;
    err failure; // the first; code OK while there is none
    char *what;  // name and folder, for messages
    char *note;  // NULL: there is nothing to say
};

// Starts the thread, which serves until tier_serve_stop: that returns when nothing is on its way.
status tier_serve_start(tier *t, err *e);
void tier_serve_stop(tier *t);

// pthread_create of a thread that no signal goes to. 0 or an error number.
int tier_thread_create(pthread_t *out, void *(*body)(void *), void *arg);

#endif
