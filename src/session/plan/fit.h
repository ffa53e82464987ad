// fit.h -- checks that a job fits in the memory of its ranks, before any rank starts. Private to
// session/.
#ifndef TRIREME_SESSION_FIT_H
#define TRIREME_SESSION_FIT_H

#include "session/session.h"

// Sets train.micro_batch to the largest that fits, of those that the batch rule allows, or else to
// the smallest.
status fit_micro_batch(job *j, const session_inputs *in, err *e);
// Changes a job that does not fit where memory.fit allows it, and refuses it otherwise: E_FIT with
// the bytes by category and the first changes that would fit. With `choose_batch` it sets
// train.micro_batch before. *changes receives a line that describes the changes; the caller owns
// it.
status fit_job(job *j, const session_inputs *in, bool choose_batch, char **changes, err *e);

#endif
