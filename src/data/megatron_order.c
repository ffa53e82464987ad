// megatron_order.c -- shuffles documents and samples as Megatron-LM's GPTDataset does, with the draws of numpy's
// RandomState. dataset_shards.c calls it. It deliberately does not know blends, nor which rank reads a sample. See
// megatron_order.h.
#include "data/megatron_order.h"

#include "base/alloc.h"
#include "data/twister.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

struct megatron_order {
    const tokens *t;
    uint64_t first, documents; // sequences of the shard that are documents of the order
    uint64_t length;           // tokens of a sample
    uint64_t epochs, samples;
    uint32_t *document; // [epochs * documents] in the order of the stream
    uint64_t *begins;   // [epochs * documents + 1] tokens of the stream before each document
    uint32_t *sample;   // [samples]
};

// numpy's RandomState.shuffle.
static void shuffle(twister *m, uint32_t *items, uint64_t count)
{
    for (uint64_t i = count; i > 1; i--) {
        const uint64_t j = twister_draw_to(m, i - 1);
        const uint32_t saved = items[i - 1];
        items[i - 1] = items[j];
        items[j] = saved;
    }
}

// Shuffles the first items, and then the others by themselves.
static void shuffle_parts(twister *m, uint32_t *items, uint64_t firsts, uint64_t count)
{
    shuffle(m, items, firsts);
    shuffle(m, items + firsts, count - firsts);
}

// Sets epochs and samples. *before is the number of samples before the last epoch where that is shuffled by itself, else
// the number of all.
static status measure(megatron_order *o, uint64_t run, uint64_t *before, err *e)
{
    uint64_t tokens_in_epoch = 0, length, first;
    for (uint64_t d = 0; d < o->documents; d++) {
        tokens_sequence(o->t, o->first + d, &first, &length);
        tokens_in_epoch += length;
    }
    if (tokens_in_epoch < o->length + 1)
        return err_set(e, E_USAGE,
                       "%s.bin: found %" PRIu64 " tokens, one sample of seq_len %" PRIu64
                       " needs %" PRIu64,
                       tokens_prefix(o->t), tokens_in_epoch, o->length, o->length + 1);
    if (run > UINT32_MAX - 1 || run > UINT64_MAX / 2 / o->length)
        return err_set(e, E_USAGE,
                       "data.order: megatron: found a run of %" PRIu64
                       " samples, valid is less than %" PRIu32,
                       run, UINT32_MAX - 1);
    o->epochs = (run * o->length + tokens_in_epoch) / tokens_in_epoch;
    o->samples = (o->epochs * tokens_in_epoch - 1) / o->length;
    const uint64_t others = (o->epochs - 1) * tokens_in_epoch;
    const uint64_t without = o->epochs > 1 ? (others - 1) / o->length : 0;
    const uint64_t in_epoch = (tokens_in_epoch - 1) / o->length;
    const bool apart = o->epochs > 1 && run - without < (uint64_t)(0.80 * (double)in_epoch);
    *before = apart ? without : o->samples;
    if (o->epochs > INT32_MAX / o->documents || o->samples >= UINT32_MAX - 1)
        return err_set(e, E_USAGE,
                       "data.order: megatron: found %" PRIu64 " epochs of %" PRIu64
                       " documents, valid are fewer than 2^31 documents in all epochs",
                       o->epochs, o->documents);
    return OK;
}

static status allocate(megatron_order *o, err *e)
{
    status result = OK;
    static const char what[] = "the samples of data.order megatron";
    const uint64_t documents = o->epochs * o->documents;
    TRY(alloc_array(&o->document, documents, sizeof *o->document, what, e));
    TRY(alloc_array(&o->begins, documents + 1, sizeof *o->begins, what, e));
    TRY(alloc_array(&o->sample, o->samples, sizeof *o->sample, what, e));
done:
    return result;
}

status megatron_order_open(const tokens *t, uint64_t first, uint64_t end, int64_t seq_len,
                           uint32_t seed, uint64_t samples, megatron_order **out, err *e)
{
    status result = OK;
    megatron_order *o = NULL;
    twister m;
    uint64_t before = 0, position, length;
    TRY(alloc_zeroed(&o, 1, sizeof *o, "the order of samples", e));
    *o = (megatron_order){
        .t = t, .first = first, .documents = end - first, .length = (uint64_t)seq_len};
    TRY(measure(o, samples, &before, e));
    TRY(allocate(o, e));
    const uint64_t all = o->epochs * o->documents;
    twister_seed(&m, seed);
    for (uint64_t i = 0; i < all; i++) o->document[i] = (uint32_t)(first + i % o->documents);
    shuffle_parts(&m, o->document, before < o->samples ? all - o->documents : all, all);
    o->begins[0] = 0;
    for (uint64_t i = 0; i < all; i++) {
        tokens_sequence(t, o->document[i], &position, &length);
        o->begins[i + 1] = o->begins[i] + length;
    }
    for (uint64_t i = 0; i < o->samples; i++) o->sample[i] = (uint32_t)i;
    shuffle_parts(&m, o->sample, before, o->samples);
    *out = o;
    o = NULL;
done:
    megatron_order_close(o);
    return result;
}

void megatron_order_close(megatron_order *o)
{
    if (!o) return;
    free(o->document);
    free(o->begins);
    free(o->sample);
    free(o);
}

uint64_t megatron_order_samples(const megatron_order *o)
{
    return o->samples;
}

// The document that holds a token of the stream.
static uint64_t find_document(const megatron_order *o, uint64_t token)
{
    uint64_t low = 0, high = o->epochs * o->documents;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (o->begins[middle] <= token)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void read_stream(const megatron_order *o, uint64_t from, uint64_t count, int32_t *out)
{
    uint64_t first, length;
    for (uint64_t d = find_document(o, from); count > 0; d++) {
        tokens_sequence(o->t, o->document[d], &first, &length);
        const uint64_t skipped = from - o->begins[d];
        const uint64_t taken = length - skipped < count ? length - skipped : count;
        tokens_read(o->t, first + skipped, taken, out);
        out += taken;
        from += taken;
        count -= taken;
    }
}

void megatron_order_read(const megatron_order *o, uint64_t k, int32_t *inputs, int32_t *labels)
{
    const uint64_t from = o->sample[k] * o->length;
    read_stream(o, from, o->length, inputs);
    read_stream(o, from + 1, o->length, labels);
}
