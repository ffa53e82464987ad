// safetensors_check.h -- private to store/: the header of one file, checked against every rule.
#ifndef TRIREME_STORE_SAFETENSORS_CHECK_H
#define TRIREME_STORE_SAFETENSORS_CHECK_H

#include "store/safetensors_file.h"

// Maps file->path, parses its header and checks it. `file` owns the map and the header, also after
// a failure. *out [*count] holds the tensors in the order of their data; the caller frees it.
// E_USAGE names file and tensor.
status safetensors_file_open(safetensors_file *file, safetensors_tensor **out, size_t *count,
                             err *e);

#endif
