// batches.c -- copies micro-batches from the loader to the device. See batches.h. Called by
// trainer.c, through the table in step.c, and by evaluate.c and predict.c, which read their samples
// themselves.
#include "train/batches.h"

#include "data/loader.h"
#include "train/launch.h"
#include "train/trainer_private.h"

enum { READ_AHEAD = 4 }; // micro-batches that the loader reads in advance

typedef struct batches_slot {
    trainer_batch batch;
    device_event *loaded;   // recorded after the copy
    device_event *consumed; // recorded after the last kernel that reads the slot
} batches_slot;

struct trainer_batches {
    sampler *sampler;   // NULL: the dataset determines the order of its samples
    loader *loader;     // NULL: this rank reads no batches
    void *host_batches; // [loader_host_bytes] memory that the loader fills
    batches_slot *slot; // [schedule's batch_slots]
    // Vectors before their conversion [micro_batch, inputs] F32; NULL: nothing is converted.
    float *vectors;
    // The slot into which the loader's current batch is copied; -1: there is no such batch.
    int copying;
    int64_t samples;
    uint64_t first_hash;
};

bool batches_are_read(const trainer *t)
{
    return plan_has_block(t->plan, 0) || plan_has_block(t->plan, t->model->blocks - 1);
}

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

dataset_shape batches_sample_shape(const model *m)
{
    const graph *first = m->block[0].g;
    const graph_value *ids = first->ids, *labels = m->block[m->blocks - 1].g->labels;
    const kernel_tokens *tokens = &first->sequences.tokens;
    const int64_t rows = m->batch * tokens->seq;
    return (dataset_shape){.inputs = value_elements(ids) / rows * tokens->full_seq,
                           .input_type = ids->type == I32 ? I32 : F32,
                           .labels = labels->dim[0] / rows * tokens->full_seq,
                           .label_type = labels->type};
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
                        .local_batch = t->o.global_batch / ranks,
                        .rank = rank,
                        .ranks = ranks,
                        .depth = READ_AHEAD};
    if (!batches_are_read(t) || !o.data) return OK;
    TRY(memory_take(t->memory, BYTES_DATA, FROM_HOST, loader_host_bytes(&o), &x->host_batches, e));
    if (counting) return OK;
    if (!t->o.train->read_own)
        TRY(sampler_open(t->o.order, t->o.train->samples, t->o.seed, rank, ranks, &x->sampler, e));
    o.order = x->sampler;
    o.host = x->host_batches;
    TRY(loader_open(&o, &x->loader, e));
done:
    return result;
}

static status allocate_slot(trainer *t, int slot, err *e)
{
    status result = OK;
    batches_slot unused = {0},
                 *s = memory_is_counting(t->memory) ? &unused : &t->batches->slot[slot];
    TRY(memory_take(t->memory, BYTES_DATA, FROM_DEVICE, graph_value_bytes(ids_of(t)), &s->batch.ids,
                    e));
    TRY(memory_take(t->memory, BYTES_DATA, FROM_DEVICE, graph_value_bytes(labels_of(t)),
                    &s->batch.labels, e));
    if (memory_is_counting(t->memory)) return OK;
    TRY(trainer_ops(t)->event_open(t->o.device, &s->loaded, e));
    TRY(trainer_ops(t)->event_open(t->o.device, &s->consumed, e));
done:
    return result;
}

status batches_allocate(trainer *t, err *e)
{
    status result = OK;
    const int slots = t->schedule.batch_slots;
    TRY(trainer_object(&t->batches, sizeof *t->batches, e));
    trainer_batches *x = t->batches;
    x->copying = -1;
    TRY(memory_table(t->memory, (size_t)slots, sizeof *x->slot, &x->slot, e));
    for (int i = 0; i < slots && batches_are_read(t); i++) TRY(allocate_slot(t, i, e));
    TRY(memory_take(t->memory, BYTES_DATA, FROM_DEVICE, vector_bytes(t), &x->vectors, e));
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
    for (int i = 0; x->slot && i < t->schedule.batch_slots; i++) {
        trainer_ops(t)->event_close(x->slot[i].loaded);
        trainer_ops(t)->event_close(x->slot[i].consumed);
    }
    free(x);
}

// ---- Steps

void batches_start_step(trainer *t)
{
    t->batches->samples = 0;
}

int64_t batches_samples(const trainer *t)
{
    return t->batches->samples;
}

uint64_t batches_first_hash(const trainer *t)
{
    return t->batches->first_hash;
}

// Copies this rank's tokens of a micro-batch's full sequences from the host. The device's array has
// `bytes` bytes. Where the rank has all tokens, this is one copy.
static void upload_tokens(trainer *t, device_stream *on, void *to, const void *from, size_t bytes)
{
    const graph *g = t->model->block[0].g;
    const kernel_tokens *tokens = &g->sequences.tokens;
    const int64_t rows = graph_rows(g);
    const size_t row = bytes / (size_t)rows;
    for (int64_t r = 0, count; r < rows; r += count) {
        count = kernel_consecutive_rows(tokens, r, rows - r);
        trainer_ops(t)->copy(on, (char *)to + (size_t)r * row,
                             (const char *)from + (size_t)kernel_logical_row(tokens, r) * row,
                             (size_t)count * row);
    }
}

static void upload(trainer *t, device_stream *on, int slot, const void *inputs, const void *labels)
{
    trainer_batches *x = t->batches;
    const trainer_batch *b = &x->slot[slot].batch;
    const graph_value *ids = ids_of(t);
    const int64_t count = value_elements(ids);
    // Ids and fp32 vectors have elements of the same size.
    upload_tokens(t, on, x->vectors ? x->vectors : b->ids, inputs, (size_t)count * sizeof(float));
    upload_tokens(t, on, b->labels, labels, graph_value_bytes(labels_of(t)));
    if (x->vectors) launch_convert(on, b->ids, ids->type, x->vectors, F32, count);
}

void batches_upload(trainer *t, device_stream_kind on, int slot, const void *inputs,
                    const void *labels, int64_t padding)
{
    t->batches->slot[slot].batch.padding = padding;
    if (batches_are_read(t)) upload(t, trainer_stream(t, on), slot, inputs, labels);
}

// The loader may reuse the host's memory of its last batch once that is copied.
static void release_host_batch(trainer *t)
{
    trainer_batches *x = t->batches;
    if (x->copying < 0) return;
    trainer_ops(t)->event_sync(x->slot[x->copying].loaded);
    loader_release(x->loader);
    x->copying = -1;
}

// Several stages, tensor-parallel and context-parallel ranks read the same batches. Only one of them
// counts samples.
static bool counts_samples(const trainer *t)
{
    const int *coord = t->plan->coord;
    return plan_has_block(t->plan, 0) && coord[AXIS_TP] == 0 && coord[AXIS_CP] == 0;
}

status run_load_batch(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    trainer_batches *all = t->batches;
    batches_slot *s = &all->slot[x->slot];
    device_stream *copy = trainer_stream(t, STREAM_COPY);
    const uint64_t step = results_steps_done(t);
    loader_batch read;
    release_host_batch(t);
    TRY(loader_next(all->loader, step, x->micro, &read, e));
    all->copying = x->slot;
    if (step == 0 && !t->inspects) all->first_hash = all->first_hash * 31 + read.hash;
    if (counts_samples(t) && !t->inspects) all->samples += read.samples;
    s->batch.padding = t->o.micro_batch - read.samples;
    trainer_ops(t)->wait(copy, s->consumed);
    upload(t, copy, x->slot, read.inputs, read.labels);
    trainer_ops(t)->record(s->loaded, copy);
    trainer_ops(t)->wait(trainer_stream(t, STREAM_COMPUTE), s->loaded);
done:
    return result;
}

trainer_batch batches_get(const trainer *t, int slot)
{
    return t->batches->slot[slot].batch;
}

void batches_free_slot(trainer *t, int slot)
{
    trainer_ops(t)->record(t->batches->slot[slot].consumed, trainer_stream(t, STREAM_COMPUTE));
}
