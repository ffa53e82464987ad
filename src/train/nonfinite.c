// nonfinite.c -- names the rank and the tensor when a step computed NaN or Inf. A normal step costs
// nothing more: micro-batches are a pure function of the step, and the step has not updated the weights,
// so it can be repeated up to CLIP_GRAD_NORM. In the repetition REDUCE_GRAD does not reduce:
// each rank inspects its local gradients instead, and after each pass the values that it has written. So the message names
// the first pass, its micro-batch and its samples. Called by step.c and by run_reduce_grad.
#include "base/text.h"
#include "parallel/instructions.h"
#include "train/launch.h"
#include "train/trainer_private.h"

#include <math.h>

static status sum_squares(trainer *t, blocks_values v, double *out, err *e)
{
    status result = OK;
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    double *sum = &results_sums(t)[SUM_SQUARES];
    const int64_t most = workspace_most_squares(t, v.count);
    launch_zero(on, sum, sizeof *sum);
    for (int64_t i = 0; i < v.count; i += most) {
        const kernel_sum_squares_args part = {.count = v.count - i < most ? v.count - i : most,
                                              .x = (const char *)v.ptr +
                                                   (size_t)i * dtype_bytes(v.type),
                                              .sum = sum,
                                              .type = v.type};
        workspace_launch_squares(t, on, &part);
    }
    TRY(results_read_sums(t, SUM_SQUARES, 1, e));
    *out = results_host_sums(t)[SUM_SQUARES];
done:
    return result;
}

// Values of a pass. The sums of the step are read where it ends with the loss.
status trainer_inspect_values(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    const instr_row *row = instr_row_of(x->kind);
    const blocks_values v = blocks_written(t, x);
    const bool received = row->peers.waits_for == WAITS_FOR_SENDER;
    double sum = 0;
    if (t->pass.bad_pass || (!received && !row->computes)) return OK;
    if (received) trainer_order(t, STREAM_COMM, STREAM_COMPUTE);
    if (v.ptr) {
        TRY(sum_squares(t, v, &sum, e));
    } else if (row->computes & COMPUTES_FORWARD) {
        TRY(results_read_sums(t, SUM_LOSS, 1, e));
        sum = results_host_sums(t)[SUM_LOSS];
    }
    if (isfinite(sum)) goto done;
    t->pass.bad_pass = x;
    t->pass.received_bad = received;
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
        if (*state_grad_written(t, row))
            TRY(sum_squares(t, (blocks_values){gradients + offset, F32, r->count}, &sum, e));
        if (r->tied_grad >= 0 && *state_tied_grad_written(t, row))
            TRY(sum_squares(t, (blocks_values){state_tied_gradient(t, r), F32, r->count}, &tied_sum,
                            e));
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
    t->pass.bad_pass = NULL;
    t->pass.received_bad = false;
    TRY(trainer_run(t, &t->schedule, t->model, e));
    TRY(results_read_sums(t, 0, STEP_SUMS, e));
    *loss = results_host_sums(t)[SUM_LOSS];
    *bad = t->pass.bad_row;
done:
    t->pass.inspects = false;
    return result;
}

// "; first in FORWARD micro 0 block 1 (samples 12, 40)"; nothing where only gradients of weights are not finite.
static status describe_pass(const trainer *t, text *out, err *e)
{
    status result = OK;
    const schedule_instr *x = t->pass.bad_pass;
    if (!x) return OK;
    text_add(out, "; first in ");
    instr_print(x, out);
    TRY(batches_name_samples(t, x->micro, out, e));
    TRY(text_check(out, e));
done:
    return result;
}

status trainer_name_nonfinite(trainer *t, err *e)
{
    status result = OK;
    text pass = {0};
    const unsigned long long step = results_steps_done(t) + 1;
    const double reduced_loss = results_agreed(t)->loss;
    double loss;
    bool any;
    int bad;
    TRY(repeat_step(t, &bad, &loss, e));
    const bool own = (bad >= 0 || !isfinite(loss)) && !t->pass.received_bad;
    TRY(describe_pass(t, &pass, e));
    // A rank whose values are finite must not report before the rank that computed NaN or Inf.
    TRY(trainer_agree(t, own, &any, e));
    if (own && !isfinite(loss))
        FAIL(E_NUMERIC, "step %llu: the loss is %g; first gradient that is not finite: %s%s", step,
             loss, bad >= 0 ? t->plan->row[bad].name : "none", pass.bytes ? pass.chars : "");
    if (own)
        FAIL(E_NUMERIC, "step %llu: gradient of %s is not finite (the loss is)%s", step,
             t->plan->row[bad].name, pass.bytes ? pass.chars : "");
    if (!any)
        FAIL(E_NUMERIC,
             "step %llu: every rank's own gradients are finite, their sum is not (loss %g)", step,
             reduced_loss);
    TRY(comm_barrier(t->o.comm, e)); // ends when the rank that computed NaN or Inf aborts
    FAIL(E_PEER, "step %llu: another rank's gradients are not finite", step);
done:
    text_clear(&pass);
    return result;
}
