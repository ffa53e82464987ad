// predict.h -- the outputs of a trainer's model for given samples: logits, classes or vectors.
//
// Called by `trireme predict`, by the library and by evaluate.h. It does not know where samples come from.
#ifndef TRIREME_INFER_PREDICT_H
#define TRIREME_INFER_PREDICT_H

#include "train/trainer.h"

// The outputs that infer_predict computes for each position of a sample.
typedef enum infer_prediction {
    PREDICT_LOGITS,  // of the classes or tokens; not with squared error
    PREDICT_CLASSES, // the class with the largest logit, of equal ones the first; -1: all are NaN
    PREDICT_VECTORS, // with squared error the predicted targets, else the input of the last layer
    PREDICTIONS
} infer_prediction;

typedef struct infer_predict_options {
    infer_prediction what;
    bool last; // only the last position of each sample
} infer_predict_options;

// The outputs of a sample: [positions, cols] F32, or [positions] I32 for classes (cols 1).
typedef struct infer_prediction_shape {
    int64_t positions, cols;
    dtype type;
} infer_prediction_shape;

// E_USAGE when the model has no logits and classes.
status infer_predict_shape(const trainer *t, const infer_predict_options *o,
                           infer_prediction_shape *out, err *e);
// The number of samples in one pass over all ranks.
int64_t infer_predict_batch(const trainer *t);
// Predicts for `samples` samples. `inputs` has them one after the other, the same on every rank; `out`
// receives the predictions in the same order (NULL: this rank does not need them). Weights do not
// change. E_USAGE names a token that is not in the vocabulary. Collective over the comm.
status infer_predict(trainer *t, const infer_predict_options *o, const void *inputs,
                     int64_t samples, void *out, err *e);

#endif
