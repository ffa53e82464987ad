// comm_private.h -- what communicators need of comm.c. Only files of comm/ and communicators of tests include it.
#ifndef TRIREME_COMM_COMM_PRIVATE_H
#define TRIREME_COMM_COMM_PRIVATE_H

#include "comm/comm.h"

// Fills what all communicators have. comm_close releases it, or comm_clear where the communicator did not open. E_MEMORY.
status comm_init(comm *c, const comm_ops *ops, const comm_capabilities *can, int rank, int size,
                 err *e);
void comm_clear(comm *c);

// How a rank comes to a call that is a step of another one, and what it learns. Its ranks are those of the other one.
typedef struct comm_arrival {
    int32_t
        by; // who is held for late where this rank comes last: it, or the one for which it has waited before
    int32_t last;      // for whom this rank has waited; -1: for nobody
    int64_t waited_ns; // how long
} comm_arrival;

// As comm_issue, of a call that is a part of a counted one: it is recorded, and not counted.
status comm_issue_part(comm *c, const comm_call *call, device_stream *on, err *e);
// As comm_issue_group, of messages that a recorded call is made of.
status comm_start_messages(const comm_message *m, int count, device_stream *on, err *e);

#endif
