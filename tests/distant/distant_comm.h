// distant_comm.h -- makes a communicator of tests like a network's: its calls wait, so it asks for
// streams with threads of their own (comm.can.own_thread). What it was moves the bytes.
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

// Also of what is split from c.
status distant_comm_make(comm *c, const distant_options *o, err *e);

#endif
