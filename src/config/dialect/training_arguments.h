// training_arguments.h -- TrainingArguments of transformers, which several systems' dialects are based on. Private to
// config/dialect/.
#ifndef TRIREME_CONFIG_DIALECT_TRAINING_ARGUMENTS_H
#define TRIREME_CONFIG_DIALECT_TRAINING_ARGUMENTS_H

#include "config/dialect/tuning.h"

// Has rows alone, and is no dialect of the registry. A dialect that is based on it calls the function below.
extern const dialect dialect_training_arguments;

// Sets what several of its keys decide together.
status training_arguments_finish(const dialect_reader *r, err *e);
// Sets the strategy from fsdp and fsdp_config.
status training_arguments_finish_fsdp(const dialect_reader *r, err *e);

#endif
