// trl.h -- functions that the files of TRL's dialect share. Private to trl*.c.
#ifndef TRIREME_CONFIG_DIALECT_TUNING_TRL_H
#define TRIREME_CONFIG_DIALECT_TUNING_TRL_H

#include "config/dialect/tuning/training_arguments.h"

// Sets what several keys decide together.
status trl_finish(const dialect_reader *r, err *e);

#endif
