// fit.h -- a job and the memory of its ranks, before anything starts. Inside session/ only.
#ifndef TRIREME_SESSION_FIT_H
#define TRIREME_SESSION_FIT_H

#include "session/session.h"

// train.micro_batch: the largest that fits, of those that the batch rule allows; else the smallest.
status fit_micro_batch(job *j, const session_inputs *in, err *e);
// After that, if `choose`: a job that does not fit is changed (memory.fit; *said, owned by the
// caller, tells how) or refused: E_FIT with bytes by category and the first changes that would fit.
status fit_job(job *j, const session_inputs *in, bool choose, char **said, err *e);

#endif
