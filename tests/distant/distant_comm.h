// distant_comm.h -- a communicator for tests that is like a network's: its calls wait, so it asks for
// streams with threads of their own (comm.can.own_thread). It wraps another communicator, which moves
// the bytes.
#ifndef TRIREME_TESTS_DISTANT_COMM_H
#define TRIREME_TESTS_DISTANT_COMM_H

#include "comm/comm.h"

// What happens before each collective and message. `before` runs on the thread that issues the call,
// and may issue more to the stream. Borrowed until the communicators are closed.
typedef struct distant_options {
    bool own_thread;
    void (*before)(device_stream *on, void *arg); // NULL: nothing
    void *arg;
} distant_options;

// The wrapper owns `inner` and closes it; after a failure `inner` is still the caller's. What is split
// from a wrapper is a wrapper.
status distant_comm_open(comm *inner, const distant_options *o, comm **out, err *e);

#endif
