// reference.h -- the reference of a preference loss. A data set of pairs gets two numbers behind the labels of each
// token, whose sum is the reference's log-probability of the token's document. They are computed once, before step 1, and
// kept in train.out, so that a resumed run has them. preference.c and run.c call it. It knows no kernel.
#ifndef TRIREME_SESSION_PREFERENCE_REFERENCE_H
#define TRIREME_SESSION_PREFERENCE_REFERENCE_H

#include "session/run.h"

// The folder of the job's reference; NULL: it is the model at the start.
const char *session_reference_folder(const job *j);
// Takes ownership of *data. `key` and `file` name the data and the file in train.out.
status session_reference_wrap(dataset **data, const job *j, const char *key, const char *file,
                              err *e);

// Gives the wrapped data their numbers: reads them from the folder of the run that it has resumed, or computes them and
// writes them to train.out. Does nothing where no data are wrapped, or when they have them. Collective over all ranks.
status session_reference_prepare(session_rank *r, err *e);
// The same for the data of an evaluation outside of a run: the numbers come from the run of the evaluated model or from
// train.out, or they are computed with the weights of the reference's folder. E_USAGE where there is neither.
status session_reference_find(session_rank *r, err *e);

// The estimate of the KL divergence on samples of wrapped data, now: the mean of the differences of the
// log-probabilities of mismatched answers (mismatched.h), and 0 where that is negative. 0 where the data have no numbers
// yet. Collective over all ranks.
status session_reference_divergence(session_rank *r, dataset *data, const uint64_t *sample,
                                    uint64_t samples, double *out, err *e);

#endif
