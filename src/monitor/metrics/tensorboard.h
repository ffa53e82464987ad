// tensorboard.h -- TensorBoard's event files: loss, learning rate, gradient norm, throughput and memory as scalars.
// `wandb sync` and `trackio` read them, too. session/ adds it to the sinks of rank 0.
//
// A file is a sequence of records, as TFRecord frames them: the length, a masked CRC-32C of it, the bytes, and a masked
// CRC-32C of these. Each record is a message `Event` of Protocol Buffers.
#ifndef TRIREME_MONITOR_METRICS_TENSORBOARD_H
#define TRIREME_MONITOR_METRICS_TENSORBOARD_H

#include "base/event.h"
#include "base/text.h"

// A sink that writes a new file into RUN/tensorboard, where RUN is the folder of the run. What the run does within a
// second is written at once. Memory is that of rank 0's record, where there is one. E_IO.
status tensorboard_open(const char *run, event_sink *out, err *e);

// Appends a record that holds `data`.
void tensorboard_add_record(text *out, const void *data, size_t bytes);
uint32_t tensorboard_masked_crc(const void *data, size_t bytes);

#endif
