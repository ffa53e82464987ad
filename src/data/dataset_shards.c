// dataset_shards.c -- samples of one token shard, or of a blend of several. A sample starts every L
// tokens and shares one token with the next; the documents of a shard are joined. In the order of
// Megatron-LM each shard has an order of its own (megatron_order.h), made for its part of the run.
// dataset_open calls it. It deliberately does not know the order in which samples are read.
//
// A blend stores the shard of each sample in one byte, and every 1024 samples how many samples each
// shard has given so far. So a sample is found by counting fewer than 1024 bytes.
#include "data/dataset_kinds.h"

#include "base/alloc.h"
#include "data/megatron_order.h"
#include "data/tokens.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHARDS_MAX = 255, BLOCK = 1024 };

typedef struct dataset_shard {
    tokens *t;
    uint64_t sequence, sequences_end; // of the shard's documents
    uint64_t first;                   // token
    uint64_t samples;
    megatron_order *order; // NULL: as stored
    double weight;         // share of the blend; the weights sum to 1
} dataset_shard;

typedef struct dataset_shards {
    dataset base;
    size_t count;
    dataset_shard *shards; // [count]
    uint8_t *shard_of;     // [samples] index of each sample's shard; NULL for one shard
    uint64_t *before;      // [blocks, count] samples that each shard gives before the block
} dataset_shards;

static void shards_close(dataset *d)
{
    dataset_shards *s = (dataset_shards *)d;
    for (size_t i = 0; i < s->count && s->shards; i++) {
        megatron_order_close(s->shards[i].order);
        tokens_close(s->shards[i].t);
    }
    free(s->shards);
    free(s->shard_of);
    free(s->before);
    free(s);
}

// Finds the shard of sample k of a blend, and the number of the sample within that shard.
static size_t blend_find(const dataset_shards *s, uint64_t k, uint64_t *number)
{
    const uint64_t block = k / BLOCK;
    const uint8_t shard = s->shard_of[k];
    uint64_t n = s->before[block * s->count + shard];
    for (uint64_t i = block * BLOCK; i < k; i++) n += s->shard_of[i] == shard;
    *number = n;
    return shard;
}

static status shards_read(dataset *d, uint64_t sample, void *inputs, void *labels, err *e)
{
    const dataset_shards *s = (const dataset_shards *)d;
    if (sample >= d->samples)
        return err_set(e, E_INTERNAL, "data: sample %" PRIu64 " of %" PRIu64, sample, d->samples);
    uint64_t number = sample;
    const dataset_shard *p = &s->shards[s->shard_of ? blend_find(s, sample, &number) : 0];
    uint64_t length = (uint64_t)d->shape.inputs, first = p->first + number % p->samples * length;
    if (p->order) {
        megatron_order_read(p->order, number, inputs, labels);
    } else {
        tokens_read(p->t, first, length, inputs);
        tokens_read(p->t, first + 1, length, labels);
    }
    return tokens_check_whole(p->t, e);
}

// Takes the documents that a source names, and counts their tokens.
static uint64_t take_documents(dataset_shard *p, const dataset_source *from)
{
    const uint64_t sequences = tokens_sequences(p->t);
    uint64_t length, end = tokens_count(p->t);
    p->sequence = (uint64_t)rint(from->from * (double)sequences);
    p->sequences_end = from->to > 0 ? (uint64_t)rint(from->to * (double)sequences) : sequences;
    if (p->sequence < sequences) tokens_sequence(p->t, p->sequence, &p->first, &length);
    if (p->sequences_end < sequences) tokens_sequence(p->t, p->sequences_end, &end, &length);
    return p->sequence < p->sequences_end ? end - p->first : 0;
}

static status shard_open(dataset_shard *p, const dataset_source *from, double weights,
                         int64_t seq_len, int32_t vocab, err *e)
{
    status result = OK;
    p->weight = from->weight / weights;
    TRY(tokens_open(from->path, &p->t, e));
    uint64_t count = take_documents(p, from);
    p->samples = count == 0 ? 0 : (count - 1) / (uint64_t)seq_len;
    if (p->samples == 0)
        FAIL(E_USAGE,
             "%s.bin: found %" PRIu64 " tokens%s, one sample of seq_len %" PRId64 " needs %" PRId64,
             tokens_prefix(p->t), count, from->to > 0 ? " in the documents" : "", seq_len,
             seq_len + 1);
    TRY(tokens_check(p->t, vocab, e));
done:
    return result;
}

// Assigns sample k to the shard whose count lags weight * max(k, 1) most; among equals to the first.
static status blend_make(dataset_shards *s, err *e)
{
    uint64_t samples = s->base.samples, given[SHARDS_MAX] = {0}; // samples of each shard so far
    status result = OK;
    free(s->shard_of);
    free(s->before);
    s->shard_of = NULL;
    s->before = NULL;
    TRY(alloc_array(&s->shard_of, samples, sizeof *s->shard_of, "a blend of samples", e));
    TRY(alloc_array(&s->before, (samples / BLOCK + 1) * s->count, sizeof *s->before,
                    "a blend of samples", e));
    for (uint64_t k = 0; k < samples; k++) {
        if (k % BLOCK == 0)
            memcpy(s->before + k / BLOCK * s->count, given, s->count * sizeof *given);
        double reached = k > 0 ? (double)k : 1, most = 0;
        size_t lagging = 0;
        for (size_t p = 0; p < s->count; p++) {
            double lag = s->shards[p].weight * reached - (double)given[p];
            if (p == 0 || lag > most) most = lag, lagging = p;
        }
        s->shard_of[k] = (uint8_t)lagging;
        given[lagging]++;
    }
done:
    return result;
}

// Puts each shard in its order. As in Megatron-LM, a shard of a blend has 0.5 % more samples than its share of the run.
static status shards_order(dataset *d, uint64_t seed, uint64_t samples, err *e)
{
    status result = OK;
    dataset_shards *s = (dataset_shards *)d;
    uint64_t total = 0;
    for (size_t i = 0; i < s->count; i++) {
        dataset_shard *p = &s->shards[i];
        const double share = ceil((double)samples * p->weight);
        const uint64_t own = s->count > 1 ? (uint64_t)ceil(share * 1.005) : samples;
        TRY(megatron_order_open(p->t, p->sequence, p->sequences_end, d->shape.inputs,
                                (uint32_t)seed, own, &p->order, e));
        p->samples = megatron_order_samples(p->order);
        total += s->count > 1 ? (uint64_t)share : p->samples;
    }
    d->samples = total;
    if (s->count > 1) TRY(blend_make(s, e));
done:
    return result;
}

status dataset_open_shards(const dataset_source *sources, size_t count, int64_t seq_len,
                           int32_t vocab, dataset **out, err *e)
{
    status result = OK;
    if (count > SHARDS_MAX)
        return err_set(e, E_USAGE, "data: found %zu shards in a blend, valid is at most %d", count,
                       SHARDS_MAX);
    double weights = 0;
    for (size_t i = 0; i < count; i++) weights += sources[i].weight;
    dataset_shards *s = NULL;
    TRY(alloc_zeroed(&s, 1, sizeof *s, "the shards of the data", e));
    s->base = (dataset){
        .shape = {.inputs = seq_len, .input_type = I32, .labels = seq_len, .label_type = I32},
        .max_id = -1,
        .read = shards_read,
        .order_as_megatron = shards_order,
        .close = shards_close,
    };
    s->count = count;
    TRY(alloc_zeroed(&s->shards, count, sizeof *s->shards, "the shards of the data", e));
    for (size_t i = 0; i < count; i++) {
        TRY(shard_open(&s->shards[i], &sources[i], weights, seq_len, vocab, e));
        s->base.samples += s->shards[i].samples;
    }
    if (count > 1) TRY(blend_make(s, e));
    *out = &s->base;
    s = NULL;
done:
    if (s) shards_close(&s->base);
    return result;
}
