// batches.c -- copies micro-batches from the loader to the device. See batches.h. Called by
// trainer.c, through the table in step.c, and by evaluate.c and predict.c, which read their samples
// themselves.
#include "train/batches/batches.h"

#include "base/clock.h"
#include "base/size.h"
#include "data/loader.h"
#include "train/batches/labelled.h"
#include "train/launch.h"
#include "train/trainer_private.h"

struct trainer_batches {
    sampler *sampler;   // NULL: the dataset determines the order of its samples
    loader *loader;     // NULL: this rank reads no batches
    void *host_batches; // [loader_host_bytes] memory that the loader fills
    // The micro-batches on the device, as trainer_batch says; NULL: this rank reads none.
    char *ids;            // [micros, batch_bytes(ids_of)]
    char *labels;         // [micros, batch_bytes(labels_of)]
    char *documents;      // [micros, batch_bytes(ids_of)]; NULL: the model takes none
    int64_t *filled;      // [micros]; NULL: the labels say which rows hold a sample
    int64_t *host_filled; // [micros] the same on the host
    char *
        host_labels; // [micros, batch_bytes(labels_of)] where rows are packed (labelled.h); else NULL
    graph_labelled_rows *labelled; // [micros] then
    // Vectors before their conversion [micro_batch, inputs] F32; NULL: nothing is converted.
    float *vectors;
    device_event *copied; // recorded after the copy of each batch
    bool lent;            // the loader's last batch is in use until `copied`
    int64_t samples;
    uint64_t first_hash;
};

// ---- Opening

static const graph_value *ids_of(const trainer *t)
{
    return t->model->block[0].g->ids;
}

static const graph_value *labels_of(const trainer *t)
{
    return t->model->block[t->model->blocks - 1].g->labels;
}

static int64_t value_elements(const graph_value *v)
{
    return graph_value_rows(v) * graph_value_cols(v);
}

static size_t vector_bytes(const trainer *t)
{
    const graph_value *ids = ids_of(t);
    const bool converts = t->o.precision != F32 && ids && ids->type != I32;
    return converts ? (size_t)value_elements(ids) * sizeof(float) : 0;
}

static bool takes_documents(const trainer *t)
{
    return t->model->block[0].g->sequences.documents;
}

// The bytes from one micro-batch of v to the next.
static size_t batch_bytes(const graph_value *v)
{
    return size_align(graph_value_bytes(v), DEVICE_ALIGN);
}

dataset_shape batches_sample_shape(const model *m)
{
    const graph *first = m->block[0].g;
    const graph_value *ids = first->ids, *labels = m->block[m->blocks - 1].g->labels;
    const kernel_tokens *tokens = &first->sequences.tokens;
    const int64_t rows = m->batch * tokens->seq;
    const int arrays = first->sequences.documents ? 2 : 1;
    const graph_loss_options *loss = &m->block[m->blocks - 1].g->loss;
    const bool is_ids = labels->type == I32;
    const int64_t outputs = is_ids ? 1 : labels->dim[0] / rows;
    return (dataset_shape){.inputs = arrays * (value_elements(ids) / rows * tokens->full_seq),
                           .documents = first->sequences.documents,
                           .input_type = ids->type == I32 ? I32 : F32,
                           .labels = outputs * tokens->full_seq,
                           .label_type = labels->type,
                           .unlabelled = is_ids && loss->packs,
                           .extras = !is_ids ? 0
                                     : kernel_preference_refers(&loss->preference)
                                         ? 2
                                         : loss->weighted};
}

// While a step runs, the loader reads the batches of the next one. The last batch of a step stays lent
// until the next step.
static int read_ahead(const trainer *t)
{
    enum { LEAST = 4 };
    return t->plan->o.micros + 1 > LEAST ? t->plan->o.micros + 1 : LEAST;
}

static status open_sampler(const trainer *t, sampler **out, err *e)
{
    const mesh *m = &t->plan->o.mesh;
    const status result =
        sampler_open(t->o.order, t->o.train->samples, t->o.seed, mesh_data_rank(m, t->plan->o.rank),
                     mesh_data_ranks(m), out, e);
    if (result == OK && t->o.batch_split) sampler_begin_at(*out, trainer_first_sample(t));
    return result;
}

static status allocate_loader(trainer *t, err *e)
{
    status result = OK;
    trainer_batches *x = t->batches;
    const mesh *m = &t->plan->o.mesh;
    const int rank = mesh_data_rank(m, t->plan->o.rank), ranks = mesh_data_ranks(m);
    const bool counting = memory_is_counting(t->memory);
    dataset shape = {.shape = batches_sample_shape(t->model)};
    loader_options o = {.data = counting ? &shape : t->o.train,
                        .global_batch = (uint64_t)t->o.global_batch,
                        .micro_batch = t->o.micro_batch,
                        .local_batch = t->o.micro_batch * t->plan->o.micros,
                        .first = trainer_first_sample(t),
                        .rank = rank,
                        .ranks = ranks,
                        .depth = read_ahead(t)};
    if (!plan_reads_batches(t->plan) || !o.data) return OK;
    TRY(memory_take(t->memory, BYTES_DATA, FROM_HOST, loader_host_bytes(&o), &x->host_batches, e));
    if (counting) return OK;
    if (!t->o.train->read_own) TRY(open_sampler(t, &x->sampler, e));
    o.order = x->sampler;
    o.host = x->host_batches;
    TRY(loader_open(&o, &x->loader, e));
done:
    return result;
}

// Labels of classes and tokens say themselves which rows hold a sample. Targets are any numbers.
static bool counts_filled_rows(const trainer *t)
{
    return labels_of(t)->type == F32;
}

static bool packs_rows(const trainer *t)
{
    return labels_of(t)->type == I32 && t->model->block[t->model->blocks - 1].g->loss.packs;
}

static status allocate_batches(trainer *t, err *e)
{
    status result = OK;
    trainer_batches *x = t->batches;
    const uint64_t micros = (uint64_t)t->plan->o.micros,
                   counts = counts_filled_rows(t) ? micros * sizeof *x->filled : 0,
                   packs = packs_rows(t) ? micros : 0,
                   starts = takes_documents(t) ? size_mul(micros, batch_bytes(ids_of(t))) : 0;
    if (!plan_reads_batches(t->plan)) return OK;
    TRY(memory_take(t->memory, BYTES_DATA, FROM_DEVICE, size_mul(micros, batch_bytes(ids_of(t))),
                    &x->ids, e));
    TRY(memory_take(t->memory, BYTES_DATA, FROM_DEVICE, size_mul(micros, batch_bytes(labels_of(t))),
                    &x->labels, e));
    TRY(memory_take(t->memory, BYTES_DATA, FROM_DEVICE, starts, &x->documents, e));
    TRY(memory_take(t->memory, BYTES_DATA, FROM_DEVICE, counts, &x->filled, e));
    TRY(memory_take(t->memory, BYTES_DATA, FROM_HOST, counts, &x->host_filled, e));
    TRY(memory_take(t->memory, BYTES_DATA, FROM_HOST, size_mul(packs, batch_bytes(labels_of(t))),
                    &x->host_labels, e));
    if (packs > 0) TRY(memory_table(t->memory, packs, sizeof *x->labelled, &x->labelled, e));
    TRY(memory_take(t->memory, BYTES_DATA, FROM_DEVICE, vector_bytes(t), &x->vectors, e));
    if (!memory_is_counting(t->memory)) TRY(trainer_ops(t)->event_open(t->o.device, &x->copied, e));
done:
    return result;
}

status batches_allocate(trainer *t, err *e)
{
    status result = OK;
    TRY(trainer_object(&t->batches, sizeof *t->batches, e));
    TRY(allocate_batches(t, e));
    TRY(allocate_loader(t, e));
done:
    return result;
}

void batches_close(trainer *t)
{
    trainer_batches *x = t->batches;
    if (!x) return;
    loader_close(x->loader);
    sampler_close(x->sampler);
    if (x->copied) trainer_ops(t)->event_close(x->copied);
    free(x);
}

// ---- Steps

int64_t batches_samples(const trainer *t)
{
    return t->batches->samples;
}

uint64_t batches_first_hash(const trainer *t)
{
    return t->batches->first_hash;
}

// Tokens of full sequences on the host. A sequence has `arrays` arrays, one after the other: of packed
// documents, ids and starts. `from` is one of the first sequence.
typedef struct host_tokens {
    const void *from;
    int arrays;
} host_tokens;

// Copies this rank's tokens of a micro-batch's full sequences from the host. The device's array has
// `bytes` bytes. Where the rank has all tokens, and a sequence has one array, this is one copy.
static void upload_tokens(trainer *t, device_stream *on, void *to, host_tokens h, size_t bytes)
{
    const graph *g = t->model->block[0].g;
    const kernel_tokens *tokens = &g->sequences.tokens;
    const int64_t rows = graph_rows(g);
    const size_t row = bytes / (size_t)rows;
    for (int64_t r = 0, count; r < rows; r += count) {
        const int64_t sequence = r / tokens->seq, other = sequence * (h.arrays - 1);
        const int64_t from = kernel_logical_row(tokens, r) + other * tokens->full_seq;
        count = kernel_consecutive_rows(tokens, r,
                                        h.arrays > 1 ? (sequence + 1) * tokens->seq - r : rows - r);
        trainer_ops(t)->copy(on, (char *)to + (size_t)r * row,
                             (const char *)h.from + (size_t)from * row, (size_t)count * row);
    }
}

// Sorts the labels of a micro-batch by row, and copies them.
static void upload_packed(trainer *t, device_stream *on, int micro, const void *inputs,
                          const void *labels)
{
    trainer_batches *x = t->batches;
    char *host = x->host_labels + (size_t)micro * batch_bytes(labels_of(t));
    const labelled_batch from = {.shape = batches_sample_shape(t->model),
                                 .starts = x->documents ? inputs : NULL,
                                 .labels = labels};
    x->labelled[micro] =
        labelled_pack(t->model->block[t->model->blocks - 1].g, &from, (int32_t *)(void *)host);
    trainer_ops(t)->copy(on, batches_get(t, micro).labels, host, graph_value_bytes(labels_of(t)));
}

// Copies a micro-batch and the number of its rows that hold a sample.
static void upload(trainer *t, device_stream *on, int micro, const void *inputs, const void *labels,
                   int64_t samples)
{
    trainer_batches *x = t->batches;
    const trainer_batch b = batches_get(t, micro);
    const graph_value *ids = ids_of(t);
    const int64_t count = value_elements(ids);
    const int arrays = x->documents ? 2 : 1;
    // Ids and fp32 vectors have elements of the same size.
    const size_t bytes = (size_t)count * sizeof(float);
    upload_tokens(t, on, x->vectors ? x->vectors : b.ids, (host_tokens){inputs, arrays}, bytes);
    if (x->labelled)
        upload_packed(t, on, micro, inputs, labels);
    else
        upload_tokens(t, on, b.labels, (host_tokens){labels, 1}, graph_value_bytes(labels_of(t)));
    if (x->documents) {
        const int32_t *starts = (const int32_t *)inputs + t->o.seq_len;
        upload_tokens(t, on, b.documents, (host_tokens){starts, arrays}, bytes);
    }
    if (x->vectors) launch_convert(on, b.ids, ids->type, x->vectors, F32, count);
    if (!x->filled) return;
    x->host_filled[micro] = samples * t->model->block[0].g->sequences.tokens.seq;
    trainer_ops(t)->copy(on, &x->filled[micro], &x->host_filled[micro], sizeof *x->filled);
}

void batches_upload(trainer *t, device_stream_kind on, int micro, const void *inputs,
                    const void *labels, int64_t samples)
{
    if (plan_reads_batches(t->plan))
        upload(t, trainer_stream(t, on), micro, inputs, labels, samples);
}

// The loader may reuse the host's memory of its last batch once that is copied.
static void release_host_batch(trainer *t)
{
    trainer_batches *x = t->batches;
    if (!x->lent) return;
    trainer_ops(t)->event_sync(x->copied);
    loader_release(x->loader);
    x->lent = false;
}

// Several stages, and the ranks that compute blocks together, read the same batches. Only one of them counts
// samples.
static bool counts_samples(const trainer *t)
{
    return plan_has_block(t->plan, 0) &&
           mesh_group_index(&t->plan->o.mesh, t->plan->coord, AXES_GRAPH & ~AXES_DATA) == 0;
}

// The loader's thread may have its lock. Where it has a batch ready, this takes less than a microsecond.
static status next_batch(trainer *t, uint64_t step, int micro, loader_batch *out, err *e)
{
    enum { LEAST_NS = 10000 };
    const int64_t begin = clock_ns();
    release_host_batch(t);
    const status result = loader_next(t->batches->loader, step, micro, out, e);
    if (clock_ns() - begin > LEAST_NS) trainer_spans_add_wait(t, PHASE_INPUT, begin);
    return result;
}

status run_load_batch(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    trainer_batches *all = t->batches;
    device_stream *copy = trainer_stream(t, STREAM_COPY);
    const uint64_t step = results_steps_done(t);
    loader_batch read;
    TRY(next_batch(t, step, x->micro, &read, e));
    trainer_span_begin(t, x);
    all->lent = true;
    if (step == 0 && !t->pass.inspects) all->first_hash = all->first_hash * 31 + read.hash;
    if (x->micro == 0) all->samples = 0;
    if (counts_samples(t)) all->samples += read.samples;
    upload(t, copy, x->micro, read.inputs, read.labels, read.samples);
    trainer_ops(t)->record(all->copied, copy);
done:
    return result;
}

status batches_name_samples(const trainer *t, int micro, text *out, err *e)
{
    enum { SHOWN = 8 };
    status result = OK;
    const int64_t count = t->o.micro_batch;
    sampler *own = NULL; // the loader's thread uses the other one
    if (!t->o.train || t->o.train->read_own) return OK;
    TRY(open_sampler(t, &own, e));
    text_add(out, count > 1 ? " (samples " : " (sample ");
    for (int64_t i = 0; i < count && i < SHOWN; i++)
        text_addf(out, "%s%llu", i ? ", " : "",
                  (unsigned long long)sampler_step_sample(own, results_steps_done(t),
                                                          (uint64_t)t->o.global_batch,
                                                          (uint64_t)(micro * count + i)));
    text_addf(out, "%s)", count > SHOWN ? ", …" : "");
done:
    sampler_close(own);
    return result;
}

trainer_batch batches_get(const trainer *t, int micro)
{
    const trainer_batches *x = t->batches;
    if (!x->ids) return (trainer_batch){NULL};
    const size_t ids = (size_t)micro * batch_bytes(ids_of(t)),
                 labels = (size_t)micro * batch_bytes(labels_of(t));
    return (trainer_batch){
        .ids = x->ids + ids,
        .labels = x->labels + labels,
        .documents = x->documents ? (int32_t *)(void *)(x->documents + ids) : NULL,
        .filled = x->filled ? &x->filled[micro] : NULL,
        .labelled = x->labelled ? x->labelled[micro] : (graph_labelled_rows){.index = NULL}};
}

uint64_t batches_labelled_rows(const trainer *t)
{
    const trainer_batches *x = t->batches;
    uint64_t number = 0;
    for (int i = 0; x->labelled && i < t->plan->o.micros; i++)
        number = number * 0x9e3779b97f4a7c15u + (uint64_t)x->labelled[i].count;
    return number;
}

void batches_forget(trainer *t)
{
    if (t->batches->loader) loader_forget(t->batches->loader);
}
