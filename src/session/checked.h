// checked.h -- a program's own data, with every id looked at before it becomes an index. Inside
// session/ only.
#ifndef TRIREME_SESSION_CHECKED_H
#define TRIREME_SESSION_CHECKED_H

#include "data/dataset.h"

// Reads through `of` (borrowed): input ids must be in [0, inputs), label ids in [0, labels) or -100
// (ignored); floats are left alone. Reading fails with E_USAGE "key: sample 7: …" otherwise.
status checked_dataset_open(dataset *of, const char *key, int32_t inputs, int32_t labels,
                            dataset **out, err *e);

#endif
