// packing.h -- the calls over segments of a trainer, for communicators that pack shards (comm/packed.h).
// It lists the calls of every schedule before the first step, so that their tables and workspaces are
// planned. It owns nothing.
#ifndef TRIREME_TRAIN_PACKING_H
#define TRIREME_TRAIN_PACKING_H

#include "comm/packed.h"
#include "model/model.h"
#include "parallel/plan.h"

// Adds the calls over segments that a trainer of plan p issues: the redistributions of its buckets, and
// the passes of the blocks of m (and of `eval`, which may be NULL) on this rank's stage.
status packing_add_calls(const plan *p, const model *m, const model *eval, comm_packing *to,
                         err *e);

#endif
