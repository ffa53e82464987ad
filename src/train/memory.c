// memory.c -- every piece of memory of a trainer, in one list that is walked twice: once to count
// bytes into the plan, before anything starts, and once to allocate. So the plan says exactly what
// is allocated. Called by trainer.c.
#include "base/alloc.h"
#include "base/proc.h"
#include "base/size.h"
#include "train/state.h"

#include <stdlib.h>

enum { READ_AHEAD = 4 };

// Where a piece of memory comes from. SHARED: other ranks read it.
typedef enum source { FROM_DEVICE, FROM_HOST, FROM_ZEROED, FROM_SHARED } source;

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t align_up(size_t n)
{
    return size_align(n, 64);
}

// Where what follows so many bytes at `at` begins.
static size_t after(size_t at, size_t bytes)
{
    return size_add(at, align_up(bytes));
}

// Tables of the trainer's own are small and made before step 0.
static status table(void *out, size_t count, size_t item, err *e)
{
    return alloc_zeroed(out, count, item, "the trainer", e);
}

static device_memory_kind kind_of(source from)
{
    return from == FROM_HOST ? MEMORY_HOST : from == FROM_ZEROED ? MEMORY_ZEROED : MEMORY_DEVICE;
}

static status make_room(trainer *t, err *e)
{
    return alloc_grow(&t->owned, &t->owned_room, (size_t)t->owned_count + 1, sizeof *t->owned,
                      "the trainer", e);
}

static status take(trainer *t, plan_category c, source from, size_t bytes, void *out, err *e)
{
    status result = OK;
    void *p = NULL;
    if (bytes == 0) return OK;
    if (t->counting) {
        t->plan->bytes[c] = size_add(t->plan->bytes[c], bytes);
        return OK;
    }
    TRY(make_room(t, e));
    if (from == FROM_SHARED)
        TRY(comm_alloc(t->o.comm, t->o.device, bytes, &p, e));
    else
        TRY(device_alloc(t->o.device, kind_of(from), bytes, &p, e));
    t->owned[t->owned_count++] = (owned_memory){
        .kind = kind_of(from), .shared = from == FROM_SHARED, .bytes = bytes, .at = p};
    memcpy(out, &p, sizeof p);
done:
    return result;
}

size_t trainer_weight_bytes(const trainer *t)
{
    return dtype_bytes(t->o.precision);
}

// ---- Weights, gradients, optimizer state

static bool in_memory(const trainer *t, plan_state what)
{
    return t->plan->o.strategy.offload.tier[what] != TIER_FILE;
}

// The plan has counted the arrays already.
static status take_array(trainer *t, plan_category c, source from, size_t bytes, void *out, err *e)
{
    return t->counting ? OK : take(t, c, from, bytes, out, e);
}

static status take_arrays(trainer *t, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const optim_rule *rule = optim_rule_of(&t->o.optimizer);
    const size_t states = (size_t)p->elements[p->optimizer] * sizeof(float);
    // Weights that never travel during a step are this rank's own business.
    const bool travel = p->unshard.count > 0 || p->all_gather_updated.count > 0;
    if (in_memory(t, PLAN_WEIGHTS))
        TRY(take_array(t, BYTES_WEIGHTS, travel ? FROM_SHARED : FROM_DEVICE,
                       (size_t)p->elements[p->weight] * trainer_weight_bytes(t), &t->weights, e));
    if (p->keeps_post_forward_shards)
        TRY(take_array(t, BYTES_WEIGHTS, FROM_SHARED,
                       (size_t)p->elements[LAYOUT_POST_FORWARD] * trainer_weight_bytes(t), &t->kept,
                       e));
    if (in_memory(t, PLAN_GRADIENTS))
        TRY(take_array(t, BYTES_GRADIENTS, FROM_SHARED,
                       (size_t)p->elements[p->gradient] * sizeof(float), &t->gradients, e));
    TRY(take_array(t, BYTES_GRADIENTS, FROM_DEVICE, (size_t)p->tied_grads * sizeof(float),
                   &t->tied_grads, e));
    if (!in_memory(t, PLAN_OPTIMIZER_STATE)) goto done;
    if (t->o.precision != F32) TRY(take_array(t, BYTES_MASTER, FROM_ZEROED, states, &t->master, e));
    if (rule->has_m) TRY(take_array(t, BYTES_OPTIMIZER, FROM_ZEROED, states, &t->moment[0], e));
    if (rule->has_v) TRY(take_array(t, BYTES_OPTIMIZER, FROM_ZEROED, states, &t->moment[1], e));
done:
    return result;
}

// ---- Slots

static status take_slots(trainer *t, const schedule_slots *train, const schedule_slots *eval,
                         size_t item, bucket_slot *out, err *e)
{
    status result = OK;
    for (int i = 0; i < train->count || i < eval->count; i++) {
        int64_t elements = i < train->count ? train->elements[i] : 0;
        if (i < eval->count && eval->elements[i] > elements) elements = eval->elements[i];
        // Files are read and written from whole pages.
        const size_t more = t->plan->tier_bytes[TIER_FILE] > 0 ? TIER_ALIGN : 0;
        char *at = NULL;
        TRY(take(t, BYTES_BUFFERS, FROM_SHARED, size_add(size_mul((uint64_t)elements, item), more),
                 &at, e));
        if (t->counting) continue;
        out[i].at = more ? at + (-(uintptr_t)at & (TIER_ALIGN - 1)) : at;
        TRY(t->o.device->ops->event_open(t->o.device, &out[i].filled, e));
        TRY(t->o.device->ops->event_open(t->o.device, &out[i].freed, e));
    }
done:
    return result;
}

static int most(int a, int b)
{
    return a > b ? a : b;
}

static status take_all_slots(trainer *t, err *e)
{
    status result = OK;
    const schedule *s = &t->schedule, *f = &t->forward;
    if (!t->counting) {
        TRY(table(&t->weight_slot, (size_t)most(s->weights.count, f->weights.count),
                  sizeof(bucket_slot), e));
        TRY(table(&t->gradient_slot, (size_t)s->gradients.count, sizeof(bucket_slot), e));
        for (int k = 0; k < PLAN_STATES; k++)
            TRY(table(&t->state_slot[k], (size_t)most(s->state[k].count, f->state[k].count),
                      sizeof(bucket_slot), e));
        for (int k = 0; k < PLAN_STATES; k++)
            TRY(table(&t->flushed[k], (size_t)t->plan->buckets, sizeof(tier_ticket), e));
        TRY(table(&t->weight_of, (size_t)t->plan->buckets, sizeof(int), e));
        TRY(table(&t->gradient_of, (size_t)t->plan->buckets, sizeof(int), e));
    }
    TRY(take_slots(t, &s->weights, &f->weights, trainer_weight_bytes(t), t->weight_slot, e));
    TRY(take_slots(t, &s->gradients, &(schedule_slots){0}, sizeof(float), t->gradient_slot, e));
    for (int k = 0; k < PLAN_STATES; k++)
        TRY(take_slots(t, &s->state[k], &f->state[k], trainer_state_bytes(t, (plan_state)k),
                       t->state_slot[k], e));
done:
    return result;
}

// ---- Activations

// Places of the blocks of one chunk within its slots.
static void place_chunk(trainer *t, int number, int part)
{
    trainer_chunk *c = &t->chunk[number];
    const plan *p = t->plan;
    c->first = p->chunk_first[part], c->last = p->chunk_first[part + 1];
    c->act_bytes = c->saved_for_wgrad_bytes = 0;
    for (int b = c->first; b < c->last; b++) {
        const graph *g = t->model->block[b].g;
        block_place *x = &t->place[b];
        if (b > c->first) x->input = t->place[b - 1].output;
        if (b == c->first && b > 0) {
            x->input = c->act_bytes;
            c->act_bytes = after(c->act_bytes, g->input_bytes);
        }
        x->output = c->act_bytes;
        c->act_bytes = after(c->act_bytes, g->output_bytes);
        x->saved = c->act_bytes;
        c->act_bytes = after(c->act_bytes, g->saved_bytes);
        x->held = c->saved_for_wgrad_bytes;
        c->saved_for_wgrad_bytes = after(c->saved_for_wgrad_bytes, g->saved_for_wgrad_bytes);
        x->output_grad = c->saved_for_wgrad_bytes;
        c->saved_for_wgrad_bytes = after(c->saved_for_wgrad_bytes, g->output_bytes);
    }
}

static status take_chunks(trainer *t, err *e)
{
    status result = OK;
    const int stages = t->plan->o.mesh.size[AXIS_PP], chunks = t->plan->chunks / stages;
    int held = 0;
    // Neighbouring stages read what is sent straight from here; tensor-parallel ranks sum in place.
    const bool reads = stages > 1 || t->plan->o.mesh.size[AXIS_TP] > 1;
    const source from = reads ? FROM_SHARED : FROM_DEVICE;
    for (int k = 0; k < chunks; k++) {
        trainer_chunk *c = &t->chunk[k];
        place_chunk(t, k, k * stages + t->plan->coord[AXIS_PP]);
        TRY(take(t, BYTES_ACTIVATIONS, from,
                 size_mul((uint64_t)t->schedule.act_slots[k], c->act_bytes), &c->act, e));
        TRY(take(t, BYTES_ACTIVATIONS, from,
                 size_mul((uint64_t)t->schedule.wgrad_slots[k], c->saved_for_wgrad_bytes), &c->held,
                 e));
        if (t->schedule.wgrad_slots[k] > held) held = t->schedule.wgrad_slots[k];
        if (!t->counting)
            TRY(table(&c->sent, (size_t)t->schedule.act_slots[k], sizeof *c->sent, e));
    }
    if (!t->counting)
        TRY(table(&t->output_grad_ptr, (size_t)held * (size_t)t->model->blocks,
                  sizeof *t->output_grad_ptr, e));
done:
    return result;
}

static size_t workspace_bytes(const trainer *t)
{
    size_t bytes = 0;
    for (int b = 0; b < t->model->blocks; b++) {
        if (!plan_has_block(t->plan, b)) continue;
        bytes = larger(bytes, t->model->block[b].g->workspace_bytes);
        if (t->eval) bytes = larger(bytes, t->eval->block[b].g->workspace_bytes);
    }
    return bytes;
}

// The largest activation gradient of the blocks of this stage.
static size_t act_grad_bytes(const trainer *t)
{
    size_t bytes = 0;
    for (int b = 0; b < t->model->blocks; b++) {
        if (!plan_has_block(t->plan, b)) continue;
        bytes = larger(bytes, t->model->block[b].g->output_bytes);
        bytes = larger(bytes, t->model->block[b].g->input_bytes);
    }
    return align_up(bytes);
}

static status take_work(trainer *t, err *e)
{
    status result = OK;
    const int stages = t->plan->o.mesh.size[AXIS_PP];
    const source from = stages > 1 || t->plan->o.mesh.size[AXIS_TP] > 1 ? FROM_SHARED : FROM_DEVICE;
    const int slots = t->schedule.act_grad_slots;
    if (!t->counting) TRY(table(&t->act_grad, (size_t)slots, sizeof *t->act_grad, e));
    TRY(take(t, BYTES_WORKSPACE, from, workspace_bytes(t), &t->work, e));
    for (int i = 0; i < slots; i++)
        TRY(take(t, BYTES_WORKSPACE, from, act_grad_bytes(t),
                 t->counting ? NULL : &t->act_grad[i].ptr, e));
done:
    return result;
}

// ---- Data

static bool converts_features(const trainer *t)
{
    const graph_value *ids = t->model->block[0].g->ids;
    return t->o.precision != F32 && ids && ids->type != I32;
}

static size_t feature_bytes(const trainer *t)
{
    const graph_value *ids = t->model->block[0].g->ids;
    return converts_features(t)
               ? (size_t)(graph_value_rows(ids) * graph_value_cols(ids)) * sizeof(float)
               : 0;
}

static dataset_shape shape_of(const model *m)
{
    const graph *first = m->block[0].g, *last = m->block[m->blocks - 1].g;
    return (dataset_shape){.inputs = graph_value_rows(first->ids) * graph_value_cols(first->ids) /
                                     m->batch,
                           .input_type = first->ids->type == I32 ? I32 : F32,
                           .labels = last->labels->dim[0] / m->batch,
                           .label_type = last->labels->type};
}

static loader_options loader_of(const trainer *t, dataset *d, int rank, int ranks)
{
    return (loader_options){.data = d,
                            .global_batch = (uint64_t)t->o.global_batch,
                            .micro_batch = t->o.micro_batch,
                            .own_batch = t->o.global_batch / ranks,
                            .rank = rank,
                            .ranks = ranks,
                            .depth = READ_AHEAD};
}

static status take_loader(trainer *t, err *e)
{
    status result = OK;
    const mesh *m = &t->plan->o.mesh;
    const int rank = mesh_data_rank(m, t->plan->o.rank), ranks = mesh_data_ranks(m);
    dataset shape = {.shape = shape_of(t->model)};
    if (!trainer_reads_data(t) || (!t->counting && !t->o.train)) return OK;
    loader_options l = loader_of(t, t->counting ? &shape : t->o.train, rank, ranks);
    TRY(take(t, BYTES_DATA, FROM_HOST, loader_host_bytes(&l), &t->host_batch, e));
    if (t->counting) return OK;
    if (!t->o.train->read_own)
        TRY(sampler_open(t->o.order, t->o.train->samples, t->o.seed, rank, ranks, &t->sampler, e));
    l.order = t->sampler;
    l.host = t->host_batch;
    TRY(loader_open(&l, &t->loader, e));
done:
    return result;
}

static status take_batches(trainer *t, err *e)
{
    status result = OK;
    const graph *first = t->model->block[0].g, *last = t->model->block[t->model->blocks - 1].g;
    const int slots = t->schedule.batch_slots;
    if (!t->counting) {
        TRY(table(&t->ids, (size_t)slots, sizeof *t->ids, e));
        TRY(table(&t->labels, (size_t)slots, sizeof *t->labels, e));
        TRY(table(&t->loaded, (size_t)slots, sizeof *t->loaded, e));
        TRY(table(&t->consumed, (size_t)slots, sizeof *t->consumed, e));
        TRY(table(&t->blank, (size_t)slots, sizeof *t->blank, e));
    }
    for (int i = 0; i < slots && trainer_reads_data(t); i++) {
        void *ids = NULL, *labels = NULL;
        TRY(take(t, BYTES_DATA, FROM_DEVICE, graph_value_bytes(first->ids), &ids, e));
        TRY(take(t, BYTES_DATA, FROM_DEVICE, graph_value_bytes(last->labels), &labels, e));
        if (t->counting) continue;
        t->ids[i] = ids, t->labels[i] = labels;
        TRY(t->o.device->ops->event_open(t->o.device, &t->loaded[i], e));
        TRY(t->o.device->ops->event_open(t->o.device, &t->consumed[i], e));
    }
    TRY(take(t, BYTES_DATA, FROM_DEVICE, feature_bytes(t), &t->features, e));
    TRY(take_loader(t, e));
done:
    return result;
}

static status take_small(trainer *t, err *e)
{
    status result = OK;
    const size_t digests = 2 * sizeof(uint64_t) * (size_t)t->plan->o.mesh.ranks;
    TRY(take(t, BYTES_KERNELS, FROM_DEVICE, t->model->rope ? graph_rope_bytes(t->model->rope) : 0,
             &t->rope, e));
    TRY(take(t, BYTES_KERNELS, FROM_DEVICE, SUMS * sizeof(double), &t->sums, e));
    TRY(take(t, BYTES_KERNELS, FROM_HOST, SUMS * sizeof(double), &t->host_sums, e));
    TRY(take(t, BYTES_KERNELS, FROM_DEVICE, digests, &t->digest, e));
    TRY(take(t, BYTES_KERNELS, FROM_HOST, digests, &t->host_digest, e));
done:
    return result;
}

// Filled for a block at a time, so that they hold as many as a block has.
static status make_tables(trainer *t, err *e)
{
    status result = OK;
    size_t params = (size_t)t->model->params;
    TRY(table(&t->run_weight, params, sizeof *t->run_weight, e));
    TRY(table(&t->run_gradient, params, sizeof *t->run_gradient, e));
    TRY(table(&t->run_grad_written, params, sizeof *t->run_grad_written, e));
    TRY(table(&t->grad_written, params, sizeof *t->grad_written, e));
    TRY(table(&t->tied_grad_written, params, sizeof *t->tied_grad_written, e));
    TRY(table(&t->acts_sent, (size_t)t->plan->o.mesh.size[AXIS_PP], sizeof(uint64_t), e));
    TRY(table(&t->grads_sent, (size_t)t->plan->o.mesh.size[AXIS_PP], sizeof(uint64_t), e));
done:
    return result;
}

static void count_rest(trainer *t)
{
    t->plan->bytes[BYTES_BUFFERS] += compress_bytes(t->plan);
    // What a trainer is built on top of: the one figure that is measured, so that all others are
    // the same wherever a job is planned.
    t->plan->bytes[BYTES_RUNTIME] =
        proc_own_bytes() + (t->o.device ? t->o.device->bytes_scratch : 0);
}

status trainer_allocate(trainer *t, err *e)
{
    status result = OK;
    if (t->counting) {
        TRY(table(&t->chunk, (size_t)(t->plan->chunks / t->plan->o.mesh.size[AXIS_PP]),
                  sizeof *t->chunk, e));
        TRY(table(&t->place, (size_t)t->model->blocks, sizeof *t->place, e));
    } else {
        TRY(make_tables(t, e));
    }
    TRY(take_arrays(t, e));
    TRY(take_all_slots(t, e));
    TRY(take_chunks(t, e));
    TRY(take_work(t, e));
    TRY(take_batches(t, e));
    TRY(take_small(t, e));
    if (t->counting) count_rest(t);
done:
    return result;
}

static void close_slots(trainer *t, bucket_slot *s, int count)
{
    for (int i = 0; s && i < count; i++) {
        t->o.device->ops->event_close(s[i].filled);
        t->o.device->ops->event_close(s[i].freed);
    }
    free(s);
}

static void free_tables(trainer *t)
{
    void *all[] = {t->chunk,       t->place,      t->output_grad_ptr,  t->ids,
                   t->labels,      t->loaded,     t->consumed,         t->weight_of,
                   t->gradient_of, t->run_weight, t->grad_written,     t->run_gradient,
                   t->acts_sent,   t->grads_sent, t->run_grad_written, t->tied_grad_written,
                   t->flushed[0],  t->flushed[1], t->flushed[2],       t->blank,
                   t->act_grad};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

void trainer_free_memory(trainer *t)
{
    const device_ops *ops = t->counting ? NULL : t->o.device->ops;
    loader_close(t->loader);
    sampler_close(t->sampler);
    for (int i = 0; ops && t->loaded && t->consumed && i < t->schedule.batch_slots; i++) {
        ops->event_close(t->loaded[i]);
        ops->event_close(t->consumed[i]);
    }
    close_slots(t, t->weight_slot, most(t->schedule.weights.count, t->forward.weights.count));
    close_slots(t, t->gradient_slot, t->schedule.gradients.count);
    for (int k = 0; k < PLAN_STATES; k++)
        close_slots(t, t->state_slot[k],
                    most(t->schedule.state[k].count, t->forward.state[k].count));
    for (int i = t->owned_count - 1; i >= 0; i--) {
        owned_memory *m = &t->owned[i];
        if (m->shared)
            comm_release(t->o.comm, t->o.device, m->at, m->bytes);
        else
            device_release(t->o.device, m->kind, m->at, m->bytes);
    }
    free(t->owned);
    for (int k = 0; t->plan && t->chunk && k < t->plan->chunks / t->plan->o.mesh.size[AXIS_PP]; k++)
        free(t->chunk[k].sent);
    free_tables(t);
}
