// loader.c -- one background thread fills a ring of batches in the order in which training requests
// them. The trainer's step calls it. It deliberately does not know epochs or shards: the sampler
// chooses a sample and the dataset reads it.
//
// With read_own, one rank's data may end before the data of others. From then on its batches consist
// of padding rows, so that the rank still takes part in the collectives and adds nothing to them.
//
// A batch has the number step * micros + micro. From its head on, the ring holds the lent batches,
// then the ready batches, numbered next, next + 1, …; the thread fills the slot after them. When the
// caller requests another number than `next` (a seek), the loader drops the ready batches and starts
// again from that number. It also drops the batch that the thread is reading then: `seeks` differs
// from its value when the read began.
#include "data/loader.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/proc.h"
#include "base/size.h"
#include "device/kernels.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { ALIGNMENT = 64 };

struct loader {
    loader_options o;
    size_t input_bytes, label_bytes; // of one batch
    size_t slot_bytes;               // of one slot; inputs and labels start at ALIGNMENT
    uint64_t micros;                 // micro-batches per step
    uint8_t *memory;                 // [depth, slot_bytes]
    void *allocated;                 // NULL when the caller lends the memory
    loader_batch *slot;              // [depth]
    pthread_t thread;
    bool thread_runs;
    // read_own: number of this rank's samples, UINT64_MAX until it is known. Only the thread uses it.
    uint64_t end;

    pthread_mutex_t lock; // protects all members below
    pthread_cond_t wake_thread, wake_caller;
    int head, lent, ready; // first slot; numbers of lent and of ready batches
    uint64_t next;         // number of the first ready batch, or of the batch to read
    uint64_t seeks;        // see the head of this file
    bool stop, failed;
    err failure;   // of batch next + ready
    double waited; // seconds
};

static size_t padded(size_t bytes)
{
    return size_align(bytes, ALIGNMENT);
}

static size_t input_bytes(const loader_options *o)
{
    const dataset_shape *s = &o->data->shape;
    return (size_t)o->micro_batch * (size_t)s->inputs * dtype_bytes(s->input_type);
}

static size_t label_bytes(const loader_options *o)
{
    const dataset_shape *s = &o->data->shape;
    return (size_t)o->micro_batch * (size_t)dataset_label_elements(s) * dtype_bytes(s->label_type);
}

size_t loader_host_bytes(const loader_options *o)
{
    return (size_t)o->depth * (padded(input_bytes(o)) + padded(label_bytes(o)));
}

// Reads sample `i` of this rank in a step. Sets *ended when there is no such sample.
static status sample_read(loader *l, uint64_t step, uint64_t i, void *inputs, void *labels,
                          bool *ended, err *e)
{
    const loader_options *o = &l->o;
    dataset *d = o->data;
    uint64_t index = step * (uint64_t)o->local_batch + i;
    *ended = false;
    if (!d->read_own)
        return d->read(d, sampler_step_sample(o->order, step, o->global_batch, i), inputs, labels,
                       e);
    if (index < l->end) {
        status s = d->read_own(d, o->rank, o->ranks, index, inputs, labels, ended, e);
        if (s != OK || !*ended) return s;
        l->end = index;
    }
    *ended = true;
    return OK;
}

// Fills the rows of a batch from row `from` on with padding.
static void pad_rows(const loader *l, int64_t from, uint8_t *inputs, uint8_t *labels)
{
    const dataset_shape *s = &l->o.data->shape;
    const int64_t samples = l->o.micro_batch - from;
    const size_t input_row = (size_t)s->inputs * dtype_bytes(s->input_type),
                 label_row = (size_t)dataset_label_elements(s) * dtype_bytes(s->label_type);
    memset(inputs + (size_t)from * input_row, 0, (size_t)samples * input_row);
    memset(labels + (size_t)from * label_row, 0, (size_t)samples * label_row);
    for (int64_t i = from; s->label_type == I32 && i < l->o.micro_batch; i++) {
        int32_t *ids = (int32_t *)(void *)(labels + (size_t)i * label_row);
        for (int64_t k = 0; k < s->labels; k++) ids[k] = IGNORED_LABEL;
    }
}

// Reads batch `number` into a slot. Uses no member that the lock protects.
static status batch_read(loader *l, uint64_t number, int slot, loader_batch *out, err *e)
{
    status result = OK;
    const loader_options *o = &l->o;
    int64_t samples = 0;
    bool ended = false;
    uint64_t step = number / l->micros, micro = number % l->micros;
    uint64_t first = micro * (uint64_t)o->micro_batch;
    uint8_t *inputs = l->memory + (size_t)slot * l->slot_bytes;
    uint8_t *labels = inputs + padded(l->input_bytes);
    size_t input_row = l->input_bytes / (size_t)o->micro_batch;
    size_t label_row = l->label_bytes / (size_t)o->micro_batch;
    for (; samples < o->micro_batch; samples++) {
        size_t i = (size_t)samples;
        TRY(sample_read(l, step, first + i, inputs + i * input_row, labels + i * label_row, &ended,
                        e));
        if (ended) break;
    }
    if (ended) pad_rows(l, samples, inputs, labels);
    XXH64_hash_t hash = XXH3_64bits(inputs, l->input_bytes);
    *out = (loader_batch){
        .inputs = inputs,
        .labels = labels,
        .first = step * o->global_batch + o->first + first,
        .samples = samples,
        .hash = samples > 0 ? XXH3_64bits_withSeed(labels, l->label_bytes, hash) : 0,
    };
done:
    return result;
}

static void *loader_main(void *arg)
{
    loader *l = arg;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (!l->stop && (l->failed || l->lent + l->ready == l->o.depth))
            pthread_cond_wait(&l->wake_thread, &l->lock);
        if (l->stop) break;
        uint64_t number = l->next + (uint64_t)l->ready, seeks = l->seeks;
        int slot = (l->head + l->lent + l->ready) % l->o.depth;
        pthread_mutex_unlock(&l->lock);
        loader_batch b = {0};
        err failure = {0};
        status s = batch_read(l, number, slot, &b, &failure);
        pthread_mutex_lock(&l->lock);
        if (seeks != l->seeks) continue;
        if (s == OK) {
            // loader_next and loader_release leave head + lent + ready, and so the slot, unchanged.
            l->slot[slot] = b;
            l->ready++;
        } else {
            l->failure = failure;
            l->failed = true;
        }
        pthread_cond_signal(&l->wake_caller);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static status options_check(const loader_options *o, err *e)
{
    if (o->depth < 2)
        return err_set(e, E_INTERNAL, "loader: depth: found %d, valid is 2 or more", o->depth);
    if (o->micro_batch < 1 || o->local_batch < 1 || o->local_batch % o->micro_batch != 0)
        return err_set(e, E_USAGE,
                       "loader: found %" PRId64 " sequences per rank and step in micro-batches of "
                       "%" PRId64 ", the first must be a multiple of the second",
                       o->local_batch, o->micro_batch);
    if (o->ranks < 1 || o->rank < 0 || o->rank >= o->ranks || o->first > o->global_batch ||
        (uint64_t)o->local_batch > o->global_batch - o->first)
        return err_set(e, E_USAGE,
                       "loader: found a global batch of %" PRIu64 ", rank %d of %d with %" PRId64
                       " sequences from %" PRIu64 " on, which must be within the global batch",
                       o->global_batch, o->rank, o->ranks, o->local_batch, o->first);
    return OK;
}

// The thread blocks all signals, because the training thread handles them.
static status thread_start(loader *l, err *e)
{
    sigset_t before;
    proc_block_signals(&before);
    int refused = pthread_create(&l->thread, NULL, loader_main, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (refused)
        return err_set(e, E_IO, "loader: cannot start a thread to read ahead (error %d)", refused);
    l->thread_runs = true;
    return OK;
}

status loader_open(const loader_options *o, loader **out, err *e)
{
    status result = OK;
    loader *l = NULL;
    TRY(options_check(o, e));
    TRY(alloc_zeroed(&l, 1, sizeof *l, "the loader", e));
    l->o = *o;
    l->input_bytes = input_bytes(o);
    l->label_bytes = label_bytes(o);
    l->slot_bytes = padded(l->input_bytes) + padded(l->label_bytes);
    l->micros = (uint64_t)(o->local_batch / o->micro_batch);
    l->end = UINT64_MAX;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->wake_thread, NULL);
    pthread_cond_init(&l->wake_caller, NULL);
    TRY(alloc_zeroed(&l->slot, (size_t)o->depth, sizeof *l->slot, "the loader", e));
    if (!o->host)
        TRY(alloc_aligned(&l->allocated, ALIGNMENT, 1, loader_host_bytes(o),
                          "the batches of the loader", e));
    l->memory = o->host ? o->host : l->allocated;
    TRY(thread_start(l, e));
    *out = l;
    l = NULL;
done:
    loader_close(l);
    return result;
}

void loader_close(loader *l)
{
    if (!l) return;
    if (l->thread_runs) {
        pthread_mutex_lock(&l->lock);
        l->stop = true;
        pthread_cond_signal(&l->wake_thread);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
    }
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->wake_thread);
    pthread_cond_destroy(&l->wake_caller);
    free(l->allocated);
    free(l->slot);
    free(l);
}

status loader_next(loader *l, uint64_t step, int64_t micro, loader_batch *out, err *e)
{
    status result = OK;
    pthread_mutex_lock(&l->lock);
    if (micro < 0 || (uint64_t)micro >= l->micros)
        FAIL(E_INTERNAL, "loader: micro-batch %" PRId64 " of %" PRIu64, micro, l->micros);
    if (l->lent >= l->o.depth - 1)
        FAIL(E_INTERNAL, "loader: the caller holds %d batches of a ring of %d", l->lent,
             l->o.depth);
    uint64_t number = step * l->micros + (uint64_t)micro;
    if (number != l->next) {
        l->next = number;
        l->ready = 0;
        l->failed = false;
        l->seeks++;
        pthread_cond_signal(&l->wake_thread);
    }
    if (l->ready == 0 && !l->failed) {
        int64_t since = clock_ns();
        while (l->ready == 0 && !l->failed) pthread_cond_wait(&l->wake_caller, &l->lock);
        l->waited += (double)(clock_ns() - since) * 1e-9;
    }
    if (l->ready == 0) {
        if (e) *e = l->failure;
        result = l->failure.code;
        goto done;
    }
    *out = l->slot[(l->head + l->lent) % l->o.depth];
    l->lent++;
    l->ready--;
    l->next++;
done:
    pthread_mutex_unlock(&l->lock);
    return result;
}

void loader_forget(loader *l)
{
    pthread_mutex_lock(&l->lock);
    l->ready = 0;
    l->failed = false;
    l->seeks++;
    pthread_cond_signal(&l->wake_thread);
    pthread_mutex_unlock(&l->lock);
}

void loader_release(loader *l)
{
    pthread_mutex_lock(&l->lock);
    if (l->lent > 0) {
        l->head = (l->head + 1) % l->o.depth;
        l->lent--;
        pthread_cond_signal(&l->wake_thread);
    }
    pthread_mutex_unlock(&l->lock);
}

double loader_waited_seconds(const loader *l)
{
    loader *locked = (loader *)l; // the lock is not part of the value
    pthread_mutex_lock(&locked->lock);
    double waited = l->waited;
    pthread_mutex_unlock(&locked->lock);
    return waited;
}
