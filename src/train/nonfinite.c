// nonfinite.c -- a step met NaN or Inf: whose is it, and in which tensor? The normal path pays
// nothing for the answer: the micro-batches are a pure function of the step and the weights are not
// yet grad_written, so the step is repeated up to its end without reducing gradients, and each rank
// looks at its own where they would have been reduced.
#include "train/state.h"

#include <math.h>

static status sum_of(trainer *t, const float *at, int64_t count, double *out, err *e)
{
    status result = OK;
    device_stream *on = t->stream[STREAM_COMPUTE];
    kernel_call zero = {.kind = K_FILL}, sum = {.kind = K_SUM_SQUARES};
    zero.u.fill = (kernel_fill_args){&t->sums[SUM_SQUARES], sizeof(double)};
    sum.u.sum_squares = (kernel_sum_squares_args){
        .count = count, .x = at, .sum = &t->sums[SUM_SQUARES], .type = F32};
    device_launch(on, &zero);
    device_launch(on, &sum);
    t->o.device->ops->copy(on, &t->host_sums[SUM_SQUARES], &t->sums[SUM_SQUARES], sizeof(double));
    TRY(t->o.device->ops->sync(on, e));
    *out = t->host_sums[SUM_SQUARES];
done:
    return result;
}

status trainer_inspect(trainer *t, int bucket, const float *at, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const plan_bucket *b = &p->bucket[bucket];
    for (int i = 0; i < b->rows; i++) {
        const int row = p->order[b->first_row + i];
        const plan_row *r = &p->row[row];
        double sum = 0, tied_grad = 0;
        if (t->grad_written[row])
            TRY(sum_of(t, at + (r->offset[LAYOUT_FULL] - b->first[LAYOUT_FULL]), r->count, &sum,
                       e));
        if (r->tied_grad >= 0 && t->tied_grad_written[row])
            TRY(sum_of(t, t->tied_grads + r->tied_grad, r->count, &tied_grad, e));
        if (!isfinite(sum + tied_grad) && (t->bad_row < 0 || row < t->bad_row)) t->bad_row = row;
    }
done:
    return result;
}

// The first parameter whose own gradient is not finite; -1 when all are. *loss is this rank's
// summed loss.
static status find_own(trainer *t, int *bad, double *loss, err *e)
{
    status result = OK;
    t->inspecting = true;
    t->bad_row = -1;
    trainer_reset_sums(t);
    TRY(trainer_run(t, &t->schedule, t->model, e));
    t->o.device->ops->copy(t->stream[STREAM_COMPUTE], t->host_sums, t->sums, SUMS * sizeof(double));
    TRY(t->o.device->ops->sync(t->stream[STREAM_COMPUTE], e));
    *loss = t->host_sums[SUM_LOSS];
    *bad = t->bad_row;
done:
    t->inspecting = false;
    return result;
}

status trainer_name_nonfinite(trainer *t, err *e)
{
    status result = OK;
    unsigned long long step = t->steps_done + 1;
    double reduced_loss = t->agreed.loss, loss;
    int bad;
    device_stream *on = t->stream[STREAM_COMPUTE];
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
