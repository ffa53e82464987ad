// nonfinite.c -- names the rank and the tensor when a step computed NaN or Inf. A normal step costs
// nothing more: micro-batches are a pure function of the step, and the step has not updated the weights,
// so it can be repeated up to CLIP_GRAD_NORM. In the repetition REDUCE_GRAD does not reduce:
// each rank inspects its local gradients instead. Called by step.c and by run_reduce_grad.
#include "train/launch.h"
#include "train/trainer_private.h"

#include <math.h>

static status sum_squares(trainer *t, const float *x, int64_t count, double *out, err *e)
{
    status result = OK;
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    double *sum = &results_sums(t)[SUM_SQUARES];
    launch_zero(on, sum, sizeof *sum);
    workspace_launch_squares(
        t, on, &(kernel_sum_squares_args){.count = count, .x = x, .sum = sum, .type = F32});
    TRY(results_read_sums(t, SUM_SQUARES, 1, e));
    *out = results_host_sums(t)[SUM_SQUARES];
done:
    return result;
}

status trainer_inspect(trainer *t, int bucket, const float *gradients, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const plan_bucket *b = &p->bucket[bucket];
    for (int i = 0; i < b->rows; i++) {
        const int row = p->order[b->first_row + i];
        const plan_row *r = &p->row[row];
        const int64_t offset = r->offset[LAYOUT_FULL];
        double sum = 0, tied_sum = 0;
        if (*state_grad_written(t, row)) TRY(sum_squares(t, gradients + offset, r->count, &sum, e));
        if (r->tied_grad >= 0 && *state_tied_grad_written(t, row))
            TRY(sum_squares(t, state_tied_gradient(t, r), r->count, &tied_sum, e));
        if (!isfinite(sum + tied_sum) && (t->pass.bad_row < 0 || row < t->pass.bad_row))
            t->pass.bad_row = row;
    }
done:
    return result;
}

// Repeats the step. *bad is the first row whose gradient on this rank is not finite, or -1. *loss
// is the sum of this rank's losses.
static status repeat_step(trainer *t, int *bad, double *loss, err *e)
{
    status result = OK;
    t->pass.inspects = true;
    t->pass.bad_row = -1;
    TRY(trainer_run(t, &t->schedule, t->model, e));
    TRY(results_read_sums(t, 0, STEP_SUMS, e));
    *loss = results_host_sums(t)[SUM_LOSS];
    *bad = t->pass.bad_row;
done:
    t->pass.inspects = false;
    return result;
}

status trainer_name_nonfinite(trainer *t, err *e)
{
    status result = OK;
    const unsigned long long step = results_steps_done(t) + 1;
    const double reduced_loss = results_agreed(t)->loss;
    double loss;
    bool any;
    int bad;
    TRY(repeat_step(t, &bad, &loss, e));
    const bool own = bad >= 0 || !isfinite(loss);
    // A rank whose values are finite must not report before the rank that computed NaN or Inf.
    TRY(trainer_agree(t, own, &any, e));
    if (own && !isfinite(loss))
        FAIL(E_NUMERIC, "step %llu: the loss is %g; first gradient that is not finite: %s", step,
             loss, bad >= 0 ? t->plan->row[bad].name : "none");
    if (own)
        FAIL(E_NUMERIC, "step %llu: gradient of %s is not finite (the loss is)", step,
             t->plan->row[bad].name);
    if (!any)
        FAIL(E_NUMERIC,
             "step %llu: every rank's own gradients are finite, their sum is not (loss %g)", step,
             reduced_loss);
    TRY(comm_barrier(t->o.comm, e)); // ends when the rank that computed NaN or Inf aborts
    FAIL(E_PEER, "step %llu: another rank's gradients are not finite", step);
done:
    return result;
}
