// llamafactory.h -- functions that the files of LLaMA-Factory's dialect share. Private to llamafactory*.c.
#ifndef TRIREME_CONFIG_DIALECT_TUNING_LLAMAFACTORY_H
#define TRIREME_CONFIG_DIALECT_TUNING_LLAMAFACTORY_H

#include "config/dialect/tuning/training_arguments.h"

extern const dialect_names LLAMAFACTORY_NAMES[]; // keys without a row
// Sets what several keys decide together.
status llamafactory_finish(const dialect_reader *r, err *e);
// Sets data.train and data.valid from the names of data sets, by dataset_info.json in the folder dataset_dir.
status llamafactory_finish_data(const dialect_reader *r, err *e);

#endif
