// reference.h -- the reference of a preference loss. A data set of pairs gets two numbers behind the labels of each
// token, whose sum is the reference's log-probability of the token's document. They are computed once, before step 1, and
// kept in train.out, so that a resumed run has them. run.c calls it. It knows no kernel.
#ifndef TRIREME_SESSION_REFERENCE_H
#define TRIREME_SESSION_REFERENCE_H

#include "session/run.h"

// The job's preference loss; PREFERENCE_NONE: it has another one.
kernel_preference session_preference(const job *j);
// Checks that the job's loss fits its data, and wraps them where the loss needs a reference (in->train and in->valid).
// Reads all samples once. `key` E_USAGE.
status session_preference_open(const job *j, session_inputs *in, err *e);

// Gives the wrapped data their numbers: reads them from the folder of the run that it has resumed, or computes them and
// writes them to train.out. Does nothing where no data are wrapped, or when they have them. Collective over all ranks.
status session_reference_prepare(session_rank *r, err *e);
// The same for the data of an evaluation outside of a run: the numbers come from the run of the evaluated model or from
// train.out, or they are computed with the weights of the reference's folder. E_USAGE where there is neither.
status session_reference_find(session_rank *r, err *e);

#endif
