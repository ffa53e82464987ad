// documents.c -- see documents.h. Each micro-batch goes to one data-parallel rank, as in an evaluation. Rank 0 of those
// that compute a block together keeps the sums, and at the end all ranks add theirs up.
#include "infer/documents.h"

#include "base/size.h"
#include "train/trainer_private.h"

#include <string.h>

typedef struct documents_call {
    trainer *t;
    dataset *data;
    const uint64_t *first;
    double *out;
    char *inputs, *labels;           // of a micro-batch, MEMORY_HOST
    size_t input_bytes, label_bytes; // of a sample
    double *sums;                    // [documents of a micro-batch, 2], MEMORY_HOST
    size_t sums_bytes;
} documents_call;

static status open_call(documents_call *w, err *e)
{
    status result = OK;
    const trainer *t = w->t;
    const dataset_shape shape = batches_sample_shape(t->model);
    const graph_loss_arrays a = graph_loss_arrays_of(t->eval->block[t->eval->blocks - 1].g);
    const size_t micro = (size_t)t->o.micro_batch;
    w->input_bytes = (size_t)shape.inputs * 4;
    w->label_bytes = (size_t)dataset_label_elements(&shape) * 4;
    w->sums_bytes = (size_t)a.documents * 2 * sizeof(double);
    TRY(device_alloc(t->o.device, MEMORY_HOST, micro * w->input_bytes, (void **)&w->inputs, e));
    TRY(device_alloc(t->o.device, MEMORY_HOST, micro * w->label_bytes, (void **)&w->labels, e));
    TRY(device_alloc(t->o.device, MEMORY_HOST, w->sums_bytes, (void **)&w->sums, e));
done:
    return result;
}

static void close_call(documents_call *w)
{
    const size_t micro = (size_t)w->t->o.micro_batch;
    device_release(w->t->o.device, MEMORY_HOST, w->inputs, micro * w->input_bytes);
    device_release(w->t->o.device, MEMORY_HOST, w->labels, micro * w->label_bytes);
    device_release(w->t->o.device, MEMORY_HOST, w->sums, w->sums_bytes);
}

static status take(void *arg, const graph_output_rows *r, err *e)
{
    documents_call *w = arg;
    device_stream *on = trainer_stream(w->t, STREAM_COMPUTE);
    trainer_ops(w->t)->copy(on, w->sums, r->values, w->sums_bytes);
    return trainer_ops(w->t)->sync(on, e);
}

// Reads `count` samples from sample `first` on; the others of the micro-batch are padding.
static status read_batch(const documents_call *w, uint64_t first, int64_t count, err *e)
{
    status result = OK;
    for (int64_t i = 0; i < w->t->o.micro_batch; i++) {
        char *in = w->inputs + (size_t)i * w->input_bytes,
             *out = w->labels + (size_t)i * w->label_bytes;
        memset(in, 0, w->input_bytes);
        memset(out, 0, w->label_bytes);
        if (i < count)
            TRY(w->data->read(w->data, first + (uint64_t)i, in, out, e));
        else
            for (int64_t k = 0; k < w->data->shape.labels; k++)
                ((int32_t *)(void *)out)[k] = IGNORED_LABEL;
    }
done:
    return result;
}

static void keep_sums(const documents_call *w, uint64_t first, int64_t count)
{
    const trainer *t = w->t;
    const graph *g = t->eval->block[t->eval->blocks - 1].g;
    const int64_t each = graph_loss_arrays_of(g).each;
    const mesh *m = &t->o.mesh;
    if (!plan_has_block(t->plan, t->eval->blocks - 1) ||
        mesh_group_index(m, t->plan->coord, AXES_GRAPH & ~AXES_DATA) != 0)
        return;
    for (int64_t i = 0; i < count; i++) {
        const uint64_t *d = w->first + first + i;
        for (uint64_t k = 0; k < d[1] - d[0]; k++)
            w->out[d[0] + k] = w->sums[2 * (i * each + (int64_t)k)];
    }
}

static status run_samples(documents_call *w, err *e)
{
    status result = OK;
    trainer *t = w->t;
    const batch_split s = trainer_split(&t->o);
    const uint64_t round = (uint64_t)batch_split_before(&s, s.ranks), samples = w->data->samples;
    const uint64_t before =
        (uint64_t)batch_split_before(&s, mesh_data_rank(&t->o.mesh, t->plan->o.rank));
    for (uint64_t at = 0; at < samples; at += round) {
        const uint64_t first = at + before, left = first < samples ? samples - first : 0;
        const int64_t count = (int64_t)size_min((int64_t)left, t->o.micro_batch);
        if (plan_reads_batches(t->plan)) TRY(read_batch(w, first, count, e));
        batches_upload(t, STREAM_COMPUTE, 0, w->inputs, w->labels, count);
        TRY(trainer_run(t, &t->forward, t->eval, e));
        TRY(groups_sync(t->groups, e));
        trainer_show_activity(t, NULL);
        keep_sums(w, first, count);
    }
done:
    return result;
}

status infer_documents_share(trainer *t, double *x, uint64_t count, err *e)
{
    enum { PIECE = 1 << 16 };
    status result = OK;
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    double *piece = NULL;
    TRY(device_alloc(t->o.device, MEMORY_DEVICE, PIECE * sizeof *piece, (void **)&piece, e));
    for (uint64_t i = 0; i < count; i += PIECE) {
        const size_t n = count - i < PIECE ? (size_t)(count - i) : PIECE;
        TRY(device_upload(on, piece, x + i, n * sizeof *piece, e));
        TRY(comm_all_reduce(trainer_group(t, GROUP_AGREE), piece, n, F64, REDUCE_SUM, on, e));
        TRY(device_download(on, x + i, piece, n * sizeof *piece, e));
    }
done:
    device_release(t->o.device, MEMORY_DEVICE, piece, PIECE * sizeof *piece);
    return result;
}

status infer_documents(trainer *t, dataset *d, const uint64_t *first, double *out, err *e)
{
    status result = OK;
    documents_call w = {.t = t, .data = d, .first = first, .out = out};
    const graph_run_outputs outputs = {.documents = true, .take = take, .arg = &w};
    memset(out, 0, (size_t)first[d->samples] * sizeof *out);
    TRY(open_call(&w, e));
    t->pass.outputs = &outputs;
    TRY(run_samples(&w, e));
    TRY(infer_documents_share(t, out, first[d->samples], e));
done:
    t->pass.outputs = NULL;
    close_call(&w);
    return result;
}
