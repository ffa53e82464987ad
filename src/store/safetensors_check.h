// safetensors_check.h -- private to store/: the header of one file, checked against every rule.
#ifndef TRIREME_STORE_SAFETENSORS_CHECK_H
#define TRIREME_STORE_SAFETENSORS_CHECK_H

#include "store/safetensors_file.h"

// Maps part->path and parses and checks its header. What was opened belongs to `part`, also on
// failure. *out (owned by the caller) holds its tensors by position. E_USAGE names file and tensor.
status safetensors_part_open(safetensors_part *part, tensor_info **out, size_t *count, err *e);

#endif
