// documents.h -- the log-probabilities of the documents of a data set, under a trainer's model whose loss is of
// preferences. The session keeps them as those of the reference. It does not know which model the weights are of.
#ifndef TRIREME_INFER_DOCUMENTS_H
#define TRIREME_INFER_DOCUMENTS_H

#include "train/trainer.h"

// Computes out[first[samples]]: of document k of sample i of d, number first[i] + k, the sum of the log-probabilities of
// its labels. d is without the numbers behind labels (shape.extras). Weights do not change. The same on every rank, to
// the bit. Collective over the comm.
status infer_documents(trainer *t, dataset *d, const uint64_t *first, double *out, err *e);
// Adds up the ranks' numbers x[count], of which one rank has each, and the others have 0. Collective over the comm.
status infer_documents_share(trainer *t, double *x, uint64_t count, err *e);

#endif
