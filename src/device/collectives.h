// collectives.h -- the collectives of a library of the device's vendor, as a table of functions
// (device_ops.collectives). The communicator nccl calls it. It does not know how ranks find each other.
//
// A clique is the library's own group of ranks. Each rank has one GPU, and no GPU has two ranks of a clique. A call
// is issued to a stream. The library may do that on another thread: before anything else is issued to the stream, or
// the clique is used again, poll must say that the call is done. No call waits for another rank, so a caller can give
// up. Calls of one clique come from one thread at a time.
#ifndef TRIREME_DEVICE_COLLECTIVES_H
#define TRIREME_DEVICE_COLLECTIVES_H

#include "base/dtype.h"
#include "base/err.h"
#include "base/reduce.h"

#include <stdbool.h>
#include <stddef.h>

struct device;
struct device_stream;

typedef struct device_clique device_clique;

enum { DEVICE_CLIQUE_ID_BYTES = 128 };

// Plain bytes by which the ranks of a clique find each other.
typedef struct device_clique_id {
    unsigned char bytes[DEVICE_CLIQUE_ID_BYTES];
} device_clique_id;

// A call over all ranks. Counts are elements of `type`.
typedef struct device_collective {
    const void *in;
    void *out; // may be `in`, or, where one of the two is a shard, this rank's shard of the other
    size_t count; // of an all_reduce and a broadcast all elements, else those of a shard
    dtype type;   // F32, BF16, F16, F64, I64 or U8
    reduce_op op; // of all_reduce and reduce_scatter
    int root;     // of broadcast
} device_collective;

typedef struct device_message {
    void *buf;
    size_t bytes;
    int peer;
    bool receives;
} device_message;

typedef struct device_collectives {
    const char *name; // of the library, for messages
    // Opens the library once for d. *version tells two of its versions apart. E_USAGE says what was looked for.
    status (*open)(struct device *d, int *version, err *e);
    status (*make_id)(struct device *d, device_clique_id *out, err *e);
    // Begins to join a clique of `size` ranks; poll says when all have joined. The caller closes *out.
    status (*join)(struct device *d, const device_clique_id *id, int rank, int size,
                   device_clique **out, err *e);
    // Returns whether cliques can be split. Else the ranks of a new one join it by an id.
    bool (*can_split)(struct device *d);
    // Begins to make new cliques of the ranks of `parent`, one for each color, ordered by key. Color -1: this rank is
    // in none, and *out can only be closed. The parent is polled first, then *out. Collective over the parent.
    status (*split)(device_clique *parent, int color, int key, device_clique **out, err *e);
    // Returns whether the calls so far are done. The library's error of this rank's calls, or of another rank.
    status (*poll)(device_clique *c, bool *done, err *e);
    // Begins to end a clique, after whose poll it can be closed at once.
    status (*finish)(device_clique *c, err *e);
    void (*close)(device_clique *c);
    // Ends the work of the clique on all streams, and closes it. Any thread may call it.
    void (*abort)(device_clique *c);

    // Sums have an order of the library's own.
    status (*all_reduce)(device_clique *c, const device_collective *x, struct device_stream *on,
                         err *e);
    status (*reduce_scatter)(device_clique *c, const device_collective *x, struct device_stream *on,
                             err *e);
    status (*all_gather)(device_clique *c, const device_collective *x, struct device_stream *on,
                         err *e);
    status (*broadcast)(device_clique *c, const device_collective *x, struct device_stream *on,
                        err *e);
    // Messages that start together. Those of a pair of ranks meet in the order of issue, and have equal sizes.
    status (*exchange)(device_clique *c, const device_message *m, int count,
                       struct device_stream *on, err *e);
} device_collectives;

#endif
