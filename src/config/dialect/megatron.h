// megatron.h -- what the two files of Megatron-LM's dialect share. Private to config/dialect/.
#ifndef TRIREME_CONFIG_DIALECT_MEGATRON_H
#define TRIREME_CONFIG_DIALECT_MEGATRON_H

#include "config/dialect/private.h"

extern const dialect_names MEGATRON_NAMES[]; // that need no row each
// Parameters of a bucket to bytes of its gradients; minutes to a duration; a switch to host or device.
dialect_convert megatron_convert_bucket, megatron_convert_minutes, megatron_convert_offload;
// Sets the model: family and fields.
status megatron_finish_model(const dialect_reader *r, err *e);
// Sets data.train, data.valid, the order and evaluations; and what a run saves.
status megatron_finish_data(const dialect_reader *r, err *e);
status megatron_finish_checkpoints(const dialect_reader *r, err *e);
// Sets what several arguments decide together.
status megatron_finish(const dialect_reader *r, err *e);

#endif
