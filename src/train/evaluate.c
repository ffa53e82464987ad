// evaluate.c -- the mean loss over a validation set. Each micro-batch position is dealt to one
// rank; the places that are left over in the last round hold ignored labels, so every sample counts
// once whatever the number of ranks.
#include "train/state.h"

#include <stdlib.h>

enum { IGNORED = -100 };

typedef struct host_batch {
    void *inputs, *labels;
    size_t input_bytes, label_bytes; // of one sample
} host_batch;

static status read_batch(trainer *t, const host_batch *h, uint64_t first, uint64_t samples, err *e)
{
    status result = OK;
    dataset *d = t->o.valid;
    for (int64_t i = 0; i < t->o.micro_batch; i++) {
        uint64_t sample = first + (uint64_t)i;
        char *in = (char *)h->inputs + (size_t)i * h->input_bytes,
             *out = (char *)h->labels + (size_t)i * h->label_bytes;
        TRY(d->read(d, sample < samples ? sample : 0, in, out, e));
        for (int64_t k = 0; sample >= samples && k < d->shape.labels; k++)
            ((int32_t *)(void *)out)[k] = IGNORED;
    }
done:
    return result;
}

static status run_batch(trainer *t, const host_batch *h, err *e)
{
    status result = OK;
    t->blank[0] = 0;
    if (trainer_reads_data(t))
        trainer_upload(t, t->stream[STREAM_COMPUTE], 0, h->inputs, h->labels);
    TRY(trainer_run(t, &t->forward, t->eval, e));
    // The host's batch is written again next.
    for (int k = 0; k < STREAMS; k++) TRY(t->o.device->ops->sync(t->stream[k], e));
done:
    return result;
}

// How many samples `batches` global batches are: a number that no mesh and no micro-batch changes.
static uint64_t samples_of(const trainer *t, int64_t batches)
{
    uint64_t all = t->o.valid->samples, global = (uint64_t)t->o.global_batch;
    bool limits = batches > 0 && (uint64_t)batches <= all / global;
    return limits ? (uint64_t)batches * global : all;
}

status trainer_evaluate(trainer *t, int64_t max_batches, double *loss, double *tokens, err *e)
{
    status result = OK;
    host_batch h = {0};
    const device_ops *ops = t->o.device->ops;
    stream *on = t->stream[STREAM_COMPUTE];
    if (!t->o.valid) FAIL(E_USAGE, "data.valid: nothing to evaluate on");
    const dataset *d = t->o.valid;
    h.input_bytes = (size_t)d->shape.inputs * 4, h.label_bytes = (size_t)d->shape.labels * 4;
    h.inputs = malloc((size_t)t->o.micro_batch * h.input_bytes);
    h.labels = malloc((size_t)t->o.micro_batch * h.label_bytes);
    if (!h.inputs || !h.labels) FAIL(E_IO, "no memory for a validation batch");
    bool may_ignore = d->shape.label_type == I32;

    uint64_t ranks = (uint64_t)mesh_data_ranks(&t->o.mesh),
             rank = (uint64_t)mesh_data_rank(&t->o.mesh, t->plan->o.rank);
    uint64_t micro = (uint64_t)t->o.micro_batch, per_round = micro * ranks;
    uint64_t samples = samples_of(t, max_batches);
    uint64_t rounds = may_ignore ? (samples + per_round - 1) / per_round : samples / per_round;
    if (rounds == 0)
        FAIL(E_USAGE, "data.valid: %llu samples do not fill micro-batches of %llu on %llu ranks",
             (unsigned long long)samples, (unsigned long long)micro, (unsigned long long)ranks);
    trainer_reset_sums(t);
    for (uint64_t r = 0; r < rounds; r++) {
        if (trainer_reads_data(t)) TRY(read_batch(t, &h, r * per_round + rank * micro, samples, e));
        TRY(run_batch(t, &h, e));
    }
    // As in a step: a pipeline's stages next to each other, of which one has the loss.
    TRY(comm_all_reduce(t->agree ? t->agree : t->o.comm, t->sums, SUMS, F64, REDUCE_SUM, on, e));
    ops->copy(on, t->host_sums, t->sums, SUMS * sizeof(double));
    TRY(ops->sync(on, e));
    *loss = t->host_sums[SUM_LOSS] / (t->host_sums[SUM_COUNT] > 0 ? t->host_sums[SUM_COUNT] : 1);
    if (tokens) *tokens = t->host_sums[SUM_COUNT];
done:
    free(h.inputs);
    free(h.labels);
    return result;
}
