// deepspeed.h -- functions that the files of DeepSpeed's dialect share. Private to deepspeed*.c.
#ifndef TRIREME_CONFIG_DIALECT_DEEPSPEED_H
#define TRIREME_CONFIG_DIALECT_DEEPSPEED_H

#include "config/dialect/private.h"

// Sets what several keys decide together.
status deepspeed_finish(const dialect_reader *r, err *e);
// Sets the batch of an elastic run, where elasticity is on.
status deepspeed_finish_elasticity(const dialect_reader *r, err *e);
// Returns whether the file has a value or "auto" of the key.
bool deepspeed_is_given(const dialect_reader *r, const char *theirs);

#endif
