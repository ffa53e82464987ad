// accelerate.h -- functions that the files of Accelerate's dialect share. Private to accelerate*.c.
#ifndef TRIREME_CONFIG_DIALECT_ACCELERATE_H
#define TRIREME_CONFIG_DIALECT_ACCELERATE_H

#include "config/dialect/private.h"

// Brings old spellings up to date, refuses what Accelerate refuses, and leaves out sections that it does not use.
status accelerate_begin(const dialect_reader *r, yaml_node *root, err *e);
// Sets what several keys decide together.
status accelerate_finish(const dialect_reader *r, err *e);
// The way of training: "FSDP". "NO" where YAML 1.1 reads a truth value.
const char *accelerate_type(const dialect_reader *r);
bool accelerate_is(const dialect_reader *r, const char *type);
// A size of parallelism_config: accelerate_size(r, "tp") is tp_size; 1 where it is not given.
int64_t accelerate_size(const dialect_reader *r, const char *name);

#endif
