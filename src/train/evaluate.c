// evaluate.c -- the mean loss over a validation set. Each micro-batch position is dealt to one
// rank; the places that are left over in the last round are padding rows, which do not count, so
// every sample counts once whatever the number of ranks.
#include "train/state.h"

#include <stdlib.h>
#include <string.h>

enum { IGNORED = -100 };

typedef struct host_batch {
    void *inputs, *labels;
    size_t input_bytes, label_bytes; // of one sample
} host_batch;

// Reads `count` samples; the other rows are padding. A cross-entropy passes over ignored labels, a
// squared error over the rows that t->blank names.
static status read_batch(trainer *t, const host_batch *h, uint64_t first, int64_t count, err *e)
{
    status result = OK;
    dataset *d = t->o.valid;
    for (int64_t i = 0; i < t->o.micro_batch; i++) {
        char *in = (char *)h->inputs + (size_t)i * h->input_bytes,
             *out = (char *)h->labels + (size_t)i * h->label_bytes;
        if (i < count) {
            TRY(d->read(d, first + (uint64_t)i, in, out, e));
            continue;
        }
        memset(in, 0, h->input_bytes);
        memset(out, 0, h->label_bytes);
        for (int64_t k = 0; d->shape.label_type == I32 && k < d->shape.labels; k++)
            ((int32_t *)(void *)out)[k] = IGNORED;
    }
done:
    return result;
}

static status run_batch(trainer *t, const host_batch *h, int64_t count, err *e)
{
    status result = OK;
    t->blank[0] = t->o.micro_batch - count;
    if (trainer_reads_data(t))
        trainer_upload(t, t->stream[STREAM_COMPUTE], 0, h->inputs, h->labels);
    TRY(trainer_run(t, &t->forward, t->eval, e));
    // The host's batch is written again next.
    for (int k = 0; k < STREAMS; k++) TRY(t->o.device->ops->sync(t->stream[k], e));
    trainer_show_activity(t, NULL);
done:
    return result;
}

uint64_t trainer_evaluated_samples(const trainer *t, int64_t batches)
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
    device_stream *on = t->stream[STREAM_COMPUTE];
    if (!t->o.valid) FAIL(E_USAGE, "data.valid: nothing to evaluate on");
    const dataset *d = t->o.valid;
    h.input_bytes = (size_t)d->shape.inputs * 4, h.label_bytes = (size_t)d->shape.labels * 4;
    h.inputs = malloc((size_t)t->o.micro_batch * h.input_bytes);
    h.labels = malloc((size_t)t->o.micro_batch * h.label_bytes);
    if (!h.inputs || !h.labels) FAIL(E_MEMORY, "no memory for a validation batch");
    uint64_t ranks = (uint64_t)mesh_data_ranks(&t->o.mesh),
             rank = (uint64_t)mesh_data_rank(&t->o.mesh, t->plan->o.rank);
    uint64_t micro = (uint64_t)t->o.micro_batch, per_round = micro * ranks;
    uint64_t samples = trainer_evaluated_samples(t, max_batches);
    trainer_reset_sums(t);
    for (uint64_t at = 0; at < samples; at += per_round) {
        uint64_t first = at + rank * micro, left = first < samples ? samples - first : 0;
        int64_t count = (int64_t)(left < micro ? left : micro);
        if (trainer_reads_data(t)) TRY(read_batch(t, &h, first, count, e));
        TRY(run_batch(t, &h, count, e));
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
