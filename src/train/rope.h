// rope.h -- the rotary table of a model on the device, for the trainer and the decoder.
#ifndef TRIREME_TRAIN_ROPE_H
#define TRIREME_TRAIN_ROPE_H

#include "device/device.h"
#include "graph/execute.h"

// Bytes of the table of graph g; 0 for g NULL: the model has none.
size_t rope_bytes(const graph *g);
// Fills `table` [rope_bytes] in device memory, and waits for it. Nothing for g NULL.
status rope_upload(const graph *g, device_stream *on, float *table, err *e);

#endif
