// link.h -- measures the connection of two hosts: latency, rate in both directions, and whether large packets arrive. Both
// ends call it. pairs.c has connected them.
#ifndef TRIREME_DOCTOR_HOSTS_LINK_H
#define TRIREME_DOCTOR_HOSTS_LINK_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct host_rate {
    double gbits;
    bool stalled; // small messages arrive, and of a stream of large packets nothing does
} host_rate;

typedef struct host_link {
    double latency_us; // of one way: half of a round trip
    host_rate out, in; // from this host to the other one, and back
} host_link;

// How long an end sends, and how long the other one waits for the first byte and for all of them.
typedef struct host_link_times {
    int64_t send_ms, stall_ms, most_ms;
} host_link_times;

// `begins` is true at one end. *out is that of the end that begins; the other one's is not changed. E_PEER, E_IO: the
// connection was lost, or the other end does not answer.
status host_link_measure(int fd, bool begins, const host_link_times *t, host_link *out, err *e);

#endif
