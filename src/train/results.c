// results.c -- the numbers that a step computes. See results.h. Called by step.c. The kernels of
// the loss (step_blocks.c) and of reduced gradients (step_update.c) add to the sums.
#include "train/results.h"

#include "train/launch.h"
#include "train/trainer_private.h"

#include <math.h>

struct trainer_results {
    double *sums, *host_sums; // [SUMS]
    clip_result agreed;
    double agreed_scale;
    scaler scaler;
    uint64_t steps_done, skipped;
    bool stop;
    double seconds[INSTRS];
};

status results_allocate(trainer *t, err *e)
{
    status result = OK;
    TRY(trainer_object(&t->results, sizeof *t->results, e));
    trainer_results *x = t->results;
    scaler_open(&x->scaler, &t->o.scaler, t->o.precision == F16);
    TRY(memory_take(t->memory, BYTES_KERNELS, FROM_DEVICE, SUMS * sizeof(double), &x->sums, e));
    TRY(memory_take(t->memory, BYTES_KERNELS, FROM_HOST, SUMS * sizeof(double), &x->host_sums, e));
done:
    return result;
}

void results_close(trainer *t)
{
    free(t->results);
}

uint64_t results_steps_done(const trainer *t)
{
    return t->results->steps_done;
}

uint64_t results_skipped(const trainer *t)
{
    return t->results->skipped;
}

void results_set_steps_done(trainer *t, uint64_t steps)
{
    t->results->steps_done = steps;
}

void results_set_skipped(trainer *t, uint64_t steps)
{
    t->results->skipped = steps;
}

int64_t results_updates(const trainer *t)
{
    return (int64_t)(t->results->steps_done - t->results->skipped);
}

// ---- Sums

double *results_sums(const trainer *t)
{
    return t->results->sums;
}

double *results_host_sums(const trainer *t)
{
    return t->results->host_sums;
}

void results_reset_sums(trainer *t)
{
    launch_zero(trainer_stream(t, STREAM_COMPUTE), t->results->sums, SUMS * sizeof(double));
}

status results_read_sums(trainer *t, int first, int count, err *e)
{
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    trainer_ops(t)->copy(on, t->results->host_sums + first, t->results->sums + first,
                         (size_t)count * sizeof(double));
    return trainer_ops(t)->sync(on, e);
}

// ---- What all ranks agree on

status run_clip_grad_norm(trainer *t, const schedule_instr *x, err *e)
{
    (void)x;
    trainer_results *r = t->results;
    // The loss is summed on the compute stream, the squares of gradients on the communication
    // stream.
    trainer_order(t, STREAM_COMPUTE, STREAM_COMM);
    r->agreed_scale = results_gradient_scale(t);
    return clip_agree(trainer_group(t, GROUP_AGREE), trainer_stream(t, STREAM_COMM), r->sums,
                      r->host_sums, r->stop, (double)batches_samples(t), t->o.clip_grad_norm,
                      r->agreed_scale, &r->agreed, e);
}

const clip_result *results_agreed(const trainer *t)
{
    return &t->results->agreed;
}

double results_agreed_scale(const trainer *t)
{
    return t->results->agreed_scale;
}

// The loss scale divided by about the number of positions over which this rank sums gradients. It
// is a power of two, so that multiplying by it does not round.
double results_gradient_scale(const trainer *t)
{
    if (t->o.precision != F16) return 1;
    const double positions = (double)(t->o.micro_batch * t->o.seq_len * t->micros);
    return t->results->scaler.scale / exp2(ceil(log2(positions)));
}

scaler *results_scaler(const trainer *t)
{
    return &t->results->scaler;
}

// ---- Steps

void results_start_step(trainer *t, bool stop)
{
    t->results->stop = stop;
    memset(t->results->seconds, 0, sizeof t->results->seconds);
}

void results_add_seconds(trainer *t, schedule_instr_kind kind, double seconds)
{
    t->results->seconds[kind] += seconds;
}

trainer_step_result results_of_step(const trainer *t)
{
    const trainer_results *r = t->results;
    const bool exhausted = r->agreed.samples == 0;
    return (trainer_step_result){.step = r->steps_done + (exhausted ? 0 : 1),
                                 .loss = r->agreed.loss,
                                 .grad_norm = r->agreed.norm,
                                 .lr = lr_at(&t->o.lr, t->o.optimizer.lr, results_updates(t)),
                                 .tokens = r->agreed.samples * (double)t->o.seq_len,
                                 .loss_scale = t->o.precision == F16 ? r->scaler.scale : 0,
                                 .skipped = !r->agreed.finite,
                                 .stop = r->agreed.stop,
                                 .exhausted = exhausted};
}

status results_end_step(trainer *t, bool *rescaled, err *e)
{
    status result = OK;
    trainer_results *r = t->results;
    const double before = r->scaler.scale;
    *rescaled = false;
    if (t->o.precision == F16) TRY(scaler_update(&r->scaler, !r->agreed.finite, e));
    *rescaled = r->scaler.scale != before;
    r->steps_done++;
    if (!r->agreed.finite) r->skipped++;
done:
    return result;
}

uint64_t trainer_steps_done(const trainer *t)
{
    return t->results->steps_done;
}

const double *trainer_seconds(const trainer *t)
{
    return t->results->seconds;
}
