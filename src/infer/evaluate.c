// evaluate.c -- computes the mean loss over a validation set. Each micro-batch goes to one
// data-parallel rank. Padding rows fill the last round and do not count, so every sample counts
// once with any number of ranks. Called by the session and by the library.
#include "infer/evaluate.h"
#include "train/trainer_private.h"

// While the device computes with one micro-batch, the host reads the next one into the other memory.
enum { READ_AHEAD = 2 };

typedef struct evaluate_batches {
    void *inputs[READ_AHEAD], *labels[READ_AHEAD]; // one micro-batch each, MEMORY_HOST
    size_t input_bytes, label_bytes;               // of one sample
} evaluate_batches;

// The samples of an evaluation, of which round k takes per_round, and this rank `micro` of these after the
// `before` ones of other ranks.
typedef struct evaluate_samples {
    uint64_t count, per_round, micro, before;
} evaluate_samples;

// The number of this rank's samples in a round; *first is the first of them.
static int64_t samples_of(const evaluate_samples *x, uint64_t round, uint64_t *first)
{
    *first = round * x->per_round + x->before;
    const uint64_t left = *first < x->count ? x->count - *first : 0;
    return (int64_t)(left < x->micro ? left : x->micro);
}

// Reads the samples of a round; the other rows are padding. Cross-entropy skips them by their ignored
// labels, squared error by graph_run.filled_rows. Nothing is read after the last round.
static status read_batch(trainer *t, const evaluate_batches *h, const evaluate_samples *x,
                         uint64_t round, err *e)
{
    status result = OK;
    dataset *d = t->o.valid;
    uint64_t first;
    const int64_t count = samples_of(x, round, &first);
    if (round * x->per_round >= x->count || !plan_reads_batches(t->plan)) return OK;
    for (int64_t i = 0; i < t->o.micro_batch; i++) {
        char *in = (char *)h->inputs[round % READ_AHEAD] + (size_t)i * h->input_bytes,
             *out = (char *)h->labels[round % READ_AHEAD] + (size_t)i * h->label_bytes;
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

// Computes with the batch of a round, which was read before, and reads the next one.
static status run_batch(trainer *t, const evaluate_batches *h, const evaluate_samples *x,
                        uint64_t round, err *e)
{
    status result = OK;
    uint64_t first;
    batches_upload(t, STREAM_COMPUTE, 0, h->inputs[round % READ_AHEAD],
                   h->labels[round % READ_AHEAD], samples_of(x, round, &first));
    TRY(trainer_run(t, &t->forward, t->eval, e));
    TRY(read_batch(t, h, x, round + 1, e));
    TRY(groups_sync(t->groups, e)); // the round after the next one overwrites the batch on the host
    trainer_show_activity(t, NULL);
done:
    return result;
}

uint64_t infer_evaluated_samples(const trainer *t, int64_t batches)
{
    uint64_t all = t->o.valid->samples, global = (uint64_t)t->o.global_batch;
    bool limits = batches > 0 && (uint64_t)batches <= all / global;
    return limits ? (uint64_t)batches * global : all;
}

static status open_batches(evaluate_batches *h, const trainer *t, err *e)
{
    const dataset_shape *shape = &t->o.valid->shape;
    const size_t micro = (size_t)t->o.micro_batch;
    status result = OK;
    h->input_bytes = (size_t)shape->inputs * 4,
    h->label_bytes = (size_t)dataset_label_elements(shape) * 4;
    for (int i = 0; i < READ_AHEAD; i++) {
        TRY(device_alloc(t->o.device, MEMORY_HOST, micro * h->input_bytes, &h->inputs[i], e));
        TRY(device_alloc(t->o.device, MEMORY_HOST, micro * h->label_bytes, &h->labels[i], e));
    }
done:
    return result;
}

static void close_batches(evaluate_batches *h, const trainer *t)
{
    const size_t micro = (size_t)t->o.micro_batch;
    for (int i = 0; i < READ_AHEAD; i++) {
        device_release(t->o.device, MEMORY_HOST, h->inputs[i], micro * h->input_bytes);
        device_release(t->o.device, MEMORY_HOST, h->labels[i], micro * h->label_bytes);
    }
}

status infer_evaluate(trainer *t, int64_t max_batches, double *loss, double *tokens, err *e)
{
    status result = OK;
    evaluate_batches h = {0};
    const double *sums = results_host_sums(t);
    const int count = kernel_step_sums(t->plan->o.preferences, 0);
    if (!t->o.valid) FAIL(E_USAGE, "data.valid: nothing to evaluate on");
    TRY(open_batches(&h, t, e));
    const batch_split s = trainer_split(&t->o);
    const int rank = mesh_data_rank(&t->o.mesh, t->plan->o.rank);
    const evaluate_samples x = {.count = infer_evaluated_samples(t, max_batches),
                                .per_round = (uint64_t)batch_split_before(&s, s.ranks),
                                .micro = (uint64_t)t->o.micro_batch,
                                .before = (uint64_t)batch_split_before(&s, rank)};
    results_reset_sums(t);
    TRY(read_batch(t, &h, &x, 0, e));
    for (uint64_t round = 0; round * x.per_round < x.count; round++)
        TRY(run_batch(t, &h, &x, round, e));
    TRY(comm_all_reduce(trainer_group(t, GROUP_AGREE), results_sums(t), (size_t)count, F64,
                        REDUCE_SUM, trainer_stream(t, STREAM_COMPUTE), e));
    TRY(results_read_sums(t, 0, count, e));
    *loss = sums[SUM_LOSS] / (sums[SUM_COUNT] > 0 ? sums[SUM_COUNT] : 1);
    if (tokens) *tokens = sums[SUM_COUNT];
done:
    close_batches(&h, t);
    return result;
}

event_preferences infer_evaluated_preferences(const trainer *t)
{
    return results_preferences(t);
}
