// predict.c -- trm_trainer_predict: predictions of the trainer's model for samples of the program.
#include "infer/predict.h"
#include "api/api.h"

_Static_assert((int)TRM_LOGITS == (int)PREDICT_LOGITS && (int)TRM_CLASSES == (int)PREDICT_CLASSES &&
                   (int)TRM_VECTORS == (int)PREDICT_VECTORS,
               "predictions have the same numbers inside and outside");

static status shape_of(const trm_trainer *t, const infer_predict_options *o,
                       infer_prediction_shape *out, err *e)
{
    if ((int)o->what < 0 || o->what >= PREDICTIONS)
        return err_set(e, E_USAGE,
                       "predict: found prediction %d; valid: TRM_LOGITS, TRM_CLASSES, TRM_VECTORS",
                       (int)o->what);
    return infer_predict_shape(t->rank->session.trainer, o, out, e);
}

int64_t trm_trainer_width(const trm_trainer *t, trm_prediction what)
{
    const infer_predict_options o = {.what = (infer_prediction)what};
    infer_prediction_shape s;
    return shape_of(t, &o, &s, NULL) == OK ? s.cols : 0;
}

static status predict(trm_trainer *t, const infer_predict_options *o, const void *in,
                      int64_t samples, void *out, size_t count, err *e)
{
    status result = OK;
    infer_prediction_shape s;
    TRY(trainer_check_ended(t->rank->session.trainer, "predict", e));
    TRY(shape_of(t, o, &s, e));
    const size_t each = (size_t)s.positions * (size_t)s.cols;
    if (samples < 0 || (size_t)samples > SIZE_MAX / sizeof(float) / each)
        FAIL(E_USAGE, "predict: found %lld samples; valid: 0 or more", (long long)samples);
    if (out && count != (size_t)samples * each)
        FAIL(E_USAGE, "predict: out has %zu elements; valid: %zu, %lld samples of %zu", count,
             (size_t)samples * each, (long long)samples, each);
    TRY(infer_predict(t->rank->session.trainer, o, in, samples, out, e));
done:
    return result;
}

trm_status trm_trainer_predict(trm_trainer *t, trm_prediction what, bool last_only, const void *in,
                               int64_t samples, void *out, size_t count, trm_error *error)
{
    err e = {.code = OK};
    const infer_predict_options o = {.what = (infer_prediction)what, .last = last_only};
    return api_give(predict(t, &o, in, samples, out, count, &e), &e, error);
}
