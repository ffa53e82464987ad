// measure_split.h -- parallel.batch_split measured: before step 1 all ranks measure their speed at the same time,
// as they will compute, and agree on the micro-batches of each. session_open calls it on every rank. It does not know
// how a split is chosen from speeds (data/batch_split.h).
#ifndef TRIREME_SESSION_PLAN_MEASURE_SPLIT_H
#define TRIREME_SESSION_PLAN_MEASURE_SPLIT_H

#include "comm/comm.h"
#include "config/job.h"

// Sets *of to the micro-batches of the data-parallel ranks of mesh m, which are of at most train.micro_batch
// sequences, and *note to a line that says why. They are even where that is at most a fiftieth slower. The
// speed of a data-parallel rank is that of its slowest rank. The caller frees both. Collective over c.
status session_measure_split(const job *j, const mesh *m, device *d, comm *c, int **of, char **note,
                             err *e);

#endif
