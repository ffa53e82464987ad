// bench_link.h -- what the files of `trireme bench link` share: bench_link.c reads the command line and starts both
// ends, bench_link_run.c measures, bench_link_comm.c and bench_link_tcp.c move the messages.
#ifndef TRIREME_CMD_BENCH_LINK_H
#define TRIREME_CMD_BENCH_LINK_H

#include "comm/registry.h"
#include "net/authenticate.h"

// The rows that both ends run. The end that measures gives it to the other one.
typedef struct bench_link_plan {
    int64_t least, most, factor; // bytes of a message, and the factor from row to row
    int64_t iterations;          // messages of a row; 0: bench_link_messages decides
    int64_t warm_up;             // round trips that are not counted
} bench_link_plan;

enum { BENCH_LINK_MOST = 1 << 30, BENCH_LINK_MOST_MESSAGES = 1 << 24 };

typedef struct bench_link bench_link;

// Messages of a link arrive in order.
typedef struct bench_link_ops {
    status (*send)(bench_link *l, const char *p, size_t bytes, err *e);
    status (*recv)(bench_link *l, char *p, size_t bytes, err *e);
    // Waits until all messages of this end are complete: their buffers may be written.
    status (*sync)(bench_link *l, err *e);
    // Copies between the memory of the link and other memory.
    status (*write)(bench_link *l, char *to, const void *from, size_t bytes, err *e);
    status (*read)(bench_link *l, void *to, const char *from, size_t bytes, err *e);
} bench_link_ops;

// One end.
struct bench_link {
    const bench_link_ops *ops;
    bench_link_plan plan;
    bool measures;    // this end starts each exchange and has the figures
    bool json;        // how it prints them
    char *out, *in;   // [plan.most] each, in memory of the link
    char *word;       // [8] the same
    char *host;       // [plan.most] a message as it should be, or as it came
    double timeout_s; // that an end waits for the other one
    uint64_t wrong;   // bytes of all rows
    char title[160];  // names the link
    // Of bench_link_comm.c.
    device *device;
    device_stream *stream;
    comm *comm;
    // Of bench_link_tcp.c.
    int fd;
};

// Messages of one row.
int64_t bench_link_messages(const bench_link_plan *p, int64_t bytes);
// Runs the plan on this end; the other end does the same. The end that measures prints the head, the rows and the
// end, and then returns E_IO where a byte arrived wrong.
status bench_link_run(bench_link *l, err *e);

// One of two ranks, over the communicator and the device of these names. Rank 0 measures. Collective over w.
status bench_link_over_comm(bench_link *l, world *w, int rank, const char *name,
                            const char *device_name, err *e);

// One end of a connection over TCP.
typedef struct bench_link_tcp {
    net_address address; // of the server
    net_secret secret;
    int listener; // of the server; -1: the client
} bench_link_tcp;

// Serves the first client that has the secret and comes before the timeout.
status bench_link_serve(bench_link *l, const bench_link_tcp *t, err *e);
// Connects to a server and measures.
status bench_link_connect(bench_link *l, const bench_link_tcp *t, err *e);

#endif
