// evaluate.c -- computes the mean loss over a validation set. Each micro-batch goes to one
// data-parallel rank. Padding rows fill the last round and do not count, so every sample counts
// once with any number of ranks. Called by the session and by the library.
#include "train/trainer_private.h"

typedef struct evaluate_batch {
    void *inputs, *labels;           // one micro-batch, MEMORY_HOST
    size_t input_bytes, label_bytes; // of one sample
} evaluate_batch;

// Reads `count` samples; the other rows are padding. Cross-entropy skips them by their ignored
// labels, squared error by graph_run.filled_rows.
static status read_batch(trainer *t, const evaluate_batch *h, uint64_t first, int64_t count, err *e)
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
            ((int32_t *)(void *)out)[k] = IGNORED_LABEL;
    }
done:
    return result;
}

static status run_batch(trainer *t, const evaluate_batch *h, int64_t count, err *e)
{
    status result = OK;
    batches_upload(t, STREAM_COMPUTE, 0, h->inputs, h->labels, count);
    TRY(trainer_run(t, &t->forward, t->eval, e));
    TRY(groups_sync(t->groups, e)); // the next iteration overwrites the batch on the host
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

static status open_batch(evaluate_batch *h, const trainer *t, err *e)
{
    const dataset_shape *shape = &t->o.valid->shape;
    const size_t micro = (size_t)t->o.micro_batch;
    status result = OK;
    h->input_bytes = (size_t)shape->inputs * 4, h->label_bytes = (size_t)shape->labels * 4;
    TRY(device_alloc(t->o.device, MEMORY_HOST, micro * h->input_bytes, &h->inputs, e));
    TRY(device_alloc(t->o.device, MEMORY_HOST, micro * h->label_bytes, &h->labels, e));
done:
    return result;
}

static void close_batch(evaluate_batch *h, const trainer *t)
{
    const size_t micro = (size_t)t->o.micro_batch;
    device_release(t->o.device, MEMORY_HOST, h->inputs, micro * h->input_bytes);
    device_release(t->o.device, MEMORY_HOST, h->labels, micro * h->label_bytes);
}

status trainer_evaluate(trainer *t, int64_t max_batches, double *loss, double *tokens, err *e)
{
    status result = OK;
    evaluate_batch h = {0};
    const double *sums = results_host_sums(t);
    if (!t->o.valid) FAIL(E_USAGE, "data.valid: nothing to evaluate on");
    TRY(open_batch(&h, t, e));
    const uint64_t ranks = (uint64_t)mesh_data_ranks(&t->o.mesh),
                   rank = (uint64_t)mesh_data_rank(&t->o.mesh, t->plan->o.rank);
    const uint64_t micro = (uint64_t)t->o.micro_batch, per_round = micro * ranks;
    const uint64_t samples = trainer_evaluated_samples(t, max_batches);
    results_reset_sums(t);
    for (uint64_t round = 0; round < samples; round += per_round) {
        const uint64_t first = round + rank * micro, left = first < samples ? samples - first : 0;
        const int64_t count = (int64_t)(left < micro ? left : micro);
        if (plan_reads_batches(t->plan)) TRY(read_batch(t, &h, first, count, e));
        TRY(run_batch(t, &h, count, e));
    }
    TRY(comm_all_reduce(trainer_group(t, GROUP_AGREE), results_sums(t), STEP_SUMS, F64, REDUCE_SUM,
                        trainer_stream(t, STREAM_COMPUTE), e));
    TRY(results_read_sums(t, 0, STEP_SUMS, e));
    *loss = sums[SUM_LOSS] / (sums[SUM_COUNT] > 0 ? sums[SUM_COUNT] : 1);
    if (tokens) *tokens = sums[SUM_COUNT];
done:
    close_batch(&h, t);
    return result;
}
