// tier_private.h -- the parts of a file tier: the file, and two engines that move blocks (io_uring,
// or threads that call pread and pwrite). Inside store/tier*.c only.
#ifndef TRIREME_STORE_TIER_PRIVATE_H
#define TRIREME_STORE_TIER_PRIVATE_H

#include "store/tier.h"

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

typedef struct tier_engine_ops {
    // Takes a block up; at most `depth` are unfinished at a time. It may start as late as turn.
    void (*push)(tier_engine *g, const tier_io *io);
    // Starts what was pushed; with `wait`, blocks until something is finished (something must be
    // unfinished then). done[0…*count) is what is finished; it has room for `depth`.
    status (*turn)(tier_engine *g, bool wait, tier_done *done, unsigned *count, err *e);
    void (*close)(tier_engine *g); // nothing is unfinished any more
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

#endif
