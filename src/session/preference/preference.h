// preference.h -- the job's preference loss: its data, and the number that all pairs of a step or of an evaluation share
// (kernel_preference_args.shared), which is of ORPO the share of a token in the mean over the batch, and of KTO the estimate
// of the KL divergence. Sessions and run.c call it.
#ifndef TRIREME_SESSION_PREFERENCE_PREFERENCE_H
#define TRIREME_SESSION_PREFERENCE_PREFERENCE_H

#include "session/run.h"

// The job's preference loss; PREFERENCE_NONE: it has another one.
kernel_preference session_preference(const job *j);
// Whether it compares with an estimate of the KL divergence of the policy from the reference.
bool session_preference_estimates(const job *j);
// Checks that the job's loss fits its data, and wraps them where the loss needs more of them (in->train and in->valid).
// Reads all samples once. `key` E_USAGE.
status session_preference_open(const job *j, session_inputs *in, err *e);

// Gives the trainer the shared number of the step that follows. Does nothing within a step, and with losses that share
// none. session_reference_prepare has run. Collective over all ranks, like the next one.
status session_preference_step(session_rank *r, err *e);
// The same of an evaluation of `batches` global batches (0: all).
status session_preference_evaluate(session_rank *r, int64_t batches, err *e);

#endif
