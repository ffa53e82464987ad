// compose.h -- collectives that are made of messages, where communicators have no call of their own for them. They are
// columns of the table of call.h. All ranks exchange a few messages with several ranks at once, and wait for these
// before they begin the next ones.
#ifndef TRIREME_COMM_COMPOSE_H
#define TRIREME_COMM_COMPOSE_H

#include "comm/call.h"

// Messages that start together, at most, and rounds of an all_to_all, of two messages each.
enum { COMPOSE_MESSAGES = 32, COMPOSE_ROUNDS = COMPOSE_MESSAGES / 2 };

// As comm_issue. Called by comm.c.
status compose_all_to_all(struct comm *c, const comm_call *call, struct device_stream *on, err *e);
status compose_gather(struct comm *c, const comm_call *call, struct device_stream *on, err *e);
status compose_scatter(struct comm *c, const comm_call *call, struct device_stream *on, err *e);

#endif
