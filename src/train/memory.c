// memory.c -- allocates what the plan says, once, and counts it beforehand. Called by trainer.c.
#include "base/proc.h"
#include "train/state.h"

#include <stdlib.h>

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

// What one micro-batch needs, for a model that trains or that evaluates.
typedef struct needs {
    size_t boundaries, saved, work, spare, ids, labels;
} needs;

static needs needs_of(const model *m)
{
    needs n = {0};
    for (int b = 0; b < m->blocks; b++) {
        const graph *g = m->block[b].g;
        n.boundaries += g->output_bytes;
        n.saved += g->saved_bytes;
        n.work = larger(n.work, g->work_bytes);
        n.spare = larger(n.spare, g->output_bytes);
        if (g->ids) n.ids = value_bytes(g->ids);
        if (g->labels) n.labels = value_bytes(g->labels);
    }
    return n;
}

static needs needs_of_both(const model *m, const model *eval)
{
    needs n = needs_of(m);
    if (eval) n.work = larger(n.work, needs_of(eval).work);
    return n;
}

static bool converts_features(const trainer_options *o, const model *m)
{
    return o->precision != F32 && m->block[0].g->ids && m->block[0].g->ids->type != I32;
}

static size_t feature_bytes(const trainer_options *o, const model *m)
{
    return converts_features(o, m)
               ? (size_t)(value_rows(m->block[0].g->ids) * value_cols(m->block[0].g->ids)) *
                     sizeof(float)
               : 0;
}

static size_t rope_bytes(const model *m)
{
    return m->rope ? (size_t)(m->rope->rope_rows * m->rope->rope_half) * 2 * sizeof(float) : 0;
}

static sample_shape shape_of(const model *m)
{
    const graph *first = m->block[0].g, *last = m->block[m->blocks - 1].g;
    return (sample_shape){.inputs = value_rows(first->ids) * value_cols(first->ids) / m->batch,
                          .input_type = first->ids->type == I32 ? I32 : F32,
                          .labels = last->labels->dim[0] / m->batch,
                          .label_type = last->labels->type};
}

enum { READ_AHEAD = 4 };

static loader_options loader_of(const trainer_options *o, dataset *d, int rank, int ranks)
{
    return (loader_options){.data = d,
                            .global_batch = (uint64_t)o->global_batch,
                            .micro_batch = o->micro_batch,
                            .own_batch = o->global_batch / ranks,
                            .rank = rank,
                            .ranks = ranks,
                            .depth = READ_AHEAD};
}

void trainer_count_bytes(const trainer_options *o, const model *m, const model *eval, plan *p)
{
    needs n = needs_of_both(m, eval);
    dataset shape = {.shape = shape_of(m)};
    loader_options l = loader_of(o, &shape, 0, mesh_data_ranks(&o->mesh));
    p->bytes[BYTES_ACTIVATIONS] = n.boundaries + n.saved;
    p->bytes[BYTES_WORK] = n.work + 2 * n.spare;
    p->bytes[BYTES_DATA] = SLOTS * (n.ids + n.labels) + feature_bytes(o, m) + loader_host_bytes(&l);
    p->bytes[BYTES_KERNELS] = rope_bytes(m) + (2 * SUMS + 2 * 2) * sizeof(double);
    if (o->device) p->bytes[BYTES_KERNELS] += o->device->bytes_now;
    // Code, libraries, stacks: what a trainer is built on top of.
    p->bytes[BYTES_RUNTIME] = proc_own_bytes();
}

static status take(trainer *t, memory_kind kind, size_t bytes, void *out, err *e)
{
    status result = OK;
    void *p = NULL;
    if (bytes == 0) return OK;
    if (t->owned_count == MEMORIES)
        FAIL(E_INTERNAL, "a trainer owns more than %d pieces of memory", MEMORIES);
    TRY(device_alloc(t->o.device, kind, bytes, &p, e));
    t->owned[t->owned_count++] = (memory){kind, bytes, p};
    memcpy(out, &p, sizeof p);
done:
    return result;
}

static status take_state(trainer *t, err *e)
{
    status result = OK;
    size_t flat = (size_t)t->plan->elements * sizeof(float);
    const optim_rule *rule = optim_rule_of(&t->o.optimizer);
    void *gradients = NULL;
    TRY(take(t, MEMORY_DEVICE, flat, &t->weights, e));
    t->state[STATE_WEIGHT] = t->weights;
    t->low = t->weights;
    if (t->o.precision != F32)
        TRY(take(t, MEMORY_DEVICE, (size_t)t->plan->elements * dtype_bytes(t->o.precision), &t->low,
                 e));
    if (rule->has_m) TRY(take(t, MEMORY_DEVICE, flat, &t->state[STATE_M], e));
    if (rule->has_v) TRY(take(t, MEMORY_DEVICE, flat, &t->state[STATE_V], e));
    TRY(comm_alloc(t->o.comm, t->o.device, flat, &gradients, e));
    t->gradients = gradients;
done:
    return result;
}

static status take_activations(trainer *t, err *e)
{
    status result = OK;
    needs n = needs_of_both(t->model, t->eval);
    char *boundaries = NULL, *saved = NULL, *spare = NULL;
    TRY(take(t, MEMORY_DEVICE, n.boundaries, &boundaries, e));
    TRY(take(t, MEMORY_DEVICE, n.saved, &saved, e));
    TRY(take(t, MEMORY_DEVICE, n.work, &t->work, e));
    TRY(take(t, MEMORY_DEVICE, 2 * n.spare, &spare, e));
    t->spare[0] = spare;
    t->spare[1] = spare ? spare + n.spare : NULL;
    for (int b = 0; b < t->model->blocks; b++) {
        t->boundary[b] = boundaries;
        t->saved[b] = saved;
        boundaries += t->model->block[b].g->output_bytes;
        saved += t->model->block[b].g->saved_bytes;
    }
    for (int s = 0; s < SLOTS; s++) {
        TRY(take(t, MEMORY_DEVICE, n.ids, &t->ids[s], e));
        TRY(take(t, MEMORY_DEVICE, n.labels, &t->labels[s], e));
    }
    TRY(take(t, MEMORY_DEVICE, feature_bytes(&t->o, t->model), &t->features, e));
    TRY(take(t, MEMORY_DEVICE, rope_bytes(t->model), &t->rope, e));
    TRY(take(t, MEMORY_DEVICE, SUMS * sizeof(double), &t->sums, e));
    TRY(take(t, MEMORY_HOST, SUMS * sizeof(double), &t->host_sums, e));
    TRY(take(t, MEMORY_DEVICE, 2 * sizeof(uint64_t) * (size_t)t->o.comm->size, &t->digest, e));
    TRY(take(t, MEMORY_HOST, 2 * sizeof(uint64_t) * (size_t)t->o.comm->size, &t->host_digest, e));
done:
    return result;
}

static status take_loader(trainer *t, err *e)
{
    status result = OK;
    int rank = mesh_data_rank(&t->o.mesh, t->o.comm->rank), ranks = mesh_data_ranks(&t->o.mesh);
    loader_options l = loader_of(&t->o, t->o.train, rank, ranks);
    if (!t->o.train) return OK;
    TRY(take(t, MEMORY_HOST, loader_host_bytes(&l), &t->host_batch, e));
    TRY(sampler_open(t->o.order, t->o.train->samples, t->o.seed, rank, ranks, &t->sampler, e));
    l.order = t->sampler;
    l.host = t->host_batch;
    TRY(loader_open(&l, &t->loader, e));
done:
    return result;
}

static void *pointers(size_t count)
{
    void *p = calloc(count + 1, sizeof(void *));
    if (!p) abort();
    return p;
}

// Where each block's graph finds its parameters in the flat arrays.
static void bind_parameters(trainer *t)
{
    const model *m = t->model;
    for (int b = 0; b < m->blocks; b++) {
        int count = m->block[b].g->params;
        t->block_weight[b] = pointers((size_t)count);
        t->block_gradient[b] = pointers((size_t)count);
        t->block_touched[b] = pointers((size_t)count);
        for (int i = 0; i < count; i++) {
            int p = m->block[b].param[i];
            int64_t first = t->plan->row[p].first;
            t->block_weight[b][i] = (char *)t->low + (size_t)first * dtype_bytes(t->o.precision);
            t->block_gradient[b][i] = t->gradients + first;
            t->block_touched[b][i] = &t->touched[p];
        }
    }
}

status trainer_allocate(trainer *t, err *e)
{
    status result = OK;
    size_t blocks = (size_t)t->model->blocks;
    t->boundary = pointers(blocks);
    t->saved = pointers(blocks);
    t->block_weight = pointers(blocks);
    t->block_gradient = pointers(blocks);
    t->block_touched = pointers(blocks);
    t->touched = calloc((size_t)t->model->params, sizeof(bool));
    if (!t->touched) abort();
    TRY(take_state(t, e));
    TRY(take_activations(t, e));
    TRY(take_loader(t, e));
    bind_parameters(t);
done:
    return result;
}

void trainer_free_memory(trainer *t)
{
    loader_close(t->loader);
    sampler_close(t->sampler);
    if (t->gradients)
        comm_release(t->o.comm, t->o.device, t->gradients,
                     (size_t)t->plan->elements * sizeof(float));
    for (int i = t->owned_count - 1; i >= 0; i--)
        device_release(t->o.device, t->owned[i].kind, t->owned[i].at, t->owned[i].bytes);
    for (int b = 0; t->model && t->block_weight && b < t->model->blocks; b++) {
        free(t->block_weight[b]);
        free(t->block_gradient[b]);
        free(t->block_touched[b]);
    }
    free(t->block_weight);
    free(t->block_gradient);
    free(t->block_touched);
    free(t->boundary);
    free(t->saved);
    free(t->touched);
}
