// checked.h -- a program's own data set, with each id checked before it becomes an index. Private
// to session/.
#ifndef TRIREME_SESSION_CHECKED_H
#define TRIREME_SESSION_CHECKED_H

#include "data/dataset.h"

// A data set that reads from `source` (borrowed). Input ids must be in [0, inputs), label ids in
// [0, labels) or -100 (ignored). A read of other ids fails with E_USAGE "key: sample 7: …". Floats
// are not checked.
status checked_dataset_open(dataset *source, const char *key, int32_t inputs, int32_t labels,
                            dataset **out, err *e);

#endif
