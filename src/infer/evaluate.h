// evaluate.h -- the loss and the accuracy of a trainer's model over its validation set.
//
// Called by the session, by commands and by the library. It does not know how the model was trained.
#ifndef TRIREME_INFER_EVALUATE_H
#define TRIREME_INFER_EVALUATE_H

#include "train/trainer.h"

// Computes the mean loss over the first max_batches global batches of the validation set; 0: all of it.
// Weights do not change. *tokens (NULL allowed) is the number of valid positions. Collective over
// the comm.
status infer_evaluate(trainer *t, int64_t max_batches, double *loss, double *tokens, err *e);
// The rewards of the pairs of the evaluation that was last; zeros where the loss is not of preferences. Before the next step.
event_preferences infer_evaluated_preferences(const trainer *t);
// The number of samples of data.valid that an evaluation of `max_batches` global batches (0: all) takes.
// It does not depend on the mesh or the micro-batch.
uint64_t infer_evaluated_samples(const trainer *t, int64_t max_batches);

// Whether each sample of data.valid has one class as its label.
bool infer_has_accuracy(const trainer *t);
// Counts the valid labels of the samples of an evaluation, and those that are the predicted class. The same
// on every rank. Collective over the comm.
status infer_accuracy(trainer *t, int64_t max_batches, uint64_t *right, uint64_t *labels, err *e);

#endif
