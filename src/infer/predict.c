// predict.c -- computes a model's outputs for given samples: logits, classes or vectors. Each
// data-parallel rank computes some of the micro-batches. The ranks of the last stage receive the
// inputs or the outputs of the last linear layer chunk by chunk, and broadcast them to all ranks.
// Tensor-parallel ranks may have some columns of them, and context-parallel ranks some positions.
// Called by `trireme predict` and trm_trainer_predict. It does not know where samples come from.
#include "infer/predict.h"
#include "base/alloc.h"
#include "base/size.h"
#include "train/trainer_private.h"

#include <math.h>

// The class with the largest logit in one rank's shard of the vocabulary.
typedef struct predict_best {
    float score;
    int32_t id;
} predict_best;

// One call of infer_predict: its options and the memory of one micro-batch.
typedef struct predict_call {
    trainer *t;
    infer_predict_options o;
    infer_prediction_shape shape;
    graph_loss_dims loss;
    bool
        vectors; // the inputs of the last linear layer; every tensor-parallel rank has them in full
    bool sharded;          // each tensor-parallel rank has a shard of the columns of the outputs
    char *inputs, *labels; // of this rank's micro-batch, MEMORY_HOST
    size_t input_bytes, label_bytes; // of one sample
    char *chunk;                     // rows, copied from the device; MEMORY_HOST
    size_t chunk_bytes;
    float *line; // one of these rows, converted to F32
    // Results for all positions of a micro-batch: from this rank, and from another rank.
    char *made, *received;
    predict_best *found;
} predict_call;

static const graph *last_graph(const trainer *t)
{
    return t->model->block[t->model->blocks - 1].g;
}

status infer_predict_shape(const trainer *t, const infer_predict_options *o,
                           infer_prediction_shape *out, err *e)
{
    graph_loss_dims l;
    if (!graph_loss_shape(last_graph(t), &l))
        return err_set(e, E_INTERNAL, "predict: the model ends in no loss");
    if (!l.classes && o->what != PREDICT_VECTORS)
        return err_set(e, E_USAGE,
                       "predict: the model has no %s: its loss is squared error; valid: vectors",
                       o->what == PREDICT_LOGITS ? "logits" : "classes");
    const int64_t vector = l.classes ? l.inputs : l.outputs;
    *out = (infer_prediction_shape){.positions = o->last ? 1 : t->o.seq_len,
                                    .cols = o->what == PREDICT_CLASSES  ? 1
                                            : o->what == PREDICT_LOGITS ? l.outputs
                                                                        : vector,
                                    .type = o->what == PREDICT_CLASSES ? I32 : F32};
    return OK;
}

int64_t infer_predict_batch(const trainer *t)
{
    const batch_split s = trainer_split(&t->o);
    return batch_split_before(&s, s.ranks);
}

// ---- The outputs of this rank

// The number of columns of the outputs that rank `tp` of a tensor-parallel group has.
static int64_t cols_of(const predict_call *w, int tp, int64_t *first)
{
    *first = 0;
    if (w->vectors) return w->loss.inputs;
    if (!w->sharded) return w->loss.outputs;
    return graph_shard(ROLE_VOCAB, w->loss.outputs, &w->t->o.mesh,
                       (const int[AXES]){[AXIS_TP] = tp}, first);
}

// The part of a micro-batch that a rank of the last stage computes: some columns, and some positions.
typedef struct predict_part {
    int tp, cp;
    kernel_tokens tokens; // of the rank
    int64_t positions;    // of a sample, that have a result
} predict_part;

static predict_part part_of(const predict_call *w, int tp, int cp)
{
    const trainer *t = w->t;
    const kernel_tokens tokens = graph_tokens(t->o.seq_len, t->o.mesh.size[AXIS_CP], cp);
    const bool has_last = kernel_token_position(&tokens, tokens.seq - 1) == t->o.seq_len - 1;
    return (predict_part){tp, cp, tokens, w->o.last ? has_last : tokens.seq};
}

// Bytes of the result for one position: its columns, or the best class among them.
static size_t item_bytes(const predict_call *w, int tp)
{
    int64_t first;
    return w->o.what == PREDICT_CLASSES ? sizeof(predict_best)
                                        : (size_t)cols_of(w, tp, &first) * sizeof(float);
}

static predict_best best_class_of(const float *logits, int64_t count, int64_t first)
{
    predict_best b = {-INFINITY, -1};
    for (int64_t i = 0; i < count; i++)
        if (logits[i] > b.score || (b.id < 0 && logits[i] == b.score))
            b = (predict_best){logits[i], (int32_t)(first + i)};
    return b;
}

// Copies a chunk of rows to the host, and stores the result for each requested position.
static status take(void *arg, const graph_output_rows *r, err *e)
{
    status result = OK;
    predict_call *w = arg;
    trainer *t = w->t;
    const size_t row = (size_t)r->stride * dtype_bytes(r->type), bytes = (size_t)r->rows * row;
    const kernel_tokens *tokens = &last_graph(t)->sequences.tokens;
    if (bytes > w->chunk_bytes) {
        device_release(t->o.device, MEMORY_HOST, w->chunk, w->chunk_bytes);
        w->chunk = NULL;
        TRY(device_alloc(t->o.device, MEMORY_HOST, bytes, (void **)&w->chunk, e));
        w->chunk_bytes = bytes;
    }
    trainer_ops(t)->copy(trainer_stream(t, STREAM_COMPUTE), w->chunk, r->values, bytes);
    TRY(trainer_ops(t)->sync(trainer_stream(t, STREAM_COMPUTE), e));
    for (int64_t i = 0; i < r->rows; i++) {
        const int64_t row_index = r->first + i;
        if (w->o.last && kernel_row_position(tokens, row_index) != tokens->full_seq - 1) continue;
        const int64_t to = w->o.last ? row_index / tokens->seq : row_index;
        dtype_convert(w->line, F32, w->chunk + (size_t)i * row, r->type, (size_t)r->cols);
        graph_finish_logits(&r->logits, w->line, r->cols);
        if (w->o.what == PREDICT_CLASSES) {
            const predict_best b = best_class_of(w->line, r->cols, r->first_col);
            memcpy(w->made + (size_t)to * sizeof b, &b, sizeof b);
        } else {
            memcpy(w->made + (size_t)(to * r->cols) * sizeof(float), w->line,
                   (size_t)r->cols * sizeof(float));
        }
    }
done:
    return result;
}

// Runs this rank's micro-batch of the round that begins with sample `first`. The last sample fills
// the places without a sample.
static status run_micro_batch(predict_call *w, const char *inputs, int64_t first, int64_t samples,
                              err *e)
{
    status result = OK;
    trainer *t = w->t;
    const batch_split s = trainer_split(&t->o);
    const int rank = mesh_data_rank(&t->o.mesh, t->plan->o.rank);
    const int64_t micro = t->o.micro_batch, own = first + batch_split_before(&s, rank);
    for (int64_t i = 0; i < micro; i++) {
        const int64_t sample = own + i < samples ? own + i : samples - 1;
        memcpy(w->inputs + (size_t)i * w->input_bytes, inputs + (size_t)sample * w->input_bytes,
               w->input_bytes);
    }
    batches_upload(t, STREAM_COMPUTE, 0, w->inputs, w->labels, micro);
    TRY(trainer_run(t, &t->forward, t->eval, e));
    TRY(groups_sync(t->groups, e)); // the next iteration overwrites the batch on the host
    trainer_show_activity(t, NULL);
done:
    return result;
}

// ---- Broadcasting the outputs from the last stage to all ranks

// The rank of the last stage with data-parallel rank `data` that computes part x.
static int rank_at(const trainer *t, int data, const predict_part *x)
{
    const mesh *m = &t->o.mesh;
    const int stage = plan_stage_of(t->plan, t->model->blocks - 1);
    int r = 0;
    while (r < m->ranks - 1 &&
           (mesh_data_rank(m, r) != data || mesh_coord(m, r, AXIS_TP) != x->tp ||
            mesh_coord(m, r, AXIS_CP) != x->cp || mesh_coord(m, r, AXIS_PP) != stage))
        r++;
    return r;
}

// Copies the results of part x [rows] into `out`. For classes it stores the one with the larger logit
// in `found`.
static void merge(const predict_call *w, const predict_part *x, const char *from, int64_t rows,
                  float *out, predict_best *found)
{
    int64_t first;
    const int64_t cols = cols_of(w, x->tp, &first);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t to = w->o.last ? i : kernel_logical_row(&x->tokens, i);
        predict_best b;
        if (w->o.what != PREDICT_CLASSES) {
            memcpy(out + to * w->shape.cols + first, from + (size_t)(i * cols) * sizeof(float),
                   (size_t)cols * sizeof(float));
            continue;
        }
        memcpy(&b, from + (size_t)i * sizeof b, sizeof b);
        if (x->tp == 0 || found[to].id < 0 || b.score > found[to].score) found[to] = b;
    }
}

static status share_part(predict_call *w, int data, const predict_part *x, int64_t samples,
                         void *out, err *e)
{
    status result = OK;
    trainer *t = w->t;
    const int64_t rows = samples * x->positions;
    const int root = rank_at(t, data, x);
    char *items = root == t->plan->o.rank ? w->made : w->received;
    if (rows == 0) return OK;
    TRY(exchange_broadcast(t, items, (size_t)rows * item_bytes(w, x->tp), root, e));
    if (out) merge(w, x, items, rows, out, w->found);
done:
    return result;
}

// Broadcasts the results of data-parallel rank `data` for its micro-batch, of which the first
// `samples` samples count.
static status share(predict_call *w, int data, int64_t samples, void *out, err *e)
{
    status result = OK;
    const int *size = w->t->o.mesh.size;
    const int64_t rows = samples * w->shape.positions;
    for (int tp = 0; tp < (w->sharded ? size[AXIS_TP] : 1); tp++)
        for (int cp = 0; cp < size[AXIS_CP]; cp++) {
            const predict_part x = part_of(w, tp, cp);
            TRY(share_part(w, data, &x, samples, out, e));
        }
    for (int64_t i = 0; out && w->o.what == PREDICT_CLASSES && i < rows; i++)
        ((int32_t *)out)[i] = w->found[i].id;
done:
    return result;
}

// ---- The call

static status check_tokens(const predict_call *w, const void *inputs, int64_t samples, err *e)
{
    const graph *first = w->t->model->block[0].g;
    const int32_t limit = model_get_limits(w->t->model).tokens, *ids = inputs;
    const bool documents = first->sequences.documents;
    const int64_t each = w->t->o.seq_len;
    for (int64_t s = 0; first->ids->type == I32 && s < samples; s++, ids += each) {
        for (int64_t i = 0; i < each; i++)
            if (ids[i] < 0 || ids[i] >= limit)
                return err_set(e, E_USAGE, "predict: sample %lld: token %lld is %d; valid: 0 to %d",
                               (long long)s, (long long)i, ids[i], limit - 1);
        if (!documents) continue;
        ids += each;
        if (dataset_check_starts(ids, each, e) != OK) {
            err_prefix(e, "predict: sample %lld: ", (long long)s);
            return E_USAGE;
        }
    }
    return OK;
}

static status open_call(predict_call *w, trainer *t, const infer_predict_options *o, err *e)
{
    status result = OK;
    const dataset_shape sample = batches_sample_shape(t->model);
    *w = (predict_call){.t = t, .o = *o};
    if (!t->eval) FAIL(E_INTERNAL, "predict: the trainer was not opened to predict");
    TRY(infer_predict_shape(t, o, &w->shape, e));
    (void)graph_loss_shape(last_graph(t), &w->loss);
    w->vectors = o->what == PREDICT_VECTORS && w->loss.classes;
    w->sharded = w->loss.outputs_sharded && !w->vectors;
    w->input_bytes = (size_t)sample.inputs * 4,
    w->label_bytes = (size_t)dataset_label_elements(&sample) * 4;
    const batch_split s = trainer_split(&t->o);
    const size_t micro = (size_t)t->o.micro_batch,
                 most = (size_t)batch_split_of(&s, batch_split_largest(&s)),
                 rows = most * (size_t)w->shape.positions, // other ranks' results lie there, too
        cols = (size_t)(w->vectors ? w->loss.inputs : w->loss.outputs);
    const size_t item = o->what == PREDICT_CLASSES ? sizeof(predict_best) : cols * sizeof(float);
    device *d = t->o.device;
    TRY(device_alloc(d, MEMORY_HOST, micro * w->input_bytes, (void **)&w->inputs, e));
    TRY(device_alloc(d, MEMORY_HOST, micro * w->label_bytes, (void **)&w->labels, e));
    memset(w->labels, 0, micro * w->label_bytes);
    TRY(alloc_array(&w->line, cols, sizeof *w->line, "outputs", e));
    TRY(alloc_array(&w->made, rows, item, "outputs", e));
    TRY(alloc_array(&w->received, rows, item, "outputs", e));
    TRY(alloc_array(&w->found, rows, sizeof *w->found, "outputs", e));
done:
    return result;
}

static void close_call(predict_call *w)
{
    const size_t micro = (size_t)w->t->o.micro_batch;
    device_release(w->t->o.device, MEMORY_HOST, w->inputs, micro * w->input_bytes);
    device_release(w->t->o.device, MEMORY_HOST, w->labels, micro * w->label_bytes);
    device_release(w->t->o.device, MEMORY_HOST, w->chunk, w->chunk_bytes);
    free(w->line);
    free(w->made);
    free(w->received);
    free(w->found);
}

status infer_predict(trainer *t, const infer_predict_options *o, const void *inputs,
                     int64_t samples, void *out, err *e)
{
    status result = OK;
    predict_call w;
    TRY(open_call(&w, t, o, e));
    TRY(check_tokens(&w, inputs, samples, e));
    const graph_run_outputs outputs = {.vectors = w.vectors, .take = take, .arg = &w};
    const batch_split s = trainer_split(&t->o);
    const int64_t round = infer_predict_batch(t);
    const size_t each = (size_t)(w.shape.positions * w.shape.cols) * 4;
    t->pass.outputs = &outputs;
    for (int64_t first = 0; first < samples; first += round) {
        TRY(run_micro_batch(&w, inputs, first, samples, e));
        for (int r = 0; r < s.ranks; r++) {
            const int64_t next = first + batch_split_before(&s, r);
            if (next >= samples) break;
            TRY(share(&w, r, size_min(batch_split_of(&s, r), samples - next),
                      out ? (char *)out + (size_t)next * each : NULL, e));
        }
    }
done:
    t->pass.outputs = NULL;
    close_call(&w);
    return result;
}
