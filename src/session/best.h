// best.h -- the evaluation with the lowest loss of a run, and what a job makes of it: the checkpoint that is kept, and the
// end of a run that no longer gets better (early stopping, as Keras' EarlyStopping and transformers'
// EarlyStoppingCallback). Checkpoints carry it, so a resumed run stops where the whole run would have. Pure but for the
// reading.
#ifndef TRIREME_SESSION_BEST_H
#define TRIREME_SESSION_BEST_H

#include "train/trainer.h"

// Before any evaluation.
static inline trainer_best session_best_none(void)
{
    return (trainer_best){.step = -1};
}
// Takes the loss of an evaluation. Returns whether it is lower than the lowest so far by more than `threshold`. A loss
// that is no number never is.
bool session_best_take(trainer_best *b, int64_t step, double loss, double threshold);
// Returns whether `patience` evaluations or more (0: any number) have followed the lowest loss.
bool session_best_ends(const trainer_best *b, int64_t patience);
// Reads it from a checkpoint. One of an older version has none.
status session_best_read(const char *folder, trainer_best *out, err *e);

#endif
