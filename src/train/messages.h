// messages.h -- messages between the stages of a pipeline: activations and their gradients. A stage sends
// from the memory in which it computed, without a copy, so it notes the last message from each slot and
// waits until that is read before it writes the slot again. step_blocks.c sends and receives. It does not
// know what a message holds.
#ifndef TRIREME_TRAIN_MESSAGES_H
#define TRIREME_TRAIN_MESSAGES_H

#include "comm/comm.h"
#include "parallel/schedule.h"
#include "train/events.h"

// The last message from a slot.
typedef struct messages_sent {
    int peer;                   // the stage that it was sent to
    uint64_t number;            // of the message; 0: it has been read
    trainer_event read;         // recorded after the send, where sends wait
    struct messages_sent *next; // of the group
} messages_sent;

typedef struct messages {
    // The messages that start together, so far (schedule_instr.with_next).
    comm_message message[COMM_GROUP_MESSAGES];
    int count;
    bool receives;
    messages_sent *sends; // their sends
    // [stages] the messages that were sent to each stage over the communicator of this direction.
    uint64_t *acts, *grads;
} messages;

// Allocates the tables; does nothing while memory is counted.
status messages_allocate(trainer *t, messages *m, err *e);
// Makes the note of a slot; without a pipeline it needs nothing.
status messages_open_slot(trainer *t, messages_sent *slot, err *e);
void messages_close_slot(const trainer *t, messages_sent *slot);

// Each issues the message of a SEND_… or RECV_… to the communication stream, after what the compute
// stream has so far. Messages that start together are issued as one group, and after the last one the
// compute stream waits for what they bring. `group` is the communicator of its direction. The plan says
// how long the message is.
status messages_send(trainer *t, messages *m, const schedule_instr *x, int group,
                     const void *buffer, messages_sent *from, err *e);
status messages_receive(trainer *t, messages *m, const schedule_instr *x, int group, void *buffer,
                        err *e);
// The compute stream waits until the last message from the slot has been read.
status messages_await_read(trainer *t, int group, messages_sent *from, err *e);

#endif
