// nonfinite.c -- a step met NaN or Inf: whose is it, and in which tensor? The normal path pays
// nothing for the answer: the micro-batches are a pure function of the step and the weights are not
// yet touched, so each rank computes its own gradients once more, alone, and looks.
#include "train/state.h"

#include <math.h>

static status sum_of(trainer *t, const plan_row *r, double *out, err *e)
{
    status result = OK;
    stream *on = t->stream[STREAM_COMPUTE];
    kernel_call zero = {.kind = K_FILL}, sum = {.kind = K_SUM_SQUARES};
    zero.u.fill = (fill_args){&t->sums[SUM_SQUARES], sizeof(double)};
    sum.u.sum_squares = (sum_squares_args){
        .count = r->count, .x = t->gradients + r->first, .sum = &t->sums[SUM_SQUARES], .type = F32};
    device_launch(on, &zero);
    device_launch(on, &sum);
    t->o.device->ops->copy(on, &t->host_sums[SUM_SQUARES], &t->sums[SUM_SQUARES], sizeof(double));
    TRY(t->o.device->ops->sync(on, e));
    *out = t->host_sums[SUM_SQUARES];
done:
    return result;
}

// The first parameter whose own gradient is not finite; -1 when all are. *loss is this rank's
// summed loss.
static status find_own(trainer *t, int *bad, double *loss, err *e)
{
    status result = OK;
    *bad = -1;
    trainer_reset_sums(t);
    for (int m = 0; m < t->micros; m++) TRY(trainer_run_micro(t, m, e));
    t->o.device->ops->copy(t->stream[STREAM_COMPUTE], t->host_sums, t->sums, SUMS * sizeof(double));
    TRY(t->o.device->ops->sync(t->stream[STREAM_COMPUTE], e));
    *loss = t->host_sums[SUM_LOSS];
    for (int i = 0; i < t->plan->rows && *bad < 0; i++) {
        double sum;
        TRY(sum_of(t, &t->plan->row[i], &sum, e));
        if (!isfinite(sum)) *bad = i;
    }
done:
    return result;
}

status trainer_name_nonfinite(trainer *t, err *e)
{
    status result = OK;
    unsigned long long step = t->steps_done + 1;
    double reduced_loss = t->agreed.loss, loss;
    int bad;
    stream *on = t->stream[STREAM_COMPUTE];
    TRY(find_own(t, &bad, &loss, e));
    bool own = bad >= 0 || !isfinite(loss);
    // Ranks without fault of their own must not speak first.
    t->host_sums[SUM_STOP] = own ? 1 : 0;
    t->o.device->ops->copy(on, &t->sums[SUM_STOP], &t->host_sums[SUM_STOP], sizeof(double));
    TRY(comm_all_reduce(t->o.comm, &t->sums[SUM_STOP], 1, F64, REDUCE_SUM, on, e));
    t->o.device->ops->copy(on, &t->host_sums[SUM_STOP], &t->sums[SUM_STOP], sizeof(double));
    TRY(t->o.device->ops->sync(on, e));
    bool somebody = t->host_sums[SUM_STOP] > 0;
    if (own && !isfinite(loss))
        FAIL(E_NUMERIC, "step %llu: the loss is %g; first gradient that is not finite: %s", step,
             loss, bad >= 0 ? t->plan->row[bad].name : "none");
    if (own)
        FAIL(E_NUMERIC, "step %llu: gradient of %s is not finite (the loss is)", step,
             t->plan->row[bad].name);
    if (!somebody)
        FAIL(E_NUMERIC,
             "step %llu: every rank's own gradients are finite, their sum is not (loss %g)", step,
             reduced_loss);
    TRY(comm_barrier(t->o.comm, e)); // ends when the rank at fault aborts
    FAIL(E_PEER, "step %llu: another rank's gradients are not finite", step);
done:
    return result;
}
