// accuracy.c -- counts how often the predicted class equals the label, over the samples of an
// evaluation. Called by commands. Every rank reads all samples, because infer_predict needs the
// same samples on every rank.
#include "train/trainer_private.h"

#include "base/alloc.h"
#include "infer/evaluate.h"
#include "infer/predict.h"

bool infer_has_accuracy(const trainer *t)
{
    const dataset *d = t->o.valid;
    return d && d->shape.input_type == F32 && d->shape.label_type == I32 && d->shape.labels == 1;
}

status infer_accuracy(trainer *t, int64_t max_batches, uint64_t *right, uint64_t *labels, err *e)
{
    status result = OK;
    dataset *d = t->o.valid;
    const infer_predict_options o = {.what = PREDICT_CLASSES};
    const uint64_t samples = infer_evaluated_samples(t, max_batches),
                   round = (uint64_t)infer_predict_batch(t);
    const size_t row = (size_t)d->shape.inputs * sizeof(float);
    char *inputs = NULL;
    int32_t *want = NULL, *got = NULL;
    *right = *labels = 0;
    TRY(alloc_array(&inputs, round, row, "a batch", e));
    TRY(alloc_array(&want, round, sizeof *want, "a batch", e));
    TRY(alloc_array(&got, round, sizeof *got, "a batch", e));
    for (uint64_t first = 0; first < samples; first += round) {
        const uint64_t count = samples - first < round ? samples - first : round;
        for (uint64_t i = 0; i < count; i++)
            TRY(d->read(d, first + i, inputs + i * row, want + i, e));
        TRY(infer_predict(t, &o, inputs, (int64_t)count, got, e));
        for (uint64_t i = 0; i < count; i++) {
            *labels += want[i] != IGNORED_LABEL;
            *right += want[i] != IGNORED_LABEL && got[i] == want[i];
        }
    }
done:
    free(inputs);
    free(want);
    free(got);
    return result;
}
